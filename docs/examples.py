"""Refresh the examples of the interface description from a demo that this script starts.

    python docs/examples.py

Errors that a demo can't produce come from the code that raises them.
"""

import json
import subprocess
import sys
from base64 import b64encode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import httpx2
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from barograph.alerts.endpoints import ALERTS_PATH, EXAMPLE, PAUSE
from barograph.alerts.records import TooManyAlerts
from barograph.discovery.files import FILES
from barograph.discovery.mcp_description import MCP_PATH, PROTOCOLS
from barograph.discovery.mcp_description import OPERATION_ID as CALL_MCP
from barograph.discovery.openapi import BASE_ADDRESS, DEMO_ADDRESS
from barograph.discovery.operations import TEXTS
from barograph.entitlements.refusals import FeedEntryClosed
from barograph.errors import (
    PrivateError,
    RecordUnavailable,
    RequestError,
    TemporarilyUnavailable,
    UpstreamUnavailable,
)
from barograph.events.endpoints import TextRemoved
from barograph.feed.documents import FeedUnavailable
from barograph.history.checkpoint import (
    parse_checkpoint,
    public_bytes,
    sign_checkpoint,
    verifier_of,
)
from barograph.history.endpoints import HistoryUnavailable
from barograph.keys.endpoints import AWAY
from barograph.kit.timestamps import MINUTE, SECOND
from barograph.kit.wire import JSON_TYPE
from barograph.limits.rate_limits import MCP_POSTS, PERSONAL, RENDERS, TooManyRequests, Usage
from barograph.material_change.query import ComparisonUnavailable
from barograph.payments.offers import (
    PaymentPending,
    PaymentUsed,
    TooManyProofs,
)
from barograph.payments.proof import InvalidIdempotencyKey
from barograph.signals.endpoints import KEY_NOT_CHECKED
from barograph.site.site import UNREADABLE
from barograph.stances.documents import StanceNotActive, StanceUnavailable
from barograph.webhooks.records import MAX_WEBHOOKS

FILE = Path(__file__).parents[1] / "src/barograph/discovery/examples.json"
MARKETS = ("getPerpetuals", "getPerpetual", "getCross", "getCarry", "getCrossCoin")
PORT = 8080
BASE_URL = f"http://127.0.0.1:{PORT}"
EMAIL = {"email": "name@example.com"}
CALL: dict[str, Any] = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "tools/call",
    "params": {"name": "get_derivatives", "arguments": {"symbol": "ETH"}},
}
UNKNOWN: dict[str, Any] = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "no/such",
    "params": {
        "_meta": {
            "io.modelcontextprotocol/protocolVersion": PROTOCOLS[0],
            "io.modelcontextprotocol/clientCapabilities": {},
        }
    },
}
SECURITY = "getSecurityContact"
KIND = "funding-regime-stance"
READS = {
    "getBtcEtfStance": "/api/x402/btc-etf-stance",
    "getRatesDesk": "/api/x402/rates-desk",
    "getFundingRegime": "/api/x402/funding-regime",
}
FREE = {
    "getIndex": {"200": "/api/agent"},
    "getDerivatives": {
        "200": "/api/agent/derivatives?symbol=ETH",
        "400": "/api/agent/derivatives?symbol=",
    },
    "getMarket": {"200": "/api/agent/market"},
    "getMarketState": {"200": "/api/agent/market-state"},
    "getBriefs": {"200": "/api/agent/briefs?limit=2"},
    "getGuides": {"200": "/api/agent/guides"},
    "getSignals": {"200": "/api/v1/signals"},
    "getStatus": {"200": "/api/status"},
    "getPerpetuals": {
        "200": "/api/v1/perpetuals?limit=1",
        "400": "/api/v1/perpetuals?limit=0",
        "404": "/api/v1/perpetuals?venue=no-such",
    },
    "getPerpetual": {
        "200": "/api/v1/perpetuals/ETH",
        "400": "/api/v1/perpetuals/ETH?no-such=1",
        "404": "/api/v1/perpetuals/NOSUCH",
    },
    "getVenues": {"200": "/api/v1/venues", "400": "/api/v1/venues?no-such=1"},
    "getAccuracy": {"200": "/api/v1/accuracy", "400": "/api/v1/accuracy?no-such=1"},
    "getCross": {"200": "/api/v1/cross?limit=1", "400": "/api/v1/cross?limit=0"},
    "getListings": {
        "200": "/api/v1/listings?limit=1",
        "400": "/api/v1/listings?limit=0",
        "404": "/api/v1/listings?coin=NOSUCH",
    },
    "getCarry": {
        "200": "/api/v1/carry?limit=1",
        "400": "/api/v1/carry?window=1y",
        "404": "/api/v1/carry?coin=NOSUCH",
    },
    "getCrossCoin": {
        "200": "/api/v1/cross/ETH",
        "400": "/api/v1/cross/ETH?no-such=1",
        "404": "/api/v1/cross/NOSUCH",
    },
    "getMeasureSeries": {
        "200": "/api/v1/series/funding?symbol=BTC&limit=2",
        "400": "/api/v1/series/funding?limit=0",
        "404": "/api/v1/series/no-such",
    },
    "listLiquidations": {
        "200": "/api/v1/liquidations?symbol=BTC&limit=2",
        "400": "/api/v1/liquidations?limit=0",
        "404": "/api/v1/liquidations?symbol=NOSUCH",
    },
    "listLiquidationFiles": {
        "200": "/data/liquidations/bybit/manifest.json",
        "404": "/data/liquidations/no-such/manifest.json",
    },
    "getLiquidationFile": {
        "400": "/data/liquidations/bybit/yesterday.csv.gz",
        "404": "/data/liquidations/no-such/2026-11-14.csv.gz",
    },
    "getBrief": {"400": "/api/v1/briefs/no-such?version=0", "404": "/api/v1/briefs/no-such"},
    "getEvents": {
        "200": "/api/v1/events?after=0&limit=2",
        "400": "/api/v1/events?after=x",
        "404": "/api/v1/events?symbol=NOSUCH",
    },
    "getEvent": {"404": f"/api/v1/events/{'0' * 64}"},
    "streamEvents": {
        "400": "/api/v1/events/stream?after=x",
        "404": "/api/v1/events/stream?symbol=NOSUCH",
    },
    "getIncidents": {
        "200": "/api/v1/incidents?limit=1",
        "400": "/api/v1/incidents?limit=0",
        "404": "/api/v1/incidents?check=no-such",
    },
    "getWebhookKey": {"200": "/api/v1/webhook-key"},
    "getHistoryCheckpoint": {"200": "/api/history/checkpoint"},
    "getHistory": {"200": "/api/history/rates-desk?limit=2", "404": "/api/history/no-such"},
    "getHistoryEvents": {
        "200": "/api/history/rates-desk/events",
        "404": "/api/history/no-such/events",
    },
    "getRevealedStances": {
        "200": "/api/v1/stances/rates-desk?after=1000000",
        "400": "/api/v1/stances/rates-desk?limit=0",
        "404": "/api/v1/stances/no-such",
    },
}
VENUE_LISTS = ("getVenues", "getCross", "getCarry", "getCrossCoin")
LISTS = ("listLiquidationFiles", "getIncidents", *VENUE_LISTS)
"""Bodies whose lists are cut, because no parameter does it."""

RENDERED = (
    *(
        "getMeasureSeries",
        "getListings",
        "listLiquidations",
        "listLiquidationFiles",
        "getLiquidationFile",
    ),
    *("getBrief", "getEvents", "getEvent", "streamEvents", "getIncidents", "getRevealedStances"),
    *("getBriefsAtom", "getBriefsFeed", "getEventsAtom", "getEventsFeed"),
)
"""Reads of recorded data, with the 429 and 503 of renders."""

WEBHOOKS = "/api/v1/webhooks"
HOOK = {"url": "https://example.com/hook", "types": ["regime.changed"]}
MOST_ENTRIES = 2
BADGES = {
    "getRecordBadge": ("record", "?sinceDate=2025-01-31"),
    "getRegimeBadge": ("regime", ""),
    "getFundingBadge": ("funding/BTC", ""),
    "getSignalBadge": ("signal/funding-breadth", ""),
    "getAccuracyBadge": ("accuracy/rates-desk", ""),
    "getStatusBadge": ("status", ""),
}
MISSING_BADGES = {
    "getFundingBadge": "funding/no-such",
    "getSignalBadge": "signal/no-such",
    "getAccuracyBadge": "accuracy/no-such",
}
PARAMETERS = {
    **{f"getFundingBadge{form}": {"symbol": "BTC"} for form in ("Svg", "Json")},
    **{f"getSignalBadge{form}": {"key": "funding-breadth"} for form in ("Svg", "Json")},
    **{f"getAccuracyBadge{form}": {"kind": "rates-desk"} for form in ("Svg", "Json")},
}

Answers = dict[str, dict[str, Any]]


class Demo(NamedTuple):
    """A running demo."""

    client: httpx2.Client
    data: Path

    def run(self, *arguments: str) -> str:
        """Run a command of the operator or the demo."""
        command = [sys.executable, "-m", "barograph", *arguments, "--data", str(self.data)]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    def answer(
        self,
        target: str,
        status: str,
        method: str = "GET",
        *,
        body: object = None,
        query: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Any:  # noqa: ANN401
        """The body of a response, which must have this status."""
        answered = self.client.request(method, target, json=body, params=query, headers=headers)
        assert answered.status_code == int(status), (target, answered.status_code, answered.text)
        text = answered.text
        if "csv" in answered.headers["content-type"]:
            return "".join(text.splitlines(keepends=True)[:4])
        return text if "json" not in answered.headers["content-type"] else json.loads(text)


@contextmanager
def started(folder: Path) -> Iterator[Demo]:
    """Start a demo, wait until it is ready, and stop it afterwards."""
    command = [sys.executable, "-m", "barograph", "demo", "--port", str(PORT)]
    arguments = [*command, "--data", str(folder)]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            if not any("Ctrl-C stops" in line for line in process.stdout):
                raise SystemExit("the demo did not start; check whether its port is in use")
            with httpx2.Client(base_url=BASE_URL, timeout=30, trust_env=False) as client:
                yield Demo(client, folder)
        finally:
            process.terminate()


def free_answers(demo: Demo) -> Answers:
    """Responses of the free endpoints."""
    answers: Answers = {
        name: {status: demo.answer(target, status) for status, target in targets.items()}
        for name, targets in FREE.items()
    }
    briefs = answers["getBriefs"]["200"]
    briefs["briefs"] = _without_wraps(briefs["briefs"])[:2]
    briefs["count"] = len(briefs["briefs"])
    slug = briefs["briefs"][0]["url"].rpartition("/")[2]
    answers["getBrief"]["200"] = demo.answer(f"/api/v1/briefs/{slug}", "200")
    for name in LISTS:
        body = answers[name]["200"] = _with_short_lists(answers[name]["200"])
        body |= {"count": min(body["count"], MOST_ENTRIES)} if "count" in body else {}
    (event, *_) = answers["getEvents"]["200"]["events"]
    data = json.dumps(event, ensure_ascii=False, separators=(",", ":"))
    answers["streamEvents"]["200"] = f"id: {event['id']}\nevent: {event['type']}\ndata: {data}\n\n"
    answers["getEvent"] |= {"200": event, "410": {"error": TextRemoved("court order").message}}
    answers["getLiquidationFile"]["200"] = "The table, compressed by gzip."
    (*_, newest) = answers["getAccuracy"]["200"]["kinds"]  # the kind with the most cases
    newest["measured"] = sorted(newest["measured"], key=lambda row: row["comparison"] is None)[:1]
    answers["getAccuracy"]["200"]["kinds"] = [newest]
    _rename_log(answers["getHistoryCheckpoint"]["200"])
    for name, (path, query) in BADGES.items():
        for form in ("svg", "json"):
            shown = {"200": demo.answer(f"/badge/{path}.{form}{query}", "200")}
            if name in MISSING_BADGES:
                shown["404"] = demo.answer(f"/badge/{MISSING_BADGES[name]}.{form}", "404")
            answers[name + form.capitalize()] = shown
    answers["registerKey"] = {
        "202": demo.answer("/api/v1/keys", "202", "POST", body=EMAIL),
        "400": demo.answer("/api/v1/keys", "400", "POST", body={}),
    }
    answers["getSignals"]["401"] = demo.answer(
        "/api/v1/signals", "401", headers={"X-API-Key": "unknown"}
    )
    return answers


def file_answers(demo: Demo) -> Answers:
    """The beginnings of the descriptions, which would otherwise contain themselves."""
    answers: Answers = {}
    for file in FILES:
        text = demo.client.get(file.path).raise_for_status().text
        body = json.loads(text) if "json" in file.media_type else text.partition("\n## ")[0]
        answers[file.operation_id] = {"200": _shortened(body)}
    answers[SECURITY]["404"] = {"error": "not found"}  # where there is no contact
    return answers


def mcp_answers(demo: Demo) -> Answers:
    """Responses of `/api/mcp`."""
    usual = {"Content-Type": JSON_TYPE, "Accept": JSON_TYPE}
    asked: dict[str, tuple[bytes, dict[str, str]]] = {
        "200": (json.dumps(CALL).encode(), {}),
        "400": (b"{", {}),
        "404": (
            json.dumps(UNKNOWN).encode(),
            {"MCP-Protocol-Version": PROTOCOLS[0], "Mcp-Method": UNKNOWN["method"]},
        ),
        "406": (b"", {"Accept": "text/html"}),
        "413": (b" " * 20_000, {}),
        "415": (b"", {"Content-Type": "text/plain"}),
        "421": (b"", {"Host": "elsewhere.example"}),
    }
    answers: dict[str, Any] = {"500": {"error": "internal error"}}
    spent_posts = TooManyRequests(Usage(MCP_POSTS, False, 0, MINUTE))
    answers["429"] = {"error": spent_posts.message}
    for status, (body, fields) in asked.items():
        answered = demo.client.post(MCP_PATH, content=body, headers={**usual, **fields})
        assert answered.status_code == int(status), (status, answered.text)
        answers[status] = answered.json()
    return {CALL_MCP: answers}


SECRET = "whsec_bm90IGEgcmVhbCBzZWNyZXQgb2YgYSB3ZWJob29r"


def alert_answers(demo: Demo) -> Answers:
    """Responses about alerts, of another key than that of the webhooks."""
    key = {"X-API-Key": demo.run("keys", "create", "--email", "trader@example.com")}
    new = demo.answer(ALERTS_PATH, "201", "POST", body=EXAMPLE, headers=key)
    own, unknown = (f"{ALERTS_PATH}/{each}" for each in (new["id"], "al_0123456789abcdef"))
    refused = {"401": demo.answer(ALERTS_PATH, "401")}
    wrong = {**refused, "400": demo.answer(ALERTS_PATH, "400", "POST", body={}, headers=key)}
    missing = {**refused, "404": demo.answer(unknown, "404", "PATCH", body=PAUSE, headers=key)}
    previewed = demo.answer(f"{ALERTS_PATH}/preview", "200", "POST", body=EXAMPLE, headers=key)
    fired = {"at": new["created_at"], "symbol": "BTC", "venue": "all", "value": 0.0612}
    text = "The mean BTC funding of all exchanges is above 0.0500 % per 8 h: 0.0612 % per 8 h"
    fired |= {"text": text, "id": 1, "alert": new["id"], "url": f"{BASE_URL}/markets/BTC"}
    return {
        "createAlert": {**wrong, "201": new, "409": _said(TooManyAlerts())},
        "previewAlert": {**wrong, "200": {**previewed, "times": previewed["times"][:1]}},
        "getAlerts": {**refused, "200": {"alerts": [new]}},
        "getAlertMessages": {**refused, "200": {"messages": [fired]}},
        "changeAlert": {
            **wrong,
            **missing,
            "400": demo.answer(own, "400", "PATCH", body={}, headers=key),
            "200": demo.answer(own, "200", "PATCH", body=PAUSE, headers=key),
        },
        "deleteAlert": missing,
    }


def webhook_answers(demo: Demo) -> Answers:
    """Responses for the owner of a personal key."""
    key = {"X-API-Key": demo.run("keys", "create", "--email", "owner@example.com")}
    new = demo.answer(WEBHOOKS, "201", "POST", body=HOOK, headers=key)
    own = f"{WEBHOOKS}/{new['id']}"
    unknown = f"{WEBHOOKS}/wh_0123456789abcdef"
    refused = {"401": demo.answer(WEBHOOKS, "401")}
    missing = {**refused, "404": demo.answer(f"{unknown}/deliveries", "404", headers=key)}
    answers: Answers = {
        "createWebhook": {
            **refused,
            "201": {**new, "secret": SECRET},
            "400": demo.answer(WEBHOOKS, "400", "POST", body={}, headers=key),
        },
        "getWebhooks": {**refused, "200": demo.answer(WEBHOOKS, "200", headers=key)},
        "getWebhookDeliveries": {
            **missing,
            "200": _with_short_lists(demo.answer(f"{own}/deliveries", "200", headers=key)),
        },
        "rotateWebhookSecret": {**missing, "200": {"secret": SECRET}},
        "deleteWebhook": missing,
    }
    for _ in range(MAX_WEBHOOKS - 1):
        demo.answer(WEBHOOKS, "201", "POST", body=HOOK, headers=key)
    answers["createWebhook"]["409"] = demo.answer(WEBHOOKS, "409", "POST", body=HOOK, headers=key)
    return answers


def spent(demo: Demo) -> Answers:
    """Responses when a rate limit is reached."""
    while demo.client.get("/api/v1/signals").is_success:
        pass
    while demo.client.post("/api/v1/keys", json=EMAIL).is_success:
        pass
    return {
        "getSignals": {"429": demo.answer("/api/v1/signals", "429")},
        "registerKey": {"429": demo.answer("/api/v1/keys", "429", "POST", body=EMAIL)},
    }


def entitled_answers(demo: Demo) -> tuple[Answers, dict[str, Any]]:
    """Responses for subscribers and payers, and the parameters of a comparison."""
    feed = {"Authorization": f"Bearer {demo.run('demo', 'token', '--tier', 'feed')}"}
    paths = {**READS, "getFeedNow": "/api/feed/now"}
    answers: Answers = {name: _refused(demo, path) for name, path in paths.items()}
    for name, path in paths.items():
        answers[name]["200"] = demo.answer(path, "200", headers=feed)
    now = answers["getFeedNow"]["200"]
    now["briefs"] = _without_wraps(now["briefs"])[:2]  # as if there were only two

    for name in READS:
        evidence = answers[name]["200"]["leg"]["evidence"]
        evidence["inputs"] = _with_short_lists(evidence["inputs"])
    before = answers["getFundingRegime"]["200"]
    why = ("--why", "A test of the comparison.")
    demo.run("stances", "revise", KIND, "--decision", "stand-aside", *why)
    after = demo.answer(READS["getFundingRegime"], "200", headers=feed)
    pair = {"kind": KIND, **_reference("before", before), **_reference("after", after)}
    path, wrong = "/api/agents/material-change", {**pair, "before_digest": "0" * 64}
    answers["getMaterialChange"] = _refused(demo, path) | {
        "200": demo.answer(path, "200", query=pair, headers=feed),
        "400": demo.answer(path, "400", headers=feed),
        "404": demo.answer(path, "404", query=wrong, headers=feed),
    }

    proof = {"PAYMENT-SIGNATURE": demo.run("demo", "proof", "--wallet", "none", "--for", "feed")}
    answers["buyFeed"] = {
        "200": demo.answer("/api/x402/feed", "200", headers=proof),
        **_turned_away(demo, "/api/x402/feed"),
    }
    return answers, pair


def simulated_errors() -> Answers:
    """Errors that a demo can't produce."""
    upstream, history = _said(UpstreamUnavailable()), _said(HistoryUnavailable())
    closed, many = _said(FeedEntryClosed()), _said(TooManyProofs(17))
    key = _said(InvalidIdempotencyKey())
    used = {"400": key, "409": _said(PaymentUsed()), "429": many}
    spent = Usage(RENDERS, accepted=False, remaining=0, resets_in=17 * SECOND)
    unreadable = {"429": _said(TooManyRequests(spent)), "503": {"error": UNREADABLE}}
    reads = {"404": _said(StanceNotActive()), **used, "503": _said(StanceUnavailable())}
    away = {"503": _said(TemporarilyUnavailable())}
    busy = {"429": _said(TooManyRequests(Usage(PERSONAL, False, 0, 17 * SECOND))), **away}
    return {
        **{name: {"502": upstream} for name in ("getDerivatives", "getMarket", "getMarketState")},
        **{name: {"429": unreadable["429"], "503": history} for name in FREE if "History" in name},
        **dict.fromkeys(READS, reads),
        **{name: {"502": upstream} for name in MARKETS},
        **{name: {"429": unreadable["429"], **away} for name in RENDERED},
        **dict.fromkeys((name for name in TEXTS if "Alert" in name), busy),
        **dict.fromkeys(("createWebhook", "getWebhooks"), busy),
        **dict.fromkeys(("getWebhookDeliveries", "rotateWebhookSecret", "deleteWebhook"), busy),
        "getBriefs": {"500": _said(RecordUnavailable())},
        "getGuides": {"500": {"error": "internal error"}},
        "getSignals": {"503": {"error": KEY_NOT_CHECKED}},
        "registerKey": {"503": {"error": AWAY}},
        "getFeedNow": {"404": closed, "503": _said(FeedUnavailable())},
        "getMaterialChange": {"503": _said(ComparisonUnavailable())},
        "buyFeed": {"404": closed, **used, "503": _said(PaymentPending())},
    }


def _rename_log(published: dict[str, Any]) -> None:
    """Name the log after no instance, with a key that nobody keeps: a name is part of the note."""
    key = Ed25519PrivateKey.generate()
    published["public_key"] = b64encode(public_bytes(key)).decode()
    signed = parse_checkpoint(published["checkpoint"].partition("\n\n")[0])
    _, _, path = signed.origin.partition("/")
    renamed = signed._replace(origin=f"{DEMO_ADDRESS.partition('//')[2]}/{path}")
    published["checkpoint"] = sign_checkpoint(renamed, key)
    published["verifier"] = verifier_of(key, renamed.origin).text


def _without_wraps(briefs: list[Any]) -> list[Any]:
    """The briefs without those about a whole day, which are long."""
    return [each for each in briefs if "/daily-wrap-" not in each["url"]]


def _with_short_lists(part: Any) -> Any:  # noqa: ANN401
    if isinstance(part, dict):
        if "content_html" in part:  # only the text, without its table
            part = {**part, "content_html": part["content_html"].partition("<h2>")[0]}
        return {name: _with_short_lists(each) for name, each in part.items()}
    if isinstance(part, list):
        return [_with_short_lists(each) for each in part[:MOST_ENTRIES]]
    return part


def _shortened(body: Any) -> Any:  # noqa: ANN401
    """The body without its long parts."""
    if isinstance(body, str):
        # Of an Atom feed only the first entry.
        entries = body.split("</entry>")
        return body if len(entries) == 1 else f"{entries[0]}</entry>{entries[-1]}"
    if "openapi" not in body:
        return _with_short_lists(body) if body.keys() & {"items", "offers"} else body
    kept = ("openapi", "info", "servers")
    return {**{name: body[name] for name in kept}, "tags": [], "paths": {}, "components": {}}


def _refused(demo: Demo, path: str) -> dict[str, Any]:
    forged = {"Authorization": "Bearer nobodys"}
    return {"401": demo.answer(path, "401", headers=forged), **_turned_away(demo, path)}


def _turned_away(demo: Demo, path: str) -> dict[str, Any]:
    asked_for = demo.answer(path, "402")
    asked_for["extensions"] = {}  # metadata for catalogs, longer than all the rest
    return {"402": asked_for, "405": demo.answer(path, "405", "POST")}


def _reference(side: str, stance: dict[str, Any]) -> dict[str, Any]:
    return {
        f"{side}_leg": stance["leg_id"],
        f"{side}_revision": stance["revision"],
        f"{side}_digest": stance["history_digest"],
    }


def _said(error: RequestError) -> dict[str, str]:
    if isinstance(error, PrivateError):
        return {"error": error.code, "message": error.message}
    return {"error": error.message}


def main() -> None:
    """Write the file."""
    with TemporaryDirectory() as folder, started(Path(folder) / "demo") as demo:
        answers = free_answers(demo) | file_answers(demo) | mcp_answers(demo)
        answers |= webhook_answers(demo) | alert_answers(demo)
        entitled, pair = entitled_answers(demo)
        for found in (entitled, spent(demo), simulated_errors()):
            for name, bodies in found.items():
                answers[name] = {**answers.get(name, {}), **bodies}
    examples = {
        "answers": {name: dict(sorted(bodies.items())) for name, bodies in answers.items()},
        "parameters": {"getMaterialChange": pair, **PARAMETERS},
        "requests": {"registerKey": EMAIL, CALL_MCP: CALL},
    }
    text = json.dumps(examples, ensure_ascii=False, indent=1).replace(BASE_URL, BASE_ADDRESS)
    FILE.write_text(text + "\n", "utf-8")


if __name__ == "__main__":
    main()
