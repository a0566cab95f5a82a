"""`/api/v1/accuracy`: what followed the revealed stances."""

from typing import Annotated, Literal

from msgspec import to_builtins
from pydantic import Field
from starlette.requests import Request

from barograph import NOTICE
from barograph.accuracy.cases import CAUTION
from barograph.accuracy.definition import FEWEST_EPISODES
from barograph.accuracy.records import ACCURACY, FEWEST, Accuracy
from barograph.board.board import Board
from barograph.history.documents import Hash, Kind
from barograph.kit.documents import Document
from barograph.kit.http import ApiRouter, DocumentResponse
from barograph.kit.lists import given_parameters
from barograph.kit.timestamps import iso_timestamp
from barograph.kit.wire import Notice, WireModel, operation
from barograph.stances.reveals import NOT_ANNOUNCED, REVEALS, Reveals

ACCURACY_PATH = "/api/v1/accuracy"
EVENT_TEXTS = "/api/v1/events/"
NOT_REVEALED = "This instance does not reveal its stances, so nothing can be measured."
NOT_CALCULATED = "The first figures have not been calculated yet; try again in a minute."

Count = Annotated[int, Field(ge=0)]


class DistributionBody(WireModel):
    """The values of cases."""

    count: Count
    quantiles: Annotated[
        list[float] | None,
        Field(description="At 10, 25, 50, 75 and 90 %; null with too few cases."),
    ]
    mean: Annotated[float | None, Field(description="Null with too few cases.")]


class ComparisonBody(WireModel):
    """The mean after the label minus the mean after other labels, in the unit of the metric."""

    difference: float
    interval: Annotated[
        list[float],
        Field(description="A 95 % interval of the difference, widened because we test 18 at once."),
    ]
    detectable: Annotated[
        float | None,
        Field(
            description="The smallest difference that we would have found with about 80 % "
            "probability; null if none."
        ),
    ]


class MeasuredBody(WireModel):
    """What followed one label, by one metric and horizon."""

    label: Literal["constructive", "neutral", "cautious", "stand-aside"]
    horizon: Literal["8h", "24h", "7d"]
    metric: str
    unit: str
    cases: Annotated[Count, Field(description="Legs whose first version has this label.")]
    without_outcome: Annotated[
        Count, Field(description="Those whose horizon is not over or has no data.")
    ]
    episodes: Annotated[
        Count,
        Field(description="Separate stretches of time that hold the cases with an outcome."),
    ]
    followed: DistributionBody
    others: Annotated[
        DistributionBody, Field(description="The same measure after any other label.")
    ]
    persistence: Annotated[
        DistributionBody, Field(description="The same measure just before each case.")
    ]
    finding: Annotated[
        Literal["too-few", "not-tested", "could-not-tell", "no-difference", "higher", "lower"],
        Field(
            description="`higher` or `lower` than after other labels; `no-difference`: none that "
            "would matter (over 0.25 % in 8 h, 0.5 % in 24 h, 1 % in 7 days); "
            "`could-not-tell`: too little data to rule one out; "
            f"`too-few`: under {FEWEST} cases or {FEWEST_EPISODES} episodes."
        ),
    ]
    comparison: Annotated[
        ComparisonBody | None, Field(description="Null with too few cases or no claim.")
    ]


class KindBody(WireModel):
    """The track record of one kind of stance."""

    kind: Kind
    versions: Annotated[Count, Field(description="Measured versions.")]
    legs: Annotated[Count, Field(description="Those that are the first version of their leg.")]
    first: Annotated[Count, Field(description="Sequence of the first; 0 if there is none.")]
    last: Count
    abstained: Annotated[Count, Field(description="Versions that stand aside.")]
    expired: Annotated[Count, Field(description="Those that expired before the next version.")]
    revised: Annotated[Count, Field(description="Those that an operator decided.")]
    withdrawn: Count
    late: Annotated[Count, Field(description="Those issued over an hour after their evidence.")]
    private: Annotated[Count, Field(description="Others, which never become public.")]
    headline: str
    measured: list[MeasuredBody]


class AccuracyBody(WireModel):
    """What followed the revealed stances, one label beside the others."""

    as_of: Annotated[
        str | None, Field(description="A full hour; null if nothing was calculated yet.")
    ]
    venue: Annotated[str | None, Field(description="The exchange of prices and funding.")]
    source: str
    notice: Notice
    caution: str
    note: Annotated[str | None, Field(description="Why there is nothing; else null.")]
    after_days: Annotated[
        Count, Field(description="Days until new versions become public; 0: never.")
    ]
    announced_at: str | None
    defined_at: str | None
    definition_digest: Annotated[
        Hash | None, Field(description="Digest of the event with the definition.")
    ]
    definition_url: Annotated[str | None, Field(description="Address of that event.")]
    definitions: Annotated[Count, Field(description="So far. A new one starts the counts again.")]
    series: Annotated[dict[str, str], Field(description="Address of the series, by metric.")]
    kinds: list[KindBody]


def accuracy_document(
    accuracy: Accuracy | None, reveals: Reveals, source: str, base_url: str
) -> Document:
    """Render the snapshot; before there is one, the announced terms and `source` are known."""
    known, note = accuracy, None
    if known is None:
        known = Accuracy(0, source, reveals.after_days, reveals.announced_at, None, "", ())
        note = NOT_REVEALED if reveals.announced_at is None else NOT_CALCULATED
    digest = known.definition_digest or None
    body = AccuracyBody(
        as_of=None if accuracy is None else iso_timestamp(known.as_of),
        venue=known.venue or None,
        source=known.source,
        notice=NOTICE,
        caution=CAUTION,
        note=note,
        after_days=known.after_days,
        announced_at=_time(known.announced_at),
        defined_at=_time(known.defined_at),
        definition_digest=digest,
        definition_url=digest and f"{base_url}{EVENT_TEXTS}{digest}",
        definitions=known.definitions,
        series={metric: base_url + path for metric, path in known.series.items()},
        kinds=[KindBody.model_validate(to_builtins(kind)) for kind in known.kinds],
    )
    return Document(
        body.encode(), modified=None if accuracy is None else accuracy.as_of, compress=True
    )


def _time(at: int | None) -> str | None:
    return None if at is None else iso_timestamp(at)


class AccuracyReader:
    """Renders each snapshot once."""

    def __init__(self, source: str, base_url: str) -> None:
        self._source = source
        self._base_url = base_url
        self._rendered: tuple[object, Document] | None = None

    def document(self, board: Board) -> Document:
        """The newest figures, whatever their age: what was recorded does not expire."""
        known = board.latest(ACCURACY), board.latest(REVEALS) or NOT_ANNOUNCED
        if self._rendered is None or self._rendered[0] != known:
            self._rendered = known, accuracy_document(*known, self._source, self._base_url)
        return self._rendered[1]


def accuracy_routes(board: Board, reader: AccuracyReader) -> ApiRouter:
    """The route of the track record."""
    router = ApiRouter(tags=["history"])

    @router.get(
        ACCURACY_PATH,
        **operation("getAccuracy", AccuracyBody, responses={400: "Unknown parameter."}),
    )
    async def accuracy(request: Request) -> DocumentResponse:
        given_parameters(request.query_params, (), "")
        return DocumentResponse(reader.document(board), board.clock())

    return router
