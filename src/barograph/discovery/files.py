"""The descriptions themselves, as operations of the interface that they describe (pure)."""

from importlib.resources import files
from typing import Any, NamedTuple

from barograph.discovery.mcp_description import CARD_TYPE, CATALOG_TYPE
from barograph.discovery.operations import DESCRIPTIONS
from barograph.entitlements.refusals import FEED_PATH
from barograph.kit.documents import Headers
from barograph.kit.timestamps import DAY, iso_timestamp
from barograph.kit.wire import JSON_TYPE, refusal
from barograph.signals.documents import DOCS_PATH

INDEX_PATH = "/api/agent"
OPENAPI_PATH = "/openapi.json"
GPT_PATH = "/openapi-gpt.json"
LLMS_PATH = "/llms.txt"
LLMS_FULL_PATH = "/llms-full.txt"
SKILL_PATH = "/SKILL.md"
ROBOTS_PATH = "/robots.txt"
SECURITY_PATH = "/.well-known/security.txt"
MCP_PATH = "/api/mcp"
CARD_PATH = f"{MCP_PATH}/server-card"
REGISTRY_PATH = f"{MCP_PATH}/server.json"
CATALOG_PATH = "/.well-known/ai-catalog.json"
FORMER_CARD_PATH = "/.well-known/mcp/server-card.json"
"""Where earlier drafts had the card; many still look there."""

DISCOVERY_PATHS = (
    *(INDEX_PATH, OPENAPI_PATH, GPT_PATH),
    *(LLMS_PATH, LLMS_FULL_PATH, SKILL_PATH, ROBOTS_PATH, SECURITY_PATH),
)
"""What anyone may read; the Model Context Protocol is not read but spoken."""


def service_links(prefix: str) -> Headers:
    """The `Link` field for what is reached below `prefix`, with the relations of RFC 8631."""
    links = (
        f'<{prefix}{OPENAPI_PATH}>; rel="service-desc"; type="application/json"',
        f'<{prefix}{GPT_PATH}>; rel="service-desc"; type="application/json"; title="GPT actions"',
        f'<{prefix}{DOCS_PATH}>; rel="service-doc"; type="text/html"',
        f'<{prefix}{LLMS_PATH}>; rel="service-doc"; type="text/plain"',
        f'<{prefix}{CARD_PATH}>; rel="service-meta"; type="{CARD_TYPE}"',
    )
    return [(b"link", ", ".join(links).encode())]


_DEMO = "http://127.0.0.1:8080"
_ANYWHERE = f"A demo on this machine: `{_DEMO}`; otherwise ask for the base address."


def skill_text(base_url: str) -> str:
    """The project's skill file as that of the instance at `base_url`."""
    text = (files("barograph.discovery") / "SKILL.md").read_text("utf-8")
    return text.replace(_ANYWHERE, f"Base address: `{base_url}`.").replace(_DEMO, base_url)


VALID_DAYS = 90


def security_text(contact: str, base_url: str, now: int) -> str:
    """`security.txt` of RFC 9116, the same for a whole day."""
    expires = (now // DAY + VALID_DAYS) * DAY
    return "\n".join(
        [
            f"Contact: {contact}",
            f"Expires: {iso_timestamp(expires)}",
            "Preferred-Languages: en",
            f"Canonical: {base_url}{SECURITY_PATH}",
            "",
        ]
    )


def robots_text(base_url: str) -> str:
    """What crawlers are asked to leave alone: what is paid for, private or a one-time link."""
    hidden = (f"{FEED_PATH.rpartition('/')[0]}/", "/api/agents/", "/api/feed/", "/keys")
    root = f"/{base_url.partition('//')[2].partition('/')[2]}".rstrip("/")
    return "\n".join(
        [
            f"# In words for programs: {base_url}{LLMS_PATH}",
            "User-agent: *",
            *(f"Disallow: {root}{path}" for path in hidden),
            f"Sitemap: {base_url}/sitemap.xml",
            "",
        ]
    )


Schema = dict[str, Any]

TEXT_TYPE = "text/plain"
MARKDOWN_TYPE = "text/markdown"


class File(NamedTuple):
    """One file that programs look for."""

    path: str
    operation_id: str
    summary: str
    media_type: str
    schema: Schema
    may_miss: bool = False
    """Whether an instance may be without it."""

    def operation(self) -> Schema:
        """How it is read."""
        content = {self.media_type: {"schema": self.schema}}
        responses = {"200": {"description": "The file.", "content": content}}
        if self.may_miss:
            responses["404"] = refusal("There is none.")
        return {
            "tags": [DESCRIPTIONS],
            "summary": self.summary,
            "operationId": self.operation_id,
            "responses": responses,
        }


def _members(**members: Schema) -> Schema:
    return {"type": "object", "required": list(members), "properties": members}


def _list_of(schema: Schema) -> Schema:
    return {"type": "array", "items": schema}


_STRING: Schema = {"type": "string"}
_ADDRESS: Schema = {"type": "string", "format": "uri"}
_TEXT: Schema = _STRING
_LINK = _members(name=_STRING, url=_ADDRESS)
_OPENAPI = _members(
    openapi={"type": "string", "description": "The version of OpenAPI."},
    info=_members(
        title=_STRING, description=_STRING, contact=_LINK, license=_LINK, version=_STRING
    ),
    servers=_list_of(_members(url=_ADDRESS)),
    tags=_list_of(_members(name=_STRING)),
    paths={"type": "object", "description": "Every operation, by path and method."},
    components={"type": "object", "description": "The schemas of the bodies, by name."},
)
_REMOTE = _members(type=_STRING, url=_ADDRESS, headers=_list_of({"type": "object"}))
_REMOTE["properties"]["supportedProtocolVersions"] = _list_of(_STRING)  # in the card only
_SERVER = _members(
    **{"$schema": _ADDRESS},
    name={"type": "string", "description": "By the domain of the instance."},
    title=_STRING,
    description=_STRING,
    version=_STRING,
    websiteUrl=_ADDRESS,
    icons=_list_of(_members(src=_ADDRESS, mimeType=_STRING)),
    remotes=_list_of(_REMOTE),
)
_CATALOG = _members(
    specVersion=_STRING,
    entries=_list_of(_members(identifier=_STRING, type=_STRING, url=_ADDRESS)),
)

FILES = (
    File(OPENAPI_PATH, "getOpenApi", "The whole interface", JSON_TYPE, _OPENAPI),
    File(GPT_PATH, "getGptActions", "The spec for GPT actions", JSON_TYPE, _OPENAPI),
    File(LLMS_PATH, "getLlmsText", "What is free, in words", TEXT_TYPE, _TEXT),
    File(LLMS_FULL_PATH, "getLlmsFullText", "Everything, in words", TEXT_TYPE, _TEXT),
    File(SKILL_PATH, "getSkill", "A skill file for agents", MARKDOWN_TYPE, _TEXT),
    File(ROBOTS_PATH, "getRobots", "What crawlers leave alone", TEXT_TYPE, _TEXT),
    File(SECURITY_PATH, "getSecurityContact", "Whom to tell of a hole", TEXT_TYPE, _TEXT, True),
    File(CATALOG_PATH, "getAiCatalog", "Where the MCP server card is", CATALOG_TYPE, _CATALOG),
    File(CARD_PATH, "getMcpServerCard", "The MCP server card", CARD_TYPE, _SERVER),
    File(
        FORMER_CARD_PATH,
        "getFormerMcpServerCard",
        "The MCP server card, where earlier drafts had it",
        CARD_TYPE,
        _SERVER,
    ),
    File(
        REGISTRY_PATH, "getMcpRegistryEntry", "The entry for the MCP registry", JSON_TYPE, _SERVER
    ),
)
