"""Tokens and queries that the service must refuse; the test has the provider's real key."""

import hmac
import json
from collections.abc import Iterator, Mapping
from typing import Any

from joserfc.jwk import ECKey

from barograph_demo.servers.identity import AUDIENCE, BY_ID, DEMO_USERS
from support.tokens import key, segment, token

FEED_USER = BY_ID[DEMO_USERS["feed"]]
HOUR_SECONDS = 3600

INJECTED_KEY_IDS: tuple[Any, ...] = (
    *("unknown", "", "../../../../dev/null", "/proc/self/environ", "x' OR '1'='1", "| sleep 9"),
    *("\x00", "k" * 201, 0, True, None, ["x"], {"kid": "x"}),
)


class Forger:
    """Makes tokens of a provider, each with one fault; the name says which."""

    def __init__(self, provider_key: ECKey, issuer: str, now: int, elsewhere: str) -> None:
        self._key = provider_key
        self._kid = provider_key.thumbprint()
        self._stranger = key("EC", 1)
        self._elsewhere = elsewhere
        seconds = now // 1000
        self._now = seconds
        self._claims = {
            "iss": issuer,
            "sub": FEED_USER.id,
            "aud": AUDIENCE,
            "iat": seconds,
            "exp": seconds + HOUR_SECONDS,
            "email": FEED_USER.email,
            "is_anonymous": False,
        }

    def good(self) -> str:
        """A valid token."""
        return self._signed({})

    def of_nobody(self) -> str:
        """A token that the provider signed, for an unknown user."""
        return self._signed({}, sub="00000000-0000-4000-8000-000000000000")

    def forged(self) -> dict[str, str]:
        """Tokens that are not the provider's, not for us or not valid now."""
        found = (self._of_other_algorithms(), self._of_other_keys(), self._of_other_claims())
        return {name: text for group in found for name, text in group}

    def _signed(self, header: Mapping[str, Any], by: Any = None, **claims: Any) -> str:
        said = {name: v for name, v in {**self._claims, **claims}.items() if v is not None}
        return token(said, by=by or self._key, **{"kid": self._kid, **header})

    def _hashed(self, algorithm: str, secret: bytes) -> str:
        header = segment({"alg": algorithm, "kid": self._kid})
        message = header + b"." + segment(self._claims)
        function = f"sha{algorithm[2:]}"
        return (message + b"." + segment(hmac.digest(secret, message, function))).decode()

    def _of_other_algorithms(self) -> Iterator[tuple[str, str]]:
        message, _, signature = self.good().rpartition(".")
        claimed = message.partition(".")[2]
        for name in ("none", "None", "NONE"):
            header = segment({"alg": name, "kid": self._kid}).decode()
            yield f"alg {name} unsigned", f"{header}.{claimed}."
            yield f"alg {name} over a signature", f"{header}.{claimed}.{signature}"
        public = {**self._key.as_dict(), "kid": self._kid}
        for algorithm in ("HS256", "HS384", "HS512"):
            yield f"{algorithm} with the key as PEM", self._hashed(algorithm, self._key.as_pem())
            yield f"{algorithm} with the key as DER", self._hashed(algorithm, self._key.as_der())
            as_json = json.dumps({"keys": [public]}).encode()
            yield f"{algorithm} with the key set", self._hashed(algorithm, as_json)
            yield f"{algorithm} with nothing", self._hashed(algorithm, b"")
        yield "RS256 under the key's id", self._signed({}, key("RSA"))
        yield "RS256 in name", self._signed({"alg": "RS256"})
        yield "no signature", f"{message}."
        yield "a signature of zeros", f"{message}.{segment(bytes(64)).decode()}"
        yield "a signature cut short", f"{message}.{signature[:-4]}"
        yield "a fourth segment", f"{message}.{signature}.{signature}"

    def _of_other_keys(self) -> Iterator[tuple[str, str]]:
        yield "another key under the key's id", self._signed({}, self._stranger)
        for kid in INJECTED_KEY_IDS:
            yield f"kid {str(kid)[:30]!r}", self._signed({"kid": kid}, self._stranger)
        for header in (
            {"jku": f"{self._elsewhere}/keys"},
            {"x5u": f"{self._elsewhere}/chain"},
            {"jwk": self._stranger.as_dict()},
            {"x5c": ["TUlJQg=="]},
            {"kid": f"{self._elsewhere}/keys"},
        ):
            (name,) = header
            yield f"{name} of a stranger", self._signed({"kid": "EC-1", **header}, self._stranger)
            yield f"{name} under the key's id", self._signed(header, self._stranger)

    def _of_other_claims(self) -> Iterator[tuple[str, str]]:
        hour, now = HOUR_SECONDS, self._now
        message, _, signature = self.good().rpartition(".")
        promoted = segment({**self._claims, "role": "service_role"}).decode()
        yield "claims changed after signing", f"{message.partition('.')[0]}.{promoted}.{signature}"
        yield "expired", self._signed({}, iat=now - 2 * hour, exp=now - hour)
        yield "not yet valid", self._signed({}, nbf=now + hour)
        yield "issued in the future", self._signed({}, iat=now + hour)
        yield "without an end", self._signed({}, exp=None)
        yield "exp as text", self._signed({}, exp=str(now + hour))
        yield "another issuer", self._signed({}, iss=f"{self._elsewhere}/auth/v1")
        yield "the issuer with a slash", self._signed({}, iss=f"{self._claims['iss']}/")
        yield "another audience", self._signed({}, aud="service")
        yield "no audience", self._signed({}, aud=None)
        yield "nobody's", self._signed({}, sub=None)
        yield "is_anonymous as text", self._signed({}, is_anonymous="false")
        yield "is_anonymous", self._signed({}, is_anonymous=True)
        yield "longer than a token may be", self._signed({}, filler="x" * 8_192)
        yield "no token at all", "x"


def query_of(given: Mapping[str, str], **changes: str | None) -> str:
    """A query with these parameters, unencoded; None leaves one out."""
    changed = {**given, **changes}
    return "&".join(f"{name}={value}" for name, value in changed.items() if value is not None)


def malformed(given: Mapping[str, str]) -> Iterator[str]:
    """Queries that are not seven well-formed parameters."""
    good = query_of(given)
    for name, value in given.items():
        others = query_of(given, **{name: None})
        yield others
        yield f"{good}&{name}={value}"
        yield f"{good}&{name}=x"
        yield f"{others}&{name}"
        yield f"{others}&{name.upper()}={value}"
        wrong = ("", f"{value}%0A", f"{value}%00", f"{value}%FF", "%ff", "%", value + "x" * 200)
        for each in (*wrong, *_wrong_values(name, value)):
            yield query_of(given, **{name: each})
    for extra in ("limit=2", "leg=x", "email=feed%40demo.example", "=", "x", ""):
        yield f"{good}&{extra}"
    yield from ("", "&", "?", good.replace("&", ";"), f"{good}&pad={'x' * 60_000}")


def _wrong_values(name: str, value: str) -> tuple[str, ...]:
    if name.endswith("revision"):
        signed = ("%2B1", "+1", "-1", "%201", "1%20", "1.0", "1e0", "0x1", "1_0")
        return (*signed, "0", "01", "2147483648", "1" * 11, "%D9%A1", "1\u0660", "%EF%BC%91")
    if name.endswith("digest"):
        return (value.upper(), value[:-1], f"{value}0", value[:-1] + "%D9%A1", f"{value[:-1]}g")
    return (value.upper(), "stance") if name == "kind" else ()


def mismatched(given: Mapping[str, str]) -> Iterator[str]:
    """Queries of well-formed parameters that match no pair."""
    for side in ("before", "after"):
        leg, revision, digest = f"{side}_leg", f"{side}_revision", f"{side}_digest"
        for each in (given[leg].swapcase(), given[leg].lower(), "x" * 200, "%D9%A1"):
            yield query_of(given, **{leg: each})
        yield query_of(given, **{revision: "2147483647"})
        yield query_of(given, **{digest: "0" * 64})
    yield query_of(given, kind="rates-desk")
