"""Build what a release consists of from the last commit, and check it.

    python tools/release.py [dist]

The folder then has a source archive and a wheel of each of our packages, the licences and the bill
of materials of all that they need at run time, and the checksums of these files. A failed check
leaves the folder as it was. The same commit, Python and zlib always give the same bytes.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import Distribution, distributions
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
UV = ROOT / ".uv/bin/uv"
LOCK = "requirements-demo.txt"
FOLDERS = {"barograph-client": "client", "barograph": ".", "barograph-demo": "demo"}
"""Our packages. Each needs those before it."""
TRIALS = {
    "barograph-client": ["python -c 'import barograph_client'", "barograph-audit --help"],
    "barograph": ["barograph --version", "barograph db upgrade"],
    "barograph-demo": ["barograph demo --help"],
}
"""What has to run where only this package and what it needs are installed."""
BUILD = "import sys; from flit_core import buildapi as b; b.build_{}(sys.argv[1])"
ALLOWED = {
    "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT", "MIT-0", "PSF-2.0", "any-OSI",
}  # fmt: skip
IN_SPDX = {"MIT License": "MIT", "Apache Software License": "Apache-2.0"}
READ_BY_US = {"jinja2": "BSD-3-Clause", "python-dateutil": "Apache-2.0 AND BSD-3-Clause"}
"""Licences that we read in the package, because its metadata is inexact."""

Packages = dict[str, Distribution]


class ReleaseError(Exception):
    """Why there is no release, and what to do about it."""


def release(scratch: Path, into: Path) -> None:
    """Build everything in `scratch`, and move it to `into` when all checks have passed."""
    if into.is_dir() and any(into.iterdir()) and not (into / "SHA256SUMS").exists():
        raise ReleaseError(f"{into} has other files. Move them, or name another folder.")
    commit, seconds = run("git", "log", "-1", "--format=%H %ct").split()
    print(f"Building commit {commit[:12]}, without uncommitted changes.", flush=True)
    source, built = build(scratch / "first", seconds, TZ="UTC", PYTHONHASHSEED="1")
    _, again = build(scratch / "second", seconds, TZ="Asia/Tokyo", PYTHONHASHSEED="2")
    differ = [file.name for file in built.iterdir() if digest(file) != digest(again / file.name)]
    if differ:
        raise ReleaseError(f"two builds differ: {', '.join(differ)}. Time or place changes them.")
    print("Two builds gave the same bytes.", flush=True)
    for name in FOLDERS:
        check_contents(name, source, built)
    run(sys.executable, "-m", "twine", "check", "--strict", *built.iterdir())
    print("The archives have the right files, and their descriptions render.", flush=True)

    needed = {name: install_alone(name, source / LOCK, built, scratch / name) for name in FOLDERS}
    packages = {name: each for group in needed.values() for name, each in group.items()}
    hashes = locked_hashes((source / LOCK).read_text("utf-8"))
    if unused := sorted(hashes.keys() - packages.keys()):
        raise ReleaseError(f"no package needs {', '.join(unused)}. Run `make locks`.")
    licences = {name: licence(name, each) for name, each in packages.items()}
    check_licences(licences)
    print(f"All {len(hashes)} dependencies have licences that we allow.", flush=True)

    for name in FOLDERS:
        hashes[name] = [digest(file) for file in built.glob(f"{name.replace('-', '_')}-[0-9]*")]
    at = datetime.fromtimestamp(int(seconds), UTC).isoformat()
    materials = json.dumps(bill_of_materials(packages, licences, hashes, at), indent=1)
    version = packages["barograph"].version
    (built / f"barograph-{version}.cdx.json").write_text(f"{materials}\n", "utf-8")
    (built / "LICENCES.md").write_text(licence_table(packages, licences, needed), "utf-8")
    sums = [f"{digest(file)}  {file.name}\n" for file in sorted(built.iterdir())]
    (built / "SHA256SUMS").write_text("".join(sums), "utf-8")
    shutil.rmtree(into, ignore_errors=True)
    shutil.copytree(built, into)
    for file in sorted(into.iterdir()):
        print(f"{file.stat().st_size:>10,} bytes  {file.name}")


def build(folder: Path, seconds: str, **environment: str) -> tuple[Path, Path]:
    """The files of the last commit, and what they give: archives and wheels."""
    source, built = folder / "source", folder / "built"
    built.mkdir(parents=True)
    run("git", "archive", "--output", folder / "source.tar", "HEAD")
    with tarfile.open(folder / "source.tar") as archive:
        archive.extractall(source, filter="data")
    environment |= {"SOURCE_DATE_EPOCH": seconds, "PYTHONPATH": str(ROOT / ".uv")}
    for project in FOLDERS.values():
        for kind in ("sdist", "wheel"):
            command = (sys.executable, "-c", BUILD.format(kind), built)
            run(*command, cwd=source / project, **environment)
    return source, built


def check_contents(name: str, source: Path, built: Path) -> None:
    """Refuse a wheel or an archive that doesn't contain exactly what was committed."""
    wheel = wheel_of(name, built)
    module, version = wheel.name.split("-")[:2]
    package = source / FOLDERS[name] / "src" / module
    files = {str(each.relative_to(package.parent)) for each in package.rglob("*") if each.is_file()}
    files.add(f"{module}/py.typed")
    about = {"METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE"}
    with zipfile.ZipFile(wheel) as zipped:
        names = set(zipped.namelist())
    check_names(wheel, names, files | {f"{module}-{version}.dist-info/{each}" for each in about})
    archive = built / f"{module}-{version}.tar.gz"
    with tarfile.open(archive) as tar:
        names = {each.partition("/")[2] for each in tar.getnames()}
    others = {"LICENSE", "PKG-INFO", "README.md", "pyproject.toml"}
    check_names(archive, names, others | {f"src/{each}" for each in files})


def check_names(archive: Path, names: set[str], wanted: set[str]) -> None:
    """Refuse an archive that has other files."""
    if names != wanted:
        missing, unwanted = sorted(wanted - names), sorted(names - wanted)
        raise ReleaseError(f"{archive.name} lacks {missing} and must not have {unwanted}.")


def install_alone(name: str, lock: Path, built: Path, folder: Path) -> Packages:
    """Install a package with what the lock file has for it, run its commands, and list it all."""
    folder.mkdir()
    environment, wanted = folder / "environment", folder / "wanted.txt"
    with wanted.open("w") as lines:
        for each in [*FOLDERS][: [*FOLDERS].index(name) + 1]:
            extra, wheel = "[audit]" * (name == "barograph-client"), wheel_of(each, built)
            lines.write(f"{each}{extra} @ {wheel.as_uri()} --hash=sha256:{digest(wheel)}\n")
    run(UV, "venv", "--python", sys.executable, environment)
    install = ("pip", "install", "--python", environment, "--require-hashes")
    run(UV, *install, "--constraints", lock, "--requirements", wanted)
    path = f"{environment}/bin:{os.environ['PATH']}"
    for command in TRIALS[name]:
        run("sh", "-c", command, cwd=folder, PATH=path, PYTHONPATH="")
    print(f"{name} runs alone: {', '.join(TRIALS[name])}.", flush=True)
    (installed,) = environment.glob("lib/*/site-packages")
    return {canonicalize_name(each.name): each for each in distributions(path=[str(installed)])}


def locked_hashes(text: str) -> dict[str, list[str]]:
    """The hashes of the files that a lock file installs on this machine, by package and version."""
    found = {}
    for lines in re.findall(r"^\w.*\n(?: +.*\n)*", text, re.MULTILINE):
        package = Requirement(lines.partition("\\")[0])
        if package.marker is None or package.marker.evaluate():
            found[package.name] = re.findall(r"sha256:(\w+)", lines)
    return found


def licence(name: str, package: Distribution) -> str:
    """The licence of a package in SPDX's words, or whatever else its metadata says."""
    fields = package.metadata.json
    classifiers = [each for each in fields.get("classifier", []) if each.startswith("License ::")]
    stated = READ_BY_US.get(name) or fields.get("license_expression") or fields.get("license")
    stated = str(stated or " ".join(classifiers) or "not stated").rpartition(" :: ")[-1]
    return IN_SPDX.get(stated, stated)


def check_licences(licences: Mapping[str, str]) -> None:
    """Refuse a licence that isn't on our list."""
    for name, stated in licences.items():
        if not set(re.split(" AND | OR ", stated)) <= ALLOWED:
            raise ReleaseError(
                f"we don't allow the licence of {name}: {stated.splitlines()[0]}. Read it. "
                "Then add it to ALLOWED or READ_BY_US in tools/release.py, or use another package."
            )


def licence_table(
    packages: Packages, licences: Mapping[str, str], needed: Mapping[str, Packages]
) -> str:
    """What our packages need at run time, with licences."""
    lines = ["# Licences of the dependencies", "", "| package | version | licence | needed by |"]
    lines.append("|---|---|---|---|")
    for name in sorted(packages.keys() - FOLDERS):
        users = ", ".join(ours for ours, group in needed.items() if name in group)
        lines.append(f"| {name} | {packages[name].version} | {licences[name]} | {users} |")
    return "\n".join([*lines, ""])


def bill_of_materials(
    packages: Packages, licences: Mapping[str, str], hashes: Mapping[str, list[str]], at: str
) -> dict[str, Any]:
    """Our packages and all that they need, in CycloneDX 1.6.

    The hashes of a package are those of every file that the lock file accepts for it.
    """
    refs = {name: f"pkg:pypi/{name}@{each.version}" for name, each in sorted(packages.items())}
    components, edges = {}, []
    for name, ref in refs.items():
        kind, version = "application" if name in FOLDERS else "library", packages[name].version
        component = {"type": kind, "bom-ref": ref, "name": name, "version": version, "purl": ref}
        files = [{"alg": "SHA-256", "content": each} for each in sorted(hashes[name])]
        terms = {"licenses": [{"expression": licences[name]}]}
        components[name] = {**component, **terms, "hashes": files}
        needs = {Requirement(each).name for each in packages[name].requires or ()}
        needs = {canonicalize_name(each) for each in needs}
        edges.append({"ref": ref, "dependsOn": sorted(refs[each] for each in needs & refs.keys())})
    about = {"timestamp": at, "component": components.pop("barograph")}
    document = {"bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1, "metadata": about}
    return {**document, "components": [*components.values()], "dependencies": edges}


def wheel_of(name: str, built: Path) -> Path:
    """The wheel of one of our packages."""
    (wheel,) = built.glob(f"{name.replace('-', '_')}-[0-9]*.whl")
    return wheel


def run(*command: str | Path, cwd: Path = ROOT, **environment: str) -> str:
    """What a command prints. If it fails, the error has what it printed."""
    # Settings of the person who makes the release must not lead a trial to a real database.
    env = {name: value for name, value in os.environ.items() if not name.startswith("BAROGRAPH_")}
    env |= environment
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ReleaseError(f"`{' '.join(map(str, command))}` failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def digest(file: Path) -> str:
    """The SHA-256 of a file."""
    return hashlib.sha256(file.read_bytes()).hexdigest()


if __name__ == "__main__":
    with TemporaryDirectory() as temporary:
        try:
            release(Path(temporary), Path(*sys.argv[1:2] or ["dist"]))
        except ReleaseError as problem:
            sys.exit(f"No release: {problem}")
