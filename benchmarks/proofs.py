"""Payment proofs of a stock client, and the cost of reading one.

The service parses a proof and looks it up among stored payments. The comparison is a bare check of
its signature, which the facilitator does for the service: every seller by x402 pays at least that.
"""

import asyncio
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
from coincurve import PublicKey
from coincurve.utils import GROUP_ORDER_INT as ORDER
from Crypto.Hash import keccak

from barograph.kit.clock import system_clock
from barograph.kit.sqlite import SQLiteDatabase
from barograph.payments.journal import Journal
from barograph.payments.proof import decode_proof, match_offer, parse_proof
from barograph.payments.records import Payment, PaymentKey, Proof, Requirements
from barograph_demo.servers.wallets import (
    TOKEN,
    Authorization,
    Wallet,
    address_of,
    domain_separator,
    signed_payload,
)
from benchmarks import bench

SHARE = 0.7
PAYERS = 100
TURNS = 5
"""How often a round reads each proof."""

BATCH = 10_000
PATH = "/api/x402/rates-desk"
COLUMNS = {"path": "door", "transaction": "transaction_hash"}
"""Columns of the journal that are named otherwise than the field of a payment."""

Check = Callable[[], str]
"""Recovers the signer's address from prepared bytes."""

WORD = 32
V_EVEN = 27
TYPE = (
    b"TransferWithAuthorization(address from,address to,uint256 value,"
    b"uint256 validAfter,uint256 validBefore,bytes32 nonce)"
)


class StockProof(NamedTuple):
    """A proof, and what its payer signed."""

    header: str
    authorization: Authorization
    signature: bytes


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
    columns = [COLUMNS.get(field, field) for field in Payment._fields]
    values = ", ".join("?" * len(columns))
    insert = f"INSERT INTO payments ({', '.join(columns)}) VALUES ({values})"
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
) -> list[bench.Figure]:
    """Read proofs on the server's event loop, compared with checks of their signatures."""
    checks = [bare_check(proof.authorization, proof.signature) for proof in proofs]
    _require_signers(proofs, checks)
    now = system_clock()

    def rate(work: Callable[[], object]) -> Callable[[], float]:
        return lambda: bench.operations_per_second(work, len(proofs), TURNS)

    def parse() -> list[Proof]:
        return [parse_proof(proof.header, [terms], now) for proof in proofs]

    async def look_up() -> None:
        for proof in proofs:
            await journal.find(parse_proof(proof.header, [terms], now).key)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        payments = SQLiteDatabase(database)
        journal = Journal(payments, system_clock)
        bare = rate(lambda: [check() for check in checks])
        found = rate(lambda: runner.run(look_up()))
        cases = {"bare": bare, "found": found, "twin": bare, "parsed": rate(parse)}
        rates = bench.alternate(cases, rounds)
        runner.run(payments.close())
    size = median(len(proof.header) for proof in proofs)
    both = [*rates["bare"], *rates["twin"]]
    return [
        bench.rate(f"proofs of {size:,.0f} bytes parsed per CPU-second", median(rates["parsed"])),
        bench.rate(f"  and looked up among {count:,} payments", median(rates["found"])),
        *bench.between(rates, "parse + look-up / bare check in C", "bare check", SHARE),
        bench.rate("  bare checks per CPU-second", median(both)),
    ]


def _require_signers(proofs: Sequence[StockProof], checks: Sequence[Check]) -> None:
    for proof, check in zip(proofs, checks, strict=True):
        if check() != proof.authorization.payer:
            raise bench.BenchmarkFailed("the bare check finds another signer")


def bare_check(authorization: Authorization, signature: bytes) -> Check:
    """Only the EIP-712 digest and the recovery of the signing key.

    The check raises ValueError for a signature that no key can have made.
    """
    fields = _keccak(TYPE) + b"".join(_words(authorization))
    start = b"\x19\x01" + domain_separator(TOKEN)
    recoverable = signature[:-1] + bytes([signature[-1] - V_EVEN])

    def check() -> str:
        digest = _keccak(start + _keccak(fields))
        public = PublicKey.from_signature_and_message(recoverable, digest, hasher=None)
        return f"0x{_keccak(public.format(compressed=False)[1:])[-20:].hex()}"

    return check


def _words(authorization: Authorization) -> list[bytes]:
    payer, to, *numbers, nonce = authorization
    addresses = [bytes.fromhex(each[2:]).rjust(WORD, b"\0") for each in (payer, to)]
    return [*addresses, *(each.to_bytes(WORD) for each in numbers), bytes.fromhex(nonce[2:])]


def _keccak(data: bytes) -> bytes:
    return keccak.new(digest_bits=256, data=data).digest()
