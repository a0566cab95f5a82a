"""What `doctor` says about the server that counts rate limits."""

import asyncio
from collections.abc import Iterator
from contextlib import closing

import pytest

from barograph.cli.diagnosis import Diagnosis
from barograph.cli.doctor_machine import check_limits
from barograph.settings import Settings
from support.valkey import Valkey, running_valkey


@pytest.fixture(scope="module")
def valkey() -> Iterator[Valkey]:
    with running_valkey() as server:
        yield server


def line(limits_url: str, **settings: str) -> Diagnosis:
    values = {"limits_url": limits_url, **settings}
    return asyncio.run(check_limits(Settings.model_validate(values)))


def patient(valkey: Valkey, user: str = "") -> str:
    return valkey.url.replace("//", f"//{user}") + "?socket_timeout=30"


def test_server_that_counts_is_named_with_its_version(valkey: Valkey) -> None:
    found = line(patient(valkey))
    assert (found.status, found.detail.split()[0]) == ("ok", "Valkey")


def test_instance_without_a_server_counts_on_its_host() -> None:
    assert line("").status == "ok"
    found = line("", database_url="postgresql://db.example/barograph")
    assert (found.status, "BAROGRAPH_LIMITS_URL" in found.remedy) == ("note", True)


def test_each_fault_of_the_server_is_named_with_its_remedy(valkey: Valkey) -> None:
    with closing(valkey.connect()) as client:
        client.config_set("maxmemory-policy", "allkeys-lru")
        client.config_set("maxmemory", "100mb")
        assert "noeviction" in line(patient(valkey)).remedy
        client.config_set("maxmemory-policy", "noeviction")
        client.config_set("maxmemory", 1)
        assert "is full" in line(patient(valkey)).detail
        client.config_set("maxmemory", 0)
        # The server refuses the script itself, and then a command inside of it.
        for commands in (["+ping"], ["+ping", "+evalsha", "+script|load"]):
            client.acl_setuser("weak", enabled=True, passwords=["+hunter2"], commands=commands)
            assert "run our script" in line(patient(valkey, "weak:hunter2@")).detail
        client.slaveof("127.0.0.1", 1)
        assert "replica" in line(patient(valkey)).detail
        client.slaveof()
    wrong = line(patient(valkey, "weak:wrong@"))
    assert (wrong.status, "password" in wrong.detail) == ("fail", True)
    refused = line("redis://:hunter2@127.0.0.1:1")
    assert refused.detail == "127.0.0.1:1 refuses the connection"
    assert "hunter2" not in str((wrong, refused))
