"""What the log of events says about the market."""

from barograph.events.records import NewEvent
from barograph.kit.timestamps import iso_timestamp
from barograph.markets.failover import Switch
from barograph.markets.records import Perpetuals
from barograph.markets.store import RegimeChange

MARKET_FEED = "market-feed"
"""The feed by its name among the status checks."""


def regime_event(venue: str, change: RegimeChange, previous: str | None) -> NewEvent:
    """A new regime, with the rate that caused it and the label before."""
    return NewEvent(
        "regime.changed",
        change.at,
        f"{venue}/{change.at}",
        {
            "venue": venue,
            "symbol": "BTC",
            "label": change.label,
            "previous": previous,
            "fundingRatePct8h": change.funding_8h_pct,
        },
    )


def outage_event(last: Perpetuals, max_age: int, at: int) -> NewEvent:
    """The market feed has passed its freshness limit since its last reading; noticed at `at`.

    The collector and the web both notice it. The last reading identifies the outage, so that it is
    recorded once.
    """
    members = {**_feed(last), "stale_since": iso_timestamp(last.as_of + max_age)}
    return NewEvent("feed.down", at, f"{last.venue}/{last.as_of}", {**members})


def recovery_event(last: Perpetuals, at: int) -> NewEvent:
    """The first reading after an outage that began after `last`."""
    return NewEvent("feed.recovered", at, f"{last.venue}/{last.as_of}", {**_feed(last)})


def switch_event(switch: Switch) -> NewEvent:
    """Another venue is in use."""
    members = {"venue": switch.after, "previous": switch.before, "reason": switch.reason}
    return NewEvent("venue.switched", switch.at, f"{switch.after}/{switch.at}", {**members})


def _feed(last: Perpetuals) -> dict[str, str]:
    return {"venue": last.venue, "feed": MARKET_FEED}
