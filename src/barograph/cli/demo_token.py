"""A bearer token of a running demo, on the terminal."""

from pathlib import Path

import click


def print_demo_token(data: Path, tier: str, place: str) -> None:
    """Print a token for a tier's user of the provider at `host:port`, and nothing else."""
    from barograph.demo.identity import demo_token
    from barograph.kit.clock import system_clock

    click.echo(demo_token(data, tier, system_clock(), f"http://{place}"))
