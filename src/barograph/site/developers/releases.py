"""What each version brought, in short (pure); CHANGELOG.md tells all of it, and a test compares."""

from typing import NamedTuple


class Release(NamedTuple):
    """One heading of CHANGELOG.md."""

    version: str
    date: str
    """ISO; empty while it is not released."""

    changes: tuple[str, ...]


RELEASES = (
    Release(
        "Unreleased",
        "",
        (
            "Market data of every perpetual, briefs, guides, signals and badges: free, keyless",
            "Personal keys by e-mail, with exact moving windows",
            "The record of stances: append-only, hash-chained, with signed checkpoints and proofs",
            "Feed for subscribers, by token or by wallet, and the comparison of two versions",
            "Payments by x402 v2, each settled once",
            "The site: markets, charts with their data, the record, the status as recorded",
            "MCP, a description of the whole interface, GPT actions, texts for agents, a client",
        ),
    ),
)
