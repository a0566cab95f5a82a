"""Payment proofs of a stock client, and the cost of reading one.

The service parses a proof and looks it up among stored payments. The comparison is a bare check of
its signature, which the facilitator does for the service: every seller by x402 pays at least that.
"""

import asyncio
import time
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from secrets import randbelow, token_bytes, token_hex
from statistics import median
from typing import Any, NamedTuple

import apsw
import msgspec
import uvloop
from coincurve.utils import GROUP_ORDER_INT as ORDER

from barograph.kit.clock import system_clock
from barograph.kit.sqlite import SQLiteDatabase
from barograph.payments.journal import Journal
from barograph.payments.proof import decode_proof, match_offer, parse_proof
from barograph.payments.records import Payment, PaymentKey, Requirements
from barograph_demo.servers.wallets import Authorization, Wallet, address_of, signed_payload
from benchmarks.processes import BenchmarkFailed
from benchmarks.signatures import Check, bare_check
from benchmarks.table import Figure, at_least

SHARE = 0.7
PAYERS = 100
TURNS = 5
"""How often a round reads each proof."""

BATCH = 10_000
PATH = "/api/x402/rates-desk"


class StockProof(NamedTuple):
    """A proof, and what its payer signed."""

    header: str
    authorization: Authorization
    signature: bytes


class Costs(NamedTuple):
    """CPU seconds of one operation in a round."""

    bare: float
    parse: float
    found: float
    """Parsed, and looked up in the journal."""

    twin: float


def new_wallet() -> Wallet:
    """A new account."""
    key = randbelow(ORDER - 1) + 1
    return Wallet(key, address_of(key))


def stock_proof(wallet: Wallet, offer: Mapping[str, Any], now: int) -> StockProof:
    """The proof of a client, which repeats nearly all of the payment-required object."""
    accepted = offer["accepts"][0]
    payload = signed_payload(wallet, accepted, now, token_bytes(32))
    whole = {
        "x402Version": 2,
        "payload": payload,
        "accepted": accepted,
        "resource": offer["resource"],
        "extensions": offer["extensions"],
    }
    signed = payload["authorization"]
    authorization = Authorization(
        payer=signed["from"],
        to=signed["to"],
        value=int(signed["value"]),
        valid_after=int(signed["validAfter"]),
        valid_before=int(signed["validBefore"]),
        nonce=signed["nonce"],
    )
    header = b64encode(msgspec.json.encode(whole)).decode()
    return StockProof(header, authorization, bytes.fromhex(payload["signature"][2:]))


def load_payments(database: Path, terms: Requirements, known: Sequence[str], count: int) -> None:
    """Fill the journal with settled payments, including those of the `known` proofs."""
    keys = [match_offer(decode_proof(header), [terms]).key for header in known]
    rows = _payments(asyncio.run(_claimed(database, terms, known[0])), keys[1:], count - 1)
    connection = apsw.Connection(str(database), flags=apsw.SQLITE_OPEN_READWRITE)
    connection.pragma("synchronous", "off")
    connection.set_busy_timeout(30_000)  # the service that it belongs to writes, too
    columns = ", ".join(Payment._fields).replace("transaction,", "transaction_hash,")
    insert = f"INSERT INTO payments ({columns}) VALUES ({', '.join('?' * len(Payment._fields))})"
    for _ in range(0, count, BATCH):
        with connection:
            connection.executemany(insert, islice(rows, BATCH))
    connection.close()


async def _claimed(path: Path, terms: Requirements, header: str) -> Payment:
    """A payment that the journal itself wrote, as the model for the others."""
    database = SQLiteDatabase(path)
    try:
        return await Journal(database, system_clock).claim(
            match_offer(decode_proof(header), [terms]), PATH
        )
    finally:
        await database.close()


def _payments(model: Payment, known: Sequence[PaymentKey], count: int) -> Iterator[Payment]:
    for number in range(count):
        payer, nonce = f"0x{token_hex(20)}", f"0x{token_hex(32)}"
        if number < len(known):
            payer, nonce = known[number].payer, known[number].nonce
        yield model._replace(
            id=f"pay_{number}",
            payer=payer,
            nonce=nonce,
            state="settled",
            transaction=f"0x{token_hex(32)}",
            released_at=model.claimed_at,
            signature_digest=token_hex(32),
        )


def proof_figures(
    database: Path, terms: Requirements, proofs: Sequence[StockProof], count: int, rounds: int
) -> list[Figure]:
    """Read proofs on the server's event loop, compared with checks of their signatures."""
    costs = uvloop.run(_alternate(database, terms, proofs, rounds))
    bare = [(each.bare + each.twin) / 2 for each in costs]
    parsed = median(each.parse for each in costs)
    found = median(each.found for each in costs)
    size = median(len(each.header) for each in proofs)
    return [
        _rate(f"proofs of {size:,.0f} bytes parsed per CPU-second", parsed),
        _rate(f"  and looked up among {count:,} payments", found),
        at_least("parse + look-up / bare check in C", _over(bare, costs), SHARE),
        at_least("  A/A control: bare check / bare check", [one.bare / one.twin for one in costs]),
        _rate("  bare checks per CPU-second", median(bare)),
    ]


def _over(others: Sequence[float], costs: Sequence[Costs]) -> list[float]:
    return [other / each.found for other, each in zip(others, costs, strict=True)]


def _rate(name: str, seconds: float) -> Figure:
    return Figure(name, f"{1 / seconds:,.0f} ({seconds * 1e6:.0f} µs each)")


async def _alternate(
    path: Path, terms: Requirements, proofs: Sequence[StockProof], rounds: int
) -> list[Costs]:
    """Measure the service between two bare checks, after a warm-up round."""
    checks = [bare_check(each.authorization, each.signature) for each in proofs]
    _require_signers(proofs, checks)
    database = SQLiteDatabase(path)
    journal = Journal(database, system_clock)
    now = system_clock()
    found = []
    for _ in range(rounds + 1):
        bare = _cost(lambda: [check() for check in checks], len(checks))
        parse = _cost(
            lambda: [parse_proof(each.header, [terms], now) for each in proofs], len(proofs)
        )
        looked = await _look_ups(journal, terms, proofs, now)
        twin = _cost(lambda: [check() for check in checks], len(checks))
        found.append(Costs(bare, parse, looked, twin))
    await database.close()
    return found[1:]


async def _look_ups(
    journal: Journal, terms: Requirements, proofs: Sequence[StockProof], now: int
) -> float:
    started = time.process_time()
    for _ in range(TURNS):
        for each in proofs:
            await journal.find(parse_proof(each.header, [terms], now).key)
    return (time.process_time() - started) / (TURNS * len(proofs))


def _cost(work: Callable[[], object], operations: int) -> float:
    started = time.process_time()
    for _ in range(TURNS):
        work()
    return (time.process_time() - started) / (TURNS * operations)


def _require_signers(proofs: Sequence[StockProof], checks: Sequence[Check]) -> None:
    for proof, check in zip(proofs, checks, strict=True):
        if check() != proof.authorization.payer:
            raise BenchmarkFailed("the bare check finds another signer")
