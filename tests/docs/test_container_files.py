"""The Containerfile and compose.yaml keep our rules, and name only what exists."""

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from barograph import __version__
from barograph.settings import Settings
from support.containers import ROOT, read_compose, read_containerfile

STAGES = read_containerfile()
COMPOSE = read_compose()
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
PROFILES = {
    "demo": ["demo"],
    "live": ["live"],
    "cluster": [
        *("web-1", "web-2", "collector", "nginx"),
        *("postgresql", "roles", "upgrade", "grants", "valkey"),
    ],
}
PINNED = re.compile(r"[a-z/-]+:(?!latest)[a-z0-9.-]+")
"""An image with a version, and without the host of a registry."""


def test_stages_come_from_a_base_with_a_version_and_install_wheels_with_hashes() -> None:
    assert PINNED.fullmatch(STAGES[""]["ARG"][0].removeprefix("BASE="))
    sources = [
        stage["FROM"][0].partition(" AS ")[0] for stage in STAGES.values() if "FROM" in stage
    ]
    assert sources == ["${BASE}", "build", "${BASE}", "runtime", "runtime"]
    run = " && ".join(STAGES["build"]["RUN"] + STAGES["build-demo"]["RUN"])
    installs = [command for command in run.split(" && ") if " install " in command]
    for command in installs:
        assert "--no-deps" in command
        assert command.endswith(".whl") or "--require-hashes" in command
    wheels = [command for command in installs if "--only-binary :all:" in command]
    locked = ("requirements.txt", "requirements-demo.txt")
    assert [command.rpartition(" ")[2] for command in wheels] == list(locked)


def test_images_take_the_finished_folder_run_as_a_number_and_state_the_version() -> None:
    runtime = STAGES["runtime"]
    assert runtime["USER"] == ["10001:10001"]
    assert f'image.version="{__version__}"' in runtime["LABEL"][0]
    assert f"'127.0.0.1', {Settings.model_fields['port'].default}," in runtime["HEALTHCHECK"][0]
    assert f"BAROGRAPH_DATA={runtime['VOLUME'][0]}" in runtime["ENV"][0]
    for target, build in (("demo", "build-demo"), ("live", "build")):
        assert STAGES[target].keys() == {"FROM", "COPY", "CMD"}
        assert STAGES[target]["COPY"] == [f"--from={build} /opt/barograph /opt/barograph"]


def test_every_profile_has_its_services_and_files() -> None:
    for profile, names in PROFILES.items():
        assert [name for name, each in SERVICES.items() if each["profiles"] == [profile]] == names
    for service in SERVICES.values():
        for volume in service.get("volumes", []):
            source = volume.partition(":")[0]
            is_known = source in COMPOSE["volumes"] or (ROOT / source).is_file()
            assert is_known or source == "/etc/letsencrypt"
        assert set(service.get("secrets", [])) <= COMPOSE["secrets"].keys()
        for needed in service.get("depends_on", {}):
            assert SERVICES[needed]["profiles"] == service["profiles"]
    hosts = (ROOT / "deploy/containers/nginx-hosts.conf").read_text().splitlines()
    webs = [name for name, each in SERVICES.items() if each.get("command") == ["serve"]]
    assert hosts == [f"server {name}:8080 max_fails=3 fail_timeout=5s;" for name in webs]


@pytest.mark.parametrize("name", SERVICES)
def test_container_has_few_rights_and_a_pinned_image(name: str) -> None:
    service = SERVICES[name]
    assert (service["read_only"], service["cap_drop"]) == (True, ["ALL"])
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert "/tmp" in service["tmpfs"]
    assert PINNED.fullmatch(service["image"])
    if "build" in service:
        suffix = "-demo" if service["build"]["target"] == "demo" else ""
        assert service["image"] == f"barograph{suffix}:{__version__}"
    if name != "nginx":
        assert "cap_add" not in service
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", []))


def settings_of(name: str, folder: Path) -> Settings:
    """The settings of a service, whose files are in a folder."""
    files = [(folder / file).read_text() for file in SERVICES[name]["env_file"]]
    given = dict(re.findall(r"^(BAROGRAPH_\w+)=(.*)$", "\n".join(files), re.MULTILINE))
    return Settings.from_environment({**given, **SERVICES[name]["environment"]})


def test_settings_are_valid_and_the_secrets_of_one_cluster_agree(tmp_path: Path) -> None:
    (tmp_path / "barograph.env").write_text((ROOT / "deploy/barograph.env").read_text())
    script = ROOT / "deploy/containers/secrets.sh"
    subprocess.run([script], cwd=tmp_path, check=True)
    assert subprocess.run([script], cwd=tmp_path, check=False, capture_output=True).returncode != 0
    assert (tmp_path / "secrets").stat().st_mode & 0o077 == 0
    made = {
        name: (tmp_path / each["file"]).read_text() for name, each in COMPOSE["secrets"].items()
    }
    assert settings_of("live", tmp_path).host == "0.0.0.0"

    web, owner = (settings_of(name, tmp_path) for name in ("web-1", "upgrade"))
    passwords = re.findall(r"ALTER ROLE (\w+) PASSWORD '(\w{48})';", made["passwords.sql"])
    for settings, (role, password) in zip((owner, web), passwords, strict=True):
        for url in (settings.database_url, settings.history_url):
            assert f"//{role}:{password}@postgresql/" in url.get_secret_value()
    rule = re.search(r"^user barograph on >(\w{48}) (.*)$", made["valkey.acl"], re.MULTILINE)
    assert rule is not None
    assert web.limits_url.get_secret_value() == f"redis://barograph:{rule[1]}@valkey/0"
    assert f"on >PASSWORD {rule[2]}\n" in (ROOT / "docs/operating.md").read_text()


def test_nginx_container_makes_its_configuration_from_ours(tmp_path: Path) -> None:
    (command,) = SERVICES["nginx"]["command"]
    for theirs, ours in {
        "/barograph.conf >": f"{ROOT}/deploy/nginx.conf >",
        "/etc/nginx/conf.d": str(tmp_path),
        "exec nginx": "echo",
    }.items():
        assert command.count(theirs) == 1
        command = command.replace(theirs, ours)
    run = ["sh", "-ec", command]
    unnamed = subprocess.run(run, env={}, check=False, capture_output=True, text=True)
    assert "write NAME=" in unnamed.stderr
    subprocess.run(run, env={"NAME": "example.org"}, check=True)
    made = (tmp_path / "barograph.conf").read_text()
    assert "server_name example.org;" in made
    assert "barograph.example" not in made
    assert "/var/log" not in made
