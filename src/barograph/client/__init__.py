"""A typed client of the service's HTTP interface; it knows nothing of the service's own code."""

from barograph.client.clients import AsyncBarograph, Barograph
from barograph.client.exchange import Patience
from barograph.client.references import ReferenceFile
from barograph.client.subscriber import AsyncSubscriber, Subscriber

__all__ = [
    "AsyncBarograph",
    "AsyncSubscriber",
    "Barograph",
    "Patience",
    "ReferenceFile",
    "Subscriber",
]
