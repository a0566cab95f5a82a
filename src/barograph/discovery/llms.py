"""`/llms.txt` and `/llms-full.txt`: the interface for language models (pure).

Both are written from the OpenAPI document. `/llms.txt` alone is enough to call every free endpoint.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from barograph import NOTICE
from barograph.alerts.records import MAX_ALERTS
from barograph.discovery.files import GPT_PATH, LLMS_FULL_PATH, OPENAPI_PATH, SKILL_PATH
from barograph.discovery.mcp_description import (
    CARD_PATH,
    CATALOG_PATH,
    MCP_PATH,
    PROTOCOLS,
    TOOL_NAMES,
)
from barograph.discovery.operations import BADGES, DESCRIPTIONS, ENTITLED, MCP, PAID, STREAM, TABLE
from barograph.entitlements.refusals import FEED_PATH, PRICING_PATH
from barograph.events.records import MAX_PER_CALLER
from barograph.kit.lists import MAX_LIMIT
from barograph.kit.request_limits import MAX_BODY_BYTES
from barograph.kit.wire import JSON_TYPE, Schema
from barograph.limits import rate_limits
from barograph.signals.documents import DOCS_PATH, ENDPOINT_DOCS
from barograph.webhooks.records import MAX_WEBHOOKS

_TWINS = {
    "getHistoryEvents": "getHistory",
    "getRevealedStances": "getHistory",
    "getBriefsFeed": "getBriefsAtom",
    "getEventsFeed": "getEventsAtom",
    "rotateWebhookSecret": "deleteWebhook",
    "previewAlert": "createAlert",
    "getAlertMessages": "getAlerts",
    "changeAlert": "deleteAlert",
}
"""Operations that `/llms.txt` names in the line of another, as it does with tables."""

_NOTES = {
    "getDerivatives": "`available` is false for an unknown symbol.",
    "getMarketState": "With a citation to quote.",
    "getCross": "Compare `settledPct8h`; live rates are estimates.",
    "getCarry": "Without fees and prices.",
    "getEvents": "Pass the last `id` that you have seen as `after`.",
    "getStatus": "Always 200; read `status`.",
    "getHistory": "For the next page, pass `next` as `after`.",
    "getRecordBadge": "Continuity is unverified. It is not evidence of live-capital results or of "
    "paid stance outcomes.",
}
"""What a reader of `/llms.txt` must know besides the summary of an operation."""

_COMMON_ERRORS = {"405", "408", "413", "414"}
"""Errors that the beginning of both texts explains for every path."""

_COMMON_TO_FREE = {*_COMMON_ERRORS, "429", "503"}

_ERRORS_IN_SHORT = {"400", "401", "403", "404", "415", "502"}
_NOT_OPENED = {"streamEvents", "getLiquidationFile", "getBrief", "getEvent"}
"""Reads whose example never ends, or may not exist on this instance."""

_EXPLAINED: Mapping[str, list[str]] = {"kind": [], "key": []}
"""Parameters whose values the beginning names."""

_LEFT_OUT = {"style", "cursor", "format", "Idempotency-Key"}
"""Parameters that only the beginning explains."""

_ELSEWHERE = {ENTITLED, PAID, MCP, DESCRIPTIONS}
"""Tags without a section of links to endpoints in `/llms.txt`."""

_READING = (
    "Below each heading: parameters, an example call, errors, and the body of 200, with an example "
    "where it comes first. The members of all objects are at the end; those without a type are "
    "strings. A name alone is described further up. Left out there: `as_of` (time of the data), "
    "`source` and `notice` (pass them on), `count` and `next` of a list. Examples show only the "
    "first entry of each list; lists inside it are empty.\n"
)
_SAID = {"as_of", "source", "notice", "count", "next"}
"""Members of many objects, which `_READING` explains."""

_PAGE = {"as_of", "count", "next"}
"""Members of a list whose `count` is the number of entries on the page."""

_LONG_ENUM = re.compile("one of [^)]{100,}")
MIN_REPEATED = 20
"""Shorter lines are repeated."""

_META = "io.modelcontextprotocol/"


def llms_text(schema: Schema) -> str:
    """The free endpoints as lists of links, in the form of llmstxt.org."""
    base_url = _base_url(schema)
    names = [tag["name"] for tag in schema["tags"] if tag["name"] not in _ELSEWHERE]
    sections = [_links(schema, name) for name in names]
    return "\n".join(
        [_beginning(base_url), *sections, _mcp_link(base_url), _end(base_url, _feeds(schema))]
    )


def llms_full_text(schema: Schema) -> str:
    """Every endpoint with an example of its body, and the members of every object."""
    base_url = _base_url(schema)
    parts = [_beginning(base_url), _READING, _credentials(base_url)]
    examples: dict[str, str] = {}
    for tag in schema["tags"]:
        parts.append(f"## {_heading(tag['name'])}\n\n{tag['description']}\n")
        for path, method, operation in _operations(schema, tag["name"]):
            parts += _entry(path, method, operation, schema, examples)
    parts += ["## Objects", "", *_objects(schema["components"]["schemas"])]
    parts += [_mcp_link(base_url), f"More, for people: {base_url}{DOCS_PATH}\n"]
    return re.sub("\n{3,}", "\n\n", "\n".join(_unrepeated("\n".join(parts).split("\n"))))


def _unrepeated(lines: Iterable[str]) -> Iterator[str]:
    """A member, parameter or list of errors is described once, where it comes first."""
    known: dict[str, str] = {}
    said = set[str]()
    heading = ""
    for whole in lines:
        line = whole.replace("string, one of", "one of")
        line = _LONG_ENUM.sub(lambda found: _once(found[0], said), line)
        heading = line.removeprefix("### ") if line.startswith("### ") else heading
        first = known.setdefault(line, heading)
        if first == heading or len(line) < MIN_REPEATED or not line.startswith(("- `", "- Errors")):
            yield line
        elif line.startswith("- `"):
            yield line.partition(" (")[0].partition(":")[0]
        else:
            yield f"- Errors: as {first}"


def _once(words: str, said: set[str]) -> str:
    if words in said:
        return "one of the values further up"
    said.add(words)
    return words


def _entry(
    path: str, method: str, operation: Schema, schema: Schema, examples: dict[str, str]
) -> list[str]:
    """The lines about an operation; `examples` are the paths with an example of each object."""
    (tag,) = operation["tags"]
    text = f"### {method} {path}\n\n{operation['summary']}. {operation['description']}\n"
    if operation["operationId"].endswith(TABLE):
        return [text, "- As above", ""]
    needs_values = "{" in path or any(
        "example" in parameter for parameter in operation["parameters"]
    )
    example = []
    # Not of comparisons: everyone has references of their own.
    if tag == STREAM or (needs_values and tag != ENTITLED):
        call = f"curl -N {_base_url(schema)}" if tag == STREAM else f"{method} "
        example = [f"- Example: {call}{example_target(path, operation)}"]
    lines = [text, *_inputs(operation), *example, *_errors(operation)]
    status, body = _success(operation)
    if body and tag != DESCRIPTIONS:
        kind = type_of(body["schema"], schema["components"]["schemas"])
        lines.append(f"- Body{'' if status == '200' else f' of {status}'}: {kind}")
        if "example" in body and examples.setdefault(kind, path) == path:
            lines.append(f"\n```json\n{_compact(_cut(body['example']))}\n```")
    return [*lines, ""]


def _base_url(schema: Schema) -> str:
    url: str = schema["servers"][0]["url"]
    return url


def _links(schema: Schema, tag: str) -> str:
    operations = list(_operations(schema, tag))
    entries = [
        _link(path, method, operation, _base_url(schema)) + _twins(operation, operations)
        for path, method, operation in operations
        if operation["operationId"] not in _TWINS
        and not operation["operationId"].endswith(TABLE)
        # Of a badge only the image: the beginning says how to get its JSON version.
        and not (tag == BADGES and operation["operationId"].endswith("Json"))
    ]
    return "\n".join([f"## {_heading(tag)}\n", *entries, ""])


def _heading(tag: str) -> str:
    return "MCP" if tag == MCP else tag.capitalize()


def _feeds(schema: Schema) -> Iterator[str]:
    operations = list(_operations(schema, DESCRIPTIONS))
    for path, method, operation in operations:
        if operation["operationId"].endswith("Atom"):
            yield _link(path, method, operation, _base_url(schema)) + _twins(operation, operations)


def _link(path: str, method: str, operation: Schema, base_url: str) -> str:
    """A link to an example call of an endpoint, or to the description of one that doesn't open."""
    name, is_read = operation["operationId"], method == "GET"
    opens = is_read and not operation["security"] and name not in _NOT_OPENED
    target = example_target(path, operation) if opens else f"{ENDPOINT_DOCS}#{name}"
    parts = [f"{operation['summary'].removesuffix(', as an SVG image')}."]
    parts += [_NOTES[each] for each in (name.removesuffix("Svg"),) if each in _NOTES]
    parts += _short_inputs(operation)
    return f"- [{path if is_read else f'{method} {path}'}]({base_url}{target}): {' '.join(parts)}"


def _short_inputs(operation: Schema) -> Iterator[str]:
    names = [
        f"`{parameter['name']}`{_choices(parameter)}"
        for parameter in operation["parameters"]
        if parameter["in"] != "path" or _choices(parameter)  # the address shows it
    ]
    if names:
        yield f"Parameters: {', '.join(names)}."
    for line in _request_body(operation):
        yield f"{line.removeprefix('- ')}."
    errors = [status for status in operation["responses"] if status in _ERRORS_IN_SHORT]
    if errors:
        yield f"Errors: {', '.join(errors)}."


def _choices(parameter: Schema) -> str:
    """The values of a parameter, as far as they are limited."""
    schema = parameter["schema"]
    words = [str(each) for each in schema.get("enum", ())]
    if parameter["name"] == "measure" and not words:
        words = [parameter["description"].removeprefix("One of ").rstrip(".")]
    words = _EXPLAINED.get(parameter["name"], words)
    if "maximum" in schema:
        words = [f"{schema['minimum']} to {schema['maximum']}"]
    if "default" in schema:
        words.append(f"default {schema['default']}")
    return f" ({', '.join(words)})" if words else ""


def _operations(schema: Schema, tag: str) -> Iterator[tuple[str, str, Schema]]:
    for path, item in schema["paths"].items():
        for method, operation in item.items():
            if operation["tags"] == [tag]:
                yield path, method.upper(), {**operation, "parameters": _parameters(operation)}


def _twins(operation: Schema, operations: Sequence[tuple[str, str, Schema]]) -> str:
    return "".join(
        f" Also `{path}`: {twin['summary']}."
        for path, _, twin in operations
        if twin["operationId"] == f"{operation['operationId']}{TABLE}"
        or _TWINS.get(twin["operationId"]) == operation["operationId"]
    )


def _inputs(operation: Schema) -> list[str]:
    return [
        *(
            f"- `{parameter['name']}` ({_parameter(parameter)}): {parameter['description']}"
            for parameter in operation["parameters"]
        ),
        *_request_body(operation),
    ]


def _parameters(operation: Schema) -> list[Schema]:
    named = [parameter for parameter in operation.get("parameters", ()) if "name" in parameter]
    return [each for each in named if each["name"] not in _LEFT_OUT]


def _request_body(operation: Schema) -> list[str]:
    if "requestBody" not in operation:
        return []
    body = operation["requestBody"]["content"][JSON_TYPE]["example"]
    return [f"- Body, as application/json: `{_compact(body)}`"]


def _parameter(parameter: Schema) -> str:
    schema = parameter["schema"]
    words = [parameter["in"], *["required"] * parameter["required"], type_of(schema, {})]
    rules = {"minimum": "from ", "maximum": "to ", "default": "default "}
    words += [f"{word}{schema[rule]}" for rule, word in rules.items() if rule in schema]
    return ", ".join(words)


def _errors(operation: Schema) -> list[str]:
    is_free = operation["tags"][0] not in {ENTITLED, PAID}
    common = _COMMON_TO_FREE if is_free else _COMMON_ERRORS
    errors = [
        f"{status} {response['description'].rstrip('.')}"
        for status, response in operation["responses"].items()
        if int(status) >= 400 and status not in common  # noqa: PLR2004
    ]
    return [f"- Errors: {'; '.join(errors)}"] if errors else []


def example_target(path: str, operation: Schema) -> str:
    """A path and query that can be called."""
    query: dict[str, Any] = {}
    for parameter in operation.get("parameters", ()):
        schema = parameter.get("schema", {})
        value = parameter.get("example")
        if parameter.get("in") == "path":
            path = path.replace(f"{{{parameter['name']}}}", str(value or schema["enum"][0]))
        elif parameter.get("in") == "query" and value is not None:
            query[parameter["name"]] = value
    return f"{path}?{urlencode(query)}" if query else path


def _success(operation: Schema) -> tuple[str, Schema]:
    """The status of a success, and its JSON body; empty if it has none."""
    status = next(code for code in operation["responses"] if code.startswith("2"))
    body: Schema = operation["responses"][status].get("content", {}).get(JSON_TYPE, {})
    return status, body


def _cut(part: object, shown: int = 1) -> object:
    """An example with only the first entry of each list, and none of the lists in that entry."""
    if isinstance(part, dict):
        cut = {name: _cut(each, shown) for name, each in part.items()}
        return {**cut, "count": min(1, part["count"])} if part.keys() >= _PAGE else cut
    return [_cut(each, 0) for each in part[:shown]] if isinstance(part, list) else part


def _objects(schemas: Schema) -> Iterator[str]:
    """The members of every object, once if two have the same; what has no type is a string."""
    known: dict[str, str] = {}
    for title, schema in schemas.items():
        if "properties" in schema:
            lines = []
            for name in (each for each in schema["properties"] if each not in _SAID):
                member = schema["properties"][name]
                kind, text = type_of(member, schemas), member.get("description", "")
                shown = "" if kind == "string" else f" ({kind})"
                lines.append(f"- `{name}`{shown}{text and f': {text}'}")
            first = known.setdefault("\n".join(lines), title)
            yield from (f"### {title}\n", *(lines if first == title else [f"- As {first}"]), "")


def type_of(schema: Schema, schemas: Schema) -> str:
    """The JSON type, such as `number or null` or `array of string`; of an object its name."""
    name = schema.get("$ref", "").rpartition("/")[2]
    schema = schemas[name] if name else schema
    if "properties" in schema and name:
        return str(name)
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(type_of(each, schemas) for each in schema["anyOf"]))
    if "const" in schema:
        return f"{schema.get('type', 'value')} {json.dumps(schema['const'])}"
    if "enum" in schema:
        return f"{schema['type']}, one of {', '.join(map(str, schema['enum']))}"
    if schema.get("type") == "array":
        return f"array of {type_of(schema['items'], schemas)}"
    return str(schema.get("type", "any"))


def _compact(body: object) -> str:
    return json.dumps(body, ensure_ascii=False, separators=(",", ":"))


def _beginning(base_url: str) -> str:
    return f"""# Barograph

> Crypto market intelligence: perpetual futures, measured, recorded and published. \
Free, no key needed. {NOTICE}

Base address: {base_url}

- Most links are example calls (GET); the others describe a call. Responses are UTF-8 JSON. \
Badges are SVG, with `style=flat` (default) or `flat-square`; `.json` is the Shields version.
- Times are ISO 8601 in UTC, except `nextFundingTime` (Unix milliseconds). Zero is a value; null \
means unknown. Under /api/agent `fundingRatePct` is in percent per 8 hours; under /api/v1 it is \
as stated, per `fundingIntervalHours`. Funding series are per 8 hours, except settled-funding.
- A symbol is a base asset (BTC, 1000PEPE) or a full name (BTCUSDT) of a USDT perpetual, in any \
case; under /api/v1 also bitcoin or PEPE. `kind` is btc-etf-stance, rates-desk or \
funding-regime-stance; /api/v1/signals lists each `key`. Signals return to normal, typical, \
flat or balanced only after 60 minutes; until then the value ends in "not yet back to …".
- Lists under /api/v1 are `{{as_of, venue, source, notice, count, <list>, next}}`. Follow `next` \
unchanged until it is null. `from` and `to` are dates, ISO times or Unix milliseconds; `to` is not \
included. Unknown parameters are an error there; other free endpoints ignore them.
- Pass on the notice, the source and the time. A source that says "simulated" is a demo. \
Non-commercial use of the data is free; attribution is appreciated.

Limits:

- GET /api/v1/signals: {rate_limits.ANONYMOUS.requests:,} requests per hour without a key, \
{rate_limits.PERSONAL.requests:,} with a personal key in `X-API-Key`. In `RateLimit`, \
`r` requests are left; one more is available in `t` seconds.
- Invalid keys: 401, and 429 after {rate_limits.BAD_KEYS.requests:,} per hour.
- POST /api/v1/keys: {rate_limits.REGISTRATIONS.requests:,} requests per hour per caller, \
{rate_limits.MAILBOX.requests:,} e-mails per day per address.
- MCP, per minute and caller: {rate_limits.TOOL_CALLS.requests:,} tool calls, then `isError`; \
{rate_limits.MCP_POSTS.requests:,} requests of at most {MAX_BODY_BYTES // 1024} KiB, then 429. \
`get_signals` also counts as a signals request.
- Uncached reads of records and history: {rate_limits.RENDERS.requests:,} per minute and address; \
each counts once more per 256 KiB. A page of a list has at most {MAX_LIMIT:,} entries.
- Event streams: {MAX_PER_CALLER} open per address. Webhooks: {MAX_WEBHOOKS} per e-mail address, \
{rate_limits.WEBHOOKS.requests:,} new ones per hour. Alerts: {MAX_ALERTS}.
- Other free endpoints: no limit. Follow `Cache-Control`; send the `ETag` in `If-None-Match` to \
get 304.

Errors are `{{"error": "<one sentence>"}}`. A badge shows the error as its text; MCP mostly \
returns JSON-RPC errors. 400, 413, 414: correct the request. 401: invalid key; send none. \
404: it doesn't exist; the sentence says what does. 405: see `Allow`. 429, 503: wait \
`Retry-After` seconds, or 30. 502: no fresh data; retry in a few seconds, and don't \
show older data as current. 500: retry later.
"""


def _credentials(base_url: str) -> str:
    return f"""## Subscriber and paid endpoints

- With Feed, subscriber endpoints are free. Send the token of a user in \
`Authorization: Bearer <token>`, or the x402 v2 proof of a wallet, in base64, in \
`PAYMENT-SIGNATURE`. Such a proof only identifies the wallet and is not charged.
- Only GET {FEED_PATH} sells Feed. A single stance is sold at its own path. Without a proof these \
paths return 402 with the terms. Prices: {base_url}{PRICING_PATH}
- Errors of these endpoints are `{{"error": "<code>", "message": "<one sentence>"}}`; a 402 is the \
x402 v2 object. 400: the key or a parameter is malformed. 401: the token or the proof cannot be \
verified. 402: no Feed; never pay again automatically. 404: x402 is disabled, or there is nothing \
to read or buy. 409: the payment was already used; do not pay again. 429: wait. 503: send the same \
proof again later, unless the message says otherwise.
- With the first paid request, send a random `Idempotency-Key` (16 to 128 letters, digits, `-`, \
`_`) or the x402 extension `payment-identifier`. Without one you cannot see a delivered purchase \
of Feed again. The proof that paid for a stance gets the same version again.
"""


def _mcp_link(base_url: str) -> str:
    meta = f'"_meta":{{"{_META}protocolVersion":"{PROTOCOLS[0]}","{_META}clientCapabilities":{{}}}}'
    return f"""## Model Context Protocol

- [Server card]({base_url}{CARD_PATH}): POST {MCP_PATH} with `Content-Type: \
application/json`. Tools: {", ".join(TOOL_NAMES)}; `tools/list` has their arguments. \
{PROTOCOLS[0]}: header fields `MCP-Protocol-Version: {PROTOCOLS[0]}`, `Mcp-Method: tools/call` \
and `Mcp-Name: {TOOL_NAMES[0]}`; body \
`{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"{TOOL_NAMES[0]}",\
"arguments":{{}},{meta}}}}}`. {", ".join(PROTOCOLS[1:])}: `initialize` first, or `tools/call` \
directly, without those fields and `_meta`. Failed calls have `isError`.
"""


def _end(base_url: str, feeds: Iterable[str]) -> str:
    links = f"""## More

- [OpenAPI 3.1]({base_url}{OPENAPI_PATH}): every endpoint, body and error
- [GPT actions]({base_url}{GPT_PATH}): the free JSON endpoints
- [AI catalog]({base_url}{CATALOG_PATH}): the MCP server
- [For developers]({base_url}{DOCS_PATH}): limits, badges, methods, keys, payment
- [Prices]({base_url}{PRICING_PATH}): what is free and what Feed costs
- [Skill]({base_url}{SKILL_PATH}): for agents that support skills
- [Full text]({base_url}{LLMS_FULL_PATH}): all members and subscriber endpoints
"""
    return links + "".join(f"{feed}\n" for feed in feeds)
