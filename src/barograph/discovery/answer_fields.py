"""The header fields of every described answer (pure)."""

from typing import Any

from barograph.discovery.operations import DATA, ENTITLED, KEYS, MCP, PAID
from barograph.discovery.paths import INDEX_PATH, OPENAPI_PATH

PRIVATE = {ENTITLED, PAID}
NOT_READS = {*PRIVATE, KEYS, MCP}
"""Tags of what is no free read."""

SIGNALS = "signals"
DATED = {"market", "briefs", SIGNALS, "status"}
"""Tags of data with a time of its own; everything else has none to send."""

LINKING = {INDEX_PATH, OPENAPI_PATH}
"""Where a program that knows nothing else begins."""

X402_FOLDER = "/api/x402/"
PROOF = "/proof"
"""How the paths of history proofs end; each proof is charged."""

RATE_LIMIT = (
    *("RateLimit-Policy", "RateLimit"),
    *("X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"),
)

_OF_REFUSALS = {
    "401": "WWW-Authenticate",
    "402": "PAYMENT-REQUIRED",
    "405": "Allow",
    "429": "Retry-After",
    "503": "Retry-After",
}


def names_of(path: str, tags: set[str], status: str) -> list[str]:
    """The fields that an answer carries, by name."""
    if status in {"200", "304"} and not tags & NOT_READS:
        return _of_reads(path, tags)
    found = ["Cache-Control"]
    if status in _OF_REFUSALS:
        found.append(_OF_REFUSALS[status])
    if status == "200" and path.startswith(X402_FOLDER):
        found.append("PAYMENT-RESPONSE")
    if (status == "429" and not tags & PRIVATE) or (KEYS in tags and status == "202"):
        found += RATE_LIMIT
    return found


def _of_reads(path: str, tags: set[str]) -> list[str]:
    found = ["Cache-Control", "ETag"]
    if tags & DATED:
        found.append("Last-Modified")
    if SIGNALS in tags or path.endswith(PROOF):  # counted, also where nothing is new
        found += RATE_LIMIT
    if path in LINKING:
        found.append("Link")
    if DATA in tags:
        found += ["Content-Disposition", *RATE_LIMIT]
    return found


def _field(description: str, example: str, *, always: bool = True) -> dict[str, Any]:
    return {
        "description": description,
        "required": always,
        "schema": {"type": "string"},
        "example": example,
    }


FIELDS: dict[str, dict[str, Any]] = {
    "Cache-Control": _field(
        "How long the answer may be kept: free data never past its freshness bound, errors and "
        "private answers not at all.",
        "public, max-age=5, stale-while-revalidate=10",
    ),
    "ETag": _field("Names these bytes; send it back in `If-None-Match`.", '"pZGm1Av0IEBKARczz7ex"'),
    "Last-Modified": _field(
        "The data's own time, where it has one.", "Sun, 15 Nov 2026 10:00:00 GMT", always=False
    ),
    "Link": _field(
        "The descriptions of the interface (RFC 8288, RFC 8631).",
        '</openapi.json>; rel="service-desc"; type="application/json"',
    ),
    "Content-Disposition": _field(
        "A name to save the series under.", 'inline; filename="BTC-funding-7d.csv"'
    ),
    "Allow": _field("The methods of this path.", "GET, HEAD, OPTIONS"),
    "WWW-Authenticate": _field("How to present a credential.", 'Bearer realm="Barograph Feed"'),
    "Retry-After": _field("Seconds to wait, where that is known.", "15", always=False),
    "PAYMENT-REQUIRED": _field("The body once more, in base64.", "eyJ4NDAyVmVyc2lvbiI6Mn0="),
    "PAYMENT-RESPONSE": _field(
        "The receipt of a settled payment: JSON with success, transaction, network and payer, in "
        "base64.",
        "eyJzdWNjZXNzIjp0cnVlfQ==",
        always=False,
    ),
    "RateLimit-Policy": _field(
        "The limit: `q` requests in any `w` seconds. Downloads carry it and the four fields below "
        "only if they had to be rendered; a cached download is not counted.",
        '"anon";q=10;w=3600',
        always=False,
    ),
    "RateLimit": _field(
        "`r` requests are left; one more is available in `t` seconds.",
        '"anon";r=9;t=3600',
        always=False,
    ),
    "X-RateLimit-Limit": _field("The limit.", "10", always=False),
    "X-RateLimit-Remaining": _field("How many requests are left.", "9", always=False),
    "X-RateLimit-Reset": _field(
        "When one more request is available, in Unix seconds.", "1794725183", always=False
    ),
}
