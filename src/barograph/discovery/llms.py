"""`/llms.txt` and `/llms-full.txt`: the interface for language models (pure).

Both are written from the OpenAPI document. `/llms.txt` alone is enough to call every free endpoint.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from barograph import NOTICE
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
from barograph.signals.documents import DOCS_PATH
from barograph.webhooks.records import MAX_WEBHOOKS

_TWINS = {
    "getHistoryEvents": "getHistory",
    "getRevealedStances": "getHistory",
    "getBriefsFeed": "getBriefsAtom",
    "getEventsFeed": "getEventsAtom",
    "rotateWebhookSecret": "deleteWebhook",
}
"""Operations that `/llms.txt` names in the line of another, as it does with tables."""

_NOTES = {
    "getDerivatives": "`available` is false for an unknown symbol.",
    "getMarketState": "With a citation to quote.",
    "getCross": "A total is null while a venue is missing.",
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

_LEFT_OUT = {"style", "cursor"}
"""Parameters that only the beginning explains."""

_ELSEWHERE = {ENTITLED, PAID, MCP, DESCRIPTIONS}
"""Tags without a section of links to endpoints in `/llms.txt`."""

_READING = (
    "Below each heading: parameters, an example call, errors, and the members of the body of 200. "
    "Indented members belong to the object above; without a type they are strings. ″ repeats "
    "the last description above of the same name, and (″) its type too. Examples show only the "
    "first entry of each list.\n"
)
_PAGE = {"as_of", "count", "next"}
"""Members of a list whose `count` is the number of entries on the page."""

_WORTH = 100
"""The length from which repeated lines become a reference."""

_DITTO = "″"
_DESCRIBED = re.compile(
    r"^(?P<head> *- `(?P<name>[^`\n]+)`)(?: \((?P<kind>.+?)\))?(?:: (?P<text>.+))?$", re.MULTILINE
)
"""A line about a parameter or a member."""

_LONG = 12
"""The length from which a repeated description becomes a ditto mark."""

_META = "io.modelcontextprotocol/"

Places = Mapping[str, str]
"""Where the members of each object are listed, by schema."""


def llms_text(schema: Schema) -> str:
    """The free endpoints as lists of links, in the form of llmstxt.org."""
    base_url = _base_url(schema)
    names = [tag["name"] for tag in schema["tags"] if tag["name"] not in _ELSEWHERE]
    sections = [_links(schema, name) for name in names]
    return "\n".join(
        [_beginning(base_url), *sections, _mcp_link(base_url), _end(base_url, _feeds(schema))]
    )


def llms_full_text(schema: Schema) -> str:
    """Every endpoint, with the members and an example of its body."""
    base_url, schemas = _base_url(schema), schema["components"]["schemas"]
    parts = [_beginning(base_url), _READING, _credentials(base_url)]
    shown: dict[str, str] = {}
    places = _places(schema)
    for tag in schema["tags"]:
        parts.append(f"## {_heading(tag['name'])}\n\n{tag['description']}\n")
        for path, method, operation in _operations(schema, tag["name"]):
            call = f"curl -N {base_url}" if tag["name"] == STREAM else f"{method} "
            needs_values = "{" in path or any("example" in each for each in operation["parameters"])
            # Not of comparisons: everyone has references of their own.
            has_example = tag["name"] == STREAM or (needs_values and tag["name"] != ENTITLED)
            example = [f"- Example: {call}{example_target(path, operation)}"] if has_example else []
            text = f"### {method} {path}\n\n{operation['summary']}. {operation['description']}\n"
            if operation["operationId"].endswith(TABLE):
                parts += [text, "- As above", ""]
                continue
            inputs = _once("Parameters", _inputs(operation), path, shown)
            errors = _once("Errors", _errors(operation), path, shown)
            parts += [text, *inputs, *example, *errors, ""]
            parts.append(_body(path, operation, schemas, places))
    parts += [_mcp_link(base_url), f"More, for people: {base_url}{DOCS_PATH}\n"]
    return re.sub("\n{3,}", "\n\n", _without_repeats("\n".join(parts)))


def _once(what: str, lines: list[str], path: str, shown: dict[str, str]) -> list[str]:
    """Lines about an operation, or the path that has the same ones."""
    text = "\n".join(lines)
    place = shown.setdefault(text, path) if len(text) >= _WORTH else path
    return lines if place == path else [f"- {what}: as {place}"]


def _without_repeats(text: str) -> str:
    """The text with a ditto mark where a name has the same description as last time."""
    last: dict[str, tuple[str, str]] = {}

    def write(found: re.Match[str]) -> str:
        kind, said = found["kind"] or "string", found["text"] or ""
        before, last[found["name"]] = last.get(found["name"], ("", "")), (kind, said)
        if before == (kind, said) and len(kind + said) >= _LONG:
            return f"{found['head']} ({_DITTO})"
        if before[1] == said and len(said) >= _LONG:
            return f"{found[0].removesuffix(f': {said}')} {_DITTO}"
        return found[0]

    return _DESCRIBED.sub(write, text)


def _base_url(schema: Schema) -> str:
    url: str = schema["servers"][0]["url"]
    return url


def _links(schema: Schema, tag: str) -> str:
    found = list(_operations(schema, tag))
    entries = [
        _link(path, method, operation, _base_url(schema)) + _twins(operation, found)
        for path, method, operation in found
        if operation["operationId"] not in _TWINS
        and not operation["operationId"].endswith(TABLE)
        # Of a badge only the image: the beginning says how to get its JSON version.
        and not (tag == BADGES and operation["operationId"].endswith("Json"))
    ]
    return "\n".join([f"## {_heading(tag)}\n", *entries, ""])


def _heading(tag: str) -> str:
    return "MCP" if tag == MCP else tag.capitalize()


def _feeds(schema: Schema) -> Iterator[str]:
    found = list(_operations(schema, DESCRIPTIONS))
    for path, method, operation in found:
        if operation["operationId"].endswith("Atom"):
            yield _link(path, method, operation, _base_url(schema)) + _twins(operation, found)


def _link(path: str, method: str, operation: Schema, base_url: str) -> str:
    """A link to an example call of an endpoint, or to the description of one that doesn't open."""
    name, is_read = operation["operationId"], method == "GET"
    opens = is_read and not operation["security"] and name not in _NOT_OPENED
    target = example_target(path, operation) if opens else f"{DOCS_PATH}#{name}"
    parts = [f"{operation['summary'].removesuffix(', as an SVG image')}."]
    parts += [_NOTES[each] for each in (name.removesuffix("Svg"),) if each in _NOTES]
    parts += _short_inputs(operation)
    return f"- [{path if is_read else f'{method} {path}'}]({base_url}{target}): {' '.join(parts)}"


def _short_inputs(operation: Schema) -> Iterator[str]:
    names = [
        f"`{each['name']}`{_choices(each)}"
        for each in operation["parameters"]
        if each["in"] != "path" or _choices(each)  # the address shows it
    ]
    if names:
        yield f"Parameters: {', '.join(names)}."
    for line in _request_body(operation):
        yield f"{line.removeprefix('- ')}."
    errors = [each for each in operation["responses"] if each in _ERRORS_IN_SHORT]
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


def _twins(operation: Schema, found: Sequence[tuple[str, str, Schema]]) -> str:
    return "".join(
        f" Also `{path}`: {twin['summary']}."
        for path, _, twin in found
        if twin["operationId"] == f"{operation['operationId']}{TABLE}"
        or _TWINS.get(twin["operationId"]) == operation["operationId"]
    )


def _inputs(operation: Schema) -> list[str]:
    return [
        *(
            f"- `{each['name']}` ({_parameter(each)}): {each['description']}"
            for each in operation["parameters"]
        ),
        *_request_body(operation),
    ]


def _parameters(operation: Schema) -> list[Schema]:
    named = [each for each in operation.get("parameters", ()) if "name" in each]
    return [each for each in named if each["name"] not in _LEFT_OUT]


def _request_body(operation: Schema) -> list[str]:
    if "requestBody" not in operation:
        return []
    body = operation["requestBody"]["content"][JSON_TYPE]["example"]
    return [f"- Body, as application/json: `{_compact(body)}`"]


def _parameter(parameter: Schema) -> str:
    schema = parameter["schema"]
    words = [parameter["in"], "required" if parameter["required"] else "optional"]
    words.append(type_of(schema, {}))
    rules = {"minimum": "from ", "maximum": "to ", "pattern": "", "default": "default "}
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
    for each in operation.get("parameters", ()):
        schema = each.get("schema", {})
        value = each.get("example")
        if each.get("in") == "path":
            path = path.replace(f"{{{each['name']}}}", str(value or schema["enum"][0]))
        elif each.get("in") == "query" and value is not None:
            query[each["name"]] = value
    return f"{path}?{urlencode(query)}" if query else path


def _body(path: str, operation: Schema, schemas: Schema, places: Places) -> str:
    """The members of a success body and an example of it, if it is JSON of our own."""
    status, body = _success(operation)
    if not body or operation["tags"] == [DESCRIPTIONS]:
        return ""
    place = next((places[each] for each in _objects(body["schema"], schemas)), path)
    members = [f"The same members as {place}."]
    if place == path:
        members = list(_members(body["schema"], schemas, "", path, places))
    heading = [] if status == "200" else [f"Body of {status}:", ""]
    example = ["", "```json", _compact(_cut(body["example"])), "```"] if "example" in body else []
    return "\n".join([*heading, *members, *example, ""])


def _success(operation: Schema) -> tuple[str, Schema]:
    """The status of a success, and its JSON body; empty if it has none."""
    status = next(each for each in operation["responses"] if each.startswith("2"))
    body: Schema = operation["responses"][status].get("content", {}).get(JSON_TYPE, {})
    return status, body


def _cut(part: object) -> object:
    """An example with only the first entry of each list."""
    if isinstance(part, dict):
        cut = {name: _cut(each) for name, each in part.items()}
        return {**cut, "count": min(1, part["count"])} if part.keys() >= _PAGE else cut
    return [_cut(each) for each in part[:1]] if isinstance(part, list) else part


def _members(
    schema: Schema, schemas: Schema, within: str, path: str, places: Places
) -> Iterator[str]:
    """A line for every member of a body or of an object in it, with those of its own objects."""
    schema = _resolved(schema, schemas)
    for inner in _inner(schema):
        yield from _members(inner, schemas, within, path, places)
    for name, member in schema.get("properties", {}).items():
        inside = f"{within}{name}."
        text = member.get("description", "")
        kind = _without_values(type_of(member, schemas), text)
        listed = {places[each] for each in _objects(member, schemas)}
        elsewhere = "".join(listed - {_place(inside, path)}).removesuffix(f" of {path}")
        if elsewhere:
            text = f"{text} Members as {elsewhere}.".lstrip()
        short = kind.replace("array of object", "array")
        shown = "" if within and kind == "string" else f" ({short})"
        yield f"{'  ' * within.count('.')}- `{name}`{shown}{f': {text}' if text else ''}"
        if not elsewhere:
            yield from _members(member, schemas, inside, path, places)


def _without_values(kind: str, text: str) -> str:
    """A type without its values if the description names each of them."""
    found = re.fullmatch("(.*), one of (.*?)( or null)?", kind)
    is_named = found is not None and all(f"`{each}`" in text for each in found[2].split(", "))
    return f"{found[1]}{found[3] or ''}" if found is not None and is_named else kind


def _places(schema: Schema) -> Places:
    """Where the members of each object are listed: where it is least deep in a body."""
    found: list[tuple[int, str, str]] = []
    schemas = schema["components"]["schemas"]
    for tag in schema["tags"]:
        for path, _, operation in _operations(schema, tag["name"]):
            _, body = _success(operation)
            if tag["name"] != DESCRIPTIONS:
                found += _occurrences(body.get("schema", {}), schemas, "", path)
    found.sort(key=lambda each: each[0])
    return {name: place for _, name, place in reversed(found)}


def _occurrences(
    schema: Schema, schemas: Schema, within: str, path: str
) -> Iterator[tuple[int, str, str]]:
    """Every object in a body: its depth, its schema and its place."""
    for name in _objects(schema, schemas):
        yield within.count("."), name, _place(within, path)
        for member, each in schemas[name]["properties"].items():
            yield from _occurrences(each, schemas, f"{within}{member}.", path)


def _place(within: str, path: str) -> str:
    return f"`{within.removesuffix('.')}` of {path}" if within else path


def _objects(schema: Schema, schemas: Schema) -> Iterator[str]:
    """The names of the schemas of a member or of its entries."""
    name = schema.get("$ref", "").rpartition("/")[2]
    if "properties" in schemas.get(name, {}):
        yield name
    for each in _inner(schema):
        yield from _objects(each, schemas)


def _inner(schema: Schema) -> list[Schema]:
    """The choices of a member and the schema of its entries."""
    return [*schema.get("anyOf", ()), *([schema["items"]] if "items" in schema else ())]


def type_of(schema: Schema, schemas: Schema) -> str:
    """The JSON type, such as `number or null` or `array of string`."""
    schema = _resolved(schema, schemas)
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(type_of(each, schemas) for each in schema["anyOf"]))
    if "const" in schema:
        return f"{schema.get('type', 'value')} {json.dumps(schema['const'])}"
    if "enum" in schema:
        return f"{schema['type']}, one of {', '.join(map(str, schema['enum']))}"
    if schema.get("type") == "array":
        return f"array of {type_of(schema['items'], schemas)}"
    return str(schema.get("type", "any"))


def _resolved(schema: Schema, schemas: Schema) -> Schema:
    reference = schema.get("$ref")
    return schema if reference is None else schemas[reference.rpartition("/")[2]]


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
means unknown. `fundingRatePct` is per funding interval, usually 8 or 4 hours; funding series are \
per 8 hours, except settled-funding.
- A symbol is a base asset (BTC, 1000PEPE) or a full name (BTCUSDT) of a USDT perpetual, in any \
case; under /api/v1 also bitcoin or PEPE. `kind` is btc-etf-stance, rates-desk or \
funding-regime-stance; /api/v1/signals lists each `key`.
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
{rate_limits.WEBHOOKS.requests:,} new ones per hour.
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
    return links + "".join(f"{each}\n" for each in feeds)
