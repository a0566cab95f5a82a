"""The demo's payments: its settings, and a payment proof on the terminal."""

from pathlib import Path
from typing import Any

import click


def payment_settings(place: str) -> dict[str, Any]:
    """The settings by which a demo is paid, with its facilitator at `host:port`."""
    from barograph.demo.facilitator_server import RPC_PATH
    from barograph.demo.ledger import DECIMALS, NETWORK, PAY_TO, TOKEN

    return {
        "x402_facilitator_url": f"http://{place}",
        "x402_chain_url": f"http://{place}{RPC_PATH}",
        "x402_network": NETWORK,
        "x402_asset": TOKEN.verifying_contract,
        "x402_asset_name": TOKEN.name,
        "x402_asset_version": TOKEN.version,
        "x402_asset_decimals": DECIMALS,
        "x402_pay_to": PAY_TO,
    }


def print_demo_proof(data: Path, wallet: str, what: str, place: str) -> None:
    """Print a proof of a wallet for what a door asks, and nothing else."""
    from barograph.demo.wallets import demo_proof
    from barograph.kit.clock import system_clock
    from barograph.payments.offers import feed_requirements, stance_requirements
    from barograph.payments.proof import wire_requirements
    from barograph.settings import Settings

    settings = Settings.model_validate(payment_settings(place))
    asked = feed_requirements if what == "feed" else stance_requirements
    click.echo(demo_proof(data, wallet, wire_requirements(asked(settings)), system_clock()))
