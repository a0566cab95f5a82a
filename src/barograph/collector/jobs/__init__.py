"""What the leading collector repeats besides measuring."""

from barograph.collector.jobs.deliveries import MailJob, ReconcileJob, WebhookJob
from barograph.collector.jobs.job import Job
from barograph.collector.jobs.market_data import LiquidationFilesJob, MacroJob, SettlementJob
from barograph.collector.jobs.stances import AccuracyJob, LogEntryJob, StanceJob, WitnessJob

__all__ = [
    "AccuracyJob",
    "Job",
    "LiquidationFilesJob",
    "LogEntryJob",
    "MacroJob",
    "MailJob",
    "ReconcileJob",
    "SettlementJob",
    "StanceJob",
    "WebhookJob",
    "WitnessJob",
]
