"""Subscribes to topics in small batches, and leaves out those the exchange doesn't know.

The exchange refuses a whole request if it doesn't know one of the topics. The refusal usually names
the topic, and we request the others again. If it names none, we halve the batch until one is left.
"""

import re
from collections import deque
from collections.abc import Sequence

from barograph.errors import Forbidden
from barograph.upstream.bybit.messages import Subscribed, subscribe_request

BATCH = 10
"""Topics per request."""

MAX_UNANSWERED = 5
"""Requests that wait for their replies at the same time."""

_BETWEEN_WORDS = re.compile(r"[\s,;:\[\]\"']+")


class Subscriptions:
    """The topics of one connection, confirmed request by request."""

    def __init__(self, topics: Sequence[str]) -> None:
        self._count = len(topics)
        self._sent = 0
        self._waiting = deque(
            topics[start : start + BATCH] for start in range(0, len(topics), BATCH)
        )
        self._unanswered: dict[str, Sequence[str]] = {}
        self.left_out: list[str] = []
        """The topics that the exchange doesn't know."""

    @property
    def is_complete(self) -> bool:
        """Whether every topic is confirmed or left out."""
        return not self._waiting and not self._unanswered

    def next_requests(self) -> list[str]:
        """The requests to send now."""
        requests: list[str] = []
        while self._waiting and len(self._unanswered) < MAX_UNANSWERED:
            self._sent += 1
            self._unanswered[str(self._sent)] = self._waiting.popleft()
            requests.append(subscribe_request(self._sent, self._unanswered[str(self._sent)]))
        return requests

    def answered(self, reply: Subscribed) -> None:
        """Take the reply to one request.

        Raises:
            Forbidden: the exchange refused more than half of the topics, so they are not the cause.
        """
        topics = self._unanswered.pop(reply.request_id, ())
        if reply.accepted or not topics:
            return
        named = set(topics).intersection(_BETWEEN_WORDS.split(reply.detail))
        if not named and len(topics) > 1:
            self._retry(topics[: len(topics) // 2])
            self._retry(topics[len(topics) // 2 :])
            return
        if "already subscribed" not in reply.detail:
            self.left_out += sorted(named or topics)
        if 2 * len(self.left_out) > self._count:
            raise Forbidden(f"the subscription: {reply.detail}")
        if named:
            self._retry([topic for topic in topics if topic not in named])

    def _retry(self, topics: Sequence[str]) -> None:
        if topics:
            self._waiting.append(topics)
