"""One attack on everything that Feed opens: a real server, a real provider, and what they logged.

It runs once; the tests look at what came of it. `support/attacks.py` has its tokens and queries.
"""

import re
import socket
from concurrent.futures import ThreadPoolExecutor

import pytest

from barograph.kit.clock import system_clock
from barograph.kit.timestamps import SECOND
from barograph_demo.servers.identity import (
    API_KEY,
    BY_ID,
    KEYS_PATH,
    USER_PATH,
    USERS,
    issuer,
    sign_token,
)
from support.attacks import Forger, malformed, mismatched
from support.entitled_server import EntitledServer, Tables, bearer
from support.processes import HOST, eventually
from support.service import Answer
from support.subscribers import ENTITLED_PATHS, FEED_NOW, MATERIAL_CHANGE, STANCE_READS

pytestmark = pytest.mark.e2e

PART = 17
"""So many characters of a token in a row are more than may be seen of it."""

MEGABYTE = 1 << 20
UNAVAILABLE = {
    MATERIAL_CHANGE: "comparison_unavailable",
    FEED_NOW: "feed_unavailable",
    **dict.fromkeys(STANCE_READS.values(), "stance_unavailable"),
}
NO_IDENTITY = (401, "verified_feed_identity_required")
NO_FEED = (402, "Active verified Feed entitlement required")
BROKEN = ("hang", "outage", "redirect", "html")
"""Faults of the provider with which nobody can tell whose a token is."""

ELSEWHERE = "other"
"""How the provider counts questions at addresses where it has nothing."""

Attack = tuple[str, str]
"""What was tried, and where."""


class Run:
    """What was sent, and what came of it."""

    def __init__(self, server: EntitledServer) -> None:
        self.server = server
        self.answers: dict[str, dict[Attack, Answer]] = {}
        self.sent: set[str] = set()
        self.questions: dict[str, int] = {}
        self.probes = 0
        """How often the provider was asked while only forged tokens came."""
        self.followed = 0
        """How many redirects were."""
        self.somebody_came = False
        self.before: Tables = {}
        self.after: Tables = {}
        self.log = ""

    def everywhere(self, stage: str, name: str, token: str) -> None:
        """Ask at every entitled address, at all of them at once."""
        self.sent.add(token)
        with ThreadPoolExecutor(len(ENTITLED_PATHS)) as pool:
            answers = list(pool.map(lambda path: self.server.ask(path, token), ENTITLED_PATHS))
        for path, answer in zip(ENTITLED_PATHS, answers, strict=True):
            self._keep(stage, (name, path), answer)

    def compare(self, stage: str, name: str, query: bytes, *fields: bytes) -> None:
        """Ask for a comparison, byte for byte."""
        answer = self.server.knock(f"{MATERIAL_CHANGE}?".encode() + query, *fields)
        self._keep(stage, (name, MATERIAL_CHANGE), answer)

    def outcomes(self, stage: str) -> dict[Attack, tuple[int, str | None]]:
        """Status and code of every answer."""
        return {
            attack: (answer.status, answer.json().get("error"))
            for attack, answer in self.answers[stage].items()
        }

    def others(self, stage: str, status: int, code: str | None) -> dict[Attack, object]:
        """The answers that are not this one."""
        found = self.outcomes(stage).items()
        return {attack: outcome for attack, outcome in found if outcome != (status, code)}

    def _keep(self, stage: str, attack: Attack, answer: Answer) -> None:
        self.answers.setdefault(stage, {})[attack] = answer


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    server = EntitledServer(tmp_path_factory.mktemp("attacked"))
    run = Run(server)
    with (
        socket.create_server((HOST, 0)) as elsewhere,
        server.provider() as provider,
        server.serving(),
    ):
        address = f"http://{HOST}:{elsewhere.getsockname()[1]}"
        # Keys that were read in the second of a token may be older than the token.
        made = system_clock() - 2 * SECOND
        forger = Forger(server.key, issuer(server.identity_url), made, address)
        # The server signs for the first time after it is up, which fills two tables.
        eventually(lambda: server.tables()["history.event_heads"] != [], "the first checkpoint")
        run.before = server.tables()
        _before_keys_are_known(run, forger)
        _come_as_every_user(run)
        _attack_with_tokens(run, forger)
        _attack_with_queries(run, forger.good())
        _attack_the_server(run, forger.good())
        _break_the_provider(run, forger)
        provider.end()
        run.everywhere("broken", "gone", forger.good())
        run.after = server.tables()
        run.somebody_came = _is_waiting(elsewhere)
    run.log = server.log()
    return run


def _before_keys_are_known(run: Run, forger: Forger) -> None:
    run.server.tell_provider(fault="html", on=True)
    run.everywhere("broken", "a page in place of the keys", forger.good())
    run.server.tell_provider(off="all")
    token = forger.good()
    eventually(lambda: run.server.ask(FEED_NOW, token).status == 200 or None, "the first keys")


def _come_as_every_user(run: Run) -> None:
    for user in USERS:
        token = sign_token(run.server.key, BY_ID[user.id], system_clock(), run.server.identity_url)
        run.everywhere("users", user.tier, token)


def _attack_with_tokens(run: Run, forger: Forger) -> None:
    probes, before = run.server.probes(), run.server.questions()
    for name, token in forger.forged().items():
        run.everywhere("forged", name, token)
    after = run.server.questions()
    run.questions = {path: after[path] - before[path] for path in (KEYS_PATH, USER_PATH)}
    run.probes = run.server.probes() - probes
    run.everywhere("forged", "a user that there is not", forger.of_nobody())
    good = bearer(forger.good())
    doubtful = {
        "twice": (good, good),
        "two in one": (good + b", " + good.partition(b": ")[2],),
        "with a space": (good.replace(b".", b". ", 1),),
        "with other characters": (good + "é".encode(),),
        "with 100 kB more": (good + b"x" * 100_000,),
    }
    for name, fields in doubtful.items():
        run.compare("forged", name, b"", *fields)


def _attack_with_queries(run: Run, token: str) -> None:
    for query in malformed(run.server.given):
        run.compare("malformed", query, query.encode(), bearer(token))
    for query in mismatched(run.server.given):
        run.compare("mismatched", query, query.encode(), bearer(token))


def _attack_the_server(run: Run, token: str) -> None:
    """Send what never reaches the service."""
    good = bearer(token)
    for raw in (b"\xff", b"\n", b" ", b"\x00", b'"'):
        run.compare("server 400", repr(raw), b"kind=" + raw, good)
    run.compare("server 400", "a NUL in the token", b"", good + b"\x00")
    run.compare("server 414", "70 kB of query", b"x" * 70_000, good)
    run.compare("server 431", "1 MB of token", b"", good + b"x" * MEGABYTE)
    run.compare("server 431", "many headers", b"", good, *(b"X-%d: x" % n for n in range(200)))


def _break_the_provider(run: Run, forger: Forger) -> None:
    before = run.server.questions()
    token = forger.good()
    for fault in BROKEN:
        run.server.tell_provider(fault=fault, on=True)
        run.everywhere("broken", f"fault {fault}", token)
        run.server.tell_provider(off="all")
    run.server.tell_provider(fault="lying", on=True)
    run.everywhere("forged", "fault lying", forger.good())  # refused for some seconds
    run.server.tell_provider(off="all")
    run.followed = run.server.questions()[ELSEWHERE] - before[ELSEWHERE]
    run.everywhere("mended", "the same token as before", token)


def _is_waiting(server: socket.socket) -> bool:
    """Whether somebody has connected."""
    server.setblocking(False)
    try:
        server.accept()[0].close()
    except BlockingIOError:
        return False
    return True


@pytest.mark.contract("auth.bearer.verified-and-entitled", "auth.reserve-insufficient")
def test_only_a_confirmed_feed_subscriber_is_admitted(run: Run) -> None:
    expected = {
        "feed": (200, None),
        "reserve": NO_FEED,
        "none": NO_FEED,
        "anonymous": NO_IDENTITY,
        "unconfirmed": NO_IDENTITY,
    }
    assert run.outcomes("users") == {
        (tier, path): outcome for tier, outcome in expected.items() for path in ENTITLED_PATHS
    }
    assert run.others("mended", 200, None) == {}


@pytest.mark.contract("errors.verified-feed-identity-required")
def test_every_forged_token_is_401_at_every_address(run: Run) -> None:
    assert len(run.answers["forged"]) > 60 * len(ENTITLED_PATHS)
    assert run.others("forged", *NO_IDENTITY) == {}


def test_provider_is_never_asked_about_a_forged_token(run: Run) -> None:
    assert run.questions[USER_PATH] == 0
    # An unknown key makes the service look for new ones, but not twice in half a minute; how the
    # provider is, the service asks by itself.
    assert run.questions[KEYS_PATH] - run.probes <= 1
    assert run.somebody_came is False


@pytest.mark.contract(
    "material-change.query.exactly-seven",
    "material-change.query.400",
    "errors.invalid-comparison-reference",
)
def test_every_malformed_query_is_400(run: Run) -> None:
    assert len(run.answers["malformed"]) > 120
    assert run.others("malformed", 400, "invalid_comparison_reference") == {}


@pytest.mark.contract(
    "material-change.query.leg-preserved", "errors.comparison-reference-unavailable"
)
def test_a_well_formed_query_that_refers_to_no_pair_is_404(run: Run) -> None:
    assert len(run.answers["mismatched"]) > 10
    assert run.others("mismatched", 404, "comparison_reference_unavailable") == {}


@pytest.mark.contract("errors.comparison-unavailable")
def test_no_caller_is_admitted_while_the_provider_cannot_answer(run: Run) -> None:
    assert len(run.answers["broken"]) == (len(BROKEN) + 2) * len(ENTITLED_PATHS)
    assert run.outcomes("broken") == {
        attack: (503, UNAVAILABLE[attack[1]]) for attack in run.answers["broken"]
    }
    assert run.followed == 0


@pytest.mark.outcome(
    "A client sends a bearer token of one megabyte",
    "The HTTP server returns 431 with an empty body.",
)
def test_malformed_request_is_refused_by_the_http_server_with_an_empty_body(run: Run) -> None:
    for status in (400, 414, 431):
        answers = run.answers[f"server {status}"].values()
        assert [(each.status, each.body) for each in answers] == [(status, b"")] * len(answers)


@pytest.mark.contract("material-change.no-store")
def test_every_answer_is_private_and_for_no_other_origin(run: Run) -> None:
    for stage, answers in run.answers.items():
        for attack, answer in answers.items():
            fields = answer.headers
            assert "etag" not in fields, attack
            assert not any(name.startswith("access-control") for name in fields), attack
            if not stage.startswith("server"):
                assert fields["cache-control"] == "private, no-store", attack
                assert fields["content-type"] == "application/json", attack


def test_logs_contain_no_user_and_no_part_of_a_token(run: Run) -> None:
    assert " debug " in run.log
    assert "entitled read unavailable" in run.log
    longest = max(run.sent, key=len)
    assert _parts_in(f"token={longest[5:22]!r}", run.sent) != set()
    assert _parts_in(run.log, run.sent) == set()
    assert re.findall(r"[\w.+-]+@[\w-]+\.\w+", run.log) == []
    assert [user.tier for user in USERS if user.id in run.log] == []
    assert API_KEY not in run.log


@pytest.mark.contract("material-change.no-charge")
def test_no_table_has_another_row_than_before(run: Run) -> None:
    filled = {name for name, rows in run.before.items() if rows}
    assert {"barograph.entitlements", "history.stance_versions"} <= filled
    assert run.after == run.before


def _parts_in(log: str, tokens: set[str]) -> set[str]:
    """Every part of a token that was written, wherever in a line."""
    written = {log[at : at + PART] for at in range(len(log) - PART + 1)}
    found: set[str] = set()
    for token in tokens:
        found |= {token[at : at + PART] for at in range(len(token) - PART + 1)} & written
    return found
