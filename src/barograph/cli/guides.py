"""`barograph guides`: the catalog of paid guides."""

import json
import sys
from pathlib import Path

import click


@click.group()
def guides() -> None:
    """Look after the catalog of guides."""


@guides.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print the finding as JSON.")
def check(file: Path, as_json: bool) -> None:
    """Tell whether FILE (.toml or .json) can be used as the catalog.

    \b
    Prints every problem on a line of its own. Exit code 1 when the file cannot be used.
    A catalog that can be used is shown by setting BAROGRAPH_GUIDES_FILE to it.

    \b
    Example:
      barograph guides check guides.toml
    """
    from barograph.guides.catalog import InvalidCatalog
    from barograph.guides.files import read_catalog

    try:
        catalog = read_catalog(file)
    except InvalidCatalog as error:
        problems = error.problems
        click.echo(
            json.dumps({"ok": False, "problems": problems}) if as_json else "\n".join(problems)
        )
        sys.exit(1)
    count = len(catalog.guides)
    total = round(sum(guide.price for guide in catalog.guides), 2)
    if as_json:
        finding = {"ok": True, "count": count, "total_usd": total, "source": catalog.source}
        click.echo(json.dumps(finding))
    else:
        click.echo(f"{count} guides, {total:.2f} USD in total; source: {catalog.source}")
