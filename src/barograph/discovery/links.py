"""Where a program that knows only an address finds the interface (pure)."""

from barograph.discovery.paths import OPENAPI_PATH
from barograph.kit.documents import Headers
from barograph.signals.documents import DOCS_PATH


def service_links(prefix: str) -> Headers:
    """The `Link` field of RFC 8631 for what is reached below `prefix`."""
    links = (
        f'<{prefix}{OPENAPI_PATH}>; rel="service-desc"; type="application/json"',
        f'<{prefix}{DOCS_PATH}>; rel="service-doc"; type="text/html"',
    )
    return [(b"link", ", ".join(links).encode())]
