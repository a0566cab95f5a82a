"""Reads metrics as Prometheus does."""

from collections.abc import Iterable
from pathlib import Path

from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from barograph.kit.clock import Clock
from barograph.kit.metrics_export import SumOfProcesses

Samples = dict[str, float]
"""Values by name and label values, such as `barograph_processes web`."""


def samples(metrics: Iterable[Metric]) -> Samples:
    found = [sample for metric in metrics for sample in metric.samples]
    return {" ".join([each.name, *each.labels.values()]): each.value for each in found}


def parse(text: str) -> Samples:
    return samples(text_string_to_metric_families(text))


def files_sum(folder: Path, clock: Clock) -> Samples:
    return samples(SumOfProcesses(folder, clock).collect())
