"""How `GET /api/feed/now` is refused, beyond what every entitled door says."""

from barograph.errors import Unavailable


class FeedUnavailable(Unavailable):
    """Identity, entitlement or the stances cannot be looked up now."""

    code = "feed_unavailable"

    def __init__(self) -> None:
        super().__init__("the feed cannot be read at the moment; try again shortly")
