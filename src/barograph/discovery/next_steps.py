"""What can be asked next with what an answer says, as OpenAPI links (pure)."""

from typing import Any

_AFTER = {
    "kind": "$response.body#/kind",
    "after_leg": "$response.body#/leg_id",
    "after_revision": "$response.body#/revision",
    "after_digest": "$response.body#/history_digest",
}
_COMPARE = {
    "compare": {
        "operationId": "getMaterialChange",
        "parameters": _AFTER,
        "description": "A durable stance is the later half of a comparison; the earlier half is "
        "the version that was read before it.",
    }
}


def _proof(operation_id: str) -> dict[str, Any]:
    return {
        "proof": {
            "operationId": operation_id,
            "parameters": {
                "kind": "$request.path.kind",
                "size": "$response.body#/count",
                "sequence": "$response.body#/entries/0/sequence",
            },
            "description": "That the first entry of this page is in the list.",
        }
    }


def _page(operation_id: str) -> dict[str, Any]:
    return {
        "next": {
            "operationId": operation_id,
            "parameters": {"kind": "$request.path.kind", "after": "$response.body#/next"},
            "description": "The next page, unless `next` is null.",
        }
    }


LINKS: dict[str, dict[str, Any]] = {
    "getBtcEtfStance": _COMPARE,
    "getRatesDesk": _COMPARE,
    "getFundingRegime": _COMPARE,
    "getHistory": _proof("getHistoryProof") | _page("getHistory"),
    "getHistoryEvents": _proof("getHistoryEventsProof") | _page("getHistoryEvents"),
}
"""By the operation whose success they follow."""
