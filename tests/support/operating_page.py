"""Runs the commands of docs/operating.md as a person does who rehearses them on loopback."""

import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from os import environ, killpg
from pathlib import Path
from signal import SIGINT
from typing import NamedTuple

import psutil

from support.processes import answer_200, eventually

PROJECT = Path(__file__).parents[2]
PAGE = PROJECT / "docs" / "operating.md"
HOSTS = ("127.0.0.11", "127.0.0.12", "127.0.0.13")
READY = {
    "make run": "http://127.0.0.1:8080/api/agent/market-state",
    "serve --collect": "http://127.0.0.1:8080/api/agent/market-state",
    "demo servers": "http://127.0.0.1:9000/v5/market/time",
}
"""When a command that doesn't end is ready for the next step."""

COMMAND_SECONDS = 400
NEEDED = (
    *("Makefile", "pyproject.toml", "client/pyproject.toml", "demo/pyproject.toml", "deploy"),
    *("requirements.txt", "requirements-demo.txt", "requirements-build.txt"),
)


class Block(NamedTuple):
    """A block of commands; its first line says where it runs, if that is not the first host."""

    section: str
    text: str

    @property
    def label(self) -> str:
        first = self.text.partition("\n")[0]
        return first.removeprefix("# ") if first.startswith("#") else ""

    def runs_with(self, engine: str) -> bool:
        other = {"SQLite": "PostgreSQL", "PostgreSQL": "SQLite"}[engine]
        only_for_several = engine == "SQLite" and self.section == "Three hosts"
        return not only_for_several and f"with {other}" not in self.label

    def hosts(self, engine: str) -> tuple[str, ...]:
        hosts = HOSTS if engine == "PostgreSQL" else HOSTS[:1]
        if "other hosts" in self.label:
            return hosts[1:]
        return hosts if "every host" in self.label else hosts[:1]


def read_blocks(page: str) -> list[Block]:
    """Every `sh` block of the page in order, with the section that it is in."""
    blocks, section = [], ""
    for heading, indent, text in re.findall(
        r"^## (.+?)$|^( *)```sh\n(.*?)^ *```$", page, re.MULTILINE | re.DOTALL
    ):
        section = heading or section
        if text:
            blocks.append(Block(section, re.sub(f"^{indent}", "", text, flags=re.MULTILINE)))
    return blocks


class Rehearsal:
    """A clean folder with the checkout in it, and the processes that its commands start."""

    def __init__(self, folder: Path, **environment: str) -> None:
        self.folder = folder
        self.transcript = ""
        inherited = {name: value for name, value in environ.items() if name != "REHEARSAL"}
        self._environment = {**inherited, **environment, "REHEARSAL": str(folder / "rehearsal")}
        self._foreground: list[subprocess.Popen[bytes]] = []
        self._until_the_end: list[subprocess.Popen[bytes]] = []
        for name in NEEDED:
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            copy = shutil.copytree if (PROJECT / name).is_dir() else shutil.copy2
            copy(PROJECT / name, target)
        for installed in (".uv", ".venv"):
            (folder / installed).symlink_to(PROJECT / installed)

    def run_all(self, blocks: list[Block], engine: str) -> None:
        """Run each block wherever the page says, and fail if a command fails."""
        section = ""
        for block in blocks:
            if block.section != section or "Ctrl+C" in block.label:
                self._stop_foreground()
            section = block.section
            if not block.runs_with(engine):
                continue
            if "Ctrl+C" in block.label:
                self._start(block)
                continue
            for host in block.hosts(engine):
                self._run(host, block.text)

    def _stop_foreground(self) -> None:
        """Press Ctrl+C in the terminal of the last command that doesn't end."""
        while self._foreground:
            process = self._foreground.pop()
            killpg(process.pid, SIGINT)
            process.wait(60)

    def _run(self, host: str, text: str) -> None:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", f". deploy/rehearsal/host.sh {host}\n{text}"],
            cwd=self.folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            check=False,
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS,
        )
        self.transcript += f"\n[{host}]\n{text}{done.stdout}{done.stderr}"
        assert done.returncode == 0, self.transcript[-6000:]

    def _start(self, block: Block) -> None:
        with (self.folder / "foreground.log").open("ab") as log:
            process = subprocess.Popen(
                ["bash", "-euc", block.text],
                cwd=self.folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        is_kept = "until the end" in block.label
        (self._until_the_end if is_kept else self._foreground).append(process)
        address = next(READY[command] for command in READY if command in block.text)
        is_decided = lambda: process.poll() is not None or answer_200(address)  # noqa: E731
        eventually(is_decided, f"an answer after {block.text}", COMMAND_SECONDS)
        assert process.poll() is None, (self.folder / "foreground.log").read_text()

    def end(self) -> None:
        """Kill everything that the commands started."""
        mine = [each for each in psutil.process_iter() if self._started(each)]
        for each in mine:
            with suppress(psutil.NoSuchProcess):
                each.kill()
        psutil.wait_procs(mine, timeout=30)
        for process in (*self._foreground, *self._until_the_end):
            process.wait()

    def _started(self, process: psutil.Process) -> bool:
        """Whether a process has our variable, or belongs to our nginx, which hides it."""
        here = self._environment["REHEARSAL"]
        with suppress(psutil.Error):
            family = [process, *process.parents()[:1]]
            is_nginx = any(here in part for each in family for part in each.cmdline())
            return is_nginx or process.environ().get("REHEARSAL") == here
        return False


@contextmanager
def rehearsal(folder: Path, **environment: str) -> Iterator[Rehearsal]:
    running = Rehearsal(folder, **environment)
    try:
        yield running
    finally:
        running.end()
