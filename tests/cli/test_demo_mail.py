"""The demo's captured mail, on the terminal."""

import json
from pathlib import Path

import pytest

from barograph.cli.demo import print_demo_mail
from barograph.demo.servers.mailbox import FILE_NAME


def test_captured_mail_is_printed_plainly_or_as_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    print_demo_mail(tmp_path, as_json=False)
    print_demo_mail(tmp_path, as_json=True)
    assert capsys.readouterr().out == "no mail yet\n[]\n"
    mail = {
        "from": "barograph@demo.example",
        "to": ["name@example.com"],
        "subject": "Your key",
        "date": "Fri, 06 Nov 2026 21:20:00 +0000",
        "text": "Open\nhttps://x.example/keys/y\n",
        "links": ["https://x.example/keys/y"],
    }
    (tmp_path / FILE_NAME).write_text(json.dumps(mail) + "\n")

    print_demo_mail(tmp_path, as_json=True)
    assert json.loads(capsys.readouterr().out) == [mail]
    print_demo_mail(tmp_path, as_json=False)
    assert capsys.readouterr().out == (
        "from: barograph@demo.example\nto: name@example.com\n"
        "date: Fri, 06 Nov 2026 21:20:00 +0000\nsubject: Your key\n\n"
        "Open\nhttps://x.example/keys/y\n\n"
    )
