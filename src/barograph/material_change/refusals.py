"""How a comparison is refused.

PrivateError
├── InvalidComparisonReference       400
├── ComparisonReferenceUnavailable   404
└── ComparisonUnavailable            503
"""

from barograph.errors import PrivateError, Unavailable


class InvalidComparisonReference(PrivateError):
    """A parameter is missing, extra or malformed."""

    status = 400
    code = "invalid_comparison_reference"


class ComparisonReferenceUnavailable(PrivateError):
    """The pair is not the latest two that stand; the endpoint looks for no other."""

    status = 404
    code = "comparison_reference_unavailable"

    def __init__(self) -> None:
        super().__init__(
            "these are not the latest two recorded versions, or the latest has expired or was "
            "withdrawn: read the current stance, and stop if it has no pair"
        )


class ComparisonUnavailable(Unavailable):
    """Identity, entitlement or the history cannot be looked up now."""

    code = "comparison_unavailable"

    def __init__(self) -> None:
        super().__init__("the comparison cannot be made at the moment; try again shortly")
