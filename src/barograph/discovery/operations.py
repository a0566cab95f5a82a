"""What each operation is for, in the words of every description of the interface.

A name that is missing here, or one too many, fails a test. The texts of free operations have at
most 300 characters, because a GPT action takes no more.
"""

from collections.abc import Mapping
from typing import Any

from barograph import NOTICE
from barograph.kit.request_limits import MAX_BODY_BYTES
from barograph.limits.rate_limits import MCP_POSTS, PERSONAL

ENTITLED = "entitled"
PAID = "paid"
BADGES = "badges"
KEYS = "keys"
HISTORY = "history"
DESCRIPTIONS = "descriptions"
MCP = "mcp"
DATA = "data"

FREE_DESCRIPTION = (
    f"Crypto market intelligence, free and without a key. {NOTICE} Free reads answer HEAD and "
    "OPTIONS too and may be read from any origin. Every error under /api is JSON with the member "
    "`error`."
)

TAGS: Mapping[str, str] = {
    "discovery": "What there is to read.",
    "market": "Perpetual futures, measured every few seconds: free, without a key. Data past its "
    "freshness limit is 502, never shown.",
    "briefs": "Analysis written from the record: free, without a key.",
    "guides": "The catalog of paid guides: reading it is free, the guides are not.",
    "signals": "Regime signals: free; a personal key raises the allowance.",
    KEYS: "Personal keys for signals, by e-mail.",
    "status": "Health of the feed and of the API.",
    BADGES: "Live pictures, cached for ten minutes, or for one where something is not known; "
    "each has a twin in JSON with `.json` for `.svg`.",
    DATA: "The data behind the site's charts: the last 1, 7, 30 or 60 days. Free.",
    HISTORY: "Digests, signed roots and proofs of the record of stances, which subscribers of Feed "
    "read: free. They show that nothing was changed, and not what was concluded. A leaf of a tree "
    "is SHA-256 of 0x00 and the digest's 32 bytes (RFC 6962).",
    ENTITLED: "For subscribers of Feed. Answers are private and never stored.",
    PAID: "Bought by x402 v2. Answers are private and never stored.",
    MCP: "The free reads as tools of the Model Context Protocol, over streamable HTTP.",
    DESCRIPTIONS: "The interface as programs look for it.",
}

_UNAVAILABLE = "502 while fresh data cannot be had: try again after some seconds."
_RETRY = "429 says in `Retry-After` when the next is accepted."
_ALLOWS = f"It goes into `X-API-Key` and gives {PERSONAL.requests:,} requests an hour for signals."
_RECOMPUTE = "Digests only. RFC 6962: a leaf is SHA-256 of 0x00 and the digest's 32 bytes."
_OF_A_DEMO = "The example is of a demo's log and key, not of this instance's."

NOT_IN_SHORT = (_UNAVAILABLE, _OF_A_DEMO, _RECOMPUTE, _RETRY, _ALLOWS)
"""Sentences that stand in a text which is read by itself, and not in one that tells it anyway."""

TEXTS: Mapping[str, str] = {
    "getIndex": "Name, site, the reads under /api/agent and the address of MCP. It needs no data "
    "and always answers.",
    "getDerivatives": "`fundingRatePct` is for the contract's own funding interval, mostly 8 or 4 "
    "hours: its badge names it. An unknown symbol is `available: false` with null numbers. The "
    f"numbers' time is in `Last-Modified`. {_UNAVAILABLE}",
    "getMarket": "Open interest in USD and the share of long accounts as well, a few seconds old; "
    f"the time is in `Last-Modified`. {_UNAVAILABLE}",
    "getMarketState": "BTC, ETH and SOL, liquidations of the last 24 hours in USD (of all "
    "contracts, none by symbol), the regime by BTC funding, and a citation with its time. "
    f"{_UNAVAILABLE}",
    "getBriefs": "Each with its category, coins, address and time. 500 while the record cannot be "
    "read.",
    "getGuides": "All 27 guides with pages, price in USD and address. The catalog is whole and "
    "changes rarely.",
    "getSignals": "Each with its label and what was measured, in words; `unknown` where an input "
    f"is stale. Every request counts, even a 304. {_RETRY}",
    "getStatus": "Whether the market feed is fresh (`feed.status`, `feed.age_seconds`), and the "
    "state of each check. Always 200: read `status` (ok, degraded, down).",
    "registerKey": "202 whether or not the address is known. A person opens the link within a day "
    f"and is shown the key once. {_ALLOWS}",
    "getHistoryCheckpoints": "The newest checkpoint of every list, signed, in the C2SP format: "
    f"keep one, and later ask for a consistency proof from its size. {_RECOMPUTE} {_OF_A_DEMO}",
    "getHistory": "In the order of recording, without a gap; `next` is the `after` of the next "
    f"page. {_RECOMPUTE}",
    "getHistoryEvents": "Such as withdrawals, in the order of recording; `next` is the `after` of "
    f"the next page. {_RECOMPUTE}",
    "getHistoryProof": "RFC 6962 proofs about the tree of `size`: inclusion of `sequence`, "
    "consistency with the tree of `from`. What was not asked for is null; what does not exist in "
    "the tree is 400.",
    "getHistoryEventsProof": "RFC 6962 proofs about the tree of `size`: inclusion of `sequence`, "
    "consistency with the tree of `from`. What was not asked for is null; what does not exist in "
    "the tree is 400.",
    "getSeries": "At most 361 samples of one contract on an even grid: price, funding per 8 hours, "
    "open interest or long accounts. A sample that was not measured is null, never a guess.",
    "getSeriesTable": "The same with a header; a sample that was not measured is an empty cell.",
    "getLiquidations": "USD of positions closed by force, long and short, of all contracts, by 1, "
    "6 or 24 hours, with how much of each was really watched. Unwatched is null. The last interval "
    "is still running.",
    "getLiquidationsTable": "The same with a header; what was not watched is an empty cell.",
    "getFeedNow": "The newest stance of each kind with the address of its direct read, the market "
    "state and the newest briefs. Keep `leg_id`, `revision`, `history_digest` and `issued_at` of "
    "durable stances; skip the others.",
    "getBtcEtfStance": "Free of charge with Feed, otherwise paid for by x402 v2, read by read. "
    "A stance that has expired, was withdrawn or is not on record is not for sale.",
    "getRatesDesk": "Free of charge with Feed, otherwise paid for by x402 v2, read by read. "
    "A stance that has expired, was withdrawn or is not on record is not for sale.",
    "getFundingRegime": "Free of charge with Feed, otherwise paid for by x402 v2, read by read. "
    "A stance that has expired, was withdrawn or is not on record is not for sale.",
    "buyFeed": "Settles the proof once and grants the paying wallet one period. A repeat with the "
    "`Idempotency-Key` of the first request shows the same purchase; without a key it is 409. 503 "
    "`payment_pending` means that a purchase is unfinished: send the first proof again later, "
    "never another. A second proof of a wallet that is already buying is never charged.",
    "getMaterialChange": "The pair must be the newest recorded version and the one immediately "
    "before it, each named by leg, revision and digest exactly as delivered. All seven parameters "
    "are required, and no other is accepted. 404 comparison_reference_unavailable: read the "
    "current stance, and do not try older references. Nothing is charged.",
    "getRecordBadge": "Elapsed days since `sinceDate` of a legacy paper-strategy record, not "
    "observations or uninterrupted operation. Continuity is unverified; it is no evidence of "
    "live-capital results or of paid stance outcomes.",
    "getRegimeBadge": "Its label by BTC funding; `unavailable` without fresh data.",
    "getFundingBadge": "With its interval; a symbol that is not known says `unknown`, and without "
    "fresh data it is `unavailable`.",
    "getSignalBadge": "Its label.",
    "getStatusBadge": "The `status` of `/api/status`.",
    "callMcp": "One JSON-RPC message in each POST, answered as JSON; no session is kept, and every "
    "revision in `MCP-Protocol-Version` is spoken. Seven tools read what is free. What goes wrong "
    "within the protocol is a JSON-RPC error, in a 200 before 2026-07-28 and since then in a 400 "
    "or 404; what a tool cannot do, with a spent allowance too, is a result with `isError`. There "
    "is no stream and no session to end: GET and DELETE are 405. Web pages of any origin may call "
    f"it. Each address may send {MCP_POSTS.requests:,} requests of at most "
    f"{MAX_BODY_BYTES // 1024} KiB per minute.",
    "getOpenApi": "This description.",
    "getGptActions": "The reads under /api/agent, signals and status, within the limits of a GPT "
    "action; nothing in it needs a key.",
    "getLlmsText": "Every free endpoint with its parameters, an address that can be called, and "
    "how it fails.",
    "getLlmsFullText": "Everything, with the members of each body and an example of it.",
    "getSkill": "What to read, how to read it rightly and what to do when it fails, for agents "
    "that take skills.",
    "getRobots": "What is paid for, private or a one-time link is not for crawlers.",
    "getSecurityContact": "RFC 9116. 404 where the operator named no contact.",
    "getAiCatalog": "What a program finds at this address: the MCP server card.",
    "getMcpServerCard": "Name, address and protocol revisions of the MCP server, without "
    "connecting to it.",
    "getFormerMcpServerCard": "The same card as at /api/mcp/server-card.",
    "getMcpRegistryEntry": "The `server.json` with which an operator lists the server.",
}

FORMS = ("Svg", "Json")
"""How the names of a badge's operations end."""


def text_of(operation_id: str) -> str | None:
    """The text of an operation; both forms of a badge share one."""
    for form in ("", *FORMS):
        if operation_id.endswith(form) and operation_id.removesuffix(form) in TEXTS:
            return TEXTS[operation_id.removesuffix(form)]
    return None


_AFTER = {
    "kind": "$response.body#/kind",
    "after_leg": "$response.body#/leg_id",
    "after_revision": "$response.body#/revision",
    "after_digest": "$response.body#/history_digest",
}
_COMPARE = {
    "compare": {
        "operationId": "getMaterialChange",
        "parameters": _AFTER,
        "description": "A durable stance is the later half of a comparison; the earlier half is "
        "the version that was read before it.",
    }
}


def _proof(operation_id: str) -> dict[str, Any]:
    return {
        "proof": {
            "operationId": operation_id,
            "parameters": {
                "kind": "$request.path.kind",
                "size": "$response.body#/count",
                "sequence": "$response.body#/entries/0/sequence",
            },
            "description": "That the first entry of this page is in the list.",
        }
    }


def _page(operation_id: str) -> dict[str, Any]:
    return {
        "next": {
            "operationId": operation_id,
            "parameters": {"kind": "$request.path.kind", "after": "$response.body#/next"},
            "description": "The next page, unless `next` is null.",
        }
    }


LINKS: dict[str, dict[str, Any]] = {
    "getBtcEtfStance": _COMPARE,
    "getRatesDesk": _COMPARE,
    "getFundingRegime": _COMPARE,
    "getHistory": _proof("getHistoryProof") | _page("getHistory"),
    "getHistoryEvents": _proof("getHistoryEventsProof") | _page("getHistoryEvents"),
}
"""By the operation whose success they follow."""
