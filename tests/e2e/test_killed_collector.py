"""`barograph collect` is killed again and again, and never publishes two roots of one size.

The collector, the web server and the kills are real. The witnesses are simulated, and there is no
exchange.
"""

import random
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from queue import SimpleQueue
from threading import Event

import pytest

from barograph.history.checkpoint import Checkpoint, parse_checkpoint
from barograph.kit.clock import system_clock
from support.processes import HOST, eventually, running, unused_port
from support.witnessed_server import Instance
from support.witnesses import Witnesses, listening

pytestmark = [pytest.mark.e2e, pytest.mark.thorough]


class Observers:
    """Three witnesses and a reader, and every checkpoint that they saw."""

    def __init__(self) -> None:
        self.chance = random.Random(7)
        self.witnesses = Witnesses(system_clock, "a", "b", "c")
        self.requests: SimpleQueue[str] = SimpleQueue()
        self.seen: set[Checkpoint] = set()
        self.published = -1

    def see(self, note: str) -> int:
        checkpoint = parse_checkpoint(note.rpartition("\n\n")[0])
        self.seen.add(checkpoint)
        return checkpoint.size

    def cosign(self, path: str, body: str) -> tuple[int, str]:
        self.requests.put(path)
        self.see(body.partition("\n\n")[2])
        time.sleep(self.chance.random() / 20)
        answer = self.witnesses.answer(path, body)
        time.sleep(self.chance.random() / 20)
        return answer

    def read(self, instance: Instance, until: Event) -> None:
        """Read the published checkpoints, as often as one address may."""
        while not until.wait(0.25):
            if note := instance.checkpoint():
                before, self.published = self.published, self.see(note)
                assert self.published >= before

    def proof(self, instance: Instance, sequence: int) -> str | None:
        """The proof of a version, after a pause: the reader uses the same limit."""
        time.sleep(0.5)
        return instance.proof(sequence)


@pytest.mark.parametrize("kills", [3, pytest.param(60, marks=pytest.mark.long)])
def test_killed_collector_never_publishes_two_roots_of_one_size(tmp_path: Path, kills: int) -> None:
    observers, port, policy = Observers(), unused_port(), tmp_path / "policy"
    policy.write_text(observers.witnesses.policy_text(3, f"http://{HOST}:{port}/{{}}"))
    recorded, done, log = Event(), Event(), tmp_path / "collector.log"
    with ExitStack() as stack:
        instance = Instance(tmp_path / "ours", policy, stack)
        stack.enter_context(listening(port, observers.cosign))
        threads = stack.enter_context(ThreadPoolExecutor())
        stack.callback(done.set)
        stack.callback(recorded.set)
        recorder = threads.submit(instance.record_until, recorded)
        reader = threads.submit(observers.read, instance, done)
        for _ in range(kills):
            observers.requests = SimpleQueue()
            with running("collect", log=log, **instance.environment):  # SIGKILL ends it
                for _ in range(observers.chance.randint(1, 6)):
                    observers.requests.get(timeout=90)
                time.sleep(observers.chance.random() / 10)
        recorded.set()
        newest = recorder.result()
        with running("collect", log=log, **instance.environment):
            eventually(lambda: observers.proof(instance, newest), "the proof of the newest")
        done.set()
        reader.result()
        assert len({(each.origin, each.size) for each in observers.seen}) == len(observers.seen)
        checks = instance.checks()
        assert "down" not in {checks[f"witness-{name}"]["status"] for name in "abc"}
