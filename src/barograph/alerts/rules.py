"""What an alert watches for: checked, and read back as a sentence (pure).

There is one language with three forms: JSON, the fields of the form on `/alerts`, and a sentence.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Final, Literal, NamedTuple, get_args

import msgspec
from msgspec import Meta, Struct

from barograph.briefs.records import CATEGORIES, in_words
from barograph.errors import InvalidRequest, NotFound
from barograph.kit.text import price, usd
from barograph.kit.timestamps import DAY, HOUR, MINUTE, time_text
from barograph.markets.regime import LABELS
from barograph.signals.methods import BY_KEY
from barograph.venues.records import MAJORS
from barograph.venues.registry import VENUES

Measure = Literal[
    "price",
    "funding",
    "settled-funding",
    "open-interest",
    "liquidations",
    "long-liquidations",
    "short-liquidations",
    "volatility",
    "funding-spread",
    "regime",
    "signal",
    "brief",
    "event",
]
When = Literal["above", "below", "crosses", "rises", "falls", "changes", "happens"]
Within = Literal["15m", "1h", "4h", "24h"]
Every = Literal["5m", "1h", "4h", "24h"]

PERIODS: Final[Mapping[str, int]] = {
    "5m": 5 * MINUTE,
    "15m": 15 * MINUTE,
    "1h": HOUR,
    "4h": 4 * HOUR,
    "24h": DAY,
}
IN_WORDS: Final = {
    "5m": "5 minutes",
    "15m": "15 minutes",
    "1h": "1 hour",
    "4h": "4 hours",
    "24h": "24 hours",
}

ALL, ANY = "all", "any"
"""All venues together, and each venue on its own."""

MAX_SYMBOLS = 20
MARGIN = 0.02
"""How far a value must go back before the same alert can fire again, as a share of the limit."""

GAP = 5 * MINUTE
"""After a longer time without a value, an alert starts over, without a message."""

LEVELS: Final[Sequence[When]] = ("above", "below", "crosses")
CHANGES: Final[Sequence[When]] = ("rises", "falls", "changes")
_FUNDING_HIGHEST = 20.0


_OFFERED: Final[Mapping[str, tuple[str, str]]] = {
    "brief.updated": ("a brief", "is updated"),
    "contract.listed": ("a contract", "is listed"),
    "contract.delisted": ("a contract", "is delisted"),
    "feed.down": ("a data feed", "goes stale"),
    "feed.recovered": ("a data feed", "recovers"),
    "venue.switched": ("the exchange in use", "changes"),
    "stance.recorded": ("a stance", "is recorded"),
    "stance.withdrawn": ("a stance", "is withdrawn"),
    "liquidations.filed": ("a daily file of liquidations", "is published"),
    "reveal.announced": ("the publication of stances", "is announced"),
}
"""A subject and a verb for each type of event that has no measure of its own."""

_EVENTS: Final[Mapping[str, tuple[str, str]]] = {
    **_OFFERED,
    "regime.changed": ("the market regime", "changes"),
    "signal.changed": ("a signal", "changes"),
    "brief.published": ("a brief", "is published"),
    "accuracy.defined": ("the definition of /accuracy", "is recorded"),
    "history.merged": ("the public log", "is merged"),
}
"""Those and the types that only older rules name."""

_ABOUT_COINS = ("brief.updated", "contract.listed", "contract.delisted")


class Fact(NamedTuple):
    """A measure: its name, its unit, and which rules about it make sense."""

    pattern: str
    """Its name, with `{}` for coins."""

    unit: Literal["price", "usd", "pct", "pct8h", ""]
    whens: Sequence[When]
    lowest: float = 0.0
    highest: float = 0.0
    margin: float = 0.0
    """The least distance that a value must go back."""

    venues: Sequence[str] = ()
    """Which of all and any it can be about. Empty: it is about no venue."""

    needs_symbol: bool = True
    only_majors: bool = False
    keys: Sequence[str] = ()
    """What `key` may be: the signal, the category of briefs, or the type of events."""

    labels: Sequence[str] = ()

    @property
    def title(self) -> str:
        """Its name without a coin."""
        return self.of("")

    def of(self, coins: str) -> str:
        """Its name for these coins."""
        return " ".join(self.pattern.format(coins).split())


_ABOVE: Final[Sequence[When]] = ("above",)
_HAPPENS: Final[Sequence[When]] = ("happens",)
_LIQUIDATED = Fact("", "usd", _ABOVE, 1e3, 1e11, venues=(ALL, ANY), needs_symbol=False)
FACTS: Final[Mapping[Measure, Fact]] = {
    "price": Fact("the {} price", "price", (*LEVELS, *CHANGES), 1e-12, 1e9, venues=(ANY,)),
    "funding": Fact(
        *("{} funding", "pct8h", (*LEVELS, *CHANGES), -_FUNDING_HIGHEST, _FUNDING_HIGHEST, 0.0005),
        (ALL, ANY),
    ),
    "settled-funding": Fact(
        *("settled {} funding", "pct8h", LEVELS, -_FUNDING_HIGHEST, _FUNDING_HIGHEST, 0.0005),
        (ANY,),
        only_majors=True,
    ),
    "open-interest": Fact(
        "{} open interest", "usd", (*LEVELS, *CHANGES), 1.0, 1e13, venues=(ALL, ANY)
    ),
    "liquidations": _LIQUIDATED._replace(pattern="{} liquidations"),
    "long-liquidations": _LIQUIDATED._replace(pattern="liquidations of {} longs"),
    "short-liquidations": _LIQUIDATED._replace(pattern="liquidations of {} shorts"),
    "volatility": Fact(
        *("annualized 24-hour {} volatility", "pct", LEVELS, 0.1, 2000.0, 0.5, (ANY,)),
        only_majors=True,
    ),
    "funding-spread": Fact(
        "the widest difference in {} funding between exchanges",
        *("pct8h", ("above", "below"), 0.0001, 2 * _FUNDING_HIGHEST, 0.0005, (ALL,)),
    ),
    "regime": Fact("the market regime", "", _HAPPENS, needs_symbol=False, labels=LABELS),
    "signal": Fact("the signal", "", _HAPPENS, needs_symbol=False, keys=tuple(BY_KEY)),
    "brief": Fact("a brief", "", _HAPPENS, needs_symbol=False, keys=CATEGORIES),
    "event": Fact("an event", "", _HAPPENS, needs_symbol=False, keys=tuple(_OFFERED)),
}
LIQUIDATED: Final[Sequence[Measure]] = (
    "liquidations",
    "long-liquidations",
    "short-liquidations",
)
FROM_EVENTS: Final[Sequence[Measure]] = ("regime", "signal", "brief", "event")
"""These are judged by the log of events, the others by each reading of a venue."""


class Rule(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A checked rule; its members are those of the API."""

    measure: Measure
    symbols: Annotated[tuple[str, ...], Meta(max_length=MAX_SYMBOLS)] = ()
    """Coins in upper case; empty for all."""

    venue: str = ""
    """`all`, `any` or a venue; empty for measures of no venue."""

    when: When = "happens"
    value: float | None = None
    """In the unit of the measure. Changes are in percent, of funding in percentage points."""

    within: Within | None = None
    """How long a change may take, or the time that liquidations are added up over."""

    label: str = ""
    """The label that the regime or a signal must change to; empty for any."""

    key: str = ""
    """Which signal, category of briefs or type of events."""

    every: Every = "1h"
    """At most one message for each coin in this time."""

    until: int | None = None
    """When it ends, in milliseconds since the Unix epoch."""

    @property
    def fact(self) -> Fact:
        """Its measure."""
        return FACTS[self.measure]

    @property
    def limit(self) -> float:
        """The value of a rule that has one."""
        assert self.value is not None
        return self.value

    @property
    def is_about_change(self) -> bool:
        """Whether it compares two times."""
        return self.when in CHANGES

    @property
    def unit(self) -> str:
        """The unit of its value."""
        is_share = self.is_about_change and self.measure != "funding"
        return "pct" if is_share else self.fact.unit

    @property
    def back(self) -> float:
        """The value at which it can fire again."""
        margin = max(MARGIN * abs(self.limit), 0.0 if self.is_about_change else self.fact.margin)
        return self.limit + margin if self.when == "below" else self.limit - margin


def parsed(members: Mapping[str, Any], *, is_form: bool = False) -> Rule:
    """Read the members of a rule; a form sends every value as text.

    Raises:
        InvalidRequest: they aren't a rule; the message names the member.
    """
    try:
        return msgspec.convert(members, Rule, strict=not is_form)
    except msgspec.ValidationError as error:
        raise InvalidRequest(f"the rule can't be read: {error}") from error


def checked(
    rule: Rule,
    resolve: Callable[[str], str],
    venues: Sequence[str],
    now: int,
    lists: Callable[[str, str], bool] = lambda _venue, _symbol: True,
) -> Rule:
    """A rule with its defaults, if it can ever fire.

    `resolve` finds the coin that a text names, `venues` are those that this instance reads, and
    `lists` says whether one of them has a coin.

    Raises:
        InvalidRequest: it can't fire; the message says why and what would work.
    """
    fact = rule.fact
    _check_when(rule)
    try:
        symbols = tuple(dict.fromkeys(map(resolve, rule.symbols)))
    except NotFound as error:
        raise InvalidRequest(error.message) from error
    if fact.needs_symbol and not symbols:
        raise InvalidRequest(f"symbols must name 1 to {MAX_SYMBOLS} coins, such as BTC")
    if fact.only_majors and not frozenset(symbols) <= frozenset(MAJORS):
        raise InvalidRequest(f"{fact.title} is available only for {', '.join(MAJORS)}")
    has_no_coin = (
        {"regime", "signal"} if rule.key in _ABOUT_COINS else {"regime", "signal", "event"}
    )
    if symbols and rule.measure in has_no_coin:
        raise InvalidRequest(f"{rule.key or rule.measure} takes no symbols; leave them out")
    rule = msgspec.structs.replace(rule, symbols=symbols, venue=_venue(rule, venues))
    if rule.venue in venues and (missing := [n for n in symbols if not lists(rule.venue, n)]):
        raise InvalidRequest(f"{VENUES[rule.venue].title} does not list {', '.join(missing)}")
    _check_key(rule)
    if rule.until is not None and rule.until <= now:
        raise InvalidRequest("until must be in the future")
    return rule


def _check_when(rule: Rule) -> None:
    fact = rule.fact
    if rule.when not in fact.whens:
        raise InvalidRequest(f"when must be one of {', '.join(fact.whens)} for {rule.measure}")
    if fact.whens == _HAPPENS:
        if rule.value is not None or rule.within is not None:
            raise InvalidRequest(f"{rule.measure} takes no value and no within; leave them out")
        return
    low, high = (0.0001, 1000.0) if rule.is_about_change else (fact.lowest, fact.highest)
    if rule.is_about_change and rule.measure == "funding":
        high = 2 * _FUNDING_HIGHEST  # from one end to the other
    elif rule.when == "falls":
        high = 99.0  # nothing falls by more than it has
    if rule.value is None or not low <= rule.value <= high:
        raise InvalidRequest(
            f"value must be from {low:g} to {high:g}, in {UNITS[rule.unit]}, or the rule can't fire"
        )
    needs_within = rule.is_about_change or rule.measure in LIQUIDATED
    if needs_within != (rule.within is not None):
        need = f"one of {', '.join(get_args(Within))}" if needs_within else "left out"
        raise InvalidRequest(f"within must be {need} for {rule.measure} {rule.when}")


def _venue(rule: Rule, venues: Sequence[str]) -> str:
    options = rule.fact.venues
    if not options:
        if rule.venue:
            raise InvalidRequest(f"{rule.measure} takes no venue; leave it out")
        return ""
    named = venues if ANY in options else ()
    if rule.measure == "funding-spread" and len(venues) == 1:
        raise InvalidRequest("funding-spread compares exchanges, but this instance reads only one")
    if rule.measure in LIQUIDATED:
        named = [name for name in venues if VENUES[name].liquidations != "none"]
    venue = rule.venue or options[0]
    if venue not in {*options, *named}:
        raise InvalidRequest(f"venue must be one of {', '.join([*options, *named])}")
    return venue


def _check_key(rule: Rule) -> None:
    keys, is_needed = rule.fact.keys, rule.measure in {"signal", "event"}
    if (rule.key or is_needed) and rule.key not in keys:
        raise InvalidRequest(
            f"key must be one of {', '.join(keys)}" if keys else f"{rule.measure} has no key"
        )
    labels = labels_of(rule.measure, rule.key)
    if rule.label and rule.label not in labels:
        raise InvalidRequest(
            f"label must be one of {', '.join(labels)}" if labels else "leave out label"
        )


def labels_of(measure: Measure, key: str) -> Sequence[str]:
    """The labels that the regime or a signal can have."""
    return BY_KEY[key].labels if measure == "signal" and key in BY_KEY else FACTS[measure].labels


UNITS: Final = {
    "price": "the currency of the price",
    "usd": "USD",
    "pct": "percent",
    "pct8h": "percent per 8 hours",
}


def amount(value: float, unit: str) -> str:
    """A value in its unit, for people."""
    if unit == "price":
        return price(value)
    if unit == "usd":
        return usd(value)
    return f"{value:.4g} %" if unit == "pct" else f"{value:.4f} % per 8 h"


def key_words(measure: Measure, key: str) -> str:
    """A signal, a category of briefs or a type of events for people."""
    if measure == "signal":
        return BY_KEY[key].name
    return " ".join(_EVENTS[key]) if measure == "event" else in_words(key)


def subject(rule: Rule, symbols: Sequence[str], venue: str) -> str:
    """What a rule is about: `BTC funding at Bybit`."""
    fact, coins = rule.fact, " or ".join(filter(None, [", ".join(symbols[:-1]), *symbols[-1:]]))
    if rule.measure == "event":
        return _EVENTS[rule.key][0] + (f" of {coins}" if coins else "")
    if not fact.venues:
        named = f" {'on ' * (rule.measure == 'brief')}{key_words(rule.measure, rule.key)}"
        return f"{fact.title}{named * bool(rule.key)}{f' about {coins}' * bool(coins)}"
    name = fact.of(coins)
    if venue == ALL:
        if rule.measure == "funding":
            return f"the mean {name} of all exchanges"
        return name if rule.measure == "funding-spread" else f"{name} at all exchanges together"
    return f"{name} at {'any exchange' if venue == ANY else VENUES[venue].title}"


def condition(rule: Rule) -> str:
    """When a rule fires: `is above 0.0500 % per 8 h`."""
    if rule.when == "happens":
        return f"becomes {rule.label}" if rule.label else _verb(rule)
    value = amount(rule.limit, rule.unit)
    within = f" within {IN_WORDS[rule.within]}" if rule.within is not None else ""
    if rule.is_about_change:
        coins = ", counted in coins" if rule.measure == "open-interest" else ""
        return f"{_verb(rule)} by {value}{within}{coins}"
    return f"{_verb(rule)} {value}{within}"


def _verb(rule: Rule) -> str:
    if rule.measure == "event":
        return _EVENTS[rule.key][1]
    if rule.when == "happens":
        return "is published" if rule.measure == "brief" else "changes"
    is_plural = rule.measure in LIQUIDATED
    words = {"above": "exceed" if is_plural else "is above", "below": "is below"}
    return words.get(rule.when, rule.when)


def sentence(rule: Rule) -> str:
    """What will happen, read back to the owner."""
    first = f"Tells you when {subject(rule, rule.symbols, rule.venue)} {condition(rule)}."
    is_many = len(rule.symbols) > 1 or (rule.measure == "brief" and not rule.symbols)
    every = IN_WORDS[rule.every].removeprefix("1 ")
    limit = f"At most one message {'per coin ' * is_many}every {every}."
    end = [] if rule.until is None else [f"It ends on {time_text(rule.until)}."]
    return " ".join([first, *_again(rule), limit, *end])


def _again(rule: Rule) -> list[str]:
    if rule.when == "happens":
        return []
    back = amount(rule.back, rule.unit)
    if rule.when == "crosses":
        return [f"On the way down, the crossing counts only below {back}."]
    if rule.is_about_change:
        return [f"It can tell you again once the change has dropped below {back}."]
    moved = "risen above" if rule.when == "below" else "fallen below"
    return [f"It can tell you again once the value has {moved} {back}."]
