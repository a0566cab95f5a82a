"""What identity providers really send, read by the adapters, with every field accounted for."""

import json
from pathlib import Path
from typing import Any

import pytest

from barograph.identity.key_set import EmptyKeySet, read_key_set
from barograph.upstream.identity_providers import read_user
from barograph_demo.servers.identity import USERS, user_record
from support.clock import START
from support.tokens import SUBJECT

SAMPLES = Path(__file__).parent / "samples" / "identity"

FIELDS = {
    "supabase_user": {
        "read": "id email_confirmed_at is_anonymous",
        "read if present": "banned_until deleted_at",
        "ignored: other means of contact": "email phone confirmed_at",
        "ignored: not about access": "aud role confirmation_sent_at last_sign_in_at identities "
        "created_at updated_at",
        "ignored: sign-in methods, and what users write themselves": "app_metadata user_metadata",
    },
    "supabase_empty_key_set": {"read": "keys"},
    "cognito_access_claims": {
        "read": "sub iss client_id token_use exp iat",
        "ignored: not about access": "version origin_jti event_id scope auth_time jti username",
    },
    "cognito_userinfo": {"read": "sub email_verified", "ignored: names": "email username"},
}


def sample(name: str) -> Any:
    return json.loads((SAMPLES / f"{name}.json").read_bytes())


@pytest.mark.parametrize("name", FIELDS)
def test_every_field_of_a_sample_is_read_or_ignored_on_purpose(name: str) -> None:
    known = {field for fields in FIELDS[name].values() for field in fields.split()}
    assert set(sample(name)) <= known


def test_the_simulated_record_has_only_fields_of_the_real_one() -> None:
    assert set(user_record(USERS[0])) <= set(sample("supabase_user"))


def test_a_real_record_and_an_empty_key_set_are_read() -> None:
    body = json.dumps(sample("supabase_user")).encode()
    assert read_user(body, SUBJECT, START).user_id == SUBJECT
    with pytest.raises(EmptyKeySet):
        read_key_set((SAMPLES / "supabase_empty_key_set.json").read_bytes())
