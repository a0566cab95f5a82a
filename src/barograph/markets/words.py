"""How amounts are written for people (pure)."""

LETTERS = ("k", "M", "B", "T")
THOUSAND = 1_000


def usd(amount: float) -> str:
    """An amount of money: `$950`, `$1.23M`."""
    shown = f"{amount:.0f}"
    for letter in LETTERS:
        if round(amount, 2) < THOUSAND and shown != "1000":
            break
        amount /= THOUSAND
        shown = f"{amount:.2f}{letter}"
    return f"${shown}"


def price(amount: float) -> str:
    """A price with every digit it has, and no exponent."""
    return f"{amount:.10f}".rstrip("0").rstrip(".")
