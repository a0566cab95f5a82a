"""Requests that another website makes a visitor's browser send (pure)."""

from urllib.parse import urlsplit

from barograph.kit.documents import Headers

_FIELDS = frozenset({b"sec-fetch-site", b"origin", b"host"})


def is_cross_site(headers: Headers, base_url: str) -> bool:
    """Whether a page of another origin sent a request to the service at `base_url`.

    Browsers set `Sec-Fetch-Site` and `Origin`, and pages can't change them. A request without
    either comes from a program. `Sec-Fetch-Site` decides if it is there: `Origin` is `null` for
    some requests of our own pages. Browsers leave `Sec-Fetch-Site` out over plain HTTP.
    """
    found = {name: value for name, value in headers if name in _FIELDS}
    site, origin = found.get(b"sec-fetch-site"), found.get(b"origin")
    if site is not None or origin is None:
        return site not in {None, b"same-origin", b"none"}
    own, host = urlsplit(base_url), found.get(b"host", b"")
    if origin == f"{own.scheme}://{own.netloc}".encode():
        return False
    # Another name of this machine, such as localhost, is fine; our name with another scheme is not.
    return host == own.netloc.encode() or origin.partition(b"://")[2] != host
