"""How a direct stance read is refused, beyond what every entitled door says.

PrivateError
├── NoStance             404
├── StanceNotActive      404
└── StanceUnavailable    503
"""

from barograph.errors import PrivateError, Unavailable


class NoStance(PrivateError):
    """Nothing of this kind was ever issued here."""

    status = 404
    code = "no_stance"

    def __init__(self) -> None:
        super().__init__("no stance of this kind has been issued yet; /api/status says why")


class StanceNotActive(PrivateError):
    """The newest stance has run out or was withdrawn: nobody is charged for it."""

    status = 404
    code = "stance_not_active"

    def __init__(self) -> None:
        super().__init__("the newest stance has expired or was withdrawn; nothing was charged")


class StanceUnavailable(Unavailable):
    """Identity, entitlement or the stance itself cannot be looked up now."""

    code = "stance_unavailable"

    def __init__(self) -> None:
        super().__init__("the stance cannot be read at the moment; try again shortly")
