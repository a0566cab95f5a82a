"""`/llms.txt` and `/llms-full.txt`: the interface in words, made from its description (pure).

A program that is given only this text can call everything that is free.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from barograph import NOTICE
from barograph.discovery.files import (
    CATALOG_PATH,
    GPT_PATH,
    LLMS_FULL_PATH,
    MCP_PATH,
    OPENAPI_PATH,
    SKILL_PATH,
)
from barograph.discovery.mcp_description import PROTOCOLS, TOOL_NAMES
from barograph.discovery.operation_text import body_words, operation_words, short_words
from barograph.discovery.operations import BADGES, DATA, HISTORY, KEYS, NOT_IN_SHORT
from barograph.entitlements.refusals import FEED_PATH, PRICING_PATH
from barograph.kit.request_limits import MAX_BODY_BYTES
from barograph.limits.rate_limits import (
    ANONYMOUS,
    BAD_KEYS,
    MAILBOX,
    MCP_POSTS,
    PERSONAL,
    REGISTRATIONS,
    RENDERS,
    TOOL_CALLS,
)
from barograph.signals.documents import DOCS_PATH

Schema = dict[str, Any]

_SECTIONS = ("market", DATA, "signals", KEYS, "status", "briefs", "guides", "discovery", BADGES)
_CHECKING = (HISTORY,)
"""Of the short text: what most come for first, and what they check it with last."""

_TWINS = {
    "getSeriesTable": "getSeries",
    "getLiquidationsTable": "getLiquidations",
    "getHistoryEvents": "getHistory",
    "getHistoryEventsProof": "getHistoryProof",
}
"""What is called and answered as another, by the name of that other; and see `_is_picture`."""


def llms_text(schema: Schema) -> str:
    """What is free, in short."""
    base_url = schema["servers"][0]["url"]
    return "\n".join(
        [
            _beginning(base_url),
            *(_section(schema, tag) for tag in _SECTIONS),
            _protocol(base_url),
            *(_section(schema, tag) for tag in _CHECKING),
            _end(base_url),
        ]
    )


def llms_full_text(schema: Schema) -> str:
    """Everything, with the members of each body and an example of it."""
    base_url, schemas = schema["servers"][0]["url"], schema["components"]["schemas"]
    parts = [_beginning(base_url), _credentials(base_url)]
    for tag in schema["tags"]:
        parts.append(_heading(tag))
        for path, method, operation in _operations(schema, tag["name"]):
            parts.append(operation_words(path, method, operation, base_url))
            parts.append(body_words(operation, schemas))
    return "\n".join([*parts, _protocol(base_url), _end(base_url)])


def _section(schema: Schema, name: str) -> str:
    base_url = schema["servers"][0]["url"]
    found = list(_operations(schema, name))
    tag = next(each for each in schema["tags"] if each["name"] == name)
    entries = [
        short_words(path, method, _in_short(operation), base_url, _twins(operation, found))
        for path, method, operation in found
        if operation["operationId"] not in _TWINS and _is_picture(operation)
    ]
    title = f"## {name.capitalize()}\n"
    return "\n".join([title, *entries] if len(entries) == 1 else [_heading(tag), *entries])


def _heading(tag: Schema) -> str:
    return f"## {tag['name'].capitalize()}\n\n{tag['description']}\n"


def _operations(schema: Schema, tag: str) -> Iterator[tuple[str, str, Schema]]:
    for path, item in schema["paths"].items():
        for method, operation in item.items():
            if operation["tags"] == [tag]:
                yield path, method.upper(), operation


def _twins(operation: Schema, found: Sequence[tuple[str, str, Schema]]) -> list[str]:
    return [
        f"- Also: {method} {path}: {twin['summary']}"
        for path, method, twin in found
        if _TWINS.get(twin["operationId"]) == operation["operationId"]
    ]


def _is_picture(operation: Schema) -> bool:
    """Whether it is told by itself: of a badge the picture alone, which names its twin."""
    return operation["tags"] != [BADGES] or not operation["operationId"].endswith("Json")


def _in_short(operation: Schema) -> Schema:
    """An operation without what is told once for all of them."""
    parameters = operation.get("parameters", ())
    kept = [each for each in parameters if each.get("name") != "style"]
    text = operation["description"]
    for sentence in NOT_IN_SHORT:
        text = text.replace(sentence, "").strip()
    return {**operation, "parameters": kept, "description": text}


def _beginning(base_url: str) -> str:
    return f"""# Barograph

> Crypto market intelligence: perpetual-futures data that is measured, recorded and published, \
free and without a key. {NOTICE}

Base address: {base_url}

- Answers are JSON in UTF-8, `.csv` is a table; a badge is an SVG, with `style=flat` (default) \
or `flat-square`.
- Timestamps are ISO 8601 in UTC with milliseconds, except `nextFundingTime`: \
milliseconds since the Unix epoch.
- Zero is a value; null means not known. Series of funding are scaled to 8 hours.
- A symbol is a base asset (BTC, 1000PEPE) or a full name (BTCUSDT) of a USDT perpetual.
- Free reads ignore unknown parameters; one that is known is given once.
- Pass on the notice, the source and the time where there is one. A source that says \
"simulated" is a demo. The data is free for non-commercial use; attribution is appreciated.

## Limits

- GET /api/v1/signals: {ANONYMOUS.requests:,} requests an hour without a key, \
{PERSONAL.requests:,} with a personal key in `X-API-Key`. In `RateLimit`, \
`r` requests are left, one more in `t` seconds.
- A key that is not valid: 401, and 429 after {BAD_KEYS.requests:,} in an hour.
- POST /api/v1/keys: {REGISTRATIONS.requests:,} requests an hour from one caller, \
{MAILBOX.requests:,} mails a day to one mailbox.
- MCP, per minute and caller: {TOOL_CALLS.requests:,} tool calls, then `isError`; \
{MCP_POSTS.requests:,} requests of at most {MAX_BODY_BYTES // 1024} KiB, then 429. \
`get_signals` also counts against the signals limit.
- Proofs, uncached `/data/`: {RENDERS.requests:,} per minute.
- Other free reads: no limit. Follow `Cache-Control`; send the `ETag` in `If-None-Match` and \
get 304 while it holds.

## Errors

The body is `{{"error": "<one sentence>"}}`. A badge shows its error; MCP mostly sends a JSON-RPC \
error. 400, 413, 414: correct the request. 401: invalid key; send none. 404: not found. \
405: see `Allow`. 429, 503: wait `Retry-After` seconds, or 30 without it. 502: no fresh data; \
retry in seconds, and don't show older data as current. 500: retry later.
"""


def _credentials(base_url: str) -> str:
    return f"""## Who may read what is not free

- With Feed, entitled paths are free of charge: send `Authorization: Bearer <token>` of a user, or \
an x402 v2 proof of a wallet, in base64, in `PAYMENT-SIGNATURE`, which is looked at and not charged.
- Feed is bought with such a proof at GET {FEED_PATH} and nowhere else; a single stance at its own \
path. Without one the 402 there has the terms. What it costs: {base_url}{PRICING_PATH}
- Errors of these paths are `{{"error": "<code>", "message": "<one sentence>"}}`; a 402 is the \
x402 v2 object. 400: the key or a parameter is malformed. 401: the token or the proof cannot be \
verified. 402: no Feed; never pay again by yourself. 404: x402 is disabled, not found, or \
not for sale. 409: the payment was used; never pay again. 429: wait. 503: repeat later with the \
same proof, unless the message says not to send it again.
- To be able to repeat a paid request, send a random `Idempotency-Key` (16 to 128 letters, digits, \
`-`, `_`) with the first one, or the x402 extension `payment-identifier`. Without a key a response \
that was delivered cannot be read again.
"""


def _protocol(base_url: str) -> str:
    meta = f'"_meta":{{"{_META}protocolVersion":"{PROTOCOLS[0]}","{_META}clientCapabilities":{{}}}}'
    return f"""## Model Context Protocol

POST {base_url}{MCP_PATH} with `Content-Type: application/json`; no session. Tools: \
{", ".join(TOOL_NAMES)}. `get_derivatives` takes `symbol`, `get_briefs` takes `limit`, and no \
tool takes anything else.

- {PROTOCOLS[0]}: header fields `MCP-Protocol-Version: {PROTOCOLS[0]}`, `Mcp-Method: tools/call` \
and `Mcp-Name: {TOOL_NAMES[0]}`; body \
`{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"{TOOL_NAMES[0]}",\
"arguments":{{}},{meta}}}}}`
- {", ".join(PROTOCOLS[1:])}: `initialize` first, or `tools/call` at once, without those fields \
and `_meta`
- A failed call is a result with `isError` that says why.
"""


def _end(base_url: str) -> str:
    return f"""## More

- [OpenAPI 3.1]({base_url}{OPENAPI_PATH}): every endpoint, body and error
- [GPT actions]({base_url}{GPT_PATH}): what the tools of MCP read
- [AI catalog]({base_url}{CATALOG_PATH}): how programs find the MCP server
- [For developers]({base_url}{DOCS_PATH}): limits, badges, methods, keys, Feed and paying
- [Prices]({base_url}{PRICING_PATH}): what is free and what Feed costs
- [A skill]({base_url}{SKILL_PATH}): for agents that take skills
- [Everything in one text]({base_url}{LLMS_FULL_PATH}): members, examples, and what subscribers read
"""


_META = "io.modelcontextprotocol/"
