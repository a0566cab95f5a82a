"""Go, from a wheel in the environment of witnesses. It builds without the network."""

import subprocess
from pathlib import Path

WITNESS = Path(__file__).parents[2] / ".venv-witness"


def packages() -> Path:
    """Where that environment has its Python packages; Go itself is one of them."""
    [found] = WITNESS.glob("lib/python*/site-packages")
    return found


def build(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run `go build` in the folder of a module, whatever its exit code."""
    environment = {
        "CGO_ENABLED": "0",
        "GOCACHE": str(WITNESS / "go-cache"),  # only the first run compiles Go's library
        "GOENV": "off",
        "GOFLAGS": "-mod=mod",
        "GOPATH": str(folder / "path"),
        "GOPROXY": "off",
        "GOTOOLCHAIN": "local",
    }
    command = [str(packages() / "go/bin/go"), "build", *arguments]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
