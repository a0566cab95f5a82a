"""The images that the Containerfile makes, run as the profiles of compose.yaml run them."""

import json
import re
from collections.abc import Iterator

import pytest

from barograph import __version__
from barograph.errors import EXIT_CONFIGURATION
from support.containers import BASE, ROOT, Podman, read_compose, running_podman
from support.processes import eventually

pytestmark = [pytest.mark.e2e, pytest.mark.thorough]

SERVICES = read_compose()["services"]
INSTALLERS = ("cc", "gcc", "g++", "clang", "ld", "make", "rustc", "pip", "pip3", "uv")
PACKAGES = "/opt/barograph/lib/python3.11/site-packages"
PROGRAM = "/opt/barograph/bin/barograph"
SEARCH = (
    f"find / -xdev -path '*/.cache/*' -o -path '/opt/*/pip' -o -name '*.whl' -o -path {PROGRAM}"
)


@pytest.fixture(scope="module")
def podman(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Podman]:
    with running_podman(tmp_path_factory.mktemp("images")) as podman:
        sizes = {"base": podman.size(BASE)}
        sizes |= {target: podman.build(target) for target in ("demo", "live")}
        for name, size in sizes.items():
            print(f"image {name:<5} {size / 1e6:4.0f} MB")  # noqa: T201 - for people
        yield podman


def test_demo_needs_no_network_no_rights_and_no_writable_root(podman: Podman) -> None:
    podman.start("demo", "demo", SERVICES["demo"], network="none")
    podman.until_healthy("demo")
    status = json.loads(podman.until_answer("demo", "/api/status", '{"status":"ok"'))
    assert status["api"]["version"] == __version__
    listening = podman("exec", "demo", "cat", "/proc/net/tcp").stdout
    assert f" 00000000:{8080:04X} 00000000:0000 0A " in listening  # 0.0.0.0, for a published port
    process = podman("exec", "demo", "cat", "/proc/1/status").stdout
    for pattern in (r"Uid:\s+10001\s+10001", r"CapBnd:\s+0+$", r"NoNewPrivs:\s+1$"):
        assert re.search(f"^{pattern}", process, re.MULTILINE), process
    refused = podman("exec", "demo", "touch", "/opt/barograph/new", check=False)
    assert "Read-only file system" in refused.stderr
    seconds = SERVICES["demo"]["stop_grace_period"].removesuffix("s")
    podman("stop", "--time", seconds, "demo")
    assert podman.exit_code("demo") == 0


def test_images_hold_no_compiler_no_installer_and_no_cache(podman: Podman) -> None:
    for image in ("demo", "live"):
        run = podman.run(SERVICES["demo"], network="none")
        programs = f"for each in {' '.join(INSTALLERS)}; do command -v $each; done"
        shell = podman(*run, "--rm", "--entrypoint=sh", image, "-c", f"{programs}; {SEARCH}; true")
        assert [path for path in shell.stdout.split() if "python-wheels" not in path] == [PROGRAM]
        listing = podman(*run, "--rm", "--entrypoint=ls", image, PACKAGES).stdout.split()
        assert ("barograph_demo" in listing) is (image == "demo")


def test_live_instance_refuses_unconfirmed_terms_and_then_serves(podman: Podman) -> None:
    podman.start("world", "demo", SERVICES["demo"], "demo", "servers", network="none")
    eventually(lambda: "REVEAL_AFTER_DAYS" in podman("logs", "world").stdout, "the last setting")
    example = (ROOT / "deploy/barograph.env").read_text()
    file = podman.folder / "barograph.env"
    file.write_text(example + podman("logs", "world").stdout.replace('"', ""))
    live, network = {**SERVICES["live"], "env_file": [str(file)]}, "container:world"

    podman.start("refused", "live", live, network=network)
    eventually(lambda: podman.exit_code("refused") == EXIT_CONFIGURATION, "the refusal")
    assert "BAROGRAPH_ACCEPT_TERMS" in podman("logs", "refused").stderr

    confirmed = "BAROGRAPH_ACCEPT_TERMS=bybit,treasury,nyfed"
    file.write_text(file.read_text().replace("BAROGRAPH_ACCEPT_TERMS=", confirmed))
    podman.start("live", "live", live, network=network)
    podman.until_healthy("live")
    podman.until_answer("live", "/api/agent/market-state", "simulated exchange")
    kind, *check = SERVICES["collector"]["healthcheck"]["test"]
    assert kind == "CMD"
    podman("exec", "live", *check)
    podman("exec", "live", "barograph", "backup", "/var/backups/barograph/first")
