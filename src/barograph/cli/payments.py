"""`barograph payments`: lists, reconciles and decides payments."""

import re
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar, get_args

import click

from barograph.cli.common import (
    by_option,
    confirm,
    data_option,
    echo,
    json_option,
    last_option,
    read_settings,
    run_on_database,
    running_demo,
    settings_option,
    why_option,
    yes_option,
)
from barograph.collector.app import build_reconciler
from barograph.entitlements.purchases import FeedGrants
from barograph.entitlements.store import Entitlements
from barograph.kit.clock import system_clock
from barograph.kit.database import Database
from barograph.kit.timestamps import iso_timestamp
from barograph.payments.journal import Journal
from barograph.payments.reconcile import ManualReconciler, Reconciled
from barograph.payments.records import Payment, State, TrailStep
from barograph.settings import Settings, is_setting
from barograph.upstream.chain import JsonRpcChain

T = TypeVar("T")

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
@click.option("--state", type=click.Choice(get_args(State)), help="Only payments in this state.")
@click.option("--wallet", metavar="0x…", help="Only payments of this payer.")
@last_option(50, maximum=10_000)
@json_option
@settings_option
def list_payments(
    state: State | None, wallet: str | None, last: int, as_json: bool, settings: Settings
) -> None:
    """List payments, newest first.

    \b
    Examples:
      barograph payments list
      barograph payments list --state unknown --json
    """
    listed = _on_journal(
        settings, lambda journal: journal.search(state=state, payer=wallet, limit=last)
    )
    none = "no payment matches" if state or wallet else "no payment yet"
    rows = [_payment_json(payment) for payment in listed]
    echo(rows, "\n".join(map(_line, listed)) or none, as_json=as_json)


@payments.command()
@click.argument("payment_id", metavar="ID")
@json_option
@settings_option
def show(payment_id: str, as_json: bool, settings: Settings) -> None:
    """Show one payment and its trail.

    \b
    Example:
      barograph payments show pay_…
    """

    async def work(journal: Journal) -> tuple[Payment, list[TrailStep]]:
        return await journal.get(payment_id), await journal.trail(payment_id)

    payment, trail = _on_journal(settings, work)
    members = _payment_json(payment)
    steps = [{**step._asdict(), "at": iso_timestamp(step.at)} for step in trail]
    lines = [f"{name:16} {'-' if value is None else value}" for name, value in members.items()]
    lines += [f"{step['at']}  {step['step']:10} {step['detail'] or ''}".rstrip() for step in steps]
    echo({**members, "trail": steps}, "\n".join(lines), as_json=as_json)


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

    async def action(database: Database) -> Reconciled:
        chain = JsonRpcChain(settings) if settings.x402_chain_url else None
        try:
            return await build_reconciler(settings, database, chain, system_clock).once()
        finally:
            if chain is not None:
                await chain.close()

    done = run_on_database(settings, action)
    text = "  ".join(f"{name} {count}" for name, count in done._asdict().items())
    echo(done._asdict(), text, as_json=as_json)
    if done.waiting and not settings.x402_chain_url and not as_json:
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
@settings_option
def settle(
    payment_id: str,
    transaction: str,
    why: str,
    by: str,
    yes: bool,
    as_json: bool,
    settings: Settings,
) -> None:
    """Mark a payment as made, because you saw it on the chain.

    Use this only for a payment whose result is unknown or whose settlement was interrupted. It
    grants the purchase, as if the facilitator had answered.

    \b
    Example:
      barograph payments settle pay_… --transaction 0x… --why "seen on the chain"
    """
    _confirm("Settle", settings, payment_id, yes=yes)
    payment = _decide(
        settings, lambda manual: manual.settle(payment_id, transaction, by=by, why=why)
    )
    echo(_payment_json(payment), _line(payment), as_json=as_json)


@payments.command()
@click.argument("payment_id", metavar="ID")
@why_option
@by_option
@yes_option
@json_option
@settings_option
def fail(payment_id: str, why: str, by: str, yes: bool, as_json: bool, settings: Settings) -> None:
    """Mark a payment as not made, because it is not on the chain.

    Use this only for a payment whose result is unknown or whose settlement was interrupted. Its
    authorization must have expired; until then it can still move the money.

    \b
    Example:
      barograph payments fail pay_… --why "expired unused"
    """
    _confirm("Fail", settings, payment_id, yes=yes)
    payment = _decide(settings, lambda manual: manual.fail(payment_id, by=by, why=why))
    echo(_payment_json(payment), _line(payment), as_json=as_json)


def _confirm(action: str, settings: Settings, payment_id: str, *, yes: bool) -> None:
    if not yes:
        payment = _on_journal(settings, lambda journal: journal.get(payment_id))
        confirm(f"{action} {_line(payment)}", yes=False)


def _decide(
    settings: Settings, use: Callable[[ManualReconciler], Coroutine[Any, Any, Payment]]
) -> Payment:
    async def action(database: Database) -> Payment:
        entitlements = Entitlements(database, system_clock)
        grants = FeedGrants(entitlements, system_clock, settings.feed_period_days)
        journal = Journal(database, system_clock)
        return await use(ManualReconciler(journal, system_clock, grants.grant_for))

    return run_on_database(settings, action)


def _paid_settings(data: Path | None) -> Settings:
    """The settings, or those of the demo that runs in the folder: its chain has another port."""
    settings = read_settings(data=data)
    running = running_demo(settings.data)
    stated = {name: text for name, text in running.items() if is_setting(name)}
    return settings.from_environment({**settings.to_environment(), **stated})


def _on_journal(settings: Settings, use: Callable[[Journal], Coroutine[Any, Any, T]]) -> T:
    return run_on_database(settings, lambda database: use(Journal(database, system_clock)))


def _payment_json(payment: Payment) -> dict[str, Any]:
    """A payment without the digests of its signature and key."""
    members = payment._asdict()
    del members["signature_digest"], members["key_digest"]
    for name in ("valid_before", "claimed_at", "updated_at", "released_at"):
        at = members[name]
        members[name] = None if at is None else iso_timestamp(at)
    return members


def _line(payment: Payment) -> str:
    end = payment.transaction or payment.reason or ""
    return (
        f"{payment.id}  {payment.state:8}  {iso_timestamp(payment.claimed_at)}  {payment.path:26}  "
        f"{payment.amount:>10}  {payment.payer}  {end}"
    ).rstrip()
