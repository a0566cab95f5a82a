"""The seven query parameters of a comparison, and why one is refused (pure)."""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import unquote_to_bytes

from barograph.errors import PrivateError, PrivateUnavailable
from barograph.history.records import KINDS


class InvalidComparisonReference(PrivateError):
    """A parameter is missing, extra or malformed."""

    status = 400
    code = "invalid_comparison_reference"


class ComparisonReferenceUnavailable(PrivateError):
    """The pair is not the latest two versions, or the latest is expired or withdrawn."""

    status = 404
    code = "comparison_reference_unavailable"

    def __init__(self) -> None:
        super().__init__(
            "these are not the latest two recorded versions, or the latest has expired or was "
            "withdrawn: read the current stance, and stop if the pair is unavailable"
        )


class ComparisonUnavailable(PrivateUnavailable):
    """Identity, entitlement or the history cannot be looked up now."""

    code = "comparison_unavailable"

    def __init__(self) -> None:
        super().__init__("the comparison is unavailable; try again shortly")


MAX_LEG_ID = 200
MAX_REVISION = 2_147_483_647
MAX_QUERY_BYTES = 6_000
"""More than a valid query needs with every byte percent-encoded."""

_LEG_ID: dict[str, Any] = {
    "type": "string",
    "minLength": 1,
    "maxLength": MAX_LEG_ID,
    "pattern": r"^[^\x00-\x1f\x7f]*$",
}
_REVISION_NUMBER: dict[str, Any] = {"type": "integer", "minimum": 1, "maximum": MAX_REVISION}
_SHA256: dict[str, Any] = {"type": "string", "pattern": "^[0-9a-f]{64}$"}

PARAMETERS: Mapping[str, tuple[str, dict[str, Any]]] = {
    "kind": ("The kind of both stances.", {"type": "string", "enum": list(KINDS)}),
    "before_leg": ("`leg_id` of the earlier version.", _LEG_ID),
    "before_revision": ("`revision` of the earlier version.", _REVISION_NUMBER),
    "before_digest": ("`history_digest` of the earlier version.", _SHA256),
    "after_leg": ("`leg_id` of the later version.", _LEG_ID),
    "after_revision": ("`revision` of the later version.", _REVISION_NUMBER),
    "after_digest": ("`history_digest` of the later version.", _SHA256),
}
"""The required parameters, each with its description and JSON schema."""

_REVISION = re.compile(r"[1-9][0-9]{0,9}")
_DIGEST = re.compile(r"[0-9a-f]{64}")
# A leg id is opaque, but has no line breaks.
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_BROKEN_PERCENT = re.compile(rb"%(?![0-9A-Fa-f]{2})")


class Reference(NamedTuple):
    """A version as a caller references it."""

    leg_id: str
    revision: int
    history_digest: str


class Pair(NamedTuple):
    """The two versions to compare."""

    kind: str
    before: Reference
    after: Reference


def parse_pair(query_string: bytes) -> Pair:
    """Read the pair without trimming or normalising anything.

    Raises:
        InvalidComparisonReference: a parameter is missing, extra, repeated or malformed.
    """
    given = _parameters(query_string)
    if given["kind"] not in KINDS:
        raise InvalidComparisonReference(f"kind must be one of {', '.join(KINDS)}")
    return Pair(given["kind"], _reference(given, "before"), _reference(given, "after"))


def _parameters(query_string: bytes) -> dict[str, str]:
    if len(query_string) > MAX_QUERY_BYTES:
        raise InvalidComparisonReference("the query is longer than a valid one can be")
    given: dict[str, str] = {}
    # An empty piece between two ampersands is refused as an unknown name.
    for piece in query_string.split(b"&") if query_string else ():
        raw_name, _, raw_value = piece.partition(b"=")
        name = _decoded(raw_name, "every name")
        if name not in PARAMETERS:
            raise InvalidComparisonReference(f"the parameters are {', '.join(PARAMETERS)}")
        if name in given:
            raise InvalidComparisonReference(f"{name} must be given once")
        given[name] = _decoded(raw_value, name)
    for name in PARAMETERS:
        if name not in given:
            raise InvalidComparisonReference(f"{name} is missing")
    return given


def _decoded(raw: bytes, what: str) -> str:
    message = f"{what} must be percent-encoded UTF-8"
    if _BROKEN_PERCENT.search(raw) is not None:
        raise InvalidComparisonReference(message)
    try:
        return unquote_to_bytes(raw.replace(b"+", b" ")).decode()
    except UnicodeDecodeError as error:
        raise InvalidComparisonReference(message) from error


def _reference(given: Mapping[str, str], side: str) -> Reference:
    leg_id = given[f"{side}_leg"]
    revision, digest = given[f"{side}_revision"], given[f"{side}_digest"]
    if not 1 <= len(leg_id) <= MAX_LEG_ID or _CONTROL.search(leg_id) is not None:
        raise InvalidComparisonReference(
            f"{side}_leg must have 1 to {MAX_LEG_ID} characters and no control characters"
        )
    if _REVISION.fullmatch(revision) is None or int(revision) > MAX_REVISION:
        raise InvalidComparisonReference(
            f"{side}_revision must be a number from 1 to {MAX_REVISION} in decimal digits, without "
            "a sign or a leading zero"
        )
    if _DIGEST.fullmatch(digest) is None:
        raise InvalidComparisonReference(f"{side}_digest must be 64 lower-case hex digits")
    return Reference(leg_id, int(revision), digest)
