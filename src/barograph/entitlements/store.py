"""Entitlements: who may read what, from when to when, and who said so.

A holder may have several of one tier at once; what they open is open while any of them is active.
Each tier stands alone: Reserve does not open Feed. Whatever is done to an entitlement leaves an
entry in its trail, in the same transaction, and the database refuses to change that trail.
"""

import re
from base64 import b32encode
from collections.abc import Iterable
from secrets import token_bytes
from typing import Final, Literal, NamedTuple

from msgspec import Struct
from msgspec.structs import force_setattr

from barograph.errors import BarographError
from barograph.kit.clock import Clock
from barograph.kit.database import Database, Row, Transaction, Value
from barograph.kit.text import one_line
from barograph.payments.proof import checksummed

Tier = Literal["feed", "reserve"]
HolderKind = Literal["user", "wallet"]
Action = Literal["granted", "extended", "revoked"]

FEED: Final = "feed"
RESERVE: Final = "reserve"

LATEST = 253_402_300_799_000
"""The last second of the year 9999: a later instant cannot be written down."""

MAX_USER = 200
MAX_NAME = 100
MAX_REASON = 500
ID_BYTES = 10

_WALLET = re.compile(r"0x[0-9a-fA-F]{40}")


class InvalidHolder(BarographError):
    """That is no user's id and no wallet; the message does not repeat it."""


class CannotGrant(BarographError):
    """What was to be granted or revoked makes no sense; nothing was changed."""


class UnknownEntitlement(BarographError):
    """There is no entitlement with that id."""


class Holder(Struct, frozen=True):
    """Whose entitlement it is.

    A user is known by the identity provider's `sub`, exactly as it is. A wallet is known by its
    address: all lower case, all upper case, or in EIP-55 mixed case, which is a checksum.

    Raises:
        InvalidHolder: it can be neither.
    """

    kind: HolderKind
    id: str

    def __post_init__(self) -> None:
        """Refuse what names nobody, and bring a wallet to its one spelling."""
        if self.kind == "wallet":
            if _WALLET.fullmatch(self.id) is None:
                raise InvalidHolder("a wallet is 0x and 40 hexadecimal digits")
            if not _has_valid_checksum(self.id):
                raise InvalidHolder(
                    "the wallet's EIP-55 checksum is wrong: copy the address again, or write it in "
                    "lower case if you are sure of every digit"
                )
            force_setattr(self, "id", self.id.lower())
        elif not 1 <= len(self.id) <= MAX_USER or not self.id.isprintable():
            raise InvalidHolder(f"a user's id is 1 to {MAX_USER} printable characters")


class Entitlement(NamedTuple):
    """One right to read, in the order of the query's columns."""

    id: str
    tier: Tier
    holder_kind: HolderKind
    holder: str
    starts_at: int
    ends_at: int
    source: str
    granted_at: int
    revoked_at: int | None

    def has_begun(self, now: int) -> bool:
        """Whether its start is reached.

        What had begun when it was granted has begun for every clock, also for one that was set
        back or runs a little behind: who has just paid must not be told to pay.
        """
        return self.starts_at <= max(now, self.granted_at)

    def is_active(self, now: int) -> bool:
        """Whether it opens anything now: from its start on, before its end, and not revoked."""
        return self.has_begun(now) and now < self.ends_at and self.revoked_at is None


class TrailEntry(NamedTuple):
    """What was done to an entitlement; `ends_at` is its end after that."""

    action: Action
    at: int
    ends_at: int
    by: str
    why: str


class Entitlements:
    """Every entitlement of this instance."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def has_active(self, holder: Holder, tier: Tier) -> bool:
        """Whether a holder may read what the tier opens, now.

        Raises:
            DatabaseUnavailable: nobody can tell.
        """
        now = self._clock()

        async def work(tx: Transaction) -> bool:
            return bool(await tx.fetch(_HAS_ACTIVE, tier, holder.kind, holder.id, now))

        return await self._database.read(work)

    async def grant(
        self,
        holder: Holder,
        tier: Tier,
        *,
        starts_at: int,
        ends_at: int,
        source: str,
        by: str,
        why: str,
    ) -> Entitlement:
        """Grant exactly these instants, whatever else the holder has.

        Raises:
            CannotGrant: it would end before it starts or is over already, or a text is missing.
            DatabaseUnavailable: nothing was granted.
        """
        now = self._clock()
        _require_span(starts_at, ends_at, now)
        source = _text("source", source, MAX_NAME)
        whose = (tier, holder.kind, holder.id)
        new = Entitlement(_new_id(), *whose, starts_at, ends_at, source, now, revoked_at=None)
        entry = TrailEntry("granted", now, ends_at, *_signed(by, why))

        async def work(tx: Transaction) -> Entitlement:
            return await _add(tx, new, entry)

        return await self._database.write(work)

    async def add_period(
        self, holder: Holder, tier: Tier, *, period_ms: int, source: str, by: str, why: str
    ) -> Entitlement:
        """Grant a period from now on, as a transaction of its own: see `grant_period`."""
        now = self._clock()

        async def work(tx: Transaction) -> Entitlement:
            return await self.grant_period(
                tx, holder, tier, period_ms=period_ms, source=source, by=by, now=now, why=why
            )

        return await self._database.write(work)

    async def grant_period(
        self,
        tx: Transaction,
        holder: Holder,
        tier: Tier,
        *,
        period_ms: int,
        source: str,
        by: str,
        now: int,
        why: str | None = None,
    ) -> Entitlement:
        """Add a period to what the holder has, as a part of a larger transaction.

        A running entitlement is extended, otherwise a new one begins now. Either way access lasts
        longer by the whole period: time that the holder has already is not sold a second time.
        The source stands for the reason where none is given.

        Raises:
            CannotGrant: the period is not longer than nothing, or a text is missing.
        """
        if period_ms <= 0:
            raise CannotGrant("a period must be longer than nothing")
        said = _signed(by, source if why is None else why)
        source = _text("source", source, MAX_NAME)
        whose = (tier, holder.kind, holder.id)
        standing = [Entitlement(*row) for row in await tx.fetch(_STANDING, *whose, now)]
        ends_at = min(_end_after(standing, period_ms, now), LATEST)
        running = [each for each in standing if each.is_active(now)]
        if running:
            entry = TrailEntry("extended", now, ends_at, *said)
            return await _extend(tx, max(running, key=lambda each: each.ends_at), entry)
        new = Entitlement(_new_id(), *whose, now, ends_at, source, now, revoked_at=None)
        return await _add(tx, new, TrailEntry("granted", now, ends_at, *said))

    async def revoke(self, entitlement_id: str, *, by: str, why: str) -> Entitlement:
        """Make an entitlement open nothing any more; one that was revoked stays as it is.

        Other entitlements of the same holder are not touched.

        Raises:
            UnknownEntitlement: there is none with that id.
            CannotGrant: who revokes, or the reason, is missing.
            DatabaseUnavailable: nothing was revoked.
        """
        now = self._clock()
        said = _signed(by, why)

        async def work(tx: Transaction) -> Entitlement:
            rows = await tx.fetch(_REVOKE, now, entitlement_id)
            if not rows:
                return await _one(tx, entitlement_id)
            revoked = Entitlement(*rows[0])
            await _note(tx, revoked, TrailEntry("revoked", now, revoked.ends_at, *said))
            return revoked

        return await self._database.write(work)

    async def get(self, entitlement_id: str) -> Entitlement:
        """One entitlement.

        Raises:
            UnknownEntitlement: there is none with that id.
        """

        async def work(tx: Transaction) -> Entitlement:
            return await _one(tx, entitlement_id)

        return await self._database.read(work)

    async def find(
        self,
        *,
        holder: Holder | None = None,
        tier: Tier | None = None,
        active_only: bool = False,
        limit: int = 100,
    ) -> list[Entitlement]:
        """The entitlements that fit, the newest first."""
        wanted: list[tuple[str, Value]] = []
        if holder is not None:
            wanted += [("holder_kind = ${0}", holder.kind), ("holder = ${0}", holder.id)]
        if tier is not None:
            wanted.append(("tier = ${0}", tier))
        if active_only:
            wanted.append((_IS_ACTIVE, self._clock()))
        sql, values = _query(wanted, limit)

        async def work(tx: Transaction) -> list[Entitlement]:
            return [Entitlement(*row) for row in await tx.fetch(sql, *values)]

        return await self._database.read(work)

    async def trail(self, entitlement_id: str) -> list[TrailEntry]:
        """Everything that was done to an entitlement, in the order in which it was done."""

        async def work(tx: Transaction) -> list[Row]:
            return await tx.fetch(_TRAIL, entitlement_id)

        return [TrailEntry(*row) for row in await self._database.read(work)]


def _has_valid_checksum(address: str) -> bool:
    digits = address.removeprefix("0x")
    return digits in {digits.lower(), digits.upper()} or address == checksummed(address)


def _end_after(standing: Iterable[Entitlement], period: int, now: int) -> int:
    """Until when access lasts if a period is put into the gaps of what stands, and behind it."""
    spans = sorted(
        (now if each.has_begun(now) else each.starts_at, each.ends_at) for each in standing
    )
    until, left = now, period
    for start, end in spans:
        gap = max(start - until, 0)
        if gap >= left:
            break
        until, left = max(until, end), left - gap
    return until + left


def _require_span(starts_at: int, ends_at: int, now: int) -> None:
    if not 0 <= starts_at < ends_at <= LATEST:
        raise CannotGrant("an entitlement ends after it starts, both between 1970 and 9999")
    if ends_at <= now:
        raise CannotGrant("an entitlement that is over already opens nothing")


def _signed(by: str, why: str) -> tuple[str, str]:
    return _text("by", by, MAX_NAME), _text("why", why, MAX_REASON)


def _text(name: str, given: str, longest: int) -> str:
    try:
        return one_line(name, given, longest)
    except ValueError as error:
        raise CannotGrant(str(error)) from error


def _new_id() -> str:
    return f"ent_{b32encode(token_bytes(ID_BYTES)).decode().lower()}"


async def _add(tx: Transaction, new: Entitlement, entry: TrailEntry) -> Entitlement:
    await tx.execute(_ADD, *new)
    await _note(tx, new, entry)
    return new


async def _extend(tx: Transaction, running: Entitlement, entry: TrailEntry) -> Entitlement:
    await tx.execute(_EXTEND, entry.ends_at, running.id)
    await _note(tx, running, entry)
    return running._replace(ends_at=entry.ends_at)


async def _note(tx: Transaction, entitlement: Entitlement, entry: TrailEntry) -> None:
    await tx.execute(_NOTE, entitlement.id, *entry)


async def _one(tx: Transaction, entitlement_id: str) -> Entitlement:
    rows = await tx.fetch(_ONE, entitlement_id)
    if not rows:
        raise UnknownEntitlement("there is no such entitlement")
    return Entitlement(*rows[0])


def _query(wanted: list[tuple[str, Value]], limit: int) -> tuple[str, list[Value]]:
    clauses = [text.format(number) for number, (text, _) in enumerate(wanted, 1)]
    where = f"WHERE {' AND '.join(clauses)}" if clauses else ""
    sql = (
        f"SELECT {_COLUMNS} FROM entitlements {where} "  # noqa: S608 - our own words only
        f"ORDER BY granted_at DESC, id LIMIT ${len(wanted) + 1}"
    )
    return sql, [*(value for _, value in wanted), limit]


_COLUMNS = "id, tier, holder_kind, holder, starts_at, ends_at, source, granted_at, revoked_at"
# The same as Entitlement.is_active.
_IS_ACTIVE = (
    "revoked_at IS NULL AND ends_at > ${0} AND (starts_at <= ${0} OR starts_at <= granted_at)"
)
_HAS_ACTIVE = f"""
SELECT 1 FROM entitlements
WHERE tier = $1 AND holder_kind = $2 AND holder = $3 AND {_IS_ACTIVE.format(4)} LIMIT 1
"""  # noqa: S608 - our own words only
_STANDING = f"""
SELECT {_COLUMNS} FROM entitlements
WHERE tier = $1 AND holder_kind = $2 AND holder = $3 AND ends_at > $4 AND revoked_at IS NULL
"""  # noqa: S608 - the names of our own columns
_ONE = f"SELECT {_COLUMNS} FROM entitlements WHERE id = $1"  # noqa: S608
_ADD = f"INSERT INTO entitlements ({_COLUMNS}) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)"  # noqa: S608
_EXTEND = "UPDATE entitlements SET ends_at = $1 WHERE id = $2"
_REVOKE = f"""
UPDATE entitlements SET revoked_at = $1 WHERE id = $2 AND revoked_at IS NULL RETURNING {_COLUMNS}
"""  # noqa: S608 - the names of our own columns
_NOTE = """
INSERT INTO entitlement_trail (sequence, entitlement_id, action, at, ends_at, by, why)
VALUES (
    (SELECT coalesce(max(sequence), 0) + 1 FROM entitlement_trail), $1, $2, $3, $4, $5, $6
)
"""
_TRAIL = """
SELECT action, at, ends_at, by, why FROM entitlement_trail
WHERE entitlement_id = $1 ORDER BY sequence
"""
