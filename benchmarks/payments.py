"""Payments: the cost of a paid read beside an entitled one, and the effect of a flood.

The simulated facilitator is another process: the CPU time of the worker is the service's own.
"""

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from http import HTTPStatus
from http.client import HTTPConnection
from pathlib import Path
from statistics import median
from typing import NamedTuple

from barograph.limits.rate_limits import PROOFS
from barograph.settings import Settings
from barograph.stances import rates
from barograph.stances.documents import STANCE_PATHS
from barograph_demo.configuration import make_proof, payment_settings
from barograph_demo.servers.wallets import load_or_create_wallets
from benchmarks import bench
from benchmarks.market import calls, running_world
from benchmarks.subscribers import bearer, entitled_settings, fill_service

TITLE = "Payments by x402: median of the rounds (middle half)"
READS, QUICK_READS = 50, 10
"""Reads of each kind per round."""

BAD_PROOFS = 60
PATH = STANCE_PATHS[rates.KIND]
VERSIONS = 10

Fields = Mapping[str, str]


class Cost(NamedTuple):
    """Median response time and CPU time of one read, in ms."""

    p50: float
    cpu: float


def measure(plan: bench.Plan, folder: Path) -> bench.Section:
    """Pay for reads, then send bad proofs."""
    with running_world(folder, "identity", "facilitator") as servers:
        place = servers["facilitator"].removeprefix("http://")
        # Behind a proxy, so that each payer can have its own address.
        paying = {**payment_settings(place), "trusted_proxies": bench.HOST}
        paying["accept_terms"] = "selling"
        settings = entitled_settings(folder / "shop", servers).model_copy(update=paying)
        fill_service(settings, VERSIONS)
        entitled = [dict(field.split(": ", 1) for field in bearer(folder, servers))]
        reads = plan.size(READS, QUICK_READS)
        costs: dict[str, list[Cost]] = {"entitled read": [], "paid read": []}
        with bench.web_service(settings) as child:
            for number in range(plan.rounds):
                paid = _payments(folder / "world", place, number, reads)
                costs["entitled read"].append(_cost(settings, child, entitled * reads))
                costs["paid read"].append(_cost(settings, child, paid))
            before = calls(servers["facilitator"])
            flood = _flood(settings, _bad_proofs(folder / "strangers", place))
            asked = (calls(servers["facilitator"]) - before).total()
    figures = []
    for name, rounds in costs.items():
        p50, cpu = (median(column) for column in zip(*rounds, strict=True))
        figures.append(bench.Figure(name, f"p50 {p50:.2f} ms, CPU {cpu:.2f} ms"))
    name = f"facilitator's calls for {BAD_PROOFS} bad proofs of one address"
    limit = PROOFS.requests
    figures.append(bench.Figure(name, f"{asked} ({flood})", f"= {limit}", asked == limit))
    return bench.Section(TITLE, figures)


def _payments(world: Path, place: str, number: int, reads: int) -> list[Fields]:
    """Each from another address, because proofs are limited per address."""
    return [
        _paying(make_proof(world, "none", "stance", place), f"198.18.{number % 256}.{each}")
        for each in range(reads)
    ]


def _bad_proofs(folder: Path, place: str) -> list[Fields]:
    """Well-formed, new and well signed, by a wallet that owns nothing."""
    folder.mkdir()
    load_or_create_wallets(folder)
    proofs = (make_proof(folder, "none", "stance", place) for _ in range(BAD_PROOFS))
    return [_paying(proof, "203.0.113.7") for proof in proofs]


def _paying(proof: str, address: str) -> Fields:
    return {"PAYMENT-SIGNATURE": proof, "X-Forwarded-For": address}


def _cost(settings: Settings, child: bench.Child, requests: Sequence[Fields]) -> Cost:
    before = bench.cpu_seconds(child.workers())
    spans, statuses = _send(settings.port, requests)
    if set(statuses) != {HTTPStatus.OK}:
        raise bench.BenchmarkFailed(f"{PATH} answers {statuses}")
    spent = bench.cpu_seconds(child.workers()) - before
    return Cost(1_000 * median(spans), 1_000 * spent / len(requests))


def _flood(settings: Settings, requests: Sequence[Fields]) -> str:
    _, statuses = _send(settings.port, requests)
    return ", ".join(f"{count} x {status}" for status, count in sorted(statuses.items()))


def _send(port: int, requests: Sequence[Fields]) -> tuple[list[float], Counter[int]]:
    """One request at a time on one connection: the seconds of each, and their statuses."""
    spans: list[float] = []
    statuses: Counter[int] = Counter()
    with closing(HTTPConnection(bench.HOST, port, timeout=60)) as connection:
        for fields in requests:
            started = time.perf_counter()
            connection.request("GET", PATH, headers=fields)
            response = connection.getresponse()
            response.read()
            spans.append(time.perf_counter() - started)
            statuses[response.status] += 1
    return spans, statuses
