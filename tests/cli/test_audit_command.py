"""`barograph audit` hands its command line to the client, and ends with the client's exit code."""

import subprocess
import sys
from pathlib import Path

import httpx2
from click.testing import CliRunner

from barograph.cli import cli
from support.processes import unused_port
from support.readers import on_a_port
from support.service import Answer
from support.static_logs import URL, StaticService


def test_the_command_audits_over_a_real_port_and_ends_with_what_it_found() -> None:
    service = StaticService()

    def ask(target: str) -> Answer:
        found = service.transport.handle_request(httpx2.Request("GET", URL + target))
        return Answer(found.status_code, [], found.content)

    with on_a_port(ask) as url:
        service.log.folder = f"{url.removeprefix('http://')}/history/"
        fine = CliRunner().invoke(cli, ["audit", url])
        service.log.entries[0] = bytes(32)
        found = CliRunner().invoke(cli, ["audit", url])
    nobody = f"http://127.0.0.1:{unused_port()}"
    away = CliRunner().invoke(cli, ["audit", nobody.replace("//", "//user:secret@")])

    assert (fine.exit_code, found.exit_code, away.exit_code) == (0, 1, 2), found.output
    assert "No contradiction found (" in fine.stdout
    assert found.stderr.startswith("contradiction: entry 0 gives the hash")
    reason = "the service could not be reached (ConnectError)"
    assert away.stderr == f"not finished: {nobody}: {reason}\n"


def test_the_help_is_the_client_s_under_the_name_of_the_command() -> None:
    result = CliRunner().invoke(cli, ["audit", "--help"])

    assert result.exit_code == 0
    assert "barograph audit https://barograph.example --kept kept.json" in result.stdout
    assert CliRunner().invoke(cli, ["audit"]).exit_code == 2


def test_without_cryptography_the_command_says_what_to_install(tmp_path: Path) -> None:
    kept = tmp_path / "kept.json"
    kept.write_text(StaticService().checkpoint(), "utf-8")
    program = (
        "import sys; sys.modules['cryptography'] = None; "
        "from barograph_client.audit.command import main; sys.exit(main())"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, URL, "--kept", kept],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 2
    assert "`barograph-client[audit]`" in done.stderr
