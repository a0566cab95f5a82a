"""A typed client for a Barograph service. It shares no code with the service."""

from barograph_client.clients import AsyncBarograph, Barograph
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
]
