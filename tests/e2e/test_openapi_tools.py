"""Linters accept the descriptions, and client generators can use them."""

import importlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from support import go
from support.node import SCRIPTS, installed, run_program
from support.published_server import published_server
from support.service import Answer
from support.subscribers import SubscriberService, parameters_of

pytestmark = [pytest.mark.e2e, pytest.mark.thorough]

TOOLS = SCRIPTS / "openapi"
RULESET = str(TOOLS / "ruleset.yaml")
SILENT = "No results with a severity of 'hint' or higher found!"
MAIL: dict[str, Any] = {"smtp_url": "smtp://127.0.0.1:1", "mail_from": "barograph@example.com"}
FILES = ("image/svg+xml", "application/gzip", "application/atom+xml")
STRICT = ("--noEmit", "--strict", "--skipLibCheck", "--lib", "es2022")
USE = """import type { operations } from "./openapi.js";
type Body = operations["getStatus"]["responses"][200]["content"]["application/json"];
export const condition = (body: Body): "ok" | "degraded" | "down" => body.status;
"""


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SubscriberService]:
    found = SubscriberService(tmp_path_factory.mktemp("service"), **MAIL)
    yield found
    found.close()


@pytest.fixture(scope="module")
def folder(service: SubscriberService, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where both descriptions are."""
    found = tmp_path_factory.mktemp("described")
    for name in ("openapi.json", "openapi-gpt.json"):
        (found / name).write_bytes(service.ask(f"/{name}").body)
    return found


@pytest.fixture(scope="module")
def generated(folder: Path) -> Iterator[str]:
    """The package that openapi-python-client makes of the description, ready to import."""
    config = {
        "post_hooks": [],
        "content_type_overrides": dict.fromkeys(FILES, "application/octet-stream"),
    }
    (folder / "config.json").write_text(json.dumps(config))
    paths = ("--path", "openapi.json", "--config", "config.json", "--output-path", "python")
    command = [sys.executable, "-m", "openapi_python_client", "generate", *paths]
    done = subprocess.run(
        [*command, "--fail-on-warning"], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    sys.path.insert(0, str(folder / "python"))
    yield "barograph_api_client"  # by default, not the name of our own client
    sys.path.remove(str(folder / "python"))


@pytest.mark.parametrize("name", ["openapi.json", "openapi-gpt.json"])
def test_spectral_has_no_error_and_no_warning(folder: Path, name: str) -> None:
    options = ("--ruleset", RULESET, "--fail-severity", "hint")
    done = run_program("spectral", "lint", name, *options, packages=TOOLS, home=folder)

    assert (done.returncode, done.stdout.strip()) == (0, SILENT), done.stdout + done.stderr


@pytest.mark.parametrize(
    ("name", "skipped"),
    # An action gets no error that only a wrong request causes.
    [("openapi.json", ()), ("openapi-gpt.json", ("--skip-rule", "operation-4xx-response"))],
)
def test_redocly_has_no_error_and_no_warning(
    folder: Path, name: str, skipped: tuple[str, ...]
) -> None:
    # Otherwise it would send telemetry and look for a newer version of itself.
    quiet = {"REDOCLY_TELEMETRY": "off", "REDOCLY_SUPPRESS_UPDATE_NOTICE": "true"}
    options = ("--extends", "recommended-strict", "--format", "json", *skipped)
    done = run_program("redocly", "lint", name, *options, packages=TOOLS, home=folder, **quiet)

    assert json.loads(done.stdout)["problems"] == []
    assert done.returncode == 0


def test_openapi_typescript_writes_types_that_compile(folder: Path) -> None:
    written = run_program(
        "openapi-typescript", "openapi.json", "-o", "openapi.ts", packages=TOOLS, home=folder
    )
    (folder / "use.ts").write_text(USE)
    compiled = run_program("tsc", *STRICT, "openapi.ts", "use.ts", packages=TOOLS, home=folder)

    assert written.returncode == 0, written.stderr
    assert (compiled.returncode, compiled.stdout) == (0, "")


def generate(folder: Path, generator: str) -> Path:
    """Run openapi-generator, which names what it can't express only in its log."""
    jar = go.packages() / "openapi_generator_cli/openapi-generator.jar"
    client = folder / f"{generator}-client"
    options = ("-i", "openapi.json", "-g", generator, "-o", str(client))
    command = ["java", "-jar", str(jar), "generate", *options]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "COLLISION" not in done.stdout
    return client


def test_a_generated_go_client_compiles(folder: Path) -> None:
    built = go.build(generate(folder, "go"), "./...")

    assert (built.returncode, built.stderr) == (0, "")


@pytest.mark.parametrize("generator", ["typescript-fetch", "typescript-axios"])
def test_a_generated_typescript_client_compiles(folder: Path, generator: str) -> None:
    client = generate(folder, generator)
    (client / "node_modules").symlink_to(installed(TOOLS) / "node_modules")
    options = ("--noEmit", "--strict", "--skipLibCheck", "--lib", "es2022,dom")
    modules = ("--module", "esnext", "--moduleResolution", "bundler")
    compiled = run_program("tsc", *options, *modules, "index.ts", packages=TOOLS, home=client)

    assert (compiled.returncode, compiled.stdout) == (0, "")


CALLS = """import pkgutil, sys
import openapi_client as client
modules = [name for _, name, _ in pkgutil.walk_packages(client.__path__, "openapi_client.")]
for name in modules:
    __import__(name)
service = client.ApiClient(client.Configuration(host=sys.argv[1]))
listed = client.MarketApi(service).get_perpetuals(limit=2)
table = client.MarketApi(service).get_perpetuals_table()
assert listed.perpetuals[0].next_funding_time > 2**32, listed
assert table.startswith("venue,symbol,"), table
print(client.StatusApi(service).get_status().status)
"""


def test_a_generated_python_client_calls_a_running_service(folder: Path, tmp_path: Path) -> None:
    client = generate(folder, "python")
    with published_server(tmp_path, workers=1) as base_url:
        command = [sys.executable, "-c", CALLS, base_url]
        done = subprocess.run(command, cwd=client, capture_output=True, text=True, check=False)

    assert done.stdout.strip() in {"ok", "degraded"}, done.stderr


def test_a_generated_python_client_reads_real_answers(
    service: SubscriberService, generated: str
) -> None:
    sent = {"body": '{"email":"name@example.com"}', "content_type": "application/json"}
    registered = service.ask("/api/v1/keys", "POST", **sent)
    pair = service.two_versions()
    compared = service.compare(*pair)
    models = importlib.import_module(f"{generated}.models")

    status = _read(generated, "status.get_status", service.ask("/api/status"))
    signals = _read(generated, "signals.get_signals", service.ask("/api/v1/signals"))
    request = models.RegisterKeyKeyRequest("name@example.com")
    key = _read(generated, "keys.register_key", registered, body=request)
    badge = _read(generated, "badges.get_status_badge_svg", service.ask("/badge/status.svg"))
    named = {**parameters_of(*pair), "kind": models.GetMaterialChangeKind(pair[0].kind)}
    change = _read(generated, "entitled.get_material_change", compared, **named)

    assert type(status).__name__ == "ServiceStatus"
    assert (signals.ok, key.ok) == (True, True)
    assert badge.payload.read().startswith(b"<svg")
    assert change.assessment.ready_for_paid_delivery is False


def _read(package: str, name: str, answer: Answer, **arguments: Any) -> Any:
    """What a function of the generated client returns for an answer."""
    reply = httpx.Response(answer.status, headers=answer.headers, content=answer.body)
    transport = httpx.MockTransport(lambda _: reply)
    clients = importlib.import_module(f"{package}.client")
    client = clients.AuthenticatedClient(
        base_url="http://test", token="token", httpx_args={"transport": transport}
    )
    operation = importlib.import_module(f"{package}.api.{name}")
    return operation.sync(client=client, **arguments)
