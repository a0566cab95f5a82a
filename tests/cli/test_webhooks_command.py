"""`barograph webhooks`: listed, tested and disabled; and forgotten with their mailbox."""

import asyncio
import json
import socket
from base64 import b64decode, b64encode
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import pytest
from click.testing import CliRunner, Result
from standardwebhooks import Webhook as Verifier

from barograph import __version__
from barograph.cli.keys import keys
from barograph.cli.webhooks import webhooks
from barograph.errors import BarographError
from barograph.events.query import EventFilter
from barograph.kit.clock import system_clock
from barograph.kit.database import POSTGRESQL, SQLITE, Engine, Work
from barograph.kit.fingerprints import fingerprint
from barograph.kit.sqlite import SQLiteDatabase
from barograph.settings import Settings
from barograph.webhooks.keys import FILE_NAME, load_webhook_keys, take_stored_key
from barograph.webhooks.signing import Message, new_secret, signed_fields
from barograph.webhooks.store import add_webhook
from barograph_demo.files import load_or_create_anchor
from support.clock import START
from support.operator import on_database

T = TypeVar("T")


def run(folder: Path, *arguments: str) -> Result:
    return CliRunner().invoke(webhooks, [*arguments, "--data", str(folder)])


def listed(folder: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(run(folder, "list", "--json").stdout)
    return rows


def write(folder: Path, work: Work[T]) -> T:
    return on_database(folder / "barograph.sqlite3", lambda database: database.write(work))


@pytest.fixture
def webhook(folder: Path) -> str:
    url, mailbox = "https://127.0.0.1:1/secret-path", "name@example.com"
    email = ["create", "--email", "name@example.com", "--data", str(folder)]
    assert CliRunner().invoke(keys, email).exit_code == 0
    return write(folder, lambda tx: add_webhook(tx, mailbox, url, EventFilter(), 1)).id


def test_list_shows_the_host_and_no_secret(folder: Path, webhook: str) -> None:
    [row] = listed(folder)
    text = run(folder, "list").stdout

    assert (row["id"], row["host"], row["state"]) == (webhook, "127.0.0.1", "pending")
    assert webhook in text
    for output in (text, json.dumps(row)):
        assert "secret-path" not in output
        assert "whsec" not in output


def test_webhook_of_a_revoked_key_is_paused(folder: Path, webhook: str) -> None:
    async def revoke(tx: Any) -> None:
        await tx.execute("UPDATE api_keys SET revoked_at = 1")

    write(folder, revoke)
    assert listed(folder)[0]["state"] == "paused"


def test_disabled_webhook_tells_why_and_its_owner_gets_a_mail(folder: Path, webhook: str) -> None:
    assert run(folder, "disable", webhook, "--why", "abuse").exit_code == 0

    assert (listed(folder)[0]["state"], listed(folder)[0]["why"]) == ("disabled", "abuse")
    [(mail,)] = write(folder, lambda tx: tx.fetch("SELECT body FROM outbox"))
    assert "Why: abuse" in mail
    again = run(folder, "disable", webhook, "--why", "abuse")
    assert isinstance(again.exception, BarographError)


def test_test_prints_the_outcome_and_refuses_a_private_address(folder: Path, webhook: str) -> None:
    failed = run(folder, "test", webhook).exception

    assert "not delivered: private address" in str(failed)
    assert "there is no webhook with this id" in str(run(folder, "test", "wh_no").exception)


def test_test_of_a_running_demo_names_its_own_address(folder: Path, webhook: str) -> None:
    load_or_create_anchor(folder, 1, START)
    (folder / "demo.json").write_text(json.dumps({"base_url": "http://127.0.0.1:9123"}))
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(60)
        url = f"http://127.0.0.1:{server.getsockname()[1]}/"
        own = write(folder, lambda tx: add_webhook(tx, "name@example.com", url, EventFilter(), 1))
        with ThreadPoolExecutor(1) as pool:
            sent = pool.submit(run, folder, "test", own.id)
            connection, _ = server.accept()
            with connection:
                request = connection.recv(65_536)
            assert "not delivered" in str(sent.result().exception)
    assert f"barograph/{__version__} (+http://127.0.0.1:9123)".encode() in request


def test_forgotten_mailbox_has_no_webhooks(folder: Path, webhook: str) -> None:
    gone = ["forget", "--email", "name@example.com", "--yes", "--data", str(folder)]
    refuse = "CREATE TRIGGER t BEFORE DELETE ON webhooks BEGIN SELECT raise(ABORT, 'no'); END"
    write(folder, lambda tx: tx.execute(refuse))
    assert CliRunner().invoke(keys, gone).exit_code == 1
    assert listed(folder)[0]["state"] == "pending"  # and not paused: its key is not deleted either
    write(folder, lambda tx: tx.execute("DROP TRIGGER t"))

    assert "webhooks 1" in CliRunner().invoke(keys, gone).stdout
    assert listed(folder) == []


@pytest.mark.parametrize("engine", [SQLITE, POSTGRESQL])
def test_key_of_an_earlier_version_goes_on_and_is_rotated_with_an_overlap(
    folder: Path, engine: Engine
) -> None:
    old, file = bytes(range(32)), folder / FILE_NAME
    stored = "INSERT INTO webhook_keys VALUES (1, $1)"
    write(folder, lambda tx: tx.execute(stored, b64encode(old).decode()))
    database = SQLiteDatabase(folder / "barograph.sqlite3")
    database.engine = engine
    asyncio.run(take_stored_key(database, Settings(data=folder)))
    asyncio.run(database.close())
    assert file.read_bytes() == old
    assert file.stat().st_mode & 0o777 == 0o600
    stores = "INSERT INTO secret_fingerprints VALUES ($1, $2)"
    write(folder, lambda tx: tx.execute(stores, FILE_NAME, fingerprint(old)))
    rows = write(folder, lambda tx: tx.fetch("SELECT * FROM webhook_keys"))
    assert len(rows) == (engine == POSTGRESQL)  # which hosts that are upgraded later read

    assert "there is no old key" in str(run(folder, "rotate-key", "--retire", "--yes").exception)
    assert run(folder, "rotate-key", "--yes").exit_code == 0
    both = file.read_bytes()
    assert both[32:] == old
    # Otherwise a host that still has the old file could keep the others from starting.
    found = write(folder, lambda tx: tx.fetch("SELECT fingerprint FROM secret_fingerprints"))
    assert found == [(fingerprint(both),)]
    assert write(folder, lambda tx: tx.fetch("SELECT * FROM webhook_keys")) == []
    message, secrets = Message("msg_1", b"{}"), [new_secret(), new_secret()]
    keys = load_webhook_keys(Settings(data=folder))
    fields = signed_fields(message, secrets, keys, system_clock())
    for secret in secrets:
        assert Verifier(secret).verify(b"{}", fields) == {}
    signatures = [each.partition(",") for each in fields["webhook-signature"].split()]
    assert [version for version, _, _ in signatures] == ["v1", "v1", "v1a", "v1a"]
    content = f"msg_1.{fields['webhook-timestamp']}.{{}}".encode()
    for key, (_, _, signature) in zip(reversed(keys), signatures[2:], strict=True):
        key.public_key().verify(b64decode(signature), content)
    assert run(folder, "rotate-key", "--yes").exception is not None
    assert run(folder, "rotate-key", "--retire", "--yes").exit_code == 0
    assert file.read_bytes() == both[:32]
