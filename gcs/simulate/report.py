"""What an experiment found, and how that is shown: tables, JSON, plots.

An experiment returns a `Report` and knows nothing of how it will be looked at.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gcs.errors import UsageError

Value = str | int | float | bool | None
Progress = Callable[[float], None]
"""Told now and then which part of the work is done, from 0 to 1."""


def counted(progress: Progress, total: int) -> Callable[[], None]:
    """A function to call after each of `total` pieces of work."""
    done = 0

    def tick() -> None:
        nonlocal done
        done += 1
        progress(done / total)

    return tick


def verdict(*, as_published: bool) -> str:
    """How a finding begins."""
    return "As published" if as_published else "Not as published"


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under named columns."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Value]]


@dataclass(frozen=True, slots=True)
class Series:
    """One line of a figure; `spread` is a standard deviation to either side."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    spread: Sequence[float] | None = None


@dataclass(frozen=True, slots=True)
class Figure:
    """Lines over a common axis, or points where nothing is between two of them."""

    title: str
    x_label: str
    y_label: str
    series: Sequence[Series]
    log_x: bool = False
    log_y: bool = False
    as_points: bool = False


@dataclass(frozen=True, slots=True)
class Report:
    """All that an experiment found. `findings` are sentences that say what came out, as published or not."""

    name: str
    title: str
    parameters: Mapping[str, Value]
    tables: Sequence[Table] = ()
    figures: Sequence[Figure] = ()
    findings: Sequence[str] = ()

    def to_json(self) -> str:
        """Everything, for other programs; infinities and NaN, which JSON lacks, are null."""
        return json.dumps(_plain(dataclasses.asdict(self)), indent=2, ensure_ascii=False, allow_nan=False)

    def to_text(self) -> str:
        """Tables and findings, for people."""
        parts = [self.title, ", ".join(f"{k} {_shown(v)}" for k, v in self.parameters.items()), ""]
        for table in self.tables:
            parts += [*_rendered(table), ""]
        parts += [f"- {finding}" for finding in self.findings]
        return "\n".join(parts).rstrip()

    def plot(self, file: Path) -> None:
        """Draw the figures into one PNG or SVG file; raises UsageError when that cannot be done."""
        check_plot(file)
        if not self.figures:
            raise UsageError(f"{self.name} has no figure to plot; it has tables")
        _draw(self.figures, file)


def check_plot(file: Path) -> None:
    """Raise UsageError for a file that is neither PNG nor SVG, before much has been computed."""
    if file.suffix.lower() not in (".png", ".svg"):
        raise UsageError(f"a plot is a .png or .svg file, not {file.name!r}")


def _plain(value: object) -> object:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    return value.item() if hasattr(value, "item") else value


def _shown(value: Value) -> str:
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return {None: "–", True: "yes", False: "no"}.get(value, str(value))  # type: ignore[arg-type]
    if isinstance(value, int):
        return f"{value:,}"
    if value == 0 or 0.001 <= abs(value) < 100_000:
        return f"{value:,.3f}"
    return f"{value:.3g}"


def _rendered(table: Table) -> list[str]:
    cells = [[str(c) for c in table.columns], *[[_shown(v) for v in row] for row in table.rows]]
    widths = [max(len(row[i]) for row in cells) for i in range(len(table.columns))]
    numeric = [all(isinstance(row[i], int | float) for row in table.rows) for i in range(len(widths))]

    def line(row: Sequence[str]) -> str:
        aligned = (c.rjust(w) if n else c.ljust(w) for c, w, n in zip(row, widths, numeric, strict=True))
        return "  ".join(aligned).rstrip()

    return [table.title, line(cells[0]), "  ".join("-" * w for w in widths), *map(line, cells[1:])]


def _drawable(series: Series) -> Series:
    """What of a series a logarithmic axis can show: it has no 0."""
    kept = [place for place, x in enumerate(series.x) if x > 0]
    spread = None if series.spread is None else [series.spread[place] for place in kept]
    return Series(
        series.label, [series.x[place] for place in kept], [series.y[place] for place in kept], spread
    )


def _draw(figures: Sequence[Figure], file: Path) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    shown, axes = plt.subplots(
        len(figures), 1, figsize=(8, 4.5 * len(figures)), squeeze=False, layout="constrained"
    )
    for axis, figure in zip(axes[:, 0], figures, strict=True):
        for series in [_drawable(each) for each in figure.series] if figure.log_x else figure.series:
            (drawn,) = axis.plot(
                series.x,
                series.y,
                label=series.label,
                marker="." if figure.as_points or len(series.x) < 40 else "",
                linestyle="" if figure.as_points else "-",
            )
            if series.spread is not None:
                low = [y - s for y, s in zip(series.y, series.spread, strict=True)]
                high = [y + s for y, s in zip(series.y, series.spread, strict=True)]
                axis.fill_between(series.x, low, high, color=drawn.get_color(), alpha=0.15, linewidth=0)
        axis.set(title=figure.title, xlabel=figure.x_label, ylabel=figure.y_label)
        if figure.log_x:
            axis.set_xscale("log")
        if figure.log_y:
            axis.set_yscale("log")
        axis.grid(alpha=0.3)
        if len(figure.series) > 1:
            axis.legend(fontsize="small")
    try:
        shown.savefig(file)
    except OSError as error:
        raise UsageError(f"the plot cannot be written to {file}: {error.strerror}") from None
    finally:
        plt.close(shown)
