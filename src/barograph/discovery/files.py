"""The files that programs look for: paths, contents and OpenAPI operations (pure)."""

from collections.abc import Mapping
from importlib.resources import files
from typing import NamedTuple

from barograph.briefs.documents import BRIEF_PAGES
from barograph.discovery.mcp_description import (
    CARD_PATH,
    CARD_TYPE,
    CATALOG_PATH,
    CATALOG_TYPE,
    FORMER_CARD_PATH,
    REGISTRY_PATH,
)
from barograph.discovery.operations import DESCRIPTIONS
from barograph.entitlements.refusals import FEED_PATH
from barograph.kit.documents import Headers
from barograph.kit.timestamps import DAY, iso_timestamp
from barograph.kit.wire import JSON_TYPE, Schema, refusal
from barograph.signals.documents import DOCS_PATH

INDEX_PATH = "/api/agent"
OPENAPI_PATH = "/openapi.json"
GPT_PATH = "/openapi-gpt.json"
LLMS_PATH = "/llms.txt"
LLMS_FULL_PATH = "/llms-full.txt"
SKILL_PATH = "/SKILL.md"
ROBOTS_PATH = "/robots.txt"
SECURITY_PATH = "/.well-known/security.txt"
API_CATALOG_PATH = "/.well-known/api-catalog"
X402_PATH = "/.well-known/x402"
BRIEFS_FEED = f"{BRIEF_PAGES}feed"
EVENTS_FEED = "/api/v1/events/feed"

TEXT_TYPE = "text/plain"
MARKDOWN_TYPE = "text/markdown"
ATOM_TYPE = "application/atom+xml"
JSON_FEED_TYPE = "application/feed+json"
LINKSET_TYPE = "application/linkset+json"

FEEDS = {
    f"{BRIEFS_FEED}.atom": (ATOM_TYPE, "briefs"),
    f"{BRIEFS_FEED}.json": (JSON_FEED_TYPE, "briefs"),
    f"{EVENTS_FEED}.atom": (ATOM_TYPE, "events"),
    f"{EVENTS_FEED}.json": (JSON_FEED_TYPE, "events"),
}
"""Media types and contents by path."""


def service_links(prefix: str) -> Headers:
    """The `Link` header field with the relations of RFC 8631; `prefix` precedes every path."""
    links = (
        f'<{prefix}{OPENAPI_PATH}>; rel="service-desc"; type="application/json"',
        f'<{prefix}{GPT_PATH}>; rel="service-desc"; type="application/json"; title="GPT actions"',
        f'<{prefix}{DOCS_PATH}>; rel="service-doc"; type="text/html"',
        f'<{prefix}{LLMS_PATH}>; rel="service-doc"; type="text/plain"',
        f'<{prefix}{CARD_PATH}>; rel="service-meta"; type="{CARD_TYPE}"',
        f'<{prefix}{API_CATALOG_PATH}>; rel="api-catalog"; type="{LINKSET_TYPE}"',
    )
    return [(b"link", ", ".join(links).encode())]


_DEMO = "http://127.0.0.1:8080"
_ANY_INSTANCE = f"A demo on this machine is at `{_DEMO}`; otherwise ask for the base address."


def skill_text(base_url: str) -> str:
    """The project's SKILL.md with the base address of this instance."""
    text = (files("barograph.discovery") / "SKILL.md").read_text("utf-8")
    return text.replace(_ANY_INSTANCE, f"Base address: `{base_url}`.").replace(_DEMO, base_url)


def security_text(contact: str, base_url: str, now: int) -> str:
    """`security.txt` (RFC 9116), valid for 90 days; it changes once per day."""
    return "\n".join(
        [
            f"Contact: {contact}",
            f"Expires: {iso_timestamp((now // DAY + 90) * DAY)}",
            "Preferred-Languages: en",
            f"Canonical: {base_url}{SECURITY_PATH}",
            "",
        ]
    )


def robots_text(base_url: str) -> str:
    """`robots.txt`: crawlers stay away from paid and private endpoints and one-time links."""
    hidden = (f"{FEED_PATH.rpartition('/')[0]}/", "/api/agents/", "/api/feed/", "/keys", "/alerts")
    root = f"/{base_url.partition('//')[2].partition('/')[2]}".rstrip("/")
    return "\n".join(
        [
            f"# For language models: {base_url}{LLMS_PATH}",
            "User-agent: *",
            *(f"Disallow: {root}{path}" for path in hidden),
            f"Sitemap: {base_url}/sitemap.xml",
            "",
        ]
    )


class File(NamedTuple):
    """One file, as an operation of the OpenAPI document."""

    path: str
    operation_id: str
    media_type: str
    schema: Schema
    errors: Mapping[str, str] = {}
    """Descriptions by status."""

    def operation(self) -> Schema:
        """The OpenAPI operation."""
        content = {self.media_type: {"schema": self.schema}}
        responses = {"200": {"description": "The file.", "content": content}}
        responses |= {status: refusal(text) for status, text in self.errors.items()}
        return {"tags": [DESCRIPTIONS], "operationId": self.operation_id, "responses": responses}


_STRING: Schema = {"type": "string"}
_BYTES: Schema = {"type": "string", "format": "binary"}
_OBJECT: Schema = {"type": "object"}
"""The members are those of the named standard."""

_OPTIONAL = {"404": "This instance has none."}
_RENDERED = {"429": "Limit of uncached reads reached.", "503": "The database is unavailable."}

FILES = (
    File(OPENAPI_PATH, "getOpenApi", JSON_TYPE, _OBJECT),
    File(GPT_PATH, "getGptActions", JSON_TYPE, _OBJECT),
    File(LLMS_PATH, "getLlmsText", TEXT_TYPE, _STRING),
    File(LLMS_FULL_PATH, "getLlmsFullText", TEXT_TYPE, _STRING),
    File(SKILL_PATH, "getSkill", MARKDOWN_TYPE, _STRING),
    File(ROBOTS_PATH, "getRobots", TEXT_TYPE, _STRING),
    File(SECURITY_PATH, "getSecurityContact", TEXT_TYPE, _STRING, _OPTIONAL),
    File(CATALOG_PATH, "getAiCatalog", CATALOG_TYPE, _OBJECT),
    File(CARD_PATH, "getMcpServerCard", CARD_TYPE, _OBJECT),
    File(FORMER_CARD_PATH, "getFormerMcpServerCard", CARD_TYPE, _OBJECT),
    File(REGISTRY_PATH, "getMcpRegistryEntry", JSON_TYPE, _OBJECT),
    File(API_CATALOG_PATH, "getApiCatalog", LINKSET_TYPE, _OBJECT),
    File(X402_PATH, "getX402Resources", JSON_TYPE, _OBJECT),
    *(
        File(path, f"get{name.title()}Atom", media_type, _BYTES, _RENDERED)
        if media_type == ATOM_TYPE
        else File(path, f"get{name.title()}Feed", media_type, _OBJECT, _RENDERED)
        for path, (media_type, name) in FEEDS.items()
    ),
)

DISCOVERY_PATHS = (INDEX_PATH, *(file.path for file in FILES))
"""Free paths that any origin may read."""
