"""Record the data of an earlier version: `python tests/upgrades/record.py CHECKOUT [--fresh]`.

CHECKOUT is a worktree of one of our own commits with that commit's requirements in its `.venv`. Its
own demo makes the data, with a past or as a fresh one, and its own commands use and print them. If
that version has `db copy`, this also records the two PostgreSQL databases that it makes.
"""

import json
import lzma
import os
import re
import signal
import sqlite3
import subprocess
import sys
import tarfile
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
from support.postgresql import PROGRAMS, PostgreSQL, running_postgresql

FOLDER = Path(__file__).parent
PORT = 9137  # a part of the name of the log
URL = f"http://127.0.0.1:{PORT}"
FILES = ("world.json", "history-key", "key-pepper", "webhook-key")
KEPT_ROWS = 150
LARGE = {
    *("frames", "liquidation_hours", "liquidations", "listings", "readings", "regime_changes"),
    *("settlement_reports", "settlements", "signal_changes"),
}
"""The tables that are cut down; none of them is signed, bought or granted."""

BRIEF = """---
headline: Recorded before the upgrade
summary: This brief is in the recorded data.
slug: recorded
---
The text of the *recorded* brief.
"""
WHY = ("--why", "recorded before the upgrade")


class Recording:
    """The demo of one checkout."""

    def __init__(self, checkout: Path, options: list[str], data: Path) -> None:
        self.checkout = checkout
        self.program = [str(checkout / ".venv/bin/python"), "-m", "barograph"]
        self.options = options
        self.data = data
        self.expected: dict[str, Any] = {}

    def run(self, *arguments: str, **environment: str) -> str:
        command = [*self.program, *arguments]
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, env={**os.environ, **environment}
        )
        if done.returncode:
            raise SystemExit(f"{arguments}: {done.stdout}{done.stderr}")
        return done.stdout

    def json(self, *arguments: str) -> Any:
        return json.loads(self.run(*arguments, "--json", "--data", str(self.data)))

    def make(self) -> None:
        """Run the demo, and use everything that it sells, grants and signs."""
        command = [*self.program, "demo", "--port", str(PORT), "--data", str(self.data)]
        demo = subprocess.Popen([*command, *self.options])
        try:
            while not ((self.data / "demo.json").exists() and all(map(newest, CHANGED))):
                assert demo.poll() is None, "the demo ended"
                time.sleep(0.5)
            self._use()
        finally:
            demo.send_signal(signal.SIGINT)
            demo.wait(60)

    def _use(self) -> None:
        self.expected["key"] = self.json("keys", "create", "--email", "kept@example.com")["key"]
        (self.data / "brief.md").write_text(BRIEF)
        self.json("briefs", "publish", str(self.data / "brief.md"))
        holder = ("--user", "kept-user", "--tier", "feed", "--days", "3650")
        self.json("entitlements", "grant", *holder, *WHY)
        self._buy("stance", "rates-desk")
        self._leave_open()
        self.json("stances", "revise", "rates-desk", "--decision", "neutral", *WHY)
        time.sleep(8)  # until a collector has logged it and witnesses have cosigned it
        self.kept = read("/api/history/checkpoint")
        self.json("stances", "withdraw", "funding-regime-stance", *WHY, "--yes")
        self.expected["entitlements"] = self.json("entitlements", "list")
        self.expected["payments"] = self.json("payments", "list")
        time.sleep(8)
        self.expected["keys"] = self.json("keys", "list")
        self.expected["stances"] = {kind: newest(kind) for kind in KINDS if newest(kind)}

    def _leave_open(self) -> None:
        """Pay for Feed without learning whether it was charged."""
        self._fault("settle-timeout")
        with ThreadPoolExecutor(1) as thread:
            buying = thread.submit(self._buy, "feed", "feed", 503)
            while all(each["state"] == "settled" for each in self.json("payments", "list")):
                time.sleep(0.5)  # the facilitator has not accepted the proof yet
            self._fault("chain-down")
            buying.result()

    def _fault(self, kind: str) -> None:
        fault = ("demo", "fault", "facilitator", "on", "--kind", kind)
        self.run(*fault, "--data", str(self.data))

    def _buy(self, what: str, path: str, status: int = 200) -> None:
        proof = self.run(
            "demo", "proof", "--wallet", "none", "--for", what, "--data", str(self.data)
        )
        request = urllib.request.Request(
            f"{URL}/api/x402/{path}", headers={"PAYMENT-SIGNATURE": proof.strip()}
        )
        try:
            answered = urllib.request.urlopen(request).status
        except urllib.error.HTTPError as error:
            answered = error.code
        assert answered == status, (what, answered)

    def reduce(self) -> None:
        """Keep few rows of the large tables, and list what is left of some."""
        for name in ("barograph", "history"):
            with closing(sqlite3.connect(self.data / f"{name}.sqlite3")) as database:
                tables = [t for (t,) in database.execute(TABLES) if t in LARGE]
                guards = [each for each in database.execute(TRIGGERS) if each[1] in LARGE]
                for trigger, _, _ in guards:
                    database.execute(f"DROP TRIGGER {trigger}")
                for table in tables:
                    newest = f"SELECT rowid FROM {table} ORDER BY rowid DESC LIMIT {KEPT_ROWS}"
                    database.execute(f"DELETE FROM {table} WHERE rowid NOT IN ({newest})")
                for _, _, sql in guards:
                    database.execute(sql)
                database.commit()
                database.execute("PRAGMA journal_mode = DELETE")
                database.execute("VACUUM")
        with closing(sqlite3.connect(self.data / "barograph.sqlite3")) as database:
            database.row_factory = sqlite3.Row
            for table in ("briefs", "readings"):
                rows = [dict(row) for row in database.execute(f"SELECT * FROM {table}")]
                self.expected[table] = rows[-5:]
            ((self.number,),) = database.execute("SELECT max(number) FROM schema_migrations")

    def copy(self, server: PostgreSQL) -> str | None:
        """The two PostgreSQL databases that this version's own command makes, as SQL."""
        if "copy" not in self.run("db", "--help"):
            return None
        urls = [server.create(), server.create()]
        self.run(
            *("db", "copy", "--from", str(self.data)),
            BAROGRAPH_DATABASE_URL=urls[0],
            BAROGRAPH_HISTORY_URL=urls[1],
        )
        options = ("--no-owner", "--no-privileges", "--rows-per-insert=500")
        dumps = [
            subprocess.run(
                [server.folder / PROGRAMS / "pg_dump", *options, url],
                capture_output=True,
                text=True,
                check=True,
            ).stdout
            for url in urls
        ]
        # These two commands are for psql.
        service, history = (re.sub(r"(?m)^\\(un)?restrict .*\n", "", dump) for dump in dumps)
        return f"{service}{SEPARATOR}{history}"

    def write(self, postgresql: str | None) -> None:
        target = FOLDER / f"{self.number:04}"
        target.mkdir(exist_ok=True)
        with tarfile.open(target / "data.tar.xz", "w:xz", preset=9) as archive:
            for name in (*FILES, "barograph.sqlite3", "history.sqlite3"):
                if (self.data / name).exists():
                    archive.add(self.data / name, name, filter=_anonymous)
        if postgresql is not None:
            packed = lzma.compress(postgresql.encode(), preset=9)
            (target / "postgresql.sql.xz").write_bytes(packed)
        commit = ["git", "-C", str(self.checkout), "show", "-s", "--format=%h %s"]
        made_by = subprocess.run(commit, capture_output=True, text=True, check=True).stdout.strip()
        expected = {"made_by": made_by, **self.expected}
        (target / "expected.json").write_text(json.dumps(expected, indent=1, sort_keys=True) + "\n")
        (target / "kept.json").write_text(json.dumps(self.kept, indent=1) + "\n")


TABLES = "SELECT name FROM sqlite_master WHERE type = 'table'"
TRIGGERS = "SELECT name, tbl_name, sql FROM sqlite_master WHERE type = 'trigger'"
CHANGED = ("rates-desk", "funding-regime-stance")
KINDS = (*CHANGED, "btc-etf-stance")
SEPARATOR = "-- the history\n"


def _anonymous(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry


def read(path: str) -> Any:
    with urllib.request.urlopen(f"{URL}{path}") as response:
        return json.load(response)


def newest(kind: str) -> dict[str, Any] | None:
    """The number and digest of the newest version."""
    versions = read(f"/api/history/{kind}?limit=1000")["entries"]
    return (
        {name: versions[-1][name] for name in ("sequence", "history_digest")} if versions else None
    )


def main(checkout: Path, *options: str) -> None:
    with TemporaryDirectory() as folder, running_postgresql() as server:
        recording = Recording(checkout, list(options), Path(folder) / "data")
        recording.make()
        recording.reduce()
        recording.write(recording.copy(server))


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), *sys.argv[2:])
