"""A payer who leaves a real server while the payment is settled, and comes again."""

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event

import pytest

from barograph.kit.clock import system_clock
from support.entitled_server import EntitledServer
from support.payments import STANCE, header, payload, proof
from support.processes import HOST, answer_200, eventually, running, unused_port
from support.subscribers import STANCE_READS
from support.witnesses import listening

pytestmark = pytest.mark.e2e

READ = STANCE_READS["funding-regime-stance"]


class SlowFacilitator:
    """Finds every proof valid, and settles once it is allowed to."""

    def __init__(self) -> None:
        self.asked, self.may_settle = Event(), Event()
        self.charges = 0

    def answer(self, path: str, body: str) -> tuple[int, str]:
        payer = json.loads(body)["paymentPayload"]["payload"]["authorization"]["from"]
        if path == "/verify":
            return 200, json.dumps({"isValid": True, "payer": payer})
        self.charges += 1
        self.asked.set()
        assert self.may_settle.wait(20)
        moved = {"transaction": "0x" + "ab" * 32, "network": STANCE.network}
        return 200, json.dumps({"success": True, "payer": payer, **moved})


@contextmanager
def shop(folder: Path, facilitator: SlowFacilitator) -> Iterator[EntitledServer]:
    server, port = EntitledServer(folder), unused_port()
    given = {
        "DATA": str(folder / "data"),
        "PORT": str(server.port),
        "ACCEPT_TERMS": "selling",
        "X402_FACILITATOR_URL": f"http://{HOST}:{port}",
        "X402_NETWORK": STANCE.network,
        "X402_ASSET": STANCE.asset,
        "X402_PAY_TO": STANCE.pay_to,
    }
    environment = {f"BAROGRAPH_{name}": value for name, value in given.items()}
    with (
        listening(port, facilitator.answer),
        running("serve", log=folder / "web.log", **environment),
    ):
        eventually(lambda: answer_200(f"{server.base_url}/api/agent"), "the server")
        yield server


def leave(server: EntitledServer, shown: str, facilitator: SlowFacilitator) -> None:
    """Pay, and be gone for the server before the money has moved."""
    lines = (f"GET {READ} HTTP/1.1", "Host: x", f"PAYMENT-SIGNATURE: {shown}", "", "")
    with socket.create_connection((HOST, server.port), 20) as connection:
        connection.sendall("\r\n".join(lines).encode())
        assert facilitator.asked.wait(20)
        connection.shutdown(socket.SHUT_WR)
        assert connection.recv(1) == b""
    # The server closes before its event loop hears of it: a later request is answered after that.
    assert answer_200(f"{server.base_url}/api/agent")
    facilitator.may_settle.set()


def test_who_left_while_it_was_settled_is_not_taken_for_served(tmp_path: Path) -> None:
    facilitator = SlowFacilitator()
    with shop(tmp_path, facilitator) as server:
        shown = header(payload(proof(now_seconds=system_clock() // 1000)))
        leave(server, shown, facilitator)

        def steps() -> list[str] | None:
            trail = [row[2] for row in server.tables()["barograph.payment_trail"]]
            return trail if trail[-1] not in {"claimed", "settling"} else None

        assert eventually(steps, "the end of the payment") == ["claimed", "settling", "settled"]
        for _ in range(2):
            answer = server.knock(READ, f"PAYMENT-SIGNATURE: {shown}".encode())
            assert answer.status == 200
            assert answer.json()["history_digest"] == server.given["after_digest"]
        assert steps() == ["claimed", "settling", "settled"]
        assert facilitator.charges == 1
