"""What the groups of settings share: their base class, types and checks of addresses."""

import re
from ipaddress import ip_address
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict

IPV4 = 4

_CONTACT = re.compile(r"(mailto:[!-~]+@[!-~]+|https://[!-~]+)")
HTTP_ADDRESS = re.compile(r"https?://[A-Za-z0-9.:\[\]-]+(/[A-Za-z0-9._~-]+)*", re.ASCII)


class Group(BaseModel):
    """Settings that belong together; the class that defines a setting is its group."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, hide_input_in_errors=True
    )


def matching(pattern: re.Pattern[str], rule: str) -> AfterValidator:
    """Refuse a text that is not empty and doesn't match, with this rule."""

    def check(value: str) -> str:
        if value and pattern.fullmatch(value) is None:
            raise ValueError(rule)
        return value

    return AfterValidator(check)


def _require_ip(value: str) -> str:
    ip_address(value)
    return value


IpAddress = Annotated[str, AfterValidator(_require_ip)]
Contact = Annotated[
    str,
    matching(
        _CONTACT,
        "it must begin with mailto: or https:// and have no space, such as mailto:name@example.com",
    ),
]
HttpAddress = Annotated[
    str, matching(HTTP_ADDRESS, "an http:// or https:// address without a trailing slash is needed")
]


def reachable(host: str) -> str:
    """The host for a link to a bound address: nothing can connect to 0.0.0.0."""
    address = ip_address(host)
    if address.is_unspecified:
        return "127.0.0.1" if address.version == IPV4 else "[::1]"
    return host if address.version == IPV4 else f"[{host}]"


def is_safe_address(address: str) -> bool:
    """Whether the connection uses TLS or stays on this machine.

    Raises:
        ValueError: it is not a URL.
    """
    parts = urlsplit(address)
    if parts.scheme != "http":
        return parts.scheme == "https"
    if parts.hostname == "localhost":
        return True
    try:
        return ip_address(parts.hostname or "").is_loopback
    except ValueError:
        return False


def require_safe(address: str, reason: str) -> str:
    """Refuse an address without TLS unless it is on this machine."""
    if address and not is_safe_address(address):
        raise ValueError(
            f"an https:// address is needed, because {reason}; http:// works only on this machine "
            "(127.0.0.1, [::1] or localhost)"
        )
    return address
