"""Signed checkpoints: written, read and refused."""

from base64 import b64encode

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from barograph.history.checkpoint import (
    Checkpoint,
    CheckpointRefused,
    log_origin,
    open_checkpoint,
    open_note,
    parse_checkpoint,
    sign_checkpoint,
    verifier_of,
)
from barograph.history.merkle import EMPTY_ROOT
from barograph_client.audit.notes import LOG_KEY, Key, parse_key

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
OTHER_KEY = Ed25519PrivateKey.from_private_bytes(bytes(32))
ORIGIN = "barograph.example/history/rates-desk"
CHECKPOINT = Checkpoint(ORIGIN, 7, bytes(range(100, 132)))
NOTE = sign_checkpoint(CHECKPOINT, KEY)
VERIFIER = verifier_of(KEY, ORIGIN)

# The example in the documentation of Go's note package, whose format this is.
KNOWN_VERIFIER = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW"
KNOWN_TEXT = (
    "If you think cryptography is the answer to your problem,\n"
    "then you don't know what your problem is.\n"
)
KNOWN_NOTE = (
    f"{KNOWN_TEXT}\n— PeterNeumann "
    "x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM=\n"
)


def test_a_note_that_another_implementation_signed_is_read() -> None:
    assert open_note(KNOWN_NOTE, parse_key(KNOWN_VERIFIER, LOG_KEY)) == KNOWN_TEXT


def test_a_checkpoint_is_exactly_this_text() -> None:
    assert NOTE == (
        "barograph.example/history/rates-desk\n"
        "7\n"
        "ZGVmZ2hpamtsbW5vcHFyc3R1dnd4eXp7fH1+f4CBgoM=\n"
        "\n"
        "— barograph.example/history/rates-desk "
        "MniI686C5kUUCpQVvNKZFbXC6ULszL9IVYYZkRvdDh6hkL2BDVG8O32MRlxcO37Xv3du2KNOSZD8RleJq6rQi9Gp/Ao="
        "\n"
    )


@pytest.mark.parametrize(
    "checkpoint",
    [CHECKPOINT, Checkpoint(ORIGIN, 0, EMPTY_ROOT), Checkpoint(ORIGIN, 10**17, bytes(32))],
)
def test_what_was_signed_is_what_is_read(checkpoint: Checkpoint) -> None:
    assert open_checkpoint(sign_checkpoint(checkpoint, KEY), VERIFIER) == checkpoint


def test_a_verifier_is_read_as_it_was_written() -> None:
    assert parse_key(VERIFIER.text, LOG_KEY) == VERIFIER
    assert VERIFIER.text.startswith(f"{ORIGIN}+")


def test_log_is_named_by_the_address_without_the_scheme() -> None:
    assert log_origin("https://barograph.example") == "barograph.example/history/events"
    assert log_origin("http://[::1]:80/x", "ab12") == "[::1]:80/x/history-ab12/events"


def test_no_character_of_a_checkpoint_can_be_changed() -> None:
    for place, character in enumerate(NOTE):
        for changed in {chr(ord(character) ^ 1), "A", "\n", ""} - {character}:
            with pytest.raises(CheckpointRefused):
                open_checkpoint(NOTE[:place] + changed + NOTE[place + 1 :], VERIFIER)


@pytest.mark.parametrize(
    "verifier",
    [
        verifier_of(OTHER_KEY, ORIGIN),
        verifier_of(KEY, f"{ORIGIN}/events"),
        Key(ORIGIN, LOG_KEY, b""),
    ],
)
def test_the_checkpoint_of_another_key_or_log_is_refused(verifier: Key) -> None:
    with pytest.raises(CheckpointRefused, match="the expected key did not sign"):
        open_checkpoint(NOTE, verifier)


def test_a_log_cannot_pass_off_its_checkpoint_as_that_of_another() -> None:
    text = CHECKPOINT.text
    signer = verifier_of(KEY, f"{ORIGIN}/events")
    signature = b64encode(signer.key_id + KEY.sign(text.encode())).decode()
    with pytest.raises(CheckpointRefused, match="the checkpoint is of"):
        open_checkpoint(f"{text}\n— {signer.name} {signature}\n", signer)


def test_signatures_of_unknown_keys_are_left_aside() -> None:
    other = sign_checkpoint(CHECKPOINT, OTHER_KEY).rpartition("\n\n")[2]
    witness = f"— witness.example {b64encode(bytes(76)).decode()}\n"

    assert open_checkpoint(NOTE + other + witness, VERIFIER) == CHECKPOINT


def test_a_second_signature_of_the_key_that_does_not_fit_is_refused() -> None:
    wrong = b64encode(VERIFIER.key_id + bytes(64)).decode()
    with pytest.raises(CheckpointRefused, match="does not match the text"):
        open_checkpoint(f"{NOTE}— {ORIGIN} {wrong}\n", VERIFIER)


@pytest.mark.parametrize(
    "note",
    [
        "",
        "\n\n",
        CHECKPOINT.text,
        f"{CHECKPOINT.text}\n",
        NOTE.removesuffix("\n"),
        NOTE + "\n",
        NOTE + "— nobody\n",
        NOTE.replace("— ", "- "),
        NOTE + f"— nobody {'AAAA' * 30_000}\n",
    ],
)
def test_something_else_than_a_signed_note_is_refused(note: str) -> None:
    with pytest.raises(CheckpointRefused):
        open_checkpoint(note, VERIFIER)


ROOT = b64encode(bytes(32)).decode()


@pytest.mark.parametrize(
    "text",
    [
        f"{ORIGIN}\n7\n",
        f"{ORIGIN}\n07\n{ROOT}\n",
        f"{ORIGIN}\n-7\n{ROOT}\n",
        f"{ORIGIN}\n+7\n{ROOT}\n",
        f"{ORIGIN}\n\N{ARABIC-INDIC DIGIT SEVEN}\n{ROOT}\n",
        f"{ORIGIN}\n{'7' * 5000}\n{ROOT}\n",
        f"{ORIGIN}\n7\n{ROOT[:-4]}\n",
        f"{ORIGIN}\n7\n{bytes(32).hex()}\n",
        f"{ORIGIN}\n7\né{ROOT}\n",
        f"\n7\n{ROOT}\n",
        f"{ORIGIN}\n\n7\n{ROOT}\n",
    ],
)
def test_signed_lines_that_are_no_checkpoint_are_refused(text: str) -> None:
    with pytest.raises(CheckpointRefused):
        parse_checkpoint(text)


def test_further_lines_that_are_signed_too_do_not_matter() -> None:
    assert parse_checkpoint(f"{CHECKPOINT.text}an extension\n") == CHECKPOINT
