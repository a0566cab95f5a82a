"""Supabase Auth as identity provider: https://supabase.com/docs/guides/auth/jwts ."""

import re
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Final

from barograph.identity.provider import Identity, IdentityRefused, IdentityUnavailable
from barograph.identity.token_verifier import Token
from barograph.kit.clock import Clock
from barograph.kit.json import strict_object
from barograph.kit.timestamps import SECOND
from barograph.settings import Settings
from barograph.upstream.http import HttpReply
from barograph.upstream.identity_http import IdentityHttp, ProviderRefusal, TokenIdentity

NO_PUBLIC_KEY: Final = (
    "this project signs tokens with the legacy HS256 secret, so it publishes no public key; switch "
    "it to asymmetric signing keys in the Supabase dashboard: Settings → JWT signing keys"
)

KEYS_PATH: Final = "/.well-known/jwks.json"

_REFUSALS: Final = (401, 403)
_CODE: Final = re.compile(r"[a-z_]{1,40}", re.ASCII)
_ABOUT_TOKENS: Final = frozenset(
    {
        *("bad_jwt", "no_authorization", "session_expired", "session_not_found"),
        *("user_banned", "user_not_found"),
    }
)


class SupabaseIdentity(TokenIdentity):
    """Verifies the token, then asks for the user's record.

    The token does not show whether the e-mail address is confirmed: users can write its
    `user_metadata` themselves.
    """

    when_empty = NO_PUBLIC_KEY

    def __init__(self, settings: Settings, http: IdentityHttp, clock: Clock) -> None:
        project = settings.identity_url.removesuffix("/")
        super().__init__(f"{project}/auth/v1", settings, http, clock)
        self._api_key = settings.identity_api_key.get_secret_value()
        self._clock = clock

    async def check(self) -> int:
        """Read the keys, and try the API key.

        Raises:
            IdentityUnavailable: no token can be verified, or the API key is refused.
        """
        count = await super().check()
        with suppress(IdentityRefused):  # it asks for a token, so it accepted the API key
            await self._http.ask(f"{self._issuer}/user", {"apikey": self._api_key}, read_refusal)
        return count

    async def _read_keys(self) -> bytes:
        return await self._http.read(f"{self._issuer}{KEYS_PATH}")

    async def _judge(self, token: str, verified: Token) -> Identity:
        _refuse_anonymous(verified.claims)
        return await self._users.check(token, verified, lambda: self._ask(token, verified.subject))

    async def _ask(self, token: str, subject: str) -> Identity:
        headers = {"Authorization": f"Bearer {token}", "apikey": self._api_key}
        body = await self._http.ask(f"{self._issuer}/user", headers, read_refusal)
        return read_user(body, subject, self._clock())


def read_refusal(reply: HttpReply) -> ProviderRefusal:
    """Read an error: https://supabase.com/docs/guides/auth/debugging/error-codes .

    The gateway refuses a missing or withdrawn API key with other members; that is not the user's
    fault.
    """
    try:
        members = strict_object(reply.body)
    except ValueError:
        members = {}
    # Newer API versions call it `code`, which was the status before.
    code = members.get("error_code", members.get("code"))
    if not isinstance(code, str) or _CODE.fullmatch(code) is None:
        return ProviderRefusal(None, is_of_token=False)
    return ProviderRefusal(code, is_of_token=reply.status in _REFUSALS and code in _ABOUT_TOKENS)


def read_user(body: bytes, subject: str, now: int) -> Identity:
    """Check a user's record: https://supabase.com/docs/guides/auth/users .

    `confirmed_at` does not count: a confirmed telephone number sets it as well.

    Raises:
        IdentityRefused: the user is another one, anonymous, unconfirmed, banned or deleted.
        IdentityUnavailable: the record is malformed.
    """
    try:
        record = strict_object(body)
        confirmed = _moment(record.get("email_confirmed_at"))
        banned = _moment(record.get("banned_until"))
        deleted = _moment(record.get("deleted_at"))
    except ValueError as error:
        raise IdentityUnavailable("the user's record is malformed") from error
    if not isinstance(record.get("id"), str):
        raise IdentityUnavailable("the user's record has no id")
    if record["id"] != subject:
        raise IdentityRefused("the record is another user's")
    _refuse_anonymous(record)
    if confirmed is None:
        raise IdentityRefused("the user's e-mail address is not confirmed")
    if banned is not None and banned > now:
        raise IdentityRefused("the user is banned")
    if deleted is not None:
        raise IdentityRefused("the user is deleted")
    return Identity(subject)


def _refuse_anonymous(members: Mapping[str, Any]) -> None:
    """Require `is_anonymous` to be exactly `false`, or absent."""
    if members.get("is_anonymous", False) is not False:
        raise IdentityRefused("the user is anonymous")


def _moment(value: object) -> int | None:
    """A time in milliseconds; None if absent, empty or before 1970.

    Raises:
        ValueError: it isn't a time.
    """
    if value is None or value == "":
        return None
    if not isinstance(value, str):
        raise ValueError("a time must be a string")  # noqa: TRY004
    moment = datetime.fromisoformat(value)
    if moment.tzinfo is None:
        raise ValueError("a time must have an offset")
    since_epoch = moment - datetime.fromtimestamp(0, UTC)
    return int(since_epoch.total_seconds() * SECOND) if since_epoch.days >= 0 else None
