"""`/api/v1/accuracy`: what followed the revealed stances."""

from starlette.requests import Request

from barograph.accuracy.documents import ACCURACY_PATH, AccuracyBody, accuracy_document
from barograph.accuracy.records import ACCURACY
from barograph.board.board import Board
from barograph.kit.documents import Document
from barograph.kit.http import ApiRouter, DocumentResponse
from barograph.kit.lists import given_parameters
from barograph.kit.wire import operation
from barograph.stances.reveals import NOT_ANNOUNCED, REVEALS


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
