"""The demo's users, its signing key and its tokens."""

import stat
from pathlib import Path
from uuid import UUID

import pytest

from barograph.errors import ConfigurationError
from barograph.identity.key_set import KeySetCache
from barograph.identity.token_verifier import TokenVerifier
from barograph_demo.servers.identity import (
    AUDIENCE,
    BY_ID,
    DEMO_USERS,
    KEY_FILE,
    demo_token,
    issuer,
    load_or_create_key,
    user_record,
)
from support.clock import START, HandClock
from support.tokens import key_set

BASE = "http://127.0.0.1:4711"


def test_the_key_is_made_once_and_only_its_owner_can_read_it(tmp_path: Path) -> None:
    folder = tmp_path / "new"
    first = load_or_create_key(folder)
    assert load_or_create_key(folder).as_dict(private=True) == first.as_dict(private=True)
    assert stat.S_IMODE((folder / KEY_FILE).stat().st_mode) == 0o600
    assert [file.name for file in folder.iterdir()] == [KEY_FILE]


def test_a_damaged_key_is_named_with_the_remedy(tmp_path: Path) -> None:
    (tmp_path / KEY_FILE).write_text("not a key")
    with pytest.raises(ConfigurationError, match="delete it"):
        load_or_create_key(tmp_path)


def test_every_tier_has_one_user_whose_id_never_changes() -> None:
    assert list(DEMO_USERS) == ["feed", "reserve", "none", "anonymous", "unconfirmed"]
    assert DEMO_USERS["feed"] == "c310618d-a11d-5d05-8c94-9ad906ba2593"
    assert len({UUID(each) for each in DEMO_USERS.values()}) == 5
    assert {user.email for user in BY_ID.values()} == {
        *("feed@demo.example", "reserve@demo.example", "none@demo.example"),
        *("unconfirmed@demo.example", ""),
    }
    for user in BY_ID.values():
        assert ("email_confirmed_at" in user_record(user)) == user.is_confirmed


async def test_a_token_is_good_for_an_hour_and_says_whose_it_is(tmp_path: Path) -> None:
    key = load_or_create_key(tmp_path)

    async def fetch() -> bytes:
        return key_set(key, kid=key.thumbprint())

    clock = HandClock()
    keys = KeySetCache(fetch, clock)
    verifier = TokenVerifier(keys, issuer=issuer(BASE), audience=AUDIENCE, clock=clock)
    for tier, user in DEMO_USERS.items():
        taken = await verifier.verify(demo_token(tmp_path, tier, START, BASE))
        assert (taken.subject, taken.expires_at) == (user, START + 3_600_000)
        assert taken.claims["is_anonymous"] is (tier == "anonymous")
