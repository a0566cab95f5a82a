"""Recompute the accuracy figures of a Barograph instance from what it publishes.

Usage: python3 recompute_accuracy.py https://host [--json]

It needs only Python 3.11 or newer. It reads the log of events and the revealed stances, hashes
each text and each measured stance, compares the hashes with the logs, looks for missing versions,
and calculates every figure and headline of /api/v1/accuracy from the published series. It ends
with 0 if everything agrees, with 1 and the first contradiction if not, and with 2 if it can't
finish.

It knows the address of every series itself. The venue and the fund are settings of the operator
that no log has, so it prints them. The texts `source` and `notice`, the host of the links, and the
type of an event whose text was removed can't be checked.

It does not verify signatures, or compare the logs with earlier ones: `barograph-audit` does.
"""

import hashlib
import json
import math
import re
import sys
import time
import urllib.error
import urllib.request
from base64 import b64encode
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from itertools import pairwise
from typing import Any
from urllib.parse import parse_qsl

Json = Any
Fetch = Callable[[str], Json]
Point = tuple[int, float]
Outcome = tuple[int, int, float]

DEFINITION = "14e3675201b0b04ca4d5dbc04cf66e40776d6b340b757cdda089898a5b30e052"
"""SHA-256 of the definition that this program implements, as canonical JSON."""

HOUR = 3_600_000
DAY = 24 * HOUR
SKEW = HOUR // 6  # how far a clock may be set back
HORIZONS = {"8h": 8 * HOUR, "24h": DAY, "7d": 7 * DAY}
LABELS = ("constructive", "neutral", "cautious", "stand-aside")
CLAIMS = {"constructive": "higher", "cautious": "lower"}
KINDS: dict[str, dict[str, tuple[str, ...]]] = {
    "btc-etf-stance": {"btc_return": ("8h", "24h", "7d"), "holdings": ("24h", "7d")},
    "rates-desk": {"btc_return": ("8h", "24h", "7d"), "us10y_change": ("24h", "7d")},
    "funding-regime-stance": {"btc_return": ("8h", "24h", "7d"), "funding": ("8h", "24h", "7d")},
}
SERIES = {
    "btc_return": "price?symbol=BTC&venue={venue}&interval=hour&from={since}&to={as_of}",
    "funding": "settled-funding?symbol=BTC&venue={venue}&from={since}&to={as_of}",
    "us10y_change": "us10y?from={since}&to={as_of}&as_of={as_of}",
    "holdings": "etf-{fund}-btc?from={since}&to={as_of}&as_of={as_of}",
}
UNITS = dict(zip(SERIES, ("%", "% per 8 h", "percentage points", "BTC"), strict=True))
BACK = 19 * DAY  # how much of a series before the first version the baselines need
HASHED = (
    *("schema", "kind", "sequence", "leg_id", "revision", "issued_at", "expires_at", "leg"),
    *("previous_digest", "salt"),
)
OF_EVENTS = (
    *("schema", "kind", "sequence", "type", "at", "version_sequence", "why", "by"),
    *("evidence_digest", "previous_digest", "salt"),
)
RULES = ("accuracy.defined", "reveal.announced")
KEPT = (*RULES, "stance.recorded")  # never removed
LEFT = {"id", "type", "at", "notice", "removed"}  # what an event without its text has
NAMES = ("kind", "metric", "horizon", "label")
LATE = ("announced_at", "defined_at", "definition_digest", "definition_url", "headline")
FEWEST, FEWEST_EPISODES = 30, 10
MATTERS = {"8h": 0.25, "24h": 0.5, "7d": 1.0}
FINDINGS = {
    "higher": "BTC returned more than after other labels",
    "lower": "BTC returned less than after other labels",
    "no-difference": "No difference that would matter",
    "could-not-tell": "We could not tell",
}
DRAWS = 20 * 18 * 20  # 20 of them decide; 18 tests, all right on 19 of 20 pages
CAUTION = (
    "This is not evidence of live-capital results, and past results say nothing about the future."
)


class Contradiction(Exception):
    """Two things that the instance publishes cannot both be true."""


class NotComparable(Exception):
    """This program can't tell whether the figures are right."""


class Difference(Contradiction):
    """A published figure is not the one that we calculate."""


def require(holds: bool, message: str) -> None:
    """Raise `Contradiction` unless something holds."""
    if not holds:
        raise Contradiction(message)


# Reading


def fetch(
    url: str,
    ask: Callable[..., Json] = urllib.request.urlopen,
    sleep: Callable[[float], None] = time.sleep,
) -> Json:
    """Read JSON, or bytes; wait when the instance asks for it."""
    for _ in range(100):
        try:
            with ask(url, timeout=60) as answer:
                body, media = answer.read(), answer.headers.get("Content-Type", "")
                return json.loads(body) if "json" in media else body
        except urllib.error.HTTPError as error:
            error.close()
            if error.code not in {429, 503}:
                raise
            sleep(float(error.headers.get("Retry-After") or 5))
    raise OSError(f"{url} does not answer")


def pages(read: Fetch, url: str | None, name: str) -> Iterator[Json]:
    """The entries of all pages of a list; a link to the next page may only move the position."""
    wanted = url and _list_of(url)
    while url:
        require(_list_of(url) == wanted, f"a page links to another list, {url}")
        page = read(url)
        yield from page[name]
        url = page["next"]


def _list_of(url: str) -> tuple[str, dict[str, str]]:
    path, _, query = url.partition("?")
    kept = {name: text for name, text in parse_qsl(query) if name not in {"cursor", "after"}}
    return "/".join(path.split("/")[3:]), kept


def listed_entries(read: Fetch, base: str, name: str) -> dict[int, Json]:
    """The public list of digests of versions or events of a kind, by sequence."""
    entries: dict[int, Json] = {}
    after: int | None = 0
    while after is not None:
        page = read(f"{base}/api/history/{name}?after={after}&limit=500")
        entries |= {each["sequence"]: each for each in page["entries"]}
        after = page["next"]
    return entries


def milliseconds(text: str) -> int:
    """A timestamp as Unix milliseconds."""
    return round(datetime.fromisoformat(text).timestamp() * 1000)


def timestamp(at: int) -> str:
    """Unix milliseconds as the instance writes them."""
    moment = datetime.fromtimestamp(at // 1000, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{at % 1000:03}Z"


# Hashing: canonical JSON as in RFC 8785


def canonical(value: Json) -> str:
    """Write a value as canonical JSON."""
    if isinstance(value, dict):
        names = sorted(value, key=lambda name: name.encode("utf-16-be"))
        members = (f"{canonical(name)}:{canonical(value[name])}" for name in names)
        return "{" + ",".join(members) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(canonical, value)) + "]"
    if isinstance(value, float):
        return number(value)
    return json.dumps(value, ensure_ascii=False)


def number(value: float) -> str:
    """Write a number as ECMAScript does."""
    if value == 0:
        return "0"
    sign, shown = ("-" if value < 0 else ""), repr(abs(value))
    mantissa, _, exponent = shown.partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    point = len(whole) + int(exponent or 0) - (len(whole + fraction) - len(digits))
    digits = digits.rstrip("0")
    if 0 < point <= 21:
        text = digits[:point].ljust(point, "0") + ("." + digits[point:] if digits[point:] else "")
    elif -6 < point <= 0:
        text = "0." + "0" * -point + digits
    else:
        rest = "." + digits[1:] if digits[1:] else ""
        text = f"{digits[0]}{rest}e{point - 1:+d}"
    return sign + text


def sha256(value: Json) -> str:
    """The digest of a value's canonical JSON."""
    return hashlib.sha256(canonical(value).encode()).hexdigest()


# The logs


def logged_events(read: Fetch, base: str) -> list[Json]:
    """Every event, checked against the entries and the root of the public log."""
    note = read(f"{base}/api/history/checkpoint")["checkpoint"]
    origin, size, root, *_ = note.split("\n")
    folder, count = "/history" + origin.partition("/history")[2], int(size)
    entries = [
        entry for n in range(0, count, 256) for entry in _bundle(read, base + folder, n, count)
    ]
    require(len(entries) == count, "the log of events lacks entries")
    leaves = [hashlib.sha256(b"\0" + each).digest() for each in entries]
    require(b64encode(tree_root(leaves)).decode() == root, "the log of events has another root")
    events = list(pages(read, f"{base}/api/v1/events?limit=1000", "events"))
    numbers = [each["id"] for each in events]
    is_whole = numbers == list(range(1, len(numbers) + 1)) and len(numbers) >= count
    require(is_whole, "the list of events lacks some of the log")
    for event, entry in zip(events, entries, strict=False):
        is_removed = event.keys() == LEFT and event["type"] not in KEPT
        require(is_removed or sha256(event) == entry.hex(), f"event {event['id']} was changed")
    return events[:count]


def _bundle(read: Fetch, folder: str, start: int, count: int) -> list[bytes]:
    name, rest = f"{start // 256 % 1000:03}", start // 256_000
    while rest:
        name, rest = f"x{rest % 1000:03}/{name}", rest // 1000
    width = min(256, count - start)
    body = read(f"{folder}/tile/entries/{name}" + (f".p/{width}" if width < 256 else ""))
    return [body[at + 2 : at + 34] for at in range(0, len(body), 34)]


def tree_root(hashes: list[bytes]) -> bytes:
    """The RFC 6962 root over hashes."""
    while len(hashes) > 1:
        pairs = [hashes[at : at + 2] for at in range(0, len(hashes), 2)]
        hashes = [
            hashlib.sha256(b"\1" + b"".join(pair)).digest() if len(pair) > 1 else pair[0]
            for pair in pairs
        ]
    return hashes[0] if hashes else hashlib.sha256(b"").digest()


def of_type(events: list[Json], name: str) -> list[Json]:
    """The events of a type."""
    return [event for event in events if event["type"] == name]


def definition_event(events: list[Json], digest: str) -> Json:
    """The event that holds the definition; it must be the newest, and the one we implement."""
    found = of_type(events, "accuracy.defined")
    require(bool(found), "the log of events has no definition")
    if sha256(found[-1]) != digest:
        raise Difference("the newest recorded definition is another one")
    if (known := sha256(found[-1].get("definition"))) != DEFINITION:
        raise NotComparable(f"a newer copy of this program may know the definition {known}")
    return found[-1]


def revealed_at(issued_at: int, terms: list[Json]) -> float:
    """When a version becomes public by the terms announced when it was issued."""
    days = [term["after_days"] for term in terms if milliseconds(term["at"]) <= issued_at][-1:]
    return issued_at + days[0] * DAY if days and days[0] else math.inf


def measured_versions(
    kind: str, versions: list[Json], listed: dict[int, Json], events: list[Json], as_of: int
) -> tuple[list[Json], int]:
    """The versions that count, checked against the logs, and how many stay private for good."""
    defined = of_type(events, "accuracy.defined")[-1]
    terms = of_type(events, "reveal.announced")
    public = {each["sequence"]: each for each in versions}
    require(sorted(listed) == list(range(1, len(listed) + 1)), f"{kind}: a digest is missing")
    times = {each: milliseconds(listed[each]["issued_at"]) for each in sorted(listed)}
    since = milliseconds(defined["at"])
    counted = [n for n, at in times.items() if at >= since and revealed_at(at, terms) <= as_of]
    later = [at for n, at in times.items() if counted and n >= counted[0]]
    steps = [after - before for before, after in pairwise(later)]
    require(min(steps, default=0) >= -SKEW, f"{kind}: a time of issue goes backwards")
    private = [at for at in times.values() if at >= since and revealed_at(at, terms) == math.inf]
    found: list[Json] = []
    for sequence in counted:
        require(sequence in public, f"{kind}: version {sequence} is not revealed, but has to be")
        version, entry = public[sequence], listed[sequence]
        require(
            sha256({name: version[name] for name in HASHED}) == entry["history_digest"]
            and version["issued_at"] == entry["issued_at"],
            f"{kind}: version {sequence} is not the one that was recorded",
        )
        before = listed.get(sequence - 1, {"history_digest": version["previous_digest"]})
        follows = before["history_digest"] == version["previous_digest"]
        require(follows, f"{kind}: version {sequence} does not follow version {sequence - 1}")
        until = min(times.get(sequence + 1, as_of), as_of)
        found.append({**version, "issued": times[sequence], "until": until})
    check_order(kind, listed, events, since, as_of - HOUR)
    return found, len(private)


def check_order(
    kind: str, listed: dict[int, Json], events: list[Json], since: int, until: int
) -> None:
    """Require one event per version issued in a period, logged after its rules."""
    logged = of_type(events, "stance.recorded")
    recorded = {each["sequence"]: each for each in logged if each["kind"] == kind}
    in_order = [each["sequence"] for each in logged if each["kind"] == kind]
    is_whole = in_order == list(range(1, len(in_order) + 1))
    require(is_whole, f"{kind}: the log of events does not have each version once and in order")
    last = max((each["id"] for each in recorded.values()), default=0)
    removed = [each["id"] for each in events if each.keys() == LEFT and each["id"] > last]
    if removed and listed.keys() - recorded.keys():
        raise NotComparable(f"{kind}: a version has no event, and event {removed[0]} was removed")
    rules = [each for each in events if each["type"] in RULES]
    for sequence in sorted(recorded.keys() | listed.keys()):
        event, entry = recorded.get(sequence, {}), listed.get(sequence, {})
        times = [event.get("at"), entry.get("issued_at")]
        is_same = event.get("history_digest") == entry.get("history_digest")
        is_same = is_same and times[0] == times[1]
        is_asked = any(since <= milliseconds(each) <= until for each in times if each)
        in_both = f"{kind}: version {sequence} differs in the list and the log of events"
        require(is_same or not is_asked, in_both)
        for rule in rules if is_asked else ():
            is_earlier = rule["id"] < event["id"] or rule["at"] > event["at"]
            require(is_earlier, f"{kind}: event {rule['id']} is later than what it governs")


def check_withdrawals(
    kind: str, versions: list[Json], listed: dict[int, Json], withdrawn: dict[int, Json]
) -> None:
    """Require that exactly the withdrawals of the public list are shown."""
    expected = {}
    for event in withdrawn.values():
        # An operator can only withdraw the newest version.
        before = [n for n, each in listed.items() if each["issued_at"] <= event["at"]]
        expected[max(before, default=0)] = event["event_digest"]
    for version in versions:
        shown = version["withdrawal"]
        found = shown and sha256({name: ({"kind": kind} | shown)[name] for name in OF_EVENTS})
        is_same = found == expected.get(version["sequence"])
        require(is_same, f"{kind}: the withdrawal of version {version['sequence']} is another one")


# Measuring


def first(points: list[Point], at: int, late: int) -> Point | None:
    """The first point at or after an instant, at most so late."""
    found = points[bisect_left(points, (at, -math.inf)) :][:1]
    return found[0] if found and found[0][0] <= at + late else None


def last(points: list[Point], at: int) -> Point | None:
    """The last point up to an instant, at most four days old."""
    found = points[: bisect_right(points, (at, math.inf))][-1:]
    return found[0] if found and found[0][0] >= at - 4 * DAY else None


def outcome(
    metric: str, horizon: int, points: list[Point], at: int, as_of: int, *, before: bool = False
) -> Outcome | None:
    """What followed an instant, or with `before` what preceded it."""
    if metric in {"us10y_change", "holdings"}:
        start = end = last(points, (at - 21 * HOUR) // DAY * DAY)
        if start and before:
            start = last(points, start[0] - horizon)
        elif start:
            end = first(points, start[0] + horizon, 4 * DAY)
        return (start[0], end[0], end[1] - start[1]) if start and end else None
    at -= horizon if before else 0
    if at + horizon + 3 * HOUR > as_of:
        return None
    if metric == "funding":
        low, high = (bisect_right(points, (each, math.inf)) for each in (at, at + horizon))
        rates = [rate for _, rate in points[low:high]]
        return (at, at + horizon, math.fsum(rates) / len(rates)) if rates else None
    start, end = (first(points, each, 2 * HOUR) for each in (at, at + horizon))
    return (start[0], end[0], (end[1] / start[1] - 1) * 100) if start and end else None


def distribution(values: list[float]) -> Json:
    """Count, quantiles and mean."""
    values, n = sorted(values), len(values)
    if n < FEWEST:
        return {"count": n, "quantiles": None, "mean": None}
    quantiles = []
    for percent in (10, 25, 50, 75, 90):
        place = (n - 1) * percent / 100
        low, high = values[math.floor(place)], values[math.ceil(place)]
        quantiles.append(round(low + (high - low) * (place % 1), 6))
    return {"count": n, "quantiles": quantiles, "mean": round(math.fsum(values) / n, 6)}


def episodes_of(cases: list[tuple[int, str]], horizon: int) -> list[int]:
    """The number of the episode of each case."""
    starts = [0]
    for i in range(1, len(cases)):
        is_other = cases[i][1] != cases[i - 1][1]
        if is_other and cases[i][0] - cases[starts[-1]][0] >= max(2 * horizon, 3 * DAY):
            starts.append(i)
    return [bisect_right(starts, i) for i in range(len(cases))]


def compare(ours: list[Point], others: list[Point]) -> Json:
    """The difference of two means, its interval, and which one would have been found."""
    n = len(ours) + len(others)
    mean = math.fsum(value for _, value in ours + others) / n
    scores = dict.fromkeys((episode for episode, _ in sorted(ours + others)), 0.0)
    weights = dict(scores)
    for group, sign in ((ours, 1), (others, -1)):
        for episode, value in group:
            scores[episode] += sign * (value - mean) / len(group)
            weights[episode] += (n - len(group)) / (n * len(group))
    difference = math.fsum(scores.values())
    sums, root = signed_sums(list(scores.values())), math.hypot(*scores.values())
    rest = math.hypot(*(scores[each] - difference * weights[each] for each in scores))
    limit = sums[19] * math.sqrt(len(scores) / max(1, len(scores) - 2))
    usual, share = sums[2 * DRAWS // 5 - 1], math.hypot(*weights.values()) ** 2
    room = 1 - (limit / root) ** 2 * share if root else math.inf
    detectable = 0.0 if room >= 0.01 else None
    if root and detectable is not None:
        widest = math.sqrt((usual / root) ** 2 * share + room) * limit / root
        detectable = round(rest * (usual / root + widest) / room, 6)
    return {
        "difference": round(difference, 6),
        "interval": [round(difference - limit, 6), round(difference + limit, 6)],
        "detectable": detectable,
    }


def signed_sums(scores: list[float]) -> list[float]:
    """The absolute sums with random signs, the largest first."""
    width = -(-len(scores) // 8)
    stream = hashlib.shake_256(b"accuracy/2").digest(DRAWS * width)
    tables = [[0.0] for _ in range(width)]  # by byte, the sum of up to eight scores
    for i, score in enumerate(scores):
        table = tables[i // 8]
        tables[i // 8] = [each - score for each in table] + [each + score for each in table]
    tables = [table * (256 // len(table)) for table in tables]
    draws = (stream[at : at + width] for at in range(0, len(stream), width))
    found = (sum(map(list.__getitem__, tables, draw)) for draw in draws)
    return sorted(map(abs, found), reverse=True)


def finding(interval: list[float], matters: float) -> str:
    """What a comparison shows."""
    low, high = interval
    if low > 0 or high < 0:
        return "higher" if low > 0 else "lower"
    return "no-difference" if max(-low, high) <= matters else "could-not-tell"


def rows_of(
    metric: str, name: str, points: list[Point], cases: list[Json], as_of: int
) -> Iterator[tuple[str, Json]]:
    """What followed each label, by one metric and horizon."""
    legs = [each for each in cases if each["revision"] == 1]
    labels = [(each["issued"], each["leg"]["decision"]["label"]) for each in legs]
    found = partial(outcome, metric, HORIZONS[name], points, as_of=as_of)
    numbered = zip(labels, episodes_of(labels, HORIZONS[name]), strict=True)
    known = [
        (label, episode, after[2], found(at, before=True))
        for (at, label), episode in numbered
        if (after := found(at))
    ]
    for label in LABELS:
        count = sum(each == label for _, each in labels)
        ours = [(episode, value) for each, episode, value, _ in known if each == label]
        others = [(episode, value) for each, episode, value, _ in known if each != label]
        before = [each[3][2] for each in known if each[0] == label and each[3]]
        row = {
            "cases": count,
            "without_outcome": count - len(ours),
            "episodes": len({episode for episode, _ in ours}),
            "followed": distribution([value for _, value in ours]),
            "others": distribution([value for _, value in others]),
            "persistence": distribution(before),
            "finding": "not-tested",
            "comparison": None,
        }
        if min(len(ours), len(others)) < FEWEST or row["episodes"] < FEWEST_EPISODES:
            row["finding"] = "too-few"
            for part in ("followed", "others", "persistence"):
                row[part] = {"count": row[part]["count"], "quantiles": None, "mean": None}
        elif metric == "btc_return" and label in CLAIMS:
            row["comparison"] = compare(ours, others)
            row["finding"] = finding(row["comparison"]["interval"], MATTERS[name])
        yield label, row


def counts_of(kind: str, cases: list[Json], as_of: int) -> dict[str, int]:
    """The counts of a kind."""
    decisions = [case["leg"]["decision"] for case in cases]
    withdrawn = [case["withdrawal"]["at"] for case in cases if case["withdrawal"]]
    sequences = [case["sequence"] for case in cases] or [0]
    return {
        "versions": len(cases),
        "legs": sum(case["revision"] == 1 for case in cases),
        "first": sequences[0],
        "last": sequences[-1],
        "abstained": sum(decision["label"] == "stand-aside" for decision in decisions),
        "expired": sum(milliseconds(case["expires_at"]) <= case["until"] for case in cases),
        "revised": sum(decision["by"] != "rule" for decision in decisions),
        "withdrawn": sum(milliseconds(at) <= as_of for at in withdrawn),
        "late": sum(is_late(kind, case) for case in cases),
    }


def is_late(kind: str, case: Json) -> bool:
    """Whether a version was issued long after its evidence was complete."""
    leg = case["leg"]
    is_funding = kind == "funding-regime-stance"
    complete = leg["period"]["start"] if is_funding else leg["evidence"]["observed_at"]
    return bool(case["revision"] == 1 and case["issued"] > milliseconds(complete) + HOUR)


# Comparing


def kind_of(
    kind: str, cases: list[Json], private: int, series: dict[str, list[Point]], as_of: int
) -> Json:
    """What we calculate about a kind."""
    rows = {
        (metric, horizon, label): row
        for metric, horizons in KINDS[kind].items()
        for horizon in horizons
        for label, row in rows_of(metric, horizon, series[metric], cases, as_of)
    }
    measured = [
        {"metric": metric, "horizon": horizon, "label": label, "unit": UNITS[metric], **row}
        for (metric, horizon, label), row in rows.items()
    ]
    counts = {**counts_of(kind, cases, as_of), "private": private}
    text = headline(rows, counts["legs"])
    return {"kind": kind, **counts, "measured": measured, "headline": text}


def headline(rows: dict[tuple[str, str, str], Json], legs: int) -> str:
    """What the figures of a kind show."""
    tests = {key: row for key, row in rows.items() if key[0] == "btc_return" and key[2] in CLAIMS}
    if not legs:
        return "Nothing is measured yet: no stance since the definition has become public."
    if all(row["finding"] == "too-few" for row in tests.values()):
        sides = [(row["followed"]["count"], row["others"]["count"]) for row in tests.values()]
        cases, spells = max(map(min, sides)), max(row["episodes"] for row in tests.values())
        return (
            "There are too few cases. To compare “constructive” or “cautious” with the other "
            f"labels, we need {FEWEST} cases on each side and {FEWEST_EPISODES} episodes. We have "
            f"at most {cases} case{'s' * (cases != 1)} and {spells} episode{'s' * (spells != 1)}."
        )
    texts = []
    for found, words in FINDINGS.items():
        shown = [shown_as(*key, row) for key, row in tests.items() if row["finding"] == found]
        texts += [f"{words}: {'; '.join(shown)}."] if shown else []
    is_shown = any(row["finding"] in {"higher", "lower"} for row in tests.values())
    return " ".join([*texts, CAUTION] if is_shown else texts)


def shown_as(_: str, horizon: str, label: str, row: Json) -> str:
    """One comparison in words."""
    over = {"8h": "8 h", "24h": "24 h", "7d": "7 days"}[horizon]
    difference, seen = (row["comparison"][name] for name in ("difference", "detectable"))
    least = "could not have seen any"
    if seen is not None:
        least = f"would probably have seen {seen:.2f} % or more"
    is_opposite = {row["finding"], CLAIMS[label]} == {"higher", "lower"}
    opposite = ", the opposite of its claim" if is_opposite else ""
    return f"{label} over {over} (difference {difference:+.2f} %{opposite}; we {least})"


def same(where: str, published: Json, calculated: Json) -> None:
    """Require the same members and texts, and figures up to the last published decimal."""
    if isinstance(calculated, dict):
        require(isinstance(published, dict), f"{where}: published {published}")
        others = sorted(published.keys() ^ calculated.keys())
        require(not others, f"{where}: members that are missing, or new to this program: {others}")
        for name, value in calculated.items():
            same(f"{where} {name}", published[name], value)
    elif isinstance(calculated, list) and isinstance(published, list):
        counts = f"published {len(published)} entries, calculated {len(calculated)}"
        require(len(published) == len(calculated), f"{where}: {counts}")
        for theirs, ours in zip(published, calculated, strict=True):
            name = [ours[each] for each in NAMES if isinstance(ours, dict) and each in ours]
            same(" ".join([where, *name]), theirs, ours)
    else:
        is_float = isinstance(calculated, float) and type(published) in {int, float}
        is_text = str in {type(published), type(calculated)}
        is_text = is_text and where.rpartition(" ")[2] not in LATE
        equal = type(published) is type(calculated) and published == calculated
        if not (abs(published - calculated) < 2e-6 if is_float else equal):
            message = f"{where}: published {published}, calculated {calculated}"
            raise (Contradiction if is_text else Difference)(message)


def addresses(published: Json, home: str, start: int) -> tuple[dict[str, str], int]:
    """The addresses of all series since an instant, and the start of the prices used."""
    shown = published["series"]
    prices = re.search(r"from=(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z)&", shown["btc_return"])
    kept = max(start, milliseconds(prices[1]) if prices else start)
    fund = re.search(r"/etf-([a-z0-9]+)-btc\?", shown["holdings"])
    given = {"as_of": published["as_of"], "venue": published["venue"], "fund": fund and fund[1]}
    require(bool(re.fullmatch("[a-z0-9-]+", given["venue"])), f"invalid venue {given['venue']}")
    since = dict.fromkeys(SERIES, timestamp(start)) | {"btc_return": timestamp(kept)}
    places = {name: text.format(**given, since=since[name]) for name, text in SERIES.items()}
    return {name: f"{home}/api/v1/series/{place}" for name, place in places.items()}, kept


def read_series(read: Fetch, metric: str, address: str) -> list[Point]:
    """The published series of a metric."""
    member = "rate_8h" if metric == "funding" else "value"
    points = pages(read, f"{address}&limit=5000", "points")
    known = [each for each in points if each[member] is not None and not each.get("disputed")]
    return [(milliseconds(each["at"]), each[member]) for each in known]


def check_older_prices(read: Fetch, address: str, start: int, kept: int) -> None:
    """Require that the prices before those that were used are deleted."""
    # The instance refuses to begin before its retention, and does not say how long that is.
    for begin in sorted({max(start, kept - DAY * 2**n) for n in range(2, 14)}):
        place = address.partition("&from=")[0] + f"&from={timestamp(begin)}&to={timestamp(kept)}"
        try:
            found = read_series(read, "btc_return", place)
        except urllib.error.HTTPError as error:
            if error.code != 400:
                raise
            continue
        # Figures begin two days inside the retention, which is counted in whole days.
        is_deleted = all(at >= kept - 3 * DAY - 3 * HOUR for at, _ in found)
        require(is_deleted, f"prices were left out of btc_return, though published at {place}")
        return


def without_figures(published: Json, terms: list[Json]) -> Json:
    """The document of an instance without figures, whose texts aren't checked."""
    nothing = ("as_of", "venue", "defined_at", "definition_digest", "definition_url")
    return {
        **dict.fromkeys(nothing),
        **{name: str(published[name]) for name in ("source", "notice", "note")},
        "after_days": terms[-1]["after_days"] if terms else 0,
        "announced_at": terms[-1]["at"] if terms else None,
        "caution": CAUTION,
        "definitions": 0,
        "series": {},
        "kinds": [],
    }


def frame_of(published: Json, events: list[Json], home: str) -> Json:
    """The document without series and kinds; `as_of` and `venue` are checked elsewhere."""
    terms = of_type(events, "reveal.announced")
    require(bool(terms), "the log of events has no announcement")
    digest = published["definition_digest"]
    return without_figures(published, terms) | {
        "as_of": timestamp(milliseconds(published["as_of"])),
        "venue": published["venue"],
        "note": None,
        "defined_at": definition_event(events, digest)["at"],
        "definition_digest": digest,
        "definition_url": f"{home}/api/v1/events/{digest}",
        "definitions": len(of_type(events, "accuracy.defined")),
    }


def recompute(base: str, read: Fetch = fetch, now: float | None = None) -> Json:
    """Check everything; return the published document.

    Raises:
        Contradiction: something does not agree.
    """
    # Links name the instance, which may be another host than the address that you gave.
    answer = partial(_from, base, read)
    published = answer(f"{base}/api/v1/accuracy")
    events = logged_events(answer, base)
    now = (time.time() if now is None else now) * 1000
    if not published["kinds"]:
        terms = of_type(events, "reveal.announced")
        if not terms and any(event.keys() == LEFT for event in events):
            raise NotComparable("there are no figures, and events were removed")
        is_new = all(milliseconds(term["at"]) > now - 3 * HOUR for term in terms)
        require(is_new, "stances become public, but no figures are shown")
        same("accuracy", published, without_figures(published, terms))
        note = "There are no figures yet." if terms else "This instance reveals no stances."
        return {**published, "note": note}
    as_of = milliseconds(published["as_of"])
    require(as_of % HOUR == 0, f"the figures are of {published['as_of']}, which is no full hour")
    if not now - 3 * HOUR < as_of < now + HOUR:
        why = "not of the last three hours, or your clock is wrong"
        raise NotComparable(f"the figures are of {published['as_of']}, {why}")
    same("accuracy", published, calculate(answer, base, published, events))
    return published


def calculate(read: Fetch, base: str, published: Json, events: list[Json]) -> Json:
    """The document that the instance has to publish, from its logs, versions and series."""
    # Their links begin like this. We read the same paths from the address that you gave.
    home = on_host(published["definition_url"], base)
    document, as_of = frame_of(published, events, home), milliseconds(published["as_of"])
    measured = {kind: read_kind(read, base, kind, events, as_of) for kind in KINDS}
    starts = [cases[0]["issued"] for cases, _ in measured.values() if cases]
    start = min(starts, default=as_of) - BACK
    document["series"], kept = addresses(published, home, start)
    same("series", published["series"], document["series"])
    if kept > start:
        check_older_prices(read, document["series"]["btc_return"], start, kept)
    series = {name: read_series(read, name, at) for name, at in document["series"].items()}
    document["kinds"] = [kind_of(kind, *row, series, as_of) for kind, row in measured.items()]
    return document


def read_kind(
    read: Fetch, base: str, kind: str, events: list[Json], as_of: int
) -> tuple[list[Json], int]:
    """The measured versions of a kind, checked, and how many stay private for good."""
    # The lists of digests first: what they have can't be missing among the revealed versions.
    listed = listed_entries(read, base, kind)
    withdrawn = listed_entries(read, base, f"{kind}/events")
    revealed = pages(read, f"{base}/api/v1/stances/{kind}?limit=100", "stances")
    cases, private = measured_versions(kind, list(revealed), listed, events, as_of)
    check_withdrawals(kind, cases, listed, withdrawn)
    return cases, private


def _from(base: str, read: Fetch, url: str) -> Json:
    return read(on_host(base, url))


def on_host(base: str, url: str) -> str:
    """The path of one address on the host of another."""
    return "/".join([*base.split("/")[:3], *url.split("/")[3:]])


def reason(error: Exception) -> str:
    """Why the program could not finish."""
    if isinstance(error, NotComparable | OSError):
        return f"{error} {getattr(error, 'url', '')}".rstrip()
    lacks = isinstance(error, KeyError)
    return f"an answer lacks {error}" if lacks else f"an answer can't be used ({error!r})"


def main(arguments: list[str], read: Fetch = fetch, now: float | None = None) -> int:
    """Run the program; return its exit code."""
    names = [argument for argument in arguments if not argument.startswith("-")]
    if len(names) != 1 or {*arguments} - {*names, "--json"}:
        print(__doc__)
        return 2
    try:
        published = recompute(names[0].rstrip("/"), read, now)
    except Contradiction as error:
        hint = " Late data or an old cache can cause this for up to an hour."
        is_figure = isinstance(error, Difference)
        print(f"Contradiction: {error}".rstrip(".") + "." + hint * is_figure, file=sys.stderr)
        return 1
    except (NotComparable, OSError, LookupError, TypeError, ValueError, AttributeError) as error:
        print(
            f"Not finished: {reason(error)}. This says nothing about the figures.", file=sys.stderr
        )
        return 2
    if "--json" in arguments:
        print(json.dumps({"agrees": True, **published}))
        return 0
    agrees = f"Everything agrees, as of {published['as_of']}."
    print(agrees if published["kinds"] else published["note"])
    used = [each.partition("?")[0].rpartition("/")[2] for each in published["series"].values()]
    if used:
        print(f"The operator's primary venue: {published['venue']}. Series: {', '.join(used)}.")
        print(f"Prices: {published['series']['btc_return']}")
    for each in published["kinds"]:
        print(f"{each['kind']:24}{each['versions']:6} versions  {each['headline']}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
