"""Results are written without the SDK's models and compared with them here."""

import pytest
from mcp.types.methods import serialize_server_result
from mcp.types.version import KNOWN_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS

from barograph.discovery.mcp_description import PROTOCOLS
from barograph.mcp.calls import CallOutcome
from barograph.mcp.server import call_result

FACTS = {"zero": 0, "unknown": None, "list": [None, {"within": None}], "text": "\u00df"}
OUTCOMES = {
    "one text": CallOutcome(("{}",), {}),
    "two texts": CallOutcome(('{"zero":0}', "119 of 120 are left"), FACTS),
    "a failure": CallOutcome(("too many requests",)),
}


@pytest.mark.parametrize("revision", PROTOCOLS)
@pytest.mark.parametrize("outcome", OUTCOMES.values(), ids=OUTCOMES)
def test_a_result_is_what_the_sdk_would_have_written(outcome: CallOutcome, revision: str) -> None:
    written = call_result(outcome, revision)

    assert serialize_server_result("tools/call", revision, written) == written


def test_every_sdk_revision_except_the_one_with_batches_is_supported() -> None:
    spoken = [each for each in reversed(KNOWN_PROTOCOL_VERSIONS) if each != "2025-03-26"]
    assert tuple(spoken) == PROTOCOLS
    assert PROTOCOLS[:1] == MODERN_PROTOCOL_VERSIONS
