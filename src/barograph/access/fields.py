"""What HTTP says about an allowance (pure)."""

from functools import lru_cache

from barograph.access.allowances import Allowance, Standing
from barograph.kit.documents import Headers
from barograph.kit.timestamps import SECOND


def rate_limit_fields(standing: Standing, now: int) -> Headers:
    """The rate-limit fields of an answer that is given now.

    `RateLimit-Policy` and `RateLimit` are the fields of the IETF's draft, the `X-RateLimit-` trio
    is what clients still read. A refusal says with `Retry-After` when to come again; who waits
    exactly that long, and lets nobody of the same group come first, is accepted.
    """
    allowance, accepted, remaining, resets_in = standing
    seconds = -(-resets_in // SECOND)
    policy, template, limit = _constant_parts(allowance)
    fields = [
        policy,
        (b"ratelimit", template % (remaining, seconds)),
        limit,
        (b"x-ratelimit-remaining", b"%d" % remaining),
        (b"x-ratelimit-reset", b"%d" % -(-(now + resets_in) // SECOND)),
    ]
    if not accepted:
        fields.append((b"retry-after", b"%d" % retry_seconds(standing)))
    return fields


def policy_field(allowance: Allowance) -> tuple[bytes, bytes]:
    """What an allowance is, where nothing can be said about what is left of it."""
    return _constant_parts(allowance)[0]


def retry_seconds(standing: Standing) -> int:
    """After how many whole seconds a refused caller is accepted again."""
    return max(1, -(-standing.resets_in // SECOND))


@lru_cache(maxsize=64)
def _constant_parts(allowance: Allowance) -> tuple[tuple[bytes, bytes], bytes, tuple[bytes, bytes]]:
    name, requests, window = allowance
    policy = f'"{name}";q={requests};w={window // SECOND}'.encode()
    limit = str(requests).encode()
    template = f'"{name}";r=%d;t=%d'.encode()
    return (b"ratelimit-policy", policy), template, (b"x-ratelimit-limit", limit)
