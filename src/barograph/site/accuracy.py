"""`/accuracy`: what followed the stances that have become public, one table per metric."""

from collections.abc import Mapping, Sequence
from itertools import groupby
from math import floor, log10
from operator import attrgetter
from typing import Final, NamedTuple

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response

from barograph.accuracy.cases import is_tested
from barograph.accuracy.definition import FEWEST_EPISODES, MATTERS
from barograph.accuracy.endpoints import ACCURACY_PATH, EVENT_TEXTS
from barograph.accuracy.records import ACCURACY, FEWEST, Accuracy, Measured
from barograph.badges.documents import BADGE_FOLDER, NO_LIVE_CAPITAL
from barograph.kit.timestamps import DAY, MINUTE
from barograph.site.charts.svg import number
from barograph.site.paths import ACCURACY_PAGE, RECORD_PATH, STATIC_FOLDER
from barograph.site.record_pages import TITLES
from barograph.site.responses import Page, PageRouter
from barograph.site.site import Site
from barograph.site.templating import period
from barograph.stances.reveal_endpoints import REVEALED_FOLDER
from barograph.stances.reveals import NOT_ANNOUNCED, REVEALS

METRICS: Mapping[str, str] = {
    "btc_return": "BTC return",
    "funding": "Settled funding of BTC",
    "us10y_change": "Change of the US 10-year yield",
    "holdings": "Change of the bitcoin that the covered funds hold",
}
_FINDINGS: Mapping[str, str] = {
    "not-tested": "Not tested",
    "could-not-tell": "We could not tell",
    "no-difference": "No difference that would matter",
    "higher": "Higher than after other labels",
    "lower": "Lower than after other labels",
}
_WIDTH: Final = 100
_SPAN: Final = Markup('<rect class="{}" x="{}" y="{}" width="{}" height="4"/>')
_MEDIAN: Final = Markup('<rect class="tick" x="{}" y="{}" width="1" height="6"/>')


class MetricTable(NamedTuple):
    """What followed each label, by one metric."""

    title: str
    unit: str
    rows: Sequence[Measured]
    """Those with enough cases to say more than their number."""

    few: str
    """How many cases the others have; empty if there are no others."""

    decimals: int

    @property
    def is_tested(self) -> bool:
        """Whether any row has a finding."""
        return any(is_tested(row) for row in self.rows)

    def signed(self, value: float) -> str:
        """A number with its sign, and with as many decimals as the others in the table."""
        return f"{value:+z,.{self.decimals}f}".replace("-", "\N{MINUS SIGN}")


def metric_tables(measured: Sequence[Measured]) -> list[MetricTable]:
    """The rows of a kind, one table per metric, in the order of the snapshot."""
    tables = []
    for (metric, unit), found in groupby(measured, attrgetter("metric", "unit")):
        all_rows = list(found)
        rows = [row for row in all_rows if row.finding != "too-few"]
        few = _counts([row for row in all_rows if row not in rows])
        tables.append(MetricTable(METRICS[metric], unit, rows, few, _decimals(rows)))
    return tables


def _counts(rows: Sequence[Measured]) -> str:
    counts = []
    for horizon, found in groupby(rows, attrgetter("horizon")):
        counts.append(f"{period(horizon)}: {', '.join(map(_count, found))}")
    return "; ".join(counts)


def _count(row: Measured) -> str:
    others = (
        f" ({row.others.count} with other labels)"
        if row.followed.count >= FEWEST > row.others.count
        else ""
    )
    episodes = f"{row.episodes} episode{'s' * (row.episodes != 1)}"
    return f"{row.label} {row.followed.count} in {episodes}{others}"


def case(row: Measured) -> str:
    """The label and the horizon."""
    return f"{row.label}, {period(row.horizon)}"


def drawing(row: Measured) -> Markup:
    """The ranges from 10 to 90 % and the medians on one scale; what followed is on top."""
    shown = [part.quantiles for part in row.parts if part.quantiles is not None]
    low, high = min(each[0] for each in shown), max(each[-1] for each in shown)
    scale = _WIDTH / (high - low or 1)
    bars = Markup()
    for at, quantiles in enumerate(shown):
        first, _, median, _, last = ((quantile - low) * scale for quantile in quantiles)
        name, width = "middle" if at else "measured", number(last - first)
        bars += _SPAN.format(name, number(first), 8 * at + 2, width)
        bars += _MEDIAN.format(number(min(median, _WIDTH - 1)), 8 * at + 1)
    return Markup(
        '<svg class="lane" viewBox="0 0 {} 24" preserveAspectRatio="none" aria-hidden="true">'
        "{}</svg>"
    ).format(_WIDTH, bars)


def public_from(accuracy: Accuracy) -> int | None:
    """When the first measured version becomes public at the earliest; None if nothing is."""
    if accuracy.announced_at is None or not accuracy.after_days:
        return None
    begun = max(accuracy.announced_at, accuracy.defined_at or 0)
    return begun + accuracy.after_days * DAY


def _decimals(rows: Sequence[Measured]) -> int:
    """Three significant digits of the largest number."""
    numbers = (abs(each) for row in rows for part in row.parts for each in part.quantiles or ())
    largest = max(numbers, default=0.0)
    return max(0, 2 - floor(log10(largest))) if largest else 2


def accuracy_routes(router: PageRouter, site: Site) -> None:
    """The route of the page."""

    async def render(now: int) -> Page:
        accuracy = site.board.latest(ACCURACY)
        body = site.templates.render(
            "accuracy.html",
            here=RECORD_PATH,
            accuracy=accuracy,
            is_announced=site.board.latest(REVEALS) not in (None, NOT_ANNOUNCED),
            public_from=None if accuracy is None else public_from(accuracy),
            titles=TITLES,
            fewest=FEWEST,
            caution=NO_LIVE_CAPITAL,
            api_path=ACCURACY_PATH,
            texts_folder=EVENT_TEXTS,
            stances_folder=REVEALED_FOLDER,
            badge_folder=BADGE_FOLDER,
            script_path=f"{STATIC_FOLDER}recompute_accuracy.py",
            metric_tables=metric_tables,
            findings=_FINDINGS,
            matters=MATTERS,
            fewest_episodes=FEWEST_EPISODES,
            case=case,
            drawing=drawing,
        )
        return Page(body, since=now, until=now + MINUTE)

    @router.get(ACCURACY_PAGE)
    async def read_accuracy(request: Request) -> Response:
        return await site.respond(request, render)
