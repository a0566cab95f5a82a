"""`barograph guides`: checks the catalog of paid guides."""

import sys
from pathlib import Path

import click

from barograph.cli.common import echo, json_option
from barograph.guides.catalog import InvalidCatalog, read_catalog


@click.group()
def guides() -> None:
    """Check the catalog of paid guides.

    \b
    Example:
      barograph guides check guides.toml
    """


@guides.command()
@click.argument("file", type=click.Path(path_type=Path))
@json_option
def check(file: Path, as_json: bool) -> None:
    """Check whether FILE (.toml or .json) is a valid catalog.

    Prints every problem on its own line, and exits with 1 if there is one. To serve a valid
    catalog, set BAROGRAPH_GUIDES_FILE to its path.

    \b
    Example:
      barograph guides check guides.toml
    """
    try:
        catalog = read_catalog(file)
    except InvalidCatalog as error:
        problems = error.problems
        echo({"ok": False, "problems": problems}, "\n".join(problems), as_json=as_json)
        sys.exit(1)
    count = len(catalog.guides)
    total = round(sum(guide.price for guide in catalog.guides), 2)
    summary = {"ok": True, "count": count, "total_usd": total, "source": catalog.source}
    text = f"{count} guides, {total:.2f} USD in total; source: {catalog.source}"
    echo(summary, text, as_json=as_json)
