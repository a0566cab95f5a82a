"""`barograph entitlements`: grants, revokes and lists entitlements to Feed and Reserve."""

from collections.abc import Callable, Coroutine
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, TypeVar, get_args

import click

from barograph.cli.common import (
    by_option,
    confirm,
    echo,
    json_option,
    last_option,
    run_on_database,
    settings_option,
    why_option,
    yes_option,
)
from barograph.entitlements.store import (
    Entitlement,
    Entitlements,
    Holder,
    InvalidHolder,
    Tier,
    TrailEntry,
    UnknownEntitlement,
)
from barograph.kit.clock import system_clock
from barograph.kit.timestamps import DAY, iso_timestamp
from barograph.settings import Settings

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

TIERS = get_args(Tier)
DEFAULT_DAYS = 30


def _instant(_context: click.Context, _option: click.Parameter, given: str | None) -> int | None:
    """A date (its first instant) or a timestamp, in UTC, as milliseconds."""
    if given is None:
        return None
    for form in ("%Y-%m-%d", "%Y-%m-%dT%H:%M:%SZ"):
        with suppress(ValueError):
            return int(datetime.strptime(given, form).replace(tzinfo=UTC).timestamp()) * 1000
    raise click.BadParameter("write 2027-01-31 or 2027-01-31T09:00:00Z (UTC)")


def _holder_options(function: F) -> F:
    """`--user SUB` and `--wallet 0x…`."""
    user = click.option("--user", metavar="SUB", help="The user's ID at the identity provider.")
    wallet = click.option("--wallet", metavar="0x…", help="The address of a wallet.")
    return user(wallet(function))


@click.group()
def entitlements() -> None:
    """Grant, revoke and list entitlements to Feed and Reserve.

    \b
    Examples:
      barograph entitlements grant --user 8c5e… --tier feed --why "paid by card"
      barograph entitlements list --active
      barograph entitlements revoke ent_… --why "refunded"
    """


@entitlements.command()
@_holder_options
@click.option("--tier", required=True, type=click.Choice(TIERS))
@click.option("--days", type=click.IntRange(1, 3650), help=f"How long (default: {DEFAULT_DAYS}).")
@click.option(
    "--until", callback=_instant, metavar="DATE", help="When it ends, such as 2027-01-31."
)
@click.option(
    "--from", "since", callback=_instant, metavar="DATE", help="When it starts (default: now)."
)
@click.option(
    "--source", default="operator", show_default=True, help="Where the entitlement comes from."
)
@why_option
@by_option
@json_option
@settings_option
def grant(
    user: str | None,
    wallet: str | None,
    tier: Tier,
    days: int | None,
    until: int | None,
    since: int | None,
    source: str,
    why: str,
    by: str,
    as_json: bool,
    settings: Settings,
) -> None:
    """Grant a tier to a user or a wallet.

    Without --from and --until the days extend a running entitlement, so an early renewal loses
    nothing. With --from or --until a separate entitlement with exactly those times is granted.

    \b
    Examples:
      barograph entitlements grant --user 8c5e… --tier feed --why "paid by card"
      barograph entitlements grant --wallet 0x… --tier feed --days 90 --why "a quarter"
      barograph entitlements grant --user 8c5e… --tier reserve --until 2027-01-01 --why "a guest"
    """
    holder = _holder(user, wallet)
    if holder is None:
        raise click.UsageError("give --user SUB or --wallet 0x…")
    if days is not None and until is not None:
        raise click.UsageError("give --days or --until, not both")
    length = (DEFAULT_DAYS if days is None else days) * DAY

    async def work(store: Entitlements) -> tuple[Entitlement, list[TrailEntry]]:
        if since is None and until is None:
            granted = await store.add_period(
                holder, tier, period_ms=length, source=source, by=by, why=why
            )
        else:
            starts_at = system_clock() if since is None else since
            ends_at = starts_at + length if until is None else until
            granted = await store.grant(
                holder, tier, starts_at=starts_at, ends_at=ends_at, source=source, by=by, why=why
            )
        return granted, await store.trail(granted.id)

    granted, trail = _on_store(settings, work)
    action = trail[-1].action
    value = {"action": action, **_entitlement_json(granted)}
    echo(value, f"{action} {_line(granted)}", as_json=as_json)


@entitlements.command()
@click.argument("entitlement_id", metavar="ID")
@why_option
@by_option
@yes_option
@json_option
@settings_option
def revoke(
    entitlement_id: str, why: str, by: str, yes: bool, as_json: bool, settings: Settings
) -> None:
    """Permanently revoke an entitlement.

    Other entitlements of the same holder stay active; the command lists them.

    \b
    Examples:
      barograph entitlements revoke ent_… --why "refunded"
      barograph entitlements revoke ent_… --why "refunded" --yes --json
    """
    entitlement = _on_store(settings, lambda store: _get(store, entitlement_id))
    changes = entitlement.revoked_at is None
    confirm(f"Revoke {_line(entitlement)}", yes=yes or not changes)

    async def work(store: Entitlements) -> tuple[Entitlement, list[Entitlement]]:
        revoked = await store.revoke(entitlement_id, by=by, why=why)
        holder = Holder(revoked.holder_kind, revoked.holder)
        return revoked, await store.find(holder=holder, tier=revoked.tier, active_only=True)

    revoked, others = _on_store(settings, work)
    text = f"{'revoked' if changes else 'nothing changed:'} {_line(revoked)}"
    echo({"changed": changes, **_entitlement_json(revoked)}, text, as_json=as_json)
    for other in others:
        click.echo(f"still active: {_line(other)}", err=True)


@entitlements.command("list")
@_holder_options
@click.option("--tier", type=click.Choice(TIERS))
@click.option("--active", is_flag=True, help="Only active ones.")
@last_option(100, maximum=100_000)
@json_option
@settings_option
def list_entitlements(
    user: str | None,
    wallet: str | None,
    tier: Tier | None,
    active: bool,
    last: int,
    as_json: bool,
    settings: Settings,
) -> None:
    """List entitlements, newest first.

    \b
    Examples:
      barograph entitlements list --active --tier feed
      barograph entitlements list --wallet 0x… --json
    """
    holder = _holder(user, wallet)
    listed = _on_store(
        settings,
        lambda store: store.find(holder=holder, tier=tier, active_only=active, limit=last),
    )
    text = "\n".join(map(_line, listed)) or "no entitlements"
    echo([_entitlement_json(entitlement) for entitlement in listed], text, as_json=as_json)


@entitlements.command()
@click.argument("entitlement_id", metavar="ID")
@json_option
@settings_option
def show(entitlement_id: str, as_json: bool, settings: Settings) -> None:
    """Show one entitlement and its trail: every change, when, by whom and why.

    \b
    Examples:
      barograph entitlements show ent_…
      barograph entitlements show ent_… --json
    """

    async def work(store: Entitlements) -> tuple[Entitlement, list[TrailEntry]]:
        return await _get(store, entitlement_id), await store.trail(entitlement_id)

    entitlement, trail = _on_store(settings, work)
    entries = [
        {**entry._asdict(), "at": iso_timestamp(entry.at), "ends_at": iso_timestamp(entry.ends_at)}
        for entry in trail
    ]
    lines = ["  {at}  {action:<8}  until {ends_at}  {by}: {why}".format(**row) for row in entries]
    value = {**_entitlement_json(entitlement), "trail": entries}
    echo(value, "\n".join([_line(entitlement), *lines]), as_json=as_json)


def _holder(user: str | None, wallet: str | None) -> Holder | None:
    """The holder that the options name, if any."""
    if user is not None and wallet is not None:
        raise click.UsageError("give --user or --wallet, not both")
    try:
        if wallet is not None:
            return Holder("wallet", wallet)
        return None if user is None else Holder("user", user)
    except InvalidHolder as error:
        hint = "--user" if wallet is None else "--wallet"
        raise click.BadParameter(str(error), param_hint=hint) from error


async def _get(store: Entitlements, entitlement_id: str) -> Entitlement:
    try:
        return await store.get(entitlement_id)
    except UnknownEntitlement as error:
        raise UnknownEntitlement(f"{error}: see `barograph entitlements list`") from error


def _entitlement_json(entitlement: Entitlement) -> dict[str, object]:
    revoked_at = entitlement.revoked_at
    return {
        "id": entitlement.id,
        "tier": entitlement.tier,
        "holder_kind": entitlement.holder_kind,
        "holder": entitlement.holder,
        "state": _state(entitlement),
        "starts_at": iso_timestamp(entitlement.starts_at),
        "ends_at": iso_timestamp(entitlement.ends_at),
        "source": entitlement.source,
        "granted_at": iso_timestamp(entitlement.granted_at),
        "revoked_at": None if revoked_at is None else iso_timestamp(revoked_at),
    }


def _line(entitlement: Entitlement) -> str:
    span = f"{iso_timestamp(entitlement.starts_at)} to {iso_timestamp(entitlement.ends_at)}"
    whose = f"{entitlement.holder_kind} {entitlement.holder}"
    return f"{entitlement.id}  {entitlement.tier:<7}  {_state(entitlement):<7}  {span}  {whose}"


def _state(entitlement: Entitlement) -> str:
    now = system_clock()
    if entitlement.revoked_at is not None:
        return "revoked"
    if entitlement.is_active(now):
        return "active"
    return "ended" if now >= entitlement.ends_at else "planned"


def _on_store(settings: Settings, use: Callable[[Entitlements], Coroutine[Any, Any, T]]) -> T:
    return run_on_database(settings, lambda database: use(Entitlements(database, system_clock)))
