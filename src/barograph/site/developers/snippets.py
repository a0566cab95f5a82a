"""Programs that the developer page shows (pure); tests run them as they stand there."""

import json
from typing import NamedTuple

from barograph.discovery.mcp_description import MCP_PATH
from barograph.markets.documents import DERIVATIVES_PATH

FIRST_SYMBOL = "BTC"
FIRST_TARGET = f"{DERIVATIVES_PATH}?symbol={FIRST_SYMBOL}"


def first_curl(base_url: str) -> str:
    """The first call in a shell."""
    return f"curl '{base_url}{FIRST_TARGET}'"


def first_python(base_url: str) -> str:
    """The first call with nothing but Python; an error is raised."""
    return f"""\
import json
from urllib.request import urlopen

with urlopen("{base_url}{FIRST_TARGET}", timeout=10) as answer:
    btc = json.load(answer)
print(btc["lastPrice"], btc["fundingRatePct"], btc["source"])"""


def first_javascript(base_url: str) -> str:
    """The first call in a browser or in Node, as a module."""
    return f"""\
const answer = await fetch("{base_url}{FIRST_TARGET}");
const btc = await answer.json();
if (!answer.ok) throw new Error(btc.error);
console.log(btc.lastPrice, btc.fundingRatePct, btc.source);"""


def client_python(base_url: str) -> str:
    """A few reads with the project's own client."""
    return f"""\
from barograph_client import Barograph

with Barograph("{base_url}") as client:
    btc = client.derivatives("BTC")
    print(btc.lastPrice, btc.fundingRatePct, btc.source)
    print(client.market_state().regime.label)"""


def mcp_file(base_url: str) -> str:
    """How files of MCP clients name a remote server."""
    server = {"type": "http", "url": f"{base_url}{MCP_PATH}"}
    return json.dumps({"mcpServers": {"barograph": server}}, indent=2)


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
