"""How the collector is put together: its databases, its upstreams and its jobs."""

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from importlib import import_module
from typing import Final

from barograph.accuracy.assess import record_definition
from barograph.collector.backfill import BackfillJob
from barograph.collector.jobs.alerts import AlertJob, alert_mails, alert_requests
from barograph.collector.jobs.deliveries import MailJob, ReconcileJob, WebhookJob
from barograph.collector.jobs.job import Job
from barograph.collector.jobs.market_data import (
    DEMO_MACRO_SECONDS,
    MACRO_SECONDS,
    LiquidationFilesJob,
    MacroJob,
    SettlementJob,
)
from barograph.collector.jobs.stances import (
    AccuracyJob,
    LogEntryJob,
    StanceJob,
    WitnessJob,
)
from barograph.collector.judge import backfill_feed
from barograph.collector.leader import Collector
from barograph.entitlements.purchases import FeedGrants
from barograph.entitlements.store import Entitlements
from barograph.history.cosigning import Cosigner, Rounds, load_policy
from barograph.history.guards import Continuity, SignedHeads
from barograph.history.ledger import Ledger
from barograph.history.public_log import PublicLog
from barograph.history.signing import load_history_key
from barograph.keys.outbox import outbox_depth
from barograph.kit.clock import Clock
from barograph.kit.database import SQLITE, Database, DatabaseUnavailable
from barograph.kit.metrics import (
    LEADER,
    NO_METRICS,
    OUTBOX,
    PAYMENTS_AGE,
    PAYMENTS_OPEN,
    Gauges,
    Metrics,
)
from barograph.kit.opening import open_database
from barograph.macro.records import NYFED, MacroSource
from barograph.markets.store import LIQUIDATION_DAYS
from barograph.payments.journal import Journal
from barograph.payments.reconcile import Reconciler
from barograph.payments.records import Chain
from barograph.settings import Settings
from barograph.stances.issue import StanceIssuer
from barograph.stances.log_entries import LogEntries
from barograph.upstream.chain import JsonRpcChain
from barograph.upstream.etf import IssuerHoldings, OperatorFlows
from barograph.upstream.files import FileClient
from barograph.upstream.interest_rates import Rate, ReferenceRate, TreasuryYields
from barograph.upstream.mail import SmtpSender
from barograph.upstream.webhooks import HttpWebhookSender
from barograph.upstream.witness import HttpWitnesses
from barograph.venues.kit.adapter import VenueAdapter
from barograph.venues.registry import VENUES, source_of
from barograph.webhooks.delivery import Deliveries
from barograph.webhooks.keys import shared_webhook_keys

FILE_SECONDS = 20.0
"""Timeout of one file of daily figures, including retries. The Treasury has its own."""


def _adapter_of(name: str) -> type[VenueAdapter]:
    adapter = getattr(import_module(f"barograph.venues.{name}.exchange"), "ADAPTER", None)
    if not isinstance(adapter, type) or not issubclass(adapter, VenueAdapter):
        raise TypeError(f"venues/{name}/exchange.py needs an ADAPTER derived from VenueAdapter")
    return adapter


ADAPTERS: Final[Mapping[str, type[VenueAdapter]]] = {name: _adapter_of(name) for name in VENUES}

TREASURY = "US Treasury daily par yield curve"
RATES: tuple[Rate, ...] = ("sofr", "effr")


@asynccontextmanager
async def open_collector(settings: Settings, clock: Clock) -> AsyncIterator[Collector]:
    """The collector that the settings describe; its connections are closed at the end.

    Raises:
        ConfigurationError: the mail server, the key of the history or the witness policy can't be
            used.
    """
    metrics = Metrics() if settings.metrics_port else NO_METRICS
    mail = SmtpSender(settings, clock=clock, metrics=metrics) if settings.sends_mail else None
    async with AsyncExitStack() as stack:
        database = open_database(settings.database_address, create=False)
        database = metrics.measured(database, "service")
        stack.push_async_callback(database.close)
        # SQLite is read on the event loop, so a locked history must not delay the measuring.
        history = open_database(settings.history_address, create=False, read_ms=50)
        history = metrics.measured(history, "history")
        stack.push_async_callback(history.close)
        files = FileClient(seconds=FILE_SECONDS, clock=clock, user_agent=settings.user_agent)
        stack.push_async_callback(files.close)
        exchanges = [
            ADAPTERS[venue](settings, clock=clock, metrics=metrics)
            for venue in settings.venue_names
        ]
        for exchange in exchanges:
            stack.push_async_callback(exchange.close)
        sender = HttpWebhookSender(user_agent=settings.user_agent, allow_local=settings.is_demo)
        stack.callback(sender.close)
        ledger = Ledger(history, clock)
        sources = macro_sources(settings, files, clock=clock)
        keys = partial(shared_webhook_keys, database, settings)
        next_alert = alert_requests(database, settings.base_url, clock)
        deliveries = Deliveries(database, sender.post, clock, keys, next_alert)
        jobs: list[Job] = [
            MacroJob(
                sources,
                database,
                seconds=DEMO_MACRO_SECONDS if settings.is_demo else MACRO_SECONDS,
                clock=clock,
                metrics=metrics,
            ),
            *_venue_jobs(settings, exchanges, database, clock),
            StanceJob(
                StanceIssuer(settings, database, ledger, clock, define=record_definition), ledger
            ),
            LogEntryJob(LogEntries(database, ledger, settings.base_url, clock)),
            AccuracyJob(settings, database, ledger, clock=clock),
            WebhookJob(database, deliveries, clock=clock),
            AlertJob(database, settings.base_url, clock=clock),
        ]
        if mail is not None:
            alerts = alert_mails(database, clock)
            jobs.append(MailJob(database, mail, clock=clock, alerts=alerts))
        if settings.takes_payments:
            chain = JsonRpcChain(settings, metrics=metrics) if settings.x402_chain_url else None
            if chain is not None:
                stack.push_async_callback(chain.close)
            jobs.append(
                ReconcileJob(
                    database,
                    lambda fenced: build_reconciler(settings, fenced, chain, clock, metrics),
                )
            )
        policy = load_policy(settings.witness_policy)
        if policy is not None:
            witnesses = HttpWitnesses(user_agent=settings.user_agent)
            stack.push_async_callback(witnesses.close)
            rounds = Rounds(_public_log(settings, database, ledger, clock), clock)
            jobs += [
                WitnessJob(
                    database, Cosigner(witness, policy, rounds, witnesses.add_checkpoint, clock)
                )
                for witness in policy.witnesses
            ]
        collector = Collector(settings, exchanges, database, clock=clock, jobs=jobs)
        if settings.metrics_port:
            # Imported late, because most instances don't need it.
            from barograph.kit.metrics_export import MetricsExporter  # noqa: PLC0415

            journal = Journal(database, clock)
            sample = partial(collector_gauges, lambda: collector.is_leading, database, journal)
            exporter = MetricsExporter(settings, "collector", metrics, sample, clock)
            await stack.enter_async_context(exporter.running())
        yield collector


def _public_log(settings: Settings, database: Database, ledger: Ledger, clock: Clock) -> PublicLog:
    """The log that witnesses cosign. Web workers check it against the published stances too."""
    return PublicLog(
        # On PostgreSQL, the key is a copy of the web hosts'.
        load_history_key(settings, create=database.engine == SQLITE),
        settings.base_url,
        SignedHeads(database, ledger.database, clock),
        Continuity(ledger, lambda: None),
        reload_key=partial(load_history_key, settings, create=False),
    )


def _venue_jobs(
    settings: Settings, exchanges: Sequence[VenueAdapter], database: Database, clock: Clock
) -> Iterator[Job]:
    for exchange in exchanges:
        name = exchange.venue.name
        feed = backfill_feed(settings, name)
        yield SettlementJob(exchange, database, name, clock=clock)
        yield BackfillJob(exchange, database, name, feed, clock=clock)
        if exchange.venue.liquidations != "none":
            yield LiquidationFilesJob(
                database,
                name,
                source=source_of(name, settings.exchange_source),
                history_days=LIQUIDATION_DAYS,
                clock=clock,
            )


def build_reconciler(
    settings: Settings,
    database: Database,
    chain: Chain | None,
    clock: Clock,
    metrics: Metrics = NO_METRICS,
) -> Reconciler:
    """What resolves unfinished payments and grants what they paid for."""
    entitlements = Entitlements(database, clock)
    grants = FeedGrants(entitlements, clock, settings.feed_period_days)
    return Reconciler(Journal(database, clock, metrics), chain, clock, grants.grant_for)


async def collector_gauges(
    is_leading: Callable[[], bool], database: Database, journal: Journal, gauges: Gauges
) -> None:
    """Add leadership, the outbox and unfinished payments; without the database only leadership."""
    gauges[(LEADER.name,)] = float(is_leading())
    with suppress(DatabaseUnavailable):
        gauges[(OUTBOX.name,)] = await outbox_depth(database)
        payments = await journal.open_counts()
        for state in ("claimed", "settling", "unknown"):
            gauges[PAYMENTS_OPEN.name, state] = 0
        for state, unfinished, since in payments:
            gauges[PAYMENTS_OPEN.name, state] = unfinished
            gauges[PAYMENTS_AGE.name, state] = since


def macro_sources(settings: Settings, files: FileClient, *, clock: Clock) -> list[MacroSource]:
    """The configured sources of daily figures."""
    sources: list[MacroSource] = []
    named = settings.macro_source
    if address := settings.treasury_url:
        source = named or TREASURY
        sources.append(TreasuryYields(files, base_url=address, source=source, clock=clock))
    if address := settings.nyfed_url:
        source = named or NYFED
        sources += [
            ReferenceRate(rate, files, base_url=address, source=source, clock=clock)
            for rate in RATES
        ]
    if settings.etf_file is not None:
        sources.append(OperatorFlows(settings.etf_file, source="operator's file", clock=clock))
    elif address := settings.etf_url:
        fund = settings.etf_fund
        source = named or f"{fund} issuer's holdings file"
        sources.append(
            IssuerHoldings(files, fund=fund, address=address, source=source, clock=clock)
        )
    return sources
