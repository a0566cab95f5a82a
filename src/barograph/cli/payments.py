"""`barograph payments`: lists, reconciles and decides payments."""

import json
import re
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from barograph.cli.common import (
    by_option,
    data_option,
    json_option,
    read_settings,
    run_on_database,
    running_demo,
    why_option,
    yes_option,
)
from barograph.kit.clock import system_clock
from barograph.kit.timestamps import iso_timestamp
from barograph.settings import is_setting

if TYPE_CHECKING:
    from barograph.kit.database import Database
    from barograph.payments.journal import Journal
    from barograph.payments.reconcile import ManualReconciler, Reconciled
    from barograph.payments.records import Payment, State, TrailStep
    from barograph.settings import Settings

T = TypeVar("T")

STATES = ("claimed", "settling", "settled", "released", "failed", "unknown")

_HASH = re.compile(r"0x[0-9a-fA-F]{64}")


def _transaction(_context: click.Context, _option: click.Parameter, given: str) -> str:
    if _HASH.fullmatch(given) is None:
        raise click.BadParameter("write 0x and 64 hexadecimal digits")
    return given


@click.group()
def payments() -> None:
    """List payments, and resolve the ones with an unknown outcome.

    \b
    Examples:
      barograph payments list --state unknown
      barograph payments show pay_…
      barograph payments reconcile
      barograph payments settle pay_… --transaction 0x… --why "seen on the chain"
    """


@payments.command(name="list")
@click.option("--state", type=click.Choice(STATES), help="Only payments in this state.")
@click.option("--wallet", metavar="0x…", help="Only payments of this payer.")
@click.option(
    "--last", type=click.IntRange(1, 10_000), default=50, show_default=True, help="How many."
)
@json_option
@data_option
def list_payments(
    state: "State | None", wallet: str | None, last: int, as_json: bool, data: Path | None
) -> None:
    """List payments, newest first.

    \b
    Examples:
      barograph payments list
      barograph payments list --state unknown --json
    """
    found = _on_journal(
        read_settings(data=data),
        lambda journal: journal.search(state=state, payer=wallet, limit=last),
    )
    if as_json:
        click.echo(json.dumps([_payment_json(each) for each in found]))
        return
    for each in found:
        click.echo(_line(each))
    if not found:
        click.echo("no payment matches" if state or wallet else "no payment yet")


@payments.command()
@click.argument("payment_id", metavar="ID")
@json_option
@data_option
def show(payment_id: str, as_json: bool, data: Path | None) -> None:
    """Show one payment and its trail.

    \b
    Example:
      barograph payments show pay_…
    """

    async def work(journal: "Journal") -> "tuple[Payment, list[TrailStep]]":
        return await journal.get(payment_id), await journal.trail(payment_id)

    payment, trail = _on_journal(read_settings(data=data), work)
    if as_json:
        steps = [{**each._asdict(), "at": iso_timestamp(each.at)} for each in trail]
        click.echo(json.dumps({**_payment_json(payment), "trail": steps}))
        return
    for name, value in _payment_json(payment).items():
        click.echo(f"{name:16} {'-' if value is None else value}")
    for each in trail:
        click.echo(f"{iso_timestamp(each.at)}  {each.step:10} {each.detail or ''}".rstrip())


@payments.command()
@json_option
@data_option
def reconcile(as_json: bool, data: Path | None) -> None:
    """Look up unfinished payments on the chain and resolve them.

    A running collector does the same once per minute.

    \b
    Example:
      barograph payments reconcile
    """
    settings = _paid_settings(data)

    async def action(database: "Database") -> "Reconciled":
        from barograph.collector.app import build_reconciler
        from barograph.upstream.chain import JsonRpcChain

        chain = JsonRpcChain(settings) if settings.x402_chain_url else None
        try:
            return await build_reconciler(database, chain, system_clock).once()
        finally:
            if chain is not None:
                await chain.close()

    done = run_on_database(settings, action)
    if as_json:
        click.echo(json.dumps(done._asdict()))
        return
    click.echo("  ".join(f"{name} {count}" for name, count in done._asdict().items()))
    if done.waiting and not settings.x402_chain_url:
        click.echo("set BAROGRAPH_X402_CHAIN_URL to look up the waiting payments on the chain")


@payments.command()
@click.argument("payment_id", metavar="ID")
@click.option(
    "--transaction",
    required=True,
    callback=_transaction,
    metavar="0x…",
    help="The transaction that moved the money to us.",
)
@why_option
@by_option
@yes_option
@json_option
@data_option
def settle(
    payment_id: str,
    transaction: str,
    why: str,
    by: str,
    yes: bool,
    as_json: bool,
    data: Path | None,
) -> None:
    """Mark a payment as made, because you saw it on the chain.

    Use this only for a payment whose result is unknown or whose settlement was interrupted. It
    grants the purchase, as if the facilitator had answered.

    \b
    Example:
      barograph payments settle pay_… --transaction 0x… --why "seen on the chain"
    """
    settings = read_settings(data=data)
    if not yes:
        _confirm("Settle", settings, payment_id)
    payment = _decide(
        settings, lambda manual: manual.settle(payment_id, transaction, by=by, why=why)
    )
    _echo(payment, as_json=as_json)


@payments.command()
@click.argument("payment_id", metavar="ID")
@why_option
@by_option
@yes_option
@json_option
@data_option
def fail(payment_id: str, why: str, by: str, yes: bool, as_json: bool, data: Path | None) -> None:
    """Mark a payment as not made, because it is not on the chain.

    Use this only for a payment whose result is unknown or whose settlement was interrupted. Its
    authorization must have expired; until then it can still move the money.

    \b
    Example:
      barograph payments fail pay_… --why "expired unused"
    """
    settings = read_settings(data=data)
    if not yes:
        _confirm("Fail", settings, payment_id)
    payment = _decide(settings, lambda manual: manual.fail(payment_id, by=by, why=why))
    _echo(payment, as_json=as_json)


def _confirm(action: str, settings: "Settings", payment_id: str) -> None:
    found = _on_journal(settings, lambda journal: journal.get(payment_id))
    click.confirm(f"{action} {_line(found)}? This cannot be undone", abort=True)


def _decide(
    settings: "Settings", use: "Callable[[ManualReconciler], Coroutine[Any, Any, Payment]]"
) -> "Payment":
    from barograph.entitlements.purchases import FeedGrants
    from barograph.entitlements.store import Entitlements
    from barograph.payments.journal import Journal
    from barograph.payments.reconcile import ManualReconciler

    async def action(database: "Database") -> "Payment":
        entitlements = Entitlements(database, system_clock)
        grants = FeedGrants(entitlements, system_clock)
        journal = Journal(database, system_clock)
        return await use(ManualReconciler(journal, system_clock, grants.grant_for))

    return run_on_database(settings, action)


def _echo(payment: "Payment", *, as_json: bool) -> None:
    click.echo(json.dumps(_payment_json(payment)) if as_json else _line(payment))


def _paid_settings(data: Path | None) -> "Settings":
    """The settings, or those of the demo that runs in the folder: its chain has another port."""
    settings = read_settings(data=data)
    running = running_demo(settings.data)
    stated = {name: text for name, text in running.items() if is_setting(name)}
    return settings.from_environment({**settings.to_environment(), **stated})


def _on_journal(settings: "Settings", use: "Callable[[Journal], Coroutine[Any, Any, T]]") -> T:
    from barograph.payments.journal import Journal

    return run_on_database(settings, lambda database: use(Journal(database, system_clock)))


def _payment_json(payment: "Payment") -> dict[str, Any]:
    """A payment without the digests of its signature and key."""
    members = payment._asdict()
    del members["signature_digest"], members["key_digest"]
    for name in ("valid_before", "claimed_at", "updated_at", "released_at"):
        at = members[name]
        members[name] = None if at is None else iso_timestamp(at)
    return members


def _line(payment: "Payment") -> str:
    end = payment.transaction or payment.reason or ""
    return (
        f"{payment.id}  {payment.state:8}  {iso_timestamp(payment.claimed_at)}  {payment.door:26}  "
        f"{payment.amount:>10}  {payment.payer}  {end}"
    ).rstrip()
