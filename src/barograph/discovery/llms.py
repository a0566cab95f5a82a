"""`/llms.txt` and `/llms-full.txt`: the interface in words, made from its description (pure).

A program that is given only this text can call everything that is free.
"""

from collections.abc import Iterator
from typing import Any

from barograph.access.allowances import (
    ANONYMOUS,
    BAD_KEYS,
    MAILBOX,
    PERSONAL,
    REGISTRATIONS,
    TOOL_CALLS,
)
from barograph.discovery.answer_fields import PRIVATE
from barograph.discovery.operations import BADGES, DATA, DESCRIPTIONS, MCP
from barograph.discovery.paths import (
    CATALOG_PATH,
    GPT_PATH,
    LLMS_FULL_PATH,
    MCP_PATH,
    OPENAPI_PATH,
)
from barograph.discovery.words import body_words, operation_words
from barograph.notice import NOTICE
from barograph.signals.documents import DOCS_PATH

Schema = dict[str, Any]


def llms_text(schema: Schema) -> str:
    """What is free, in short."""
    base_url = schema["servers"][0]["url"]
    entries = [
        operation_words(path, method, operation, base_url)
        for path, method, operation in _operations(schema)
        if _is_short(operation)
    ]
    return "\n".join([_beginning(base_url), "## Free endpoints\n", *entries, _end(base_url)])


def llms_full_text(schema: Schema) -> str:
    """Everything, with the members of each body and an example of it."""
    base_url, schemas = schema["servers"][0]["url"], schema["components"]["schemas"]
    parts = [_beginning(base_url)]
    for tag in schema["tags"]:
        parts.append(f"## {tag['name'].capitalize()}\n\n{tag['description']}\n")
        for path, method, operation in _operations(schema):
            if operation["tags"] == [tag["name"]]:
                parts.append(operation_words(path, method, operation, base_url))
                parts.append(body_words(operation, schemas))
    return "\n".join([*parts, _end(base_url)])


def _operations(schema: Schema) -> Iterator[tuple[str, str, Schema]]:
    for path, item in schema["paths"].items():
        for method, operation in item.items():
            yield path, method.upper(), operation


def _is_short(operation: Schema) -> bool:
    """Whether the short text tells of it: free, and a badge only as a picture.

    Recorded series, descriptions and the Model Context Protocol are listed at its end.
    """
    tags = set(operation["tags"])
    is_twin = BADGES in tags and operation["operationId"].endswith("Json")
    return not tags & {*PRIVATE, DATA, DESCRIPTIONS, MCP} and not is_twin


def _beginning(base_url: str) -> str:
    return f"""# Barograph

> Crypto market intelligence: perpetual-futures data that is measured, recorded and published, \
free and without a key. {NOTICE}

Base address: {base_url}

Answers are JSON in UTF-8; a badge is an SVG. Timestamps are ISO 8601 in UTC with milliseconds, \
except `nextFundingTime`, which counts milliseconds since the Unix epoch; `fundingRatePct` is \
percent for one funding interval. Zero is a value; null means not known. Free reads ignore unknown \
parameters. Pass the notice on with the data.
"""


def _end(base_url: str) -> str:
    return f"""## Limits

- GET /api/v1/signals: {ANONYMOUS.requests:,} requests an hour without a key, \
{PERSONAL.requests:,} with a personal key in `X-API-Key`. `RateLimit` tells what is left.
- A key that is not valid: 401, and 429 after {BAD_KEYS.requests:,} in an hour.
- POST /api/v1/keys: {REGISTRATIONS.requests:,} requests an hour, {MAILBOX.requests:,} mails a day \
to one mailbox.
- Calls of MCP tools: {TOOL_CALLS.requests:,} a minute from one address; the signals tool spends \
the allowance of signals as well.
- Other free reads are not counted. `Cache-Control` tells how long an answer may be kept; send its \
`ETag` in `If-None-Match` and get 304 while it holds.

## Errors

The body of every error of a free endpoint is `{{"error": "<one sentence>"}}`. 400: correct the \
request. 401: the key is not valid; send none. 404: there is nothing. 405: `Allow` lists the \
methods. 429, 503: wait `Retry-After` seconds, or some where it is missing. 500, 502: fresh data \
cannot be had; try again after some seconds, and do not show what you kept as current.

## More

- [Recorded series]({base_url}/data/BTC/funding.json?days=7) (days 1, 7, 30, 60; also price, \
open-interest, long-accounts), [liquidations]({base_url}/data/liquidations.json); or `.csv`
- [OpenAPI 3.1]({base_url}{OPENAPI_PATH}): every endpoint, body and error
- [GPT actions]({base_url}{GPT_PATH}): the reads under /api/agent, signals and status, as \
a spec for GPT actions
- [Model Context Protocol]({base_url}{MCP_PATH}): the same reads as seven tools, by POST; \
found by [ai-catalog.json]({base_url}{CATALOG_PATH})
- [For developers]({base_url}{DOCS_PATH}): limits, badges, methods and keys
- [Everything in one text]({base_url}{LLMS_FULL_PATH}): members, examples, and what subscribers read
"""
