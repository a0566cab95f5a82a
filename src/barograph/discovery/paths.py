"""Where the service describes itself."""

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
