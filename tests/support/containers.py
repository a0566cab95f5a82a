"""Barograph's images, built and run by Debian's podman from a base that mmdebstrap made."""

import os
import re
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from support.processes import eventually

ROOT = Path(__file__).parents[2]
BASE_FILE = ROOT / ".venv/base.tar"
BASE = "localhost/base"
AS_ROOT = () if os.geteuid() == 0 else ("sudo", "-E")
LIMITS = {"nofile": 4096, "nproc": 1000}
PIP_OPTIONS = ("CERT", "INDEX_URL", "PROXY", "TIMEOUT", "TRUSTED_HOST")
"""What pip needs on this machine to reach its index."""

Service = Mapping[str, Any]


def read_containerfile() -> dict[str, dict[str, list[str]]]:
    """The texts of all instructions by stage and name; those before the first stage under ''."""
    text = re.sub(r"^#.*\n", "", (ROOT / "Containerfile").read_text(), flags=re.MULTILINE)
    stages: dict[str, dict[str, list[str]]] = {}
    stage = stages.setdefault("", {})
    for line in filter(None, re.sub(r"\\\n\s*", "", text).splitlines()):
        name, _, rest = line.partition(" ")
        if name == "FROM":
            stage = stages.setdefault(rest.rpartition(" AS ")[2], {})
        stage.setdefault(name, []).append(rest)
    return stages


def read_compose() -> dict[str, Any]:
    """The file with its merged keys, and `$$` as the containers see it."""
    return dict(yaml.safe_load((ROOT / "compose.yaml").read_text().replace("$$", "$")))


class Podman:
    """Images and containers in a folder of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.started: list[str] = []
        places = ("--root", str(folder / "store"), "--runroot", str(folder / "run"))
        drivers = ("--storage-driver", "overlay", "--cgroup-manager", "cgroupfs")
        self.command = (*AS_ROOT, "podman", *places, *drivers, "--runtime", "runc")

    def __call__(self, *arguments: str, check: bool = True) -> "subprocess.CompletedProcess[str]":
        environment = {**os.environ, "DISABLE_HC_SYSTEMD": "true"}
        done = subprocess.run(
            [*self.command, *arguments],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=900,
        )
        assert not check or done.returncode == 0, f"{arguments}\n{done.stdout}\n{done.stderr}"
        return done

    def size(self, image: str) -> int:
        """The size of an image in bytes."""
        return int(self("image", "inspect", "--format", "{{.Size}}", image).stdout)

    def build(self, target: str) -> int:
        """Build an image from the Containerfile as it is, and return its size in bytes."""
        given = {name: os.environ.get(f"PIP_{name}", "") for name in PIP_OPTIONS}
        options = [f"{name.lower()} = {text}\n" for name, text in given.items() if text]
        (self.folder / "pip.conf").write_text("".join(["[global]\n", *options]))
        mounted = {self.folder / "pip.conf": "/etc/pip.conf"}
        if given["CERT"]:
            mounted[Path(given["CERT"])] = given["CERT"]
        self(
            *("build", "--layers", "--format=docker", "--isolation=chroot", "--network=host"),
            *(f"--volume={source}:{place}:ro" for source, place in mounted.items()),
            *(f"--build-arg=BASE={BASE}", f"--target={target}", f"--tag={target}", str(ROOT)),
        )
        return self.size(target)

    def run(self, service: Service, network: str) -> tuple[str, ...]:
        """The command that runs a container as a service of compose.yaml says."""
        return (
            *("run", f"--network={network}", f"--read-only={service['read_only']}".lower()),
            # Otherwise podman asks for higher limits than a test's own processes may have.
            *(f"--ulimit={name}={count}:{count}" for name, count in LIMITS.items()),
            *(f"--cap-drop={name}" for name in service["cap_drop"]),
            *(f"--security-opt={name.partition(':')[0]}" for name in service["security_opt"]),
            *(f"--tmpfs={place}" for place in service["tmpfs"]),
            *(f"--volume={volume}" for volume in service["volumes"]),
            *(f"--env={name}={text}" for name, text in service.get("environment", {}).items()),
            *(f"--env-file={file}" for file in service.get("env_file", [])),
        )

    def start(self, name: str, image: str, service: Service, *command: str, network: str) -> None:
        """Start a container of an image as a service of compose.yaml says."""
        self.started.append(name)
        self(*self.run(service, network), "--detach", f"--name={name}", image, *command)

    def exit_code(self, name: str) -> int | None:
        """The exit code of a container; None while it runs."""
        state = self("inspect", "--format", "{{.State.Status}} {{.State.ExitCode}}", name).stdout
        status, code = state.split()
        return int(code) if status == "exited" else None

    def until_healthy(self, name: str) -> None:
        """Wait until the image's own check passes."""

        def is_healthy() -> bool:
            time.sleep(1)  # each look starts two programs
            return self("healthcheck", "run", name, check=False).returncode == 0

        eventually(
            lambda: is_healthy() or self.exit_code(name) is not None, f"{name} is healthy", 300
        )
        assert is_healthy(), self("logs", name).stderr

    def until_answer(self, name: str, path: str, part: str) -> str:
        """Wait until the service in a container answers 200 with this part, and return it all."""
        call = "import sys, urllib.request as u; print(u.urlopen(sys.argv[1]).read().decode())"
        url = f"http://127.0.0.1:8080{path}"

        def answer() -> str | None:
            time.sleep(1)
            text = self("exec", name, "python", "-c", call, url, check=False).stdout
            return text if part in text else None

        return eventually(answer, f"{part} at {path}")


@contextmanager
def running_podman(folder: Path) -> Iterator[Podman]:
    """A podman that has only the base image; everything is deleted at the end."""
    assert BASE_FILE.exists(), "run `make .venv/base.tar` first"
    podman = Podman(folder)
    try:
        podman("import", str(BASE_FILE), BASE)
        yield podman
    finally:
        for name in reversed(podman.started):  # a container may use the network of an earlier one
            podman("rm", "--force", "--volumes", "--time=0", name)
        podman("rmi", "--all", "--force")
