"""Checkpoints, the keys that sign them, and the policy on witnesses (pure).

The formats are signed-note, tlog-checkpoint, tlog-cosignature and tlog-policy of https://c2sp.org.
"""

import re
from base64 import b64decode, b64encode
from collections.abc import Collection
from hashlib import sha256
from typing import NamedTuple

from barograph_client.errors import Contradiction, NotAudited

LOG_KEY, WITNESS_KEY = 1, 4
"""Signature types. The signature of a witness begins with a time of eight bytes."""

KEY_ID, TIME, HASH = 4, 8, 32
LOG = "events"
"""The short name of the log. Services had others before, of each kind of stance."""

NO_QUORUM = "none"
SUCCESSOR = "successor "
"""Begins the fourth line of a key's last checkpoint; the next key in verifier form follows."""

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_SIZE = re.compile("0|[1-9][0-9]{0,15}", re.ASCII)
_SIGNATURE = re.compile("— ([^ +]+) ([^ ]+)")
_ORIGIN = re.compile("[^ +]*(/history(?:-[a-z0-9]+)?/([a-z0-9-]+(?:/events)?))")


class Key(NamedTuple):
    """A public key of a log or a witness, and its name."""

    name: str
    type: int
    public: bytes

    @property
    def key_id(self) -> bytes:
        """Tells the key from others of the same name."""
        named = self.name.encode() + b"\n" + bytes([self.type]) + self.public
        return sha256(named).digest()[:KEY_ID]

    @property
    def text(self) -> str:
        """The key in verifier form."""
        encoded = b64encode(bytes([self.type]) + self.public).decode()
        return f"{self.name}+{self.key_id.hex()}+{encoded}"

    def of_log(self, log: str) -> "Key":
        """The key as that of another log of its service; raises ValueError if it is of none."""
        return self._replace(name=self.name.removesuffix(split_origin(self.name)[1]) + log)


class SignedCheckpoint(NamedTuple):
    """A checkpoint as it is served; nobody has verified its signatures yet."""

    note: str
    text: str
    """The lines that are signed."""

    origin: str
    size: int
    root: bytes
    signatures: tuple[tuple[str, bytes], ...]

    @property
    def log(self) -> str:
        """The short name of its log, such as `rates-desk/events`."""
        return split_origin(self.origin)[1]

    @property
    def successor(self) -> Key | None:
        """The key that the last checkpoint of a key names."""
        *_, last = self.text.splitlines()
        named = last.removeprefix(SUCCESSOR)
        return None if named == last else parse_key(named, LOG_KEY)


def split_origin(origin: str) -> tuple[str, str]:
    """The path of a log on its service, and its short name.

    Raises:
        ValueError: no log of a Barograph service has this name.
    """
    found = _ORIGIN.fullmatch(origin)
    if found is None:
        raise ValueError(f"{origin!r} is not the name of a log of a Barograph service")
    return found[1], found[2]


def parse_key(text: str, expected: int) -> Key:
    """Read a key in verifier form, `<name>+<identifier>+<key>`.

    Raises:
        ValueError: it is not a key of the expected type.
    """
    name, _, rest = text.partition("+")
    key_id, _, encoded = rest.partition("+")
    raw = decode_base64(encoded)
    key = Key(name, expected, raw[1:])
    if raw[:1] != bytes([expected]) or len(key.public) != HASH:
        whose = "log" if expected == LOG_KEY else "witness"
        raise ValueError(f"{text!r} is not an Ed25519 key of a {whose} in the form NAME+ID+KEY")
    if key.key_id.hex() != key_id:
        raise ValueError(f"the key {text!r} does not match its identifier; copy it again")
    return key


def parse_checkpoint(note: str) -> SignedCheckpoint:
    """Read a checkpoint of a Barograph service.

    Raises:
        ValueError: it is not one.
    """
    head, _, signatures = note.rpartition("\n\n")
    origin, size, root, *_ = (*head.split("\n"), "", "")
    # Control characters could move the cursor of a terminal that shows the note.
    is_text = all(line.isprintable() for line in note.split("\n"))
    if not is_text or not note.endswith("\n") or not _SIZE.fullmatch(size):
        raise ValueError("this is not a signed checkpoint")
    if len(hashed := decode_base64(root)) != HASH:
        raise ValueError("the root of the checkpoint is not a SHA-256 hash")
    split_origin(origin)
    signed = [_SIGNATURE.fullmatch(line) for line in signatures[:-1].split("\n")]
    found = tuple((each[1], decode_base64(each[2])) for each in signed if each is not None)
    return SignedCheckpoint(note, f"{head}\n", origin, int(size), hashed, found)


def signed_at(checkpoint: SignedCheckpoint, key: Key) -> int | None:
    """When the key signed, in seconds: 0 for a log, which states no time; None if it did not.

    Raises:
        Contradiction: a signature that names the key does not match the text.
    """
    times: list[int] = []
    for name, raw in checkpoint.signatures:
        if (name, raw[:KEY_ID]) != (key.name, key.key_id):
            continue
        signature, message, at = raw[KEY_ID:], checkpoint.text, 0
        if key.type == WITNESS_KEY:
            at, signature = int.from_bytes(signature[:TIME]), signature[TIME:]
            message = f"cosignature/v1\ntime {at}\n{message}"
        if not _is_valid(key.public, signature, message.encode()):
            raise Contradiction(
                f"the signature of {key.name}+{key.key_id.hex()} does not match "
                f"the checkpoint of {checkpoint.size} entries",
                checkpoint.note,
            )
        times.append(at)
    return min(times, default=None)


def _is_valid(public: bytes, signature: bytes, message: bytes) -> bool:
    try:
        from cryptography.exceptions import InvalidSignature  # noqa: PLC0415 - an extra
        from cryptography.hazmat.primitives.asymmetric import ed25519  # noqa: PLC0415
    except ImportError as error:
        raise NotAudited(
            "signatures can't be verified without the package cryptography: install the client "
            "with its extra, `barograph-client[audit]`"
        ) from error
    try:
        ed25519.Ed25519PublicKey.from_public_bytes(public).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True


class Policy(NamedTuple):
    """Which logs and witnesses you trust, and which witnesses have to cosign."""

    logs: tuple[Key, ...]
    witnesses: dict[str, Key]
    groups: dict[str, tuple[int, tuple[str, ...]]]
    """How many members a group needs, and which ones it has."""

    quorum: str
    """The name of a witness or a group, or `none`."""

    urls: dict[str, str]
    """Where witnesses take checkpoints."""

    def cosigners(self, checkpoint: SignedCheckpoint) -> dict[str, int]:
        """The witnesses that cosigned a checkpoint, and when.

        Raises:
            Contradiction: the signature of a witness does not match.
        """
        times = {name: signed_at(checkpoint, key) for name, key in self.witnesses.items()}
        return {name: at for name, at in times.items() if at is not None}

    def require_quorum(self, checkpoint: SignedCheckpoint) -> dict[str, int]:
        """The same, if these witnesses are enough.

        Raises:
            Contradiction: they are not.
        """
        cosigned = self.cosigners(checkpoint)
        if not self.is_met(cosigned):
            raise Contradiction(
                f"{len(cosigned)} of {len(self.witnesses)} witnesses cosigned "
                f"the checkpoint of {checkpoint.size} entries ({', '.join(cosigned) or 'none'}). "
                f"That does not meet the quorum {self.quorum} of your policy",
                checkpoint.note,
            )
        return cosigned

    def is_met(self, cosigners: Collection[str]) -> bool:
        """Whether the witnesses of these names are enough."""
        return self.quorum == NO_QUORUM or self._has(self.quorum, cosigners)

    def in_words(self, name: str = "") -> str:
        """The quorum, or a group, for people, such as `2 of (a, b, c)`."""
        name = name or self.quorum
        if name not in self.groups:
            return name
        needed, members = self.groups[name]
        return f"{needed} of ({', '.join(map(self.in_words, members))})"

    @property
    def text(self) -> str:
        """The witnesses and the quorum as a policy file, without addresses."""
        lines = [f"witness {name} {key.text}" for name, key in self.witnesses.items()]
        for name, (needed, members) in self.groups.items():
            lines.append(f"group {name} {needed} {' '.join(members)}")
        return "\n".join([*lines, f"quorum {self.quorum}"])

    def _has(self, name: str, cosigners: Collection[str]) -> bool:
        if name not in self.groups:
            return name in cosigners
        needed, members = self.groups[name]
        return sum(self._has(member, cosigners) for member in members) >= needed


def parse_policy(text: str) -> Policy:
    """Read a policy file.

    Raises:
        ValueError: it is not one; the message names the line.
    """
    policy = Policy((), {}, {}, "", {})
    for number, line in enumerate(text.split("\n"), 1):
        try:
            if words := _words(line):
                policy = _with_line(policy, words)
        except ValueError as error:
            raise ValueError(f"line {number} of the policy: {error}") from error
    if not policy.quorum:
        raise ValueError(
            "the policy has no quorum: add a line such as `quorum NAME` or `quorum none`"
        )
    return policy


def _words(line: str) -> list[str]:
    if _CONTROL.search(line):
        raise ValueError("it has a control character; lines must end in a single newline")
    words = [word for word in line.replace("\t", " ").split(" ") if word]
    return [] if line.lstrip().startswith("#") else words


def _with_line(policy: Policy, words: list[str]) -> Policy:
    names = {*policy.witnesses, *policy.groups}
    match words:
        case ["log", key, *url] if len(url) <= 1:
            return policy._replace(logs=(*policy.logs, parse_key(key, LOG_KEY)))
        case ["witness" | "group", name, *_] if name in {*names, NO_QUORUM}:
            raise ValueError(f"the name {name} is already used")
        case ["witness", name, key, *url] if len(url) <= 1:
            witness = parse_key(key, WITNESS_KEY)
            if witness.public in {each.public for each in policy.witnesses.values()}:
                raise ValueError(f"the key of {name} is that of another witness")
            urls = {**policy.urls, **dict(zip([name], url, strict=False))}
            return policy._replace(witnesses={**policy.witnesses, name: witness}, urls=urls)
        case ["group", name, needed, *members] if members:
            group = _needed(needed, len(members)), _members(policy, members)
            return policy._replace(groups={**policy.groups, name: group})
        case ["quorum", name] if not policy.quorum:
            _require_defined(name, {*names, NO_QUORUM})
            return policy._replace(quorum=name)
    raise ValueError(
        "write `log VKEY`, `witness NAME VKEY URL`, `group NAME all|any|NUMBER MEMBER…`, or one "
        "`quorum NAME`"
    )


def _members(policy: Policy, members: list[str]) -> tuple[str, ...]:
    used = [other for _, others in policy.groups.values() for other in others]
    for member in members:
        _require_defined(member, {*policy.witnesses, *policy.groups})
        if member in used:
            raise ValueError(f"{member} is already a member of a group")
        used.append(member)
    return tuple(members)


def _require_defined(name: str, names: Collection[str]) -> None:
    if name not in names:
        raise ValueError(f"no earlier line defines {name}")


def _needed(words: str, members: int) -> int:
    needed = {"any": "1", "all": str(members)}.get(words, words)
    if not needed.isdecimal() or not 1 <= int(needed) <= members:
        raise ValueError(f"a group needs all, any, or 1 to {members} of its members")
    return int(needed)


def decode_base64(text: str) -> bytes:
    """Decode base64 that has exactly one spelling.

    Raises:
        ValueError: it is not base64.
    """
    raw = b64decode(text, validate=True)
    if b64encode(raw).decode() != text:
        raise ValueError("a key, hash or signature is not canonical base64")
    return raw
