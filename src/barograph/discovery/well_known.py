"""The small files that programs look for (pure)."""

from barograph.access.feed_entry import FEED_PATH
from barograph.discovery.paths import LLMS_PATH, SECURITY_PATH
from barograph.kit.timestamps import DAY, iso_timestamp

VALID_DAYS = 90


def security_text(contact: str, base_url: str, now: int) -> str:
    """`security.txt` of RFC 9116, the same for a whole day."""
    expires = (now // DAY + VALID_DAYS) * DAY
    return "\n".join(
        [
            f"Contact: {contact}",
            f"Expires: {iso_timestamp(expires)}",
            "Preferred-Languages: en",
            f"Canonical: {base_url}{SECURITY_PATH}",
            "",
        ]
    )


def robots_text(base_url: str) -> str:
    """What crawlers are asked to leave alone: what is paid for, private or a one-time link."""
    hidden = (f"{FEED_PATH.rpartition('/')[0]}/", "/api/agents/", "/api/feed/", "/keys")
    root = f"/{base_url.partition('//')[2].partition('/')[2]}".rstrip("/")
    return "\n".join(
        [
            f"# In words for programs: {base_url}{LLMS_PATH}",
            "User-agent: *",
            *(f"Disallow: {root}{path}" for path in hidden),
            f"Sitemap: {base_url}/sitemap.xml",
            "",
        ]
    )
