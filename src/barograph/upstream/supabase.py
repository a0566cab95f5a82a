"""Supabase Auth as identity provider: https://supabase.com/docs/guides/auth/jwts ."""

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from barograph.access.identity import Identity, IdentityRefused, IdentityUnavailable
from barograph.access.key_set import KeySetCache
from barograph.access.tokens import TokenVerifier
from barograph.access.users import UserVerdicts
from barograph.kit.clock import Clock
from barograph.kit.strict_json import strict_object
from barograph.kit.timestamps import SECOND
from barograph.settings import Settings
from barograph.upstream.identity_http import IdentityHttp


class SupabaseIdentity:
    """Verifies the token here, then asks for the user's record.

    The record is needed because nothing in the token tells whether the e-mail address is
    confirmed: what it says under `user_metadata` is the user's to write.
    """

    def __init__(self, settings: Settings, http: IdentityHttp, clock: Clock) -> None:
        self._issuer = f"{settings.identity_url}/auth/v1"
        self._api_key = settings.identity_api_key.get_secret_value()
        self._http = http
        self._clock = clock
        self._verifier = TokenVerifier(
            KeySetCache(self._read_keys, clock),
            issuer=self._issuer,
            audience=settings.identity_audience,
            clock=clock,
        )
        self._users = UserVerdicts(clock, settings.identity_cache_seconds)

    async def identify(self, token: str) -> Identity:
        """Tell whose token it is.

        Raises:
            IdentityRefused: nobody's who is accepted.
            IdentityUnavailable: that cannot be told now.
        """
        try:
            async with asyncio.timeout(self._http.seconds):
                verified = await self._verifier.verify(token)
                _refuse_anonymous(verified.claims)
                return await self._users.judge(
                    token, verified, lambda: self._ask(token, verified.subject)
                )
        except TimeoutError as error:
            raise IdentityUnavailable("the identity provider does not answer in time") from error

    async def close(self) -> None:
        """Release every connection."""
        await self._http.close()

    async def _read_keys(self) -> bytes:
        return await self._http.read(f"{self._issuer}/.well-known/jwks.json")

    async def _ask(self, token: str, subject: str) -> Identity:
        headers = {"Authorization": f"Bearer {token}", "apikey": self._api_key}
        body = await self._http.ask(f"{self._issuer}/user", headers)
        return read_user(body, subject, self._clock())


def read_user(body: bytes, subject: str, now: int) -> Identity:
    """Judge a user's record: https://supabase.com/docs/guides/auth/users .

    `confirmed_at` does not count: a confirmed telephone number sets it as well.

    Raises:
        IdentityRefused: it is another's, or one of an anonymous, unconfirmed or banned user.
        IdentityUnavailable: it cannot be understood.
    """
    try:
        record = strict_object(body)
        confirmed = _moment(record.get("email_confirmed_at"))
        banned = _moment(record.get("banned_until"))
        deleted = _moment(record.get("deleted_at"))
    except ValueError as error:
        raise IdentityUnavailable("the user's record cannot be understood") from error
    if not isinstance(record.get("id"), str):
        raise IdentityUnavailable("the user's record does not say whose it is")
    if record["id"] != subject:
        raise IdentityRefused("the record that came is another user's")
    _refuse_anonymous(record)
    if confirmed is None:
        raise IdentityRefused("the user's e-mail address is not confirmed")
    if banned is not None and banned > now:
        raise IdentityRefused("the user is banned")
    if deleted is not None:
        raise IdentityRefused("the user is deleted")
    return Identity(subject)


def _refuse_anonymous(members: Mapping[str, Any]) -> None:
    """Let only a plain `false` pass, or nothing at all: the text "false" is a lie."""
    if members.get("is_anonymous", False) is not False:
        raise IdentityRefused("the user is anonymous")


def _moment(value: object) -> int | None:
    """A time in milliseconds; None where there is none, also as the year 1 says it.

    Raises:
        ValueError: it is something else.
    """
    if value is None or value == "":
        return None
    if not isinstance(value, str):
        raise ValueError("a time must be a text")  # noqa: TRY004
    moment = datetime.fromisoformat(value)
    if moment.tzinfo is None:
        raise ValueError("a time must have an offset")
    since_epoch = moment - datetime.fromtimestamp(0, UTC)
    return int(since_epoch.total_seconds() * SECOND) if since_epoch.days >= 0 else None
