"""The demo's captured mail, on the terminal."""

import json
from pathlib import Path

from click.testing import CliRunner

from barograph_demo.commands import demo
from barograph_demo.servers.mailbox import FILE_NAME


def printed(folder: Path, *arguments: str) -> str:
    command = ["mail", *arguments, "--data", str(folder)]
    return CliRunner().invoke(demo, command, catch_exceptions=False).stdout


def test_captured_mail_is_printed_plainly_or_as_json(tmp_path: Path) -> None:
    assert (printed(tmp_path), printed(tmp_path, "--json")) == ("no mail yet\n", "[]\n")
    mail = {
        "from": "barograph@demo.example",
        "to": ["name@example.com"],
        "subject": "Your key",
        "date": "Fri, 06 Nov 2026 21:20:00 +0000",
        "text": "Open\nhttps://x.example/keys/y\n",
        "links": ["https://x.example/keys/y"],
    }
    (tmp_path / FILE_NAME).write_text(json.dumps(mail) + "\n")

    assert json.loads(printed(tmp_path, "--json")) == [mail]
    assert printed(tmp_path) == (
        "from: barograph@demo.example\nto: name@example.com\n"
        "date: Fri, 06 Nov 2026 21:20:00 +0000\nsubject: Your key\n\n"
        "Open\nhttps://x.example/keys/y\n\n"
    )
