"""Figures and the printed table."""

from collections.abc import Sequence
from statistics import median, quantiles
from typing import NamedTuple

COLUMNS = ("figure", "measured", "target", "")


class Figure(NamedTuple):
    """One line of the table; `met` is None where there is no target."""

    name: str
    measured: str
    target: str = ""
    met: bool | None = None


class Section(NamedTuple):
    """The figures of one subject."""

    title: str
    figures: Sequence[Figure]


def at_least(name: str, ratios: Sequence[float], bound: float | None = None) -> Figure:
    """A figure of per-round ratios: their median and the middle half."""
    middle = median(ratios)
    measured = f"{middle:.2f}{_middle_half(ratios)}"
    if bound is None:
        return Figure(name, measured)
    return Figure(name, measured, f">= {bound:g}", middle >= bound)


def at_most(name: str, ratios: Sequence[float], bound: float | None = None) -> Figure:
    """A figure of per-round ratios where less is better."""
    figure = at_least(name, ratios)
    if bound is None:
        return figure
    return Figure(name, figure.measured, f"<= {bound:g}", median(ratios) <= bound)


def render(sections: Sequence[Section]) -> str:
    """Lay everything out as plain text."""
    rows = [_row(figure) for section in sections for figure in section.figures]
    widths = [max(len(row[column]) for row in [COLUMNS, *rows]) for column in range(len(COLUMNS))]
    lines = [_line(COLUMNS, widths), "-" * (sum(widths) + 2 * (len(widths) - 1))]
    for section in sections:
        lines += ["", section.title]
        lines += [_line(_row(figure), widths) for figure in section.figures]
    return "\n".join(lines)


def _middle_half(ratios: Sequence[float]) -> str:
    if len(ratios) < 2:
        return ""
    low, _, high = quantiles(ratios, n=4, method="inclusive")
    return f" ({low:.2f} to {high:.2f})"


def _row(figure: Figure) -> tuple[str, ...]:
    verdict = {None: "", True: "met", False: "NOT MET"}[figure.met]
    return ("  " + figure.name, figure.measured, figure.target, verdict)


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = (cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
    return "  ".join(padded).rstrip()
