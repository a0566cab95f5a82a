"""The descriptions themselves, as operations of the interface that they describe (pure)."""

from typing import Any, NamedTuple

from barograph.discovery.mcp import CARD_TYPE, CATALOG_TYPE
from barograph.discovery.operations import DESCRIPTIONS
from barograph.discovery.paths import (
    CARD_PATH,
    CATALOG_PATH,
    FORMER_CARD_PATH,
    GPT_PATH,
    LLMS_FULL_PATH,
    LLMS_PATH,
    OPENAPI_PATH,
    REGISTRY_PATH,
    ROBOTS_PATH,
    SECURITY_PATH,
    SKILL_PATH,
)
from barograph.kit.openapi import JSON_TYPE, refusal

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
