"""Commands for a running exchange, from another process."""

from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

import msgspec
from websockets.exceptions import WebSocketException
from websockets.sync.client import connect

from barograph.errors import ConfigurationError

CONTROL_PATH: Final = "/control"
_PATIENCE: Final = 3.0


def send_command(address: str, command: Mapping[str, object]) -> dict[str, object]:
    """Send one command to the exchange at `host:port` (or any of its addresses); return its reply.

    Raises:
        ConfigurationError: no simulated exchange answers there.
    """
    place = urlsplit(address if "//" in address else f"//{address}").netloc
    try:
        with connect(
            f"ws://{place}{CONTROL_PATH}", open_timeout=_PATIENCE, proxy=None, compression=None
        ) as connection:
            connection.send(msgspec.json.encode(command).decode())
            return msgspec.json.decode(connection.recv(_PATIENCE), type=dict[str, object])
    except (OSError, WebSocketException, msgspec.MsgspecError) as error:
        raise ConfigurationError(
            f"no simulated exchange answers at {place} ({error}); is the demo running?"
        ) from error
