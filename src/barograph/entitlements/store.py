"""Entitlements: which holder may read which tier, from when to when, and who granted it.

A holder may have several entitlements of one tier, and has access while any of them is active.
Tiers are independent: Reserve does not include Feed. Every change adds an entry to the
entitlement's trail in the same transaction, and the database refuses to change that trail.
"""

import re
from base64 import b32encode
from collections.abc import Iterable
from operator import attrgetter
from secrets import token_bytes
from typing import Final, Literal, NamedTuple

from msgspec import Struct
from msgspec.structs import force_setattr

from barograph.errors import BarographError
from barograph.kit.clock import Clock
from barograph.kit.database import Database, Queryable, Statement, Transaction
from barograph.kit.text import one_line
from barograph.payments.proof import checksummed

Tier = Literal["feed", "reserve"]
HolderKind = Literal["user", "wallet"]
Action = Literal["granted", "extended", "revoked"]

FEED: Final = "feed"
RESERVE: Final = "reserve"

LATEST = 253_402_300_799_000
"""The last second of the year 9999, the latest that an ISO timestamp can express."""

MAX_USER = 200
MAX_NAME = 100
MAX_REASON = 500
ID_BYTES = 10

_WALLET = re.compile(r"0x[0-9a-fA-F]{40}")


class InvalidHolder(BarographError):
    """Not a user's id or a wallet; the message does not repeat it."""


class CannotGrant(BarographError):
    """The grant or revocation makes no sense; nothing was changed."""


class UnknownEntitlement(BarographError):
    """There is no entitlement with that id."""


class Holder(Struct, frozen=True):
    """A user, by the identity provider's exact `sub`, or a wallet, by its address.

    An address may be all lower case, all upper case, or in EIP-55 mixed case, which is a checksum.

    Raises:
        InvalidHolder: the id is malformed.
    """

    kind: HolderKind
    id: str

    def __post_init__(self) -> None:
        """Check the id, and write a wallet in lower case."""
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
    """One entitlement."""

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
        """Whether it has started.

        If it had started when it was granted, it has started for every clock, also a slow one: a
        caller who has just paid must not be asked to pay.
        """
        return self.starts_at <= max(now, self.granted_at)

    def is_active(self, now: int) -> bool:
        """Whether it gives access now: started, not ended and not revoked."""
        return self.has_begun(now) and now < self.ends_at and self.revoked_at is None


class TrailEntry(NamedTuple):
    """A change of an entitlement; `ends_at` is its end after that."""

    action: Action
    at: int
    ends_at: int
    by: str
    why: str


class Entitlements:
    """Every entitlement. A method that raises DatabaseUnavailable changed nothing."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def has_active(self, holder: Holder, tier: Tier) -> bool:
        """Whether a holder has access to a tier now."""
        values = (tier, holder.kind, holder.id, self._clock())
        return bool(await self._database.fetch(_HAS_ACTIVE, *values))

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
        """Grant exactly this time span, whatever else the holder has.

        Raises:
            CannotGrant: it ends before it starts or is over already, or a text is missing.
        """
        now = self._clock()
        _require_span(starts_at, ends_at, now)
        source = _text("source", source, MAX_NAME)
        whose = (tier, holder.kind, holder.id)
        new = Entitlement(_new_id(), *whose, starts_at, ends_at, source, now, revoked_at=None)
        entry = TrailEntry("granted", now, ends_at, *_signed(by, why))
        return await self._database.write(lambda tx: _add(tx, new, entry))

    async def add_period(
        self, holder: Holder, tier: Tier, *, period_ms: int, source: str, by: str, why: str
    ) -> Entitlement:
        """Grant a period in a transaction of its own: see `grant_period`."""
        now = self._clock()
        return await self._database.write(
            lambda tx: self.grant_period(
                tx, holder, tier, period_ms=period_ms, source=source, by=by, now=now, why=why
            )
        )

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
        why: str,
    ) -> Entitlement:
        """Add a period to what the holder has, as part of a larger transaction.

        This extends an active entitlement, or else starts a new one now. Either way access lasts
        longer by the whole period: the holder never pays for time that they already have.

        Raises:
            CannotGrant: the period is not positive, or a text is missing.
        """
        if period_ms <= 0:
            raise CannotGrant("a period must be longer than nothing")
        signed = _signed(by, why)
        source = _text("source", source, MAX_NAME)
        whose = (tier, holder.kind, holder.id)
        current = await _CURRENT.fetch(tx, *whose, now)
        ends_at = min(_end_after(current, period_ms, now), LATEST)
        active = [entitlement for entitlement in current if entitlement.is_active(now)]
        if active:
            entry = TrailEntry("extended", now, ends_at, *signed)
            return await _extend(tx, max(active, key=attrgetter("ends_at")), entry)
        new = Entitlement(_new_id(), *whose, now, ends_at, source, now, revoked_at=None)
        return await _add(tx, new, TrailEntry("granted", now, ends_at, *signed))

    async def revoke(self, entitlement_id: str, *, by: str, why: str) -> Entitlement:
        """Permanently revoke an entitlement; a revoked one stays as it is.

        Raises:
            UnknownEntitlement: there is none with that id.
            CannotGrant: who revokes, or the reason, is missing.
        """
        now = self._clock()
        signed = _signed(by, why)

        async def work(tx: Transaction) -> Entitlement:
            revoked = await _REVOKE.first(tx, now, entitlement_id)
            if revoked is None:
                return await _one(tx, entitlement_id)
            await _add_to_trail(tx, revoked, TrailEntry("revoked", now, revoked.ends_at, *signed))
            return revoked

        return await self._database.write(work)

    async def get(self, entitlement_id: str) -> Entitlement:
        """One entitlement; raises `UnknownEntitlement` if there is none with that id."""
        return await _one(self._database, entitlement_id)

    async def find(
        self,
        *,
        holder: Holder | None = None,
        tier: Tier | None = None,
        active_only: bool = False,
        limit: int = 100,
    ) -> list[Entitlement]:
        """The entitlements that match, newest first."""
        whose = (None, None) if holder is None else (holder.kind, holder.id)
        values = (*whose, tier, self._clock(), int(active_only), limit)
        return await _FIND.fetch(self._database, *values)

    async def trail(self, entitlement_id: str) -> list[TrailEntry]:
        """Every change of an entitlement, oldest first."""
        return await _TRAIL.fetch(self._database, entitlement_id)


def _has_valid_checksum(address: str) -> bool:
    digits = address.removeprefix("0x")
    return digits in {digits.lower(), digits.upper()} or address == checksummed(address)


def _end_after(current: Iterable[Entitlement], period: int, now: int) -> int:
    """When access ends if a period fills the gaps between current entitlements."""
    spans = sorted((now if it.has_begun(now) else it.starts_at, it.ends_at) for it in current)
    until, left = now, period
    for start, end in spans:
        gap = max(start - until, 0)
        if gap >= left:
            break
        until, left = max(until, end), left - gap
    return until + left


def _require_span(starts_at: int, ends_at: int, now: int) -> None:
    if not 0 <= starts_at < ends_at <= LATEST:
        raise CannotGrant("an entitlement must end after it starts, both between 1970 and 9999")
    if ends_at <= now:
        raise CannotGrant("the entitlement would already be over")


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
    await _add_to_trail(tx, new, entry)
    return new


async def _extend(tx: Transaction, active: Entitlement, entry: TrailEntry) -> Entitlement:
    await tx.execute(_EXTEND, entry.ends_at, active.id)
    await _add_to_trail(tx, active, entry)
    return active._replace(ends_at=entry.ends_at)


async def _add_to_trail(tx: Transaction, entitlement: Entitlement, entry: TrailEntry) -> None:
    await tx.execute(_ADD_TO_TRAIL, entitlement.id, *entry)


async def _one(queryable: Queryable, entitlement_id: str) -> Entitlement:
    entitlement = await _ONE.first(queryable, entitlement_id)
    if entitlement is None:
        raise UnknownEntitlement("there is no such entitlement")
    return entitlement


# The same as Entitlement.is_active.
_IS_ACTIVE = (
    "revoked_at IS NULL AND ends_at > ${0} AND (starts_at <= ${0} OR starts_at <= granted_at)"
)
_HAS_ACTIVE = f"""
SELECT 1 FROM entitlements
WHERE tier = $1 AND holder_kind = $2 AND holder = $3 AND {_IS_ACTIVE.format(4)} LIMIT 1
"""  # noqa: S608 - our own words only
_FIND = Statement(
    Entitlement,
    f"""
SELECT {{columns}} FROM entitlements
WHERE holder_kind = coalesce($1, holder_kind) AND holder = coalesce($2, holder)
    AND tier = coalesce($3, tier) AND ($5 = 0 OR {_IS_ACTIVE.format(4)})
ORDER BY granted_at DESC, id LIMIT $6
""",  # noqa: S608 - our own words only
)
_CURRENT = Statement(
    Entitlement,
    """
SELECT {columns} FROM entitlements
WHERE tier = $1 AND holder_kind = $2 AND holder = $3 AND ends_at > $4 AND revoked_at IS NULL
""",
)
_ONE = Statement(Entitlement, "SELECT {columns} FROM entitlements WHERE id = $1")
_ADD = Statement(
    Entitlement,
    "INSERT INTO entitlements ({columns}) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
).sql
_EXTEND = "UPDATE entitlements SET ends_at = $1 WHERE id = $2"
_REVOKE = Statement(
    Entitlement,
    """
UPDATE entitlements SET revoked_at = $1 WHERE id = $2 AND revoked_at IS NULL RETURNING {columns}
""",
)
_ADD_TO_TRAIL = """
INSERT INTO entitlement_trail (sequence, entitlement_id, action, at, ends_at, by, why)
VALUES (
    (SELECT coalesce(max(sequence), 0) + 1 FROM entitlement_trail), $1, $2, $3, $4, $5, $6
)
"""
_TRAIL = Statement(
    TrailEntry,
    "SELECT {columns} FROM entitlement_trail WHERE entitlement_id = $1 ORDER BY sequence",
)
