"""The witness policy, and what counts as a cosignature."""

from base64 import b64encode
from pathlib import Path

import pytest

from barograph.errors import ConfigurationError
from barograph.history.checkpoint import Checkpoint, CheckpointRefused
from barograph.history.cosigning import load_policy
from barograph.history.witnesses import cosigners, open_cosignature
from barograph_client.audit.notes import WITNESS_KEY, parse_key, parse_policy
from support.clock import START, HandClock
from support.witnesses import Witnesses, cosign

# Made by another implementation (aics-tlog 0.2.1) from the secret key 000102…1f.
KEY = "w.example/1+b0eac0aa+BAOhB7/zzhC+HXDdGOdLwJln5NYwm6UNXx3chmQSVTG4"
SIGNATURE = bytes.fromhex(
    "b0eac0aa000000006aee4480ded4ff29335f3fea47c993bd0b3cb700b227d04ae6bbf2051526a94a77626601"
    "c45e0f3646e76c3e2a48ac26afc70ee3acd34ffb86aad854c0632964ddfd0503"
)
LINE = f"— w.example/1 {b64encode(SIGNATURE).decode()}\n"
KNOWN = Checkpoint("log.example/a", 3, bytes(32))
CHECKPOINT = Checkpoint("log.example/history/rates-desk", 3, bytes(32))

ALL = Witnesses(HandClock(), "a", "b", "c", "d")
LINES = "".join(
    f"witness {each.name} {each.verifier.text} https://{each.name}.example\n"
    for each in ALL.all.values()
)
LOG = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW"
A = LINES.split("\n", 1)[0]


def test_quorum_of_nested_groups_needs_each_group() -> None:
    policy = parse_policy(
        f"# ours\n\n log {LOG}\n{LINES}group\tx 2 a b c\ngroup y any d\n"
        "group both all x y\nquorum both\n"
    )
    assert policy.is_met({"a", "c", "d"})
    assert not policy.is_met({"a", "b", "c"})
    assert not policy.is_met({"a", "d"})
    assert policy.in_words() == "2 of (2 of (a, b, c), 1 of (d))"
    assert policy.urls["d"] == "https://d.example"
    assert parse_policy(policy.text) == policy._replace(logs=(), urls={})


def test_quorum_of_none_is_always_met() -> None:
    assert parse_policy("quorum none\n").is_met(set())
    assert not parse_policy(f"{A}\nquorum a\n").is_met({"b"})


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (LINES, "no quorum"),
        (f"{A}\nquorum b\n", "line 2 .*: no earlier line defines b"),
        (f"{A}\nquorum a\nquorum a\n", "line 3 .*: write"),
        (f"{A}\n{A}\nquorum a\n", "line 2 .*: the name a is already used"),
        (A.replace(" a ", " b "), "no quorum"),
        (f"{A}\n{A.replace(' a ', ' b ')}\n", "line 2 .*: the key of b is that of another"),
        (A.replace("+", "+0", 1), "line 1 .*: .* does not match its identifier"),
        (A.replace("+BI", "+AI"), "line 1 .*: .* is not an Ed25519 key of a witness"),
        (A.replace("+B", "+!"), "line 1 .*: .*base64"),
        (f"{LINES}group g 0 a\n", "line 5 .*: a group needs all, any, or 1 to 1"),
        (f"{LINES}group g 3 a b\n", "line 5 .*: a group needs all, any, or 1 to 2"),
        (f"{LINES}group g all\n", "line 5 .*: write"),
        (f"{LINES}group g any a z\n", "line 5 .*: no earlier line defines z"),
        (f"{LINES}group g any a\ngroup h any a b\n", "line 6 .*: a is already a member"),
        (f"{A}\r\nquorum a\n", "line 1 .*: it has a control character"),
        ("witnesses a\n", "line 1 .*: write"),
        (f"{A} x\n", "line 1 .*: write"),
        (A.replace(" a ", " none "), "line 1 .*: the name none is already used"),
    ],
)
def test_wrong_policy_is_refused_with_the_line(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        parse_policy(text)


def test_witness_that_the_collector_can_not_ask_safely_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "policy"
    file.write_text(f"{A.replace('https://a.example', 'http://127.0.0.1:1')}\nquorum a\n")
    assert load_policy(file) is not None
    file.write_text(f"{A.replace('https', 'http')}\nquorum a\n")
    with pytest.raises(ConfigurationError, match="https:// address is needed"):
        load_policy(file)
    file.write_text(f"{A.rpartition(' ')[0]}\nquorum a\n")
    with pytest.raises(ConfigurationError, match="witness a has no URL"):
        load_policy(file)
    file.write_text(f"{A}\nquorum b\n")
    with pytest.raises(ConfigurationError, match=r"line 2 .*: no earlier line defines b"):
        load_policy(file)


def test_cosignature_of_another_implementation_verifies() -> None:
    verifier = parse_key(KEY, WITNESS_KEY)
    assert verifier.text == KEY
    assert open_cosignature(KNOWN, f"— x.example AAAA\n{LINE}", verifier) == (LINE, START)


def line(signer: str, name: str, checkpoint: Checkpoint = CHECKPOINT) -> str:
    return cosign(checkpoint, ALL.all[signer].key, f"{name}.example/w", START)


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        (line("a", "a", CHECKPOINT._replace(root=b"\1" * 32)), "not match"),
        (line("a", "a", CHECKPOINT._replace(size=4)), "not match"),
        (line("b", "b"), "did not sign with its key"),
        (line("b", "a"), "did not sign with its key"),
        (f"— a.example/w {b64encode(ALL.all['a'].verifier.key_id).decode()}\n", "not match"),
        ("<html>\n", "malformed"),
        ("", "malformed"),
    ],
)
def test_anything_but_the_witness_own_signature_is_refused(lines: str, problem: str) -> None:
    with pytest.raises(CheckpointRefused, match=problem):
        open_cosignature(CHECKPOINT, lines, ALL.all["a"].verifier)


def test_only_witnesses_whose_lines_verify_count() -> None:
    lines = line("a", "a") + line("b", "b", CHECKPOINT._replace(size=4))
    assert cosigners(ALL.policy(1), CHECKPOINT, lines) == {"a": START}
