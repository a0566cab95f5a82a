"""What you trust before an audit, and whether it leads to the key that signs today."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

from barograph_client.audit.notes import (
    LOG,
    LOG_KEY,
    NO_QUORUM,
    Key,
    Policy,
    SignedCheckpoint,
    decode_base64,
    parse_checkpoint,
    parse_key,
    signed_at,
)
from barograph_client.decode import decode_json, record
from barograph_client.errors import Contradiction, NotAudited


@record
class PreviousKey:
    """A retired key, and its last checkpoint of each log that it signed."""

    public_key: str
    checkpoints: tuple[str, ...]


@record
class Published:
    """What `/api/history/checkpoint` serves."""

    checkpoint: str
    verifier: str
    size: int | None = None
    root: str | None = None
    previous_keys: tuple[PreviousKey, ...] = ()

    def last_checkpoints(self) -> Iterator[tuple[bytes, SignedCheckpoint, Key | None]]:
        """Each retired key, oldest first, with a last checkpoint and the successor it names.

        Raises:
            NotAudited: they can't be read.
        """
        with readable("previous_keys"):
            for key in self.previous_keys:
                public = decode_base64(key.public_key)
                for last in map(parse_checkpoint, key.checkpoints):
                    yield public, last, last.successor


@record
class KeptFile:
    """What an audit saves, and what services with several logs served."""

    checkpoint: str | None = None
    verifier: str | None = None
    checkpoints: tuple[Published, ...] = ()
    event_log: Published | None = None


class Kept(NamedTuple):
    """A checkpoint from an earlier audit; without a key, if only its text was kept."""

    checkpoint: SignedCheckpoint
    key: Key | None


class Trusted(NamedTuple):
    """What you bring to an audit."""

    keys: tuple[Key, ...] = ()
    policy: Policy = Policy((), {}, {}, NO_QUORUM, {})
    kept: Mapping[str, Kept] = {}
    """By the short names of the logs."""

    def named_keys(self) -> set[Key]:
        """The keys that you named; one of an earlier log of the service signs this one too.

        Raises:
            NotAudited: a key is not that of a Barograph service.
        """
        with readable("--key or --policy"):
            return {key.of_log(LOG) for key in (*self.keys, *self.policy.logs)}


def read_kept(text: str) -> dict[str, Kept]:
    """Read a kept file: of an audit, of `/api/history/checkpoint`, or one checkpoint as text.

    Raises:
        ValueError: it is none of these, or a checkpoint was changed after it was signed.
    """
    if not text.lstrip().startswith("{"):
        # An editor may have changed the line endings, which are signed.
        checkpoint = parse_checkpoint("\n".join([*text.rstrip().splitlines(), ""]))
        return {checkpoint.log: Kept(checkpoint, None)}
    file = decode_json(KeptFile, text.encode())
    logs = [*file.checkpoints, *filter(None, [file.event_log])]
    if file.checkpoint is not None and file.verifier is not None:
        logs.append(Published(file.checkpoint, file.verifier))
    if not logs:
        raise ValueError("it has no checkpoint with its verifier key")
    kept: dict[str, Kept] = {}
    for log in logs:
        key, checkpoint = parse_key(log.verifier, LOG_KEY), parse_checkpoint(log.checkpoint)
        if not _is_intact(checkpoint, key.public):
            raise ValueError(f"the checkpoint of {checkpoint.log} was changed after it was signed")
        kept[checkpoint.log] = Kept(checkpoint, key)
    return kept


def require_trusted_key(current: Key, published: Published, trusted: Trusted) -> str:
    """Follow the successors of the keys that you trust to the one that signs now.

    A key counts only for the origin that it names: a log with another origin is another log.

    Returns where the trust comes from; without a key from you, it is `the service` itself.

    Raises:
        Contradiction: no key that you trust leads to the current one.
        NotAudited: it is not known which key signed the checkpoint that you kept.
    """
    keys = {log: _kept_key(each, current, published, trusted) for log, each in trusted.kept.items()}
    kept, kept_key = trusted.kept.get(LOG), keys.get(LOG)
    accepted = trusted.named_keys()
    source = "you" if accepted else "your kept file"
    if not accepted:
        if kept is None or kept_key is None:
            return "the service"
        accepted = {Key(kept.checkpoint.origin, LOG_KEY, kept_key)}
    with readable("previous_keys"):
        for public, last, successor in published.last_checkpoints():
            retired = Key(last.origin, LOG_KEY, public).of_log(LOG)
            if retired in accepted and successor is not None and is_signed_by(last, public):
                accepted.add(successor.of_log(LOG))
    if current not in accepted:
        raise Contradiction(
            f"the service signs with {current.text}, which is not the log and the key from "
            f"{source}, and no key that you trust has signed it as its successor. If the operator "
            "announced a new key or a new origin elsewhere, give it with --key"
        )
    return source


def _kept_key(kept: Kept, current: Key, published: Published, trusted: Trusted) -> bytes:
    """The key of a kept checkpoint; if only its text was kept, the one that signed it."""
    if kept.key is not None:
        return kept.key.public
    retired = [public for public, _, _ in published.last_checkpoints()]
    named = [key.public for key in trusted.named_keys()]
    for public in (*named, current.public, *retired):
        if _is_intact(kept.checkpoint, public):
            return public
    raise NotAudited(
        "no known key signed the checkpoint that you kept. Check that the file is complete, or "
        "give the key that signed it with --key"
    )


def is_signed_by(checkpoint: SignedCheckpoint, public: bytes) -> bool:
    """Whether the key signed the checkpoint for its log.

    Raises:
        Contradiction: its signature does not match the text.
    """
    return signed_at(checkpoint, Key(checkpoint.origin, LOG_KEY, public)) is not None


def _is_intact(checkpoint: SignedCheckpoint, public: bytes) -> bool:
    """The same for your own file: if it was changed, the service has contradicted nothing."""
    try:
        return is_signed_by(checkpoint, public)
    except Contradiction:
        return False


@contextmanager
def readable(what: str) -> Iterator[None]:
    """End the audit on a format error, which proves nothing about the service.

    Raises:
        NotAudited: it can't be read.
    """
    try:
        yield
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
        raise NotAudited(f"{what} can't be read: {error}") from error
