"""The texts and links of the operations in every description of the interface.

Each operation needs a text: a summary, a full stop and a description. The description of a free
operation has at most 300 characters, the limit of GPT actions.
"""

from collections.abc import Mapping
from typing import Any

from barograph import NOTICE
from barograph.alerts.records import MAX_ALERTS
from barograph.kit.request_limits import MAX_BODY_BYTES
from barograph.limits.rate_limits import MCP_POSTS, PERSONAL
from barograph.webhooks.records import MAX_WEBHOOKS

ENTITLED = "entitled"
PAID = "paid"
BADGES = "badges"
KEYS = "keys"
HISTORY = "history"
WEBHOOKS = "webhooks"
ALERTS = "alerts"
DESCRIPTIONS = "descriptions"
MCP = "mcp"
STREAM = "stream"

FREE_DESCRIPTION = (
    f"Crypto market intelligence, free and without a key. {NOTICE} Free endpoints also support "
    "HEAD and OPTIONS and allow requests from any origin. Every error under /api is JSON with the "
    "member `error`."
)

TAGS: Mapping[str, str] = {
    "discovery": "The index of the free endpoints.",
    "market": "Perpetual futures, measured every few seconds. Free, no key needed. When the data "
    "is past its freshness limit, these endpoints return 502.",
    "venues": "The exchanges, and the same coin at all of them. Free, no key needed.",
    "briefs": "Short analyses of the recorded data. Free, no key needed.",
    "guides": "The catalog of paid guides, or a sample catalog. Reading the catalog is free.",
    "signals": "Regime signals. Free; a personal key raises the limit.",
    KEYS: "Personal keys for signals, sent by e-mail.",
    "status": "Health of the feed and the API.",
    BADGES: "Live images, cached for ten minutes (one minute if a value is unknown). Replace "
    "`.svg` with `.json` for the JSON version.",
    "events": "The log of what changed, and the key that verifies webhooks. Free.",
    STREAM: "An endless stream of events. Free.",
    "series": "All recorded data, page by page, for as long as we keep it. Free.",
    WEBHOOKS: "Events sent to your own address. Free, with a personal key in `X-API-Key`.",
    ALERTS: "Rules that tell you when something happens. Free, with a personal key in `X-API-Key`.",
    HISTORY: "Digests, signed roots and proofs for the record of stances. Free. Without "
    "revealing the stances, which need Feed, they show a change to anyone who kept a root. A leaf "
    "is the SHA-256 of 0x00 and the digest's 32 bytes (RFC 6962).",
    ENTITLED: "For Feed subscribers. Responses are private and must not be cached.",
    PAID: "Bought by x402 v2. Responses are private and must not be cached.",
    MCP: "The free endpoints as tools of the Model Context Protocol, over streamable HTTP.",
    DESCRIPTIONS: "Machine-readable descriptions of the API.",
}

_ALLOWS = f"Send the key in `X-API-Key` to get {PERSONAL.requests:,} signals requests per hour."
_OF_A_DEMO = "The example has the log and key of a demo, not of this instance."
_NEXT_PAGE = "For the next page, pass `next` as `after`."

_STANCE = (
    "Free with Feed; otherwise each read is paid by x402 v2. An expired, withdrawn or unrecorded "
    "stance is not for sale."
)

TEXTS: Mapping[str, str] = {
    "getIndex": "Index of the free endpoints. Name, site, the endpoints under /api/agent and the "
    "address of the MCP server. Always available.",
    "getDerivatives": "Price, funding, open interest and positioning of one perpetual. "
    "`fundingRatePct` is in percent per 8 hours; /api/v1/perpetuals has the rate as stated and its "
    "interval. For an unknown symbol `available` is false and every number is null. The time of "
    "the data is in `Last-Modified`.",
    "getMarket": "Funding (percent per 8 hours) and price of BTC, ETH and SOL. Also open "
    "interest in USD and the share of long accounts. The data is a few seconds old; its time is in "
    "`Last-Modified`.",
    "getMarketState": "Consolidated market state: assets, liquidations and regime. BTC, ETH and "
    "SOL, liquidations of the last 24 hours in USD (all contracts combined, not per symbol), the "
    "regime from BTC funding, and a citation with its time.",
    "getBrief": "One text of a brief. The newest, or the one with this `version`. Its event in the "
    "log has the same `text_sha256`.",
    "getBriefs": "Short analyses of the recorded data, newest first. Each with category, coins, "
    "address and time. Returns 500 while the database cannot be read.",
    "getGuides": "Catalog of paid trading guides with their prices. All 27 guides with pages, "
    "price in USD and address. The catalog rarely changes.",
    "getSignals": "Regime signals: 120 requests per hour, 1,000 with a personal key. Each signal "
    "has a label and the measured value in words. The label is `unknown` while an input is "
    "stale. Every request counts, even a 304.",
    "getStatus": "Health of the market feed and of the API. Whether the market feed is fresh "
    "(`feed.status`, `feed.age_seconds`), and the state of each check. Always 200; read `status` "
    "(ok, degraded, down).",
    "registerKey": "Request a free personal key: the service mails a one-time link. Returns 202 "
    "whether or not the address is known. A person opens the link within a day and sees the key "
    f"once. Returns 503 if this instance sends no mail. {_ALLOWS}",
    "getHistoryCheckpoint": "Signed root of the public log. The newest checkpoint, in the C2SP "
    f"format. Keep it, and compare the log with it later. {_OF_A_DEMO}",
    "getHistory": "Digests of all versions of a stance, oldest first. In recording "
    f"order, without gaps. {_NEXT_PAGE}",
    "getHistoryEvents": "Digests of all events of a stance, oldest first. Such as "
    f"withdrawals, in recording order. {_NEXT_PAGE}",
    "getRevealedStances": "Stances that have become public, oldest first. Each with everything "
    "that its digests cover, so you can recompute them. Empty unless the operator has announced "
    "that stances become public.",
    "getMeasureSeries": "Recorded history of any measure. Oldest first. A gap is a point with the "
    "value null. Funding is scaled to 8 hours, except settled-funding, which has only what the "
    "exchange reports as settled. A series begins with its first record. An error about `from` "
    "names the earliest time that is kept.",
    "listLiquidations": "Every recorded liquidation of a time range, oldest first. Time, contract, "
    "side of the position, size, price and USD, with the times we covered. For "
    "whole days, use the daily files.",
    "listLiquidationFiles": "The manifest of the daily liquidation files. Each with its rows, "
    "size, SHA-256 and the times we covered. Files never change, and we keep them for good.",
    "getLiquidationFile": "Every liquidation of one day as compressed CSV. Made shortly "
    "after the UTC day is over. It never changes, and the manifest has its SHA-256.",
    "getPerpetuals": "Every crypto perpetual in one call. Price, funding as stated, its interval "
    "and the rate per 8 h, open interest, long accounts, 24-hour changes and liquidations, each "
    "group with its time.",
    "getPerpetual": "One crypto perpetual with all of its numbers. Accepts names such as bitcoin "
    "and PEPE; `symbol` in the response is the contract's own.",
    "getVenues": "The exchanges of this instance. What each publishes, how it counts open "
    "interest, how complete its liquidations are, its age, health, disputed measures and terms. "
    "Always available.",
    "getAccuracy": "What followed the public stances. Per kind, label, metric and horizon, beside "
    "what followed other labels and what came just before; one case per leg. Each comparison has "
    "the smallest difference that we would probably have seen. No win rate. Fewer than 30 cases "
    "or 10 episodes have only counts. Empty if stances stay private.",
    "getCross": "Every coin at all venues. Price, one-sided open interest, and the funding settled "
    "over the same 8 h (and its widest spread), 24 h, 7 d and 30 d. Live rates and their weighted "
    "mean are estimates. If a venue is missing, a total is partial and says how large it last was. "
    "Changes of open interest, by price and by positions.",
    "getListings": "When each contract was listed and delisted. With `at`, the contracts listed "
    "at that time, also those delisted since: for studies without survivorship bias.",
    "getCarry": "What positions earned or paid in funding. Settled funding by coin and venue, also "
    "per year and for the window before, and the best pair: short where it was highest, long where "
    "it was lowest. Fees and prices are not included.",
    "getCrossCoin": "One coin at all venues. Each venue also with its own rate, interval, price, "
    "times, way of counting and liquidations. `state` says why a venue is left out of a total. "
    "Accepts names such as bitcoin and PEPE.",
    "getEvents": "The log of what changed, oldest first. Regime and signal changes, briefs, "
    "contracts listed and delisted, outages, daily files, announcements, and recorded stance "
    "versions (digests only). Ids have no gaps: pass the last id that you have seen as `after`. "
    "`feed.recovered` names the venue that the data comes from now.",
    "getEvent": "The recorded text of one event. Exactly the bytes that were hashed. The digest is "
    "an entry of the public log at /history/events.",
    "streamEvents": "The log of what changed, as server-sent events. Send the last id that you "
    "have seen as `Last-Event-ID` to resume without a gap or a repeat; otherwise the stream starts "
    "with the next event. It ends after an hour at most: reconnect.",
    "getIncidents": "Incidents and recorded checks, newest first. Which part was degraded or down, "
    "when, and for how many minutes of each hour and day. We keep them for 90 days.",
    "getWebhookKey": "Key that verifies webhooks. Every message is also signed `v1a` with this "
    "Ed25519 key, so you can verify it without your secret.",
    "createWebhook": "Register an address. We send it a signed challenge first, and events only "
    "after it has repeated the challenge. Messages follow Standard Webhooks 1.0.0. You can have "
    f"{MAX_WEBHOOKS}.",
    "getWebhooks": "Your webhooks. Oldest first, with state, last accepted event and failures "
    "since. A webhook is `pending` until it has answered the challenge, and `disabled` after a day "
    "of failures.",
    "getWebhookDeliveries": "The newest attempts. At most 100, each with its HTTP status or the "
    "kind of failure.",
    "rotateWebhookSecret": "Replace the secret. For 24 hours, messages are signed with both.",
    "deleteWebhook": "Delete a webhook. This also deletes its log.",
    "createAlert": "Create an alert. It fires when its condition becomes true, and can fire again "
    "once the value has gone back by a margin. `sentence` says what it will do. You can have "
    f"{MAX_ALERTS}.",
    "previewAlert": "When a rule would have fired. Replays the record of the past 30 days and "
    "stores nothing.",
    "getAlerts": "Your alerts. Oldest first, each with its sentence and state.",
    "getAlertMessages": "Messages of your alerts. The past 30 days, oldest first. Pass the last "
    "`id` as `after`.",
    "changeAlert": "Pause or resume an alert. A resumed alert starts over, without a message.",
    "deleteAlert": "Delete an alert. This also deletes its messages.",
    "getFeedNow": "The newest stances, the market state and the newest briefs. Keep `leg_id`, "
    "`revision`, `history_digest` and `issued_at` of the durable stances; skip the others. Each "
    "stance has the address of its full version.",
    "getBtcEtfStance": f"The newest stance on BTC ETF flows (btc-etf-stance). {_STANCE}",
    "getRatesDesk": f"The newest stance on US rates (rates-desk). {_STANCE}",
    "getFundingRegime": "The newest stance on BTC funding (funding-regime-stance). It is about the "
    f"primary venue alone. {_STANCE}",
    "buyFeed": "Buy one period of Feed for the paying wallet, by x402 v2. The service settles the "
    "proof once. If you repeat the request with the same `Idempotency-Key`, you get the same "
    "purchase; without a key you get 409. 503 "
    "`payment_pending` means that a purchase is unfinished: send the first proof again later, "
    "never another one. A second proof from a wallet that is already buying is never charged.",
    "getMaterialChange": "What changed between the two newest recorded versions of a stance. The "
    "two versions must be the newest recorded one and its direct predecessor. Pass leg, revision "
    "and digest of each exactly as delivered. All seven parameters are required, and no others "
    "are accepted. After 404 comparison_reference_unavailable, read the current stance; do not "
    "try older references. Nothing is charged.",
    "getRecordBadge": "Age of the legacy paper-strategy record. The time elapsed since "
    "`sinceDate`, not recorded observations or uninterrupted operation. Continuity is unverified. "
    "It is not evidence of live-capital results or of paid stance outcomes.",
    "getRegimeBadge": "The market regime. The label from BTC funding; `unavailable` without fresh "
    "data.",
    "getRegimeGauge": "The regime gauge, as an SVG image. BTC funding on the regime's bands.",
    "getFundingBadge": "Funding of one perpetual. The funding rate per 8 hours; `unknown` for an "
    "unknown symbol, `unavailable` without fresh data.",
    "getSignalBadge": "One public signal. The label of the signal.",
    "getAccuracyBadge": "Accuracy of one kind of stance. `not published`, too few cases or "
    "episodes, `could not tell`, or the finding. Not evidence of live-capital results.",
    "getFundingBadgeJson": "Funding of one perpetual, for the Shields endpoint badge. The same as "
    "JSON.",
    "getAccuracyBadgeJson": "Accuracy of one kind of stance, for the Shields endpoint badge. The "
    "same as JSON.",
    "getStatusBadge": "Health of the feed and the API. The `status` of `/api/status`.",
    "callMcp": "Call the Model Context Protocol server. Each POST has one JSON-RPC message and "
    "gets a JSON response. There are no sessions and no streams: GET and DELETE return 405. "
    "Protocol errors are JSON-RPC errors (status 200 before revision 2026-07-28, 400 or 404 "
    "since). Tool failures, including an exceeded limit, are results with `isError`. The tools "
    "read free endpoints, and web pages from any origin may call them. Each IP address may send "
    f"{MCP_POSTS.requests:,} requests per minute, each of at most {MAX_BODY_BYTES // 1024} KiB.",
    "getOpenApi": "OpenAPI document. This description.",
    "getGptActions": "OpenAPI document for GPT actions. The free JSON endpoints, within the limits "
    "of GPT actions: every list requires a `limit`. None of them needs a key.",
    "getLlmsText": "The free endpoints, for language models. Lists of links (llmstxt.org): every "
    "free endpoint with its parameters, a working example address and its errors.",
    "getLlmsFullText": "The whole interface, for language models. Every endpoint with the members "
    "and an example of its body.",
    "getSkill": "A skill file for agents. What to read, how to interpret it and what to do on "
    "failure.",
    "getRobots": "robots.txt. Disallows paid and private endpoints and one-time links.",
    "getSecurityContact": "Where to report a vulnerability. RFC 9116. Returns 404 if the operator "
    "has set no contact.",
    "getAiCatalog": "The AI catalog. Links to the MCP server card.",
    "getMcpServerCard": "The MCP server card. Name, address and protocol revisions of the MCP "
    "server.",
    "getFormerMcpServerCard": "The MCP server card at its former path. As /api/mcp/server-card.",
    "getMcpRegistryEntry": "The MCP registry entry. The `server.json` that an operator submits to "
    "the MCP registry.",
    "getApiCatalog": "The API catalog. RFC 9727: the APIs with their descriptions, documentation "
    "and status.",
    "getX402Resources": "What this instance sells by x402. Every paid endpoint with its terms, as "
    "in its 402. The lists are empty if it sells nothing.",
    "getBriefsAtom": "The newest 50 briefs as an Atom feed. RFC 4287, newest first.",
    "getBriefsFeed": "The newest 50 briefs as a JSON Feed. Version 1.1, newest first.",
    "getEventsAtom": "The newest 50 events as an Atom feed. RFC 4287, newest first.",
    "getEventsFeed": "The newest 50 events as a JSON Feed. Version 1.1, newest first. To miss no "
    "event, read /api/v1/events instead.",
}

FORMS = {"Svg": ", as an SVG image", "Json": ", for the Shields endpoint badge"}
"""The endings of the operation IDs of a badge, and of their summaries."""

TABLE = "Table"
"""The ending of the operation ID of a table."""


def text_of(operation_id: str) -> tuple[str, str]:
    """The summary and the description of an operation; tables and badges share theirs."""
    if operation_id.endswith(TABLE):
        return "As CSV", "One table; unknown values are empty cells."
    for form, ending in {"": "", **FORMS}.items():
        text = TEXTS.get(operation_id.removesuffix(form))
        if operation_id.endswith(form) and text is not None:
            summary, _, description = text.partition(". ")
            return summary + ending, description
    raise LookupError(f"{operation_id} needs a text")


def _link(operation_id: str, description: str, **parameters: str) -> dict[str, Any]:
    return {"operationId": operation_id, "parameters": parameters, "description": description}


_BODY = "$response.body#/"
_KIND = "$request.path.kind"
_COMPARE = {
    "compare": _link(
        "getMaterialChange",
        "Use a durable stance as the later version and the one you read before it as the earlier.",
        kind=f"{_BODY}kind",
        after_leg=f"{_BODY}leg_id",
        after_revision=f"{_BODY}revision",
        after_digest=f"{_BODY}history_digest",
    )
}


def _next_page(operation_id: str) -> dict[str, Any]:
    text = "The next page, unless `next` is null."
    return {"next": _link(operation_id, text, kind=_KIND, after=f"{_BODY}next")}


LINKS: dict[str, dict[str, Any]] = {
    "getBtcEtfStance": _COMPARE,
    "getRatesDesk": _COMPARE,
    "getFundingRegime": _COMPARE,
    "getHistory": _next_page("getHistory"),
    "getHistoryEvents": _next_page("getHistoryEvents"),
}
"""OpenAPI links of a success response, by operation ID."""
