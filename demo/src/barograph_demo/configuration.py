"""What a demo is configured with, and what it prints: settings, payment proofs, the welcome."""

import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pydantic import SecretStr

from barograph.entitlements.purchases import feed_requirements, stance_requirements
from barograph.kit.clock import system_clock
from barograph.payments.proof import wire_requirements
from barograph.settings import VENUE_SETTINGS, Settings
from barograph_demo.servers.control import HOST
from barograph_demo.servers.facilitator import RPC_PATH
from barograph_demo.servers.identity import API_KEY
from barograph_demo.servers.macro_files import FUND_PATH
from barograph_demo.servers.wallets import NETWORK, PAY_TO, TOKEN, demo_proof
from barograph_demo.servers.witness import POLICY_FILE
from barograph_demo.world.venues import VENUES


def demo_settings(
    data: Path,
    port: int,
    workers: int,
    ports: Mapping[str, int],
    taken: Mapping[str, Any] = MappingProxyType({}),
) -> Settings:
    """The live configuration with the simulated servers' `ports` and shorter limits.

    `taken` holds settings from the environment: database URLs, the address to bind, the log format,
    metrics and perhaps a witness policy, which replaces the one of the simulated witnesses.
    """
    places = {name: f"{HOST}:{number}" for name, number in ports.items()}
    macro_url = f"http://{places['macro']}"
    if "witness" in places:
        taken = {"witness_policy": data / POLICY_FILE, **taken}
    return Settings(
        port=port,
        workers=workers,
        data=data,
        log_level="warning",
        exchange_rest_url=f"http://{places['exchange']}",
        exchange_source="simulated exchange (demo data)",
        poll_seconds=2,
        feed_max_age_seconds=20,
        smtp_url=SecretStr(f"smtp://{places['mail']}"),
        mail_from="barograph@demo.example",
        security_contact="mailto:security@demo.example",
        sales_contact="mailto:sales@demo.example",
        rates_url=macro_url,
        etf_url=f"{macro_url}{FUND_PATH}",
        identity="supabase",
        identity_url=f"http://{places['identity']}",
        identity_api_key=SecretStr(API_KEY),
        reveal_after_days=7,
        **taken,
        **venue_settings(places),
        **(payment_settings(places["facilitator"]) if "facilitator" in places else {}),
    )


def venue_settings(places: Mapping[str, str]) -> dict[str, Any]:
    """The settings for reading every simulated venue that has a place."""
    read = [venue for venue in VENUES if venue in places]
    urls = {venue: f"http://{places[venue]}" for venue in read}
    settings: dict[str, Any] = {"venues": ",".join(["bybit", *read])}
    settings |= {
        VENUE_SETTINGS[venue]: urls.pop(venue) for venue in read if venue in VENUE_SETTINGS
    }
    return settings | {"venue_urls": ",".join(f"{venue}={url}" for venue, url in urls.items())}


def payment_settings(place: str) -> dict[str, Any]:
    """The settings for payments through the demo's facilitator at `host:port`."""
    return {
        "x402_facilitator_url": f"http://{place}",
        "x402_chain_url": f"http://{place}{RPC_PATH}",
        "x402_network": NETWORK,
        "x402_asset": TOKEN.verifying_contract,
        "x402_pay_to": PAY_TO,
    }


def make_proof(data: Path, wallet: str, what: str, place: str) -> str:
    """A payment proof of a wallet for a period of Feed or one stance."""
    settings = Settings.model_validate(payment_settings(place))
    requirements = (feed_requirements if what == "feed" else stance_requirements)(settings)
    return demo_proof(data, wallet, wire_requirements(requirements), system_clock())


_FRESH = """\
Its record started empty. The collector back-fills the last 30 days from the simulated exchange's
history, BTC, ETH and SOL first. It counts liquidations only while it runs, because exchanges
publish no past ones.
"""


def welcome(settings: Settings, seconds: float, token: str, *, is_fresh: bool = False) -> str:
    """The text of a demo that is ready: commands to try, a token and finally the addresses."""
    base = settings.base_url
    called = Path(sys.argv[0])
    program = f"{sys.executable} -m barograph" if called.suffix == ".py" else called
    folder = f"--data {settings.data}"
    buying = ""
    if settings.takes_payments:
        buying = f"""
  Get a proof   {program} demo proof --wallet none {folder} (for {base}/api/x402/feed)
  Get a wallet  {program} demo wallet {folder} (for an x402 client of your own)"""
    return f"""\
The Barograph demo is ready after {seconds:.1f} s. All of its data is simulated.
{_FRESH if is_fresh else ""}
Try in a second terminal:
  Create a key  {program} keys create --email you@example.com {folder}
  Read mail     {program} demo mail {folder} (ask for a key at {base}/developers)
  Get a token   {program} demo token --tier feed {folder} (for {base}/api/feed/now){buying}
  Break it      {program} demo fault bybit on {folder} (`off` repairs it)
                (or {", ".join(VENUES)}; `--kind list` shows how)

Bearer token of a Feed subscriber, valid for one hour:
{token}

Data folder: {settings.data}{_servers(settings)}
Exchanges:   {settings.exchange_rest_url} (simulated Bybit v5){_exchanges(settings)}
Phone:       {settings.demo_phone_url} (shows mails and alerts)
API:         {base}/developers, such as {base}/api/agent/market-state
Status:      {base}/api/status
Site:        {base}/
Ctrl-C stops everything."""


def _exchanges(settings: Settings) -> str:
    """The addresses of the venues beside Bybit."""
    return "".join(f", {settings.venue_url(each)} ({each.capitalize()})" for each in VENUES)


def _servers(settings: Settings) -> str:
    names = {
        "PostgreSQL": settings.database_url,
        "PostgreSQL for the history": settings.history_url,
        "Valkey": settings.limits_url,
    }
    used = ", ".join(name for name, url in names.items() if url.get_secret_value())
    return f"\nServers:     {used}" if used else ""
