"""Where a program that knows only an address finds the interface (pure)."""

from barograph.discovery.mcp import CARD_TYPE
from barograph.discovery.paths import CARD_PATH, GPT_PATH, LLMS_PATH, OPENAPI_PATH
from barograph.kit.documents import Headers
from barograph.signals.documents import DOCS_PATH


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
