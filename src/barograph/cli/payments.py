"""`barograph payments`: what became of every payment proof, for the operator."""

import json
import re
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from barograph.cli.options import data_option, read_settings, run_on_database, running_demo

if TYPE_CHECKING:
    from barograph.kit.database import Database
    from barograph.payments.journal import Journal
    from barograph.payments.reconcile import ByHand, Reconciled
    from barograph.payments.records import Payment, State, TrailStep
    from barograph.settings import Settings

T = TypeVar("T")

STATES = ("claimed", "settling", "settled", "released", "failed", "unknown")

_HASH = re.compile(r"0x[0-9a-fA-F]{64}")


def _transaction(_context: click.Context, _option: click.Parameter, given: str) -> str:
    if _HASH.fullmatch(given) is None:
        raise click.BadParameter("0x and 64 hexadecimal digits are needed")
    return given


_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
_why = click.option("--why", required=True, help="The reason, which the trail keeps.")
_by = click.option("--by", default="operator", show_default=True, help="Who decides.")
_yes = click.option("--yes", is_flag=True, help="Do not ask.")


@click.group()
def payments() -> None:
    """Look at the journal of payments, and find out what became of open ones.

    \b
    Examples:
      barograph payments list --state unknown
      barograph payments show pay_…
      barograph payments reconcile
      barograph payments settle pay_… --transaction 0x… --why "seen on the chain"
    """


@payments.command(name="list")
@click.option("--state", type=click.Choice(STATES), help="Only those that stand so.")
@click.option("--wallet", metavar="0x…", help="Only those of one payer.")
@click.option("--last", type=click.IntRange(1, 10_000), default=50, show_default=True)
@_json
@data_option
def list_payments(
    state: "State | None", wallet: str | None, last: int, as_json: bool, data: Path | None
) -> None:
    """List payments, the newest first.

    \b
    Examples:
      barograph payments list
      barograph payments list --state unknown --json
    """

    async def work(journal: "Journal") -> "list[Payment]":
        return await journal.list(state=state, payer=wallet, limit=last)

    found = _on_journal(read_settings(data=data), work)
    if as_json:
        click.echo(json.dumps([_described(each) for each in found]))
        return
    for each in found:
        click.echo(_line(each))
    if not found:
        click.echo("no payment fits" if state or wallet else "no payment yet")


@payments.command()
@click.argument("payment_id", metavar="ID")
@_json
@data_option
def show(payment_id: str, as_json: bool, data: Path | None) -> None:
    """Show one payment and every step that it took.

    \b
    Example:
      barograph payments show pay_…
    """

    async def work(journal: "Journal") -> "tuple[Payment, list[TrailStep]]":
        return await journal.get(payment_id), await journal.trail(payment_id)

    payment, trail = _on_journal(read_settings(data=data), work)
    if as_json:
        steps = [{**each._asdict(), "at": _instant(each.at)} for each in trail]
        click.echo(json.dumps({**_described(payment), "trail": steps}))
        return
    for name, value in _described(payment).items():
        click.echo(f"{name:16} {'-' if value is None else value}")
    for each in trail:
        click.echo(f"{_instant(each.at)}  {each.step:10} {each.detail or ''}".rstrip())


@payments.command()
@_json
@data_option
def reconcile(as_json: bool, data: Path | None) -> None:
    """Find out what became of payments that nobody finished, by the chain's own evidence.

    A running collector does the same once a minute.

    \b
    Example:
      barograph payments reconcile
    """
    settings = _paid_settings(data)

    async def action(database: "Database") -> "Reconciled":
        from barograph.cli.collect import reconciler
        from barograph.kit.clock import system_clock
        from barograph.upstream.chain import JsonRpcChain

        chain = JsonRpcChain(settings) if settings.x402_chain_url else None
        try:
            return await reconciler(settings, database, chain, system_clock).once()
        finally:
            if chain is not None:
                await chain.close()

    done = run_on_database(settings, action)
    if as_json:
        click.echo(json.dumps(done._asdict()))
        return
    click.echo("  ".join(f"{name} {count}" for name, count in done._asdict().items()))
    if done.waiting and not settings.x402_chain_url:
        click.echo("set BAROGRAPH_X402_CHAIN_URL, and the chain can tell about those that wait")


@payments.command()
@click.argument("payment_id", metavar="ID")
@click.option(
    "--transaction",
    required=True,
    callback=_transaction,
    metavar="0x…",
    help="The transaction that moved the money to us.",
)
@_why
@_by
@_yes
@_json
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
    """Say that a payment was made, because you saw it on the chain.

    Only for one that is unknown, or was left behind while it was being settled. What it paid for
    is granted as if the facilitator had answered.

    \b
    Example:
      barograph payments settle pay_… --transaction 0x… --why "seen on the chain"
    """
    settings = read_settings(data=data)
    if not yes:
        found = _on_journal(settings, lambda journal: journal.get(payment_id))
        click.confirm(f"Settle {_line(found)}? It cannot be undone", abort=True)

    async def work(by_hand: "ByHand") -> "Payment":
        return await by_hand.settle(payment_id, transaction, by=by, why=why)

    _tell(_decide(settings, work), as_json=as_json)


@payments.command()
@click.argument("payment_id", metavar="ID")
@_why
@_by
@_yes
@_json
@data_option
def fail(payment_id: str, why: str, by: str, yes: bool, as_json: bool, data: Path | None) -> None:
    """Say that a payment was not made, because you saw on the chain that it never came.

    Only for one that is unknown, or was left behind while it was being settled, and whose
    authorization has expired: until then it can still move the money.

    \b
    Example:
      barograph payments fail pay_… --why "expired unused"
    """
    settings = read_settings(data=data)
    if not yes:
        found = _on_journal(settings, lambda journal: journal.get(payment_id))
        click.confirm(f"Fail {_line(found)}? It cannot be undone", abort=True)

    async def work(by_hand: "ByHand") -> "Payment":
        return await by_hand.fail(payment_id, by=by, why=why)

    _tell(_decide(settings, work), as_json=as_json)


def _decide(
    settings: "Settings", use: "Callable[[ByHand], Coroutine[Any, Any, Payment]]"
) -> "Payment":
    from barograph.entitlements.purchases import FeedGrants
    from barograph.entitlements.store import Entitlements
    from barograph.kit.clock import system_clock
    from barograph.payments.journal import Journal
    from barograph.payments.reconcile import ByHand

    async def action(database: "Database") -> "Payment":
        entitlements = Entitlements(database, system_clock)
        days = settings.feed_period_days
        grants = FeedGrants(entitlements, system_clock, period_days=days)
        journal = Journal(database, system_clock)
        return await use(ByHand(journal, system_clock, grants.grant_for))

    return run_on_database(settings, action)


def _tell(payment: "Payment", *, as_json: bool) -> None:
    click.echo(json.dumps(_described(payment)) if as_json else _line(payment))


def _paid_settings(data: Path | None) -> "Settings":
    """The settings, or those of the demo that runs in the folder: its chain has another port."""
    settings = read_settings(data=data)
    place = running_demo(settings.data).get("facilitator")
    if place is None:
        return settings
    from barograph.cli.demo_settings import payment_settings  # needs the demo's packages

    return settings.model_copy(update=payment_settings(place))


def _on_journal(settings: "Settings", use: "Callable[[Journal], Coroutine[Any, Any, T]]") -> T:
    from barograph.kit.clock import system_clock
    from barograph.payments.journal import Journal

    async def action(database: "Database") -> T:
        return await use(Journal(database, system_clock))

    return run_on_database(settings, action)


def _described(payment: "Payment") -> dict[str, Any]:
    """What an operator may see; whoever has the signature's digest learns nothing from it."""
    described = payment._asdict()
    del described["signature_digest"], described["key_digest"]
    for name in ("valid_before", "claimed_at", "updated_at", "released_at"):
        at = described[name]
        described[name] = None if at is None else _instant(at)
    return described


def _instant(at: int) -> str:
    from barograph.kit.timestamps import iso_timestamp

    return iso_timestamp(at)


def _line(payment: "Payment") -> str:
    end = payment.transaction or payment.reason or ""
    return (
        f"{payment.id}  {payment.state:8}  {_instant(payment.claimed_at)}  {payment.door:26}  "
        f"{payment.amount:>10}  {payment.payer}  {end}"
    ).rstrip()
