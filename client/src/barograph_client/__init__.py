"""A typed client for a Barograph service. It imports nothing from the service."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from barograph_client.clients import AsyncBarograph, Barograph
    from barograph_client.decode import to_frame
    from barograph_client.reads import Patience
    from barograph_client.references import ReferenceFile
    from barograph_client.subscriber import AsyncSubscriber, Subscriber

__all__ = [
    "AsyncBarograph",
    "AsyncSubscriber",
    "Barograph",
    "Patience",
    "ReferenceFile",
    "Subscriber",
    "to_frame",
]
__version__ = "1.0.0"
_MODULES = ("decode", "clients", "reads", "references", "subscriber")


def __getattr__(name: str) -> Any:  # noqa: ANN401 - what the module has under this name
    """Import HTTP when a client is first used: it takes 0.3 s, and the formats don't need it."""
    if name in __all__:
        for module in (import_module(f"{__name__}.{each}") for each in _MODULES):
            if hasattr(module, name):
                return getattr(module, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
