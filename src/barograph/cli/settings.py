"""`barograph settings`: every setting with its value and where the value comes from."""

import json
import os
import re
import shutil
import sys
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import click
from pydantic import SecretStr
from pydantic.fields import FieldInfo

from barograph.cli.common import data_option, json_option, served_settings
from barograph.errors import EXIT_CONFIGURATION, ConfigurationError
from barograph.history.signing import is_key_in_file, load_history_key
from barograph.settings import GROUPS, PREFIX, Settings
from barograph.webhooks.keys import load_webhook_secret

DERIVED = {
    "accept_terms": "see `barograph terms list`",
    "base_url": "derived from BAROGRAPH_HOST and BAROGRAPH_PORT",
    "database_url": "derived from BAROGRAPH_DATA",
    "history_url": "derived from BAROGRAPH_DATA",
}
"""Where the value comes from if the setting is empty."""

_URL = re.compile(r"([a-z0-9+]+://)(.*@)?([^@/?#\s]*)(/[^@?#\s]*)?([?#][^@\s]*)?")


class Row(NamedTuple):
    """A setting as it is listed; `value` is None if it is not set."""

    name: str
    group: str
    value: str | None
    origin: str
    meaning: str


@click.command()
@json_option
@data_option
def settings(as_json: bool, data: Path | None) -> None:
    """Show every setting by group, with its value and where the value comes from.

    A secret shows as `set`, and a URL without its password. To change a setting, set its variable
    and restart the service. If a setting is invalid, the exit code is 3.

    \b
    Examples:
      barograph settings --data /var/lib/barograph
      barograph settings --json
    """
    current, problem = None, None
    try:
        current = served_settings(data)
        if not is_key_in_file(current):
            load_history_key(current)
        if current.webhook_key.get_secret_value():
            load_webhook_secret(current)
    except ConfigurationError as error:
        problem = str(error)
    rows = _rows(data, current)
    if as_json:
        listed = [row._asdict() for row in rows]
        click.echo(json.dumps({"error": problem, "settings": listed}))
    else:
        click.echo(_text(rows))
    if any(row.origin == "demo" for row in rows):
        click.echo("A demo uses this folder; it chooses its other settings itself.", err=True)
    if problem is not None:
        click.echo(f"barograph: {problem}", err=True)
        sys.exit(EXIT_CONFIGURATION)


def _rows(data: Path | None, current: Settings | None) -> list[Row]:
    """Every setting; without valid ones, the texts of the variables."""
    given = {**os.environ, **({} if data is None else {f"{PREFIX}DATA": str(data)})}
    plain = texts = {**Settings.model_construct().to_environment(), **given}
    if current is not None:
        texts = current.to_environment()
        # Only known names: reading the removed ones again would repeat their warnings.
        known = {name: text for name, text in given.items() if name in texts}
        plain = Settings.from_environment(known).to_environment()
    rows = []
    for group, model in GROUPS.items():
        for name, field in model.model_fields.items():
            variable = PREFIX + name.upper()
            value = _shown(name, field, texts[variable], is_valid=current is not None)
            is_given = given.get(variable) or (variable in given and field.default)
            origin = "environment" if is_given else "default"
            if name == "data" and data is not None:
                origin = "--data"
            elif plain[variable] != texts[variable]:
                origin = "demo"
            elif name in DERIVED and not given.get(variable):
                origin = DERIVED[name]
                if value is None and current is not None:
                    value = str(getattr(current, name.replace("_url", "_path"))) or None
            rows.append(Row(variable, group, value, origin, str(field.description)))
    return rows


def _shown(name: str, field: FieldInfo, text: str, *, is_valid: bool) -> str | None:
    """The value without its secrets; None if there is none."""
    if not text:
        return None
    is_secret = field.annotation is SecretStr
    url = _URL.fullmatch(text) if is_valid or not is_secret else None
    if url is None:
        is_url = name.endswith("_url") or ("://" in text and "@" in text)
        return "set" if is_secret or is_url else text
    scheme, user, host, path, query = url.groups("")
    # Nodes of a chain take their API key in the path.
    path = "/…" if path and name == "x402_chain_url" else path
    return f"{scheme}{'***@' if user else ''}{host}{path}{'?…' if query else ''}"


def _text(rows: list[Row]) -> str:
    """A line per setting; on a terminal also the first sentence of its meaning."""
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else 0
    lines: list[str] = []
    for group, members in groupby(rows, lambda row: row.group):
        lines += ["", group.capitalize()]
        for row in members:
            line = f"  {row.name:<40} {row.value or 'not set':<40} {row.origin}"
            # Values must not control the terminal.
            lines.append("".join(each if each.isprintable() else "?" for each in line))
            if width:
                meaning = row.meaning.partition(". ")[0].removesuffix(".") + "."
                lines.append(click.wrap_text(meaning, width, " " * 6, " " * 6))
    return "\n".join(lines[1:])
