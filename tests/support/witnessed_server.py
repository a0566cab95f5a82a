"""A server whose log is witnessed, as processes and in its data folder."""

import asyncio
from base64 import b64encode
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from threading import Event
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from barograph.collector.app import open_collector
from barograph.collector.jobs.stances import LogEntryJob, WitnessJob
from barograph.collector.leader import collector_lease
from barograph.history.checkpoint import verifier_of
from barograph.history.ledger import Ledger
from barograph.kit.clock import system_clock
from barograph.kit.sqlite import SQLiteDatabase
from barograph.settings import Settings
from support.history import RATES, proposal
from support.processes import HOST, answer_200, get
from support.published_server import published_server
from support.stances import make_history

SECRET = bytes(range(32))
ORIGIN = "log.example/history/events"
LOG_KEY = verifier_of(Ed25519PrivateKey.from_private_bytes(SECRET), ORIGIN).text
ALONE = {
    "BAROGRAPH_ACCEPT_TERMS": "bybit",
    "BAROGRAPH_EXCHANGE_REST_URL": f"http://{HOST}:1",
    **{f"BAROGRAPH_{each}_URL": "" for each in ("TREASURY", "NYFED", "ETF")},
}
"""Settings of a collector without sources; nothing answers at the exchange's address."""


class Instance:
    """A running server, and the part of its collector that asks witnesses."""

    def __init__(self, folder: Path, policy: Path, stack: ExitStack) -> None:
        folder.mkdir()
        values = {
            "base_url": "http://log.example",
            "history_key": b64encode(SECRET).decode(),
            "witness_policy": str(policy),
        }
        environment = {f"BAROGRAPH_{name.upper()}": value for name, value in values.items()}
        self.url = stack.enter_context(published_server(folder, workers=1, **environment))
        self.environment = {**environment, **ALONE, "BAROGRAPH_DATA": str(folder / "data")}
        self._settings = Settings.model_validate({"data": folder / "data", **values})
        self.folder = f"{self.url}/history/events"

    def record(self, *numbers: int) -> None:
        async def work() -> None:
            history = SQLiteDatabase(self._settings.history_path)
            await make_history(history)
            for number in numbers:
                await Ledger(history, system_clock).append(proposal(number))
            await history.close()

        asyncio.run(work())

    def record_until(self, done: Event) -> int:
        """Record versions for a while, and return how many."""
        numbers = count()
        while not done.wait(0.1):
            self.record(next(numbers))
        return next(numbers)

    def collect(self, witnesses: int = 3) -> None:
        """Append the recorded versions to the log, then ask every witness once."""

        async def work() -> None:
            async with open_collector(self._settings, system_clock) as collector:
                lease = collector_lease(collector._database, system_clock)
                assert await lease.acquire()
                for kind, count in ((LogEntryJob, 1), (WitnessJob, witnesses)):
                    jobs = [each for each in collector._jobs if isinstance(each, kind)]
                    assert len(jobs) == count
                    await asyncio.gather(*(each.run_once(lease) for each in jobs))
                await lease.release()

        asyncio.run(work())

    def checkpoint(self) -> str:
        """The published checkpoint; empty if none has a quorum."""
        answer = get(f"{self.folder}/checkpoint")
        assert answer is not None
        assert answer.status_code in (200, 503), answer.text
        return answer.text if answer.status_code == 200 else ""

    def size(self) -> int:
        checkpoint = self.checkpoint()
        return int(checkpoint.split("\n")[1]) if checkpoint else -1

    def logged(self) -> int:
        """The size of the log, whether witnesses have cosigned it or not."""
        answer = get(f"{self.url}/api/history/checkpoint")
        assert answer is not None
        assert answer.json()["verifier"] == LOG_KEY
        return int(answer.json()["size"])

    def proof(self, sequence: int) -> str | None:
        """The proof of a version; None while the published checkpoint does not cover it."""
        listed = answer_200(f"{self.url}/api/history/{RATES}?after={sequence - 1}&limit=1")
        assert listed is not None
        proof = get(f"{self.folder}/{listed.json()['entries'][0]['history_digest']}.tlog-proof")
        assert proof is not None
        assert proof.status_code in (200, 503), proof.text
        return proof.text if proof.status_code == 200 else None

    def checks(self) -> dict[str, dict[str, Any]]:
        answer = get(f"{self.url}/api/status")
        assert answer is not None
        return {each["name"]: each for each in answer.json()["checks"]}
