"""Whether a message is of a revision of the protocol that is spoken here (pure).

The SDK goes by the header field alone: it would serve a message of the newest revision that came
under the name of an older one, and tell those who name an unknown revision of something else.
"""

from collections.abc import Sequence

from barograph.discovery.mcp import PROTOCOLS
from barograph.mcp.messages import Message, Refused

FIELD = b"mcp-protocol-version"
HEADER_MISMATCH = -32020
UNSUPPORTED_PROTOCOL_VERSION = -32022

_NEWEST = [PROTOCOLS[0].encode()]
_MEMBER = "io.modelcontextprotocol/protocolVersion"


def check_revision(message: Message, named: Sequence[bytes]) -> None:
    """Hold a message against the revisions that its header fields name.

    Raises:
        Refused: they differ, or what they name is not spoken.
    """
    if named == _NEWEST:  # the SDK holds the two against each other itself
        return
    if len(set(named)) > 1:
        raise Refused(HEADER_MISMATCH, "MCP-Protocol-Version names several revisions", to=message)
    header = named[0].decode("latin-1") if named else None
    inside = _named_inside(message)
    # A handshake is of one of the older revisions, whatever a client stamps on its inside.
    if inside is not None and inside != header and message.method != "initialize":
        raise Refused(HEADER_MISMATCH, _mismatch(header), to=message)
    if header is not None and header not in PROTOCOLS:
        data = {"supported": PROTOCOLS, "requested": header}
        raise Refused(
            UNSUPPORTED_PROTOCOL_VERSION, "Unsupported protocol version", to=message, data=data
        )


def _named_inside(message: Message) -> object:
    """What a message of the newest revision names itself; None for one of the older ones."""
    params = message.params
    meta = params.get("_meta") if isinstance(params, dict) else None
    return meta.get(_MEMBER) if isinstance(meta, dict) else None


def _mismatch(header: str | None) -> str:
    if header is None:
        return f"the MCP-Protocol-Version header is missing; _meta has {_MEMBER}"
    return f"the MCP-Protocol-Version header differs from {_MEMBER} in _meta"
