"""Reports, and the commands that show them."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from click.testing import CliRunner

from cli import main
from gcs.errors import UsageError
from gcs.simulate.commands import EXPERIMENTS
from gcs.simulate.report import Figure, Report, Series, Table

SMALL = ["--objects", "12", "--arms", "2", "--repeats", "1", "--limit", "20"]


def report() -> Report:
    """A report with something of everything."""
    table = Table("A table", ["what", "n", "x"], [["a", 1234, 0.5], ["b", 5, None], ["c", 0, 123456789.0]])
    lines = [Series("one", [1, 2, 3], [1.0, 2.0, 4.0], [0.1, 0.1, 0.2]), Series("two", [1, 2], [3.0, 1.0])]
    figure = Figure("A figure", "x", "y", lines, log_x=True, log_y=True)
    return Report(
        "some", "A title", {"seed": 1, "fast": True, "rate": math.inf}, [table], [figure], ["It came out."]
    )


def test_text() -> None:
    """A report is readable: a title, its parameters, aligned tables, findings."""
    assert report().to_text().splitlines() == [
        "A title",
        "seed 1, fast yes, rate inf",
        "",
        "A table",
        "what      n  x",
        "----  -----  --------",
        "a     1,234  0.500",
        "b         5  –",
        "c         0  1.23e+08",
        "",
        "- It came out.",
    ]


def test_json() -> None:
    """A report is JSON that any program reads; what JSON cannot say is null."""
    read = json.loads(report().to_json())
    assert read["parameters"] == {"seed": 1, "fast": True, "rate": None}
    assert read["tables"][0]["rows"][0] == ["a", 1234, 0.5]
    assert read["figures"][0]["series"][0]["spread"] == [0.1, 0.1, 0.2]


@pytest.mark.parametrize(("name", "start"), [("f.png", b"\x89PNG"), ("f.svg", b"<?xml")])
def test_plots(tmp_path: Path, name: str, start: bytes) -> None:
    """Figures are drawn as PNG or SVG."""
    report().plot(tmp_path / name)
    assert (tmp_path / name).read_bytes().startswith(start)


def test_impossible_plots(tmp_path: Path) -> None:
    """A plot of another kind, of nothing, or into nowhere is one sentence."""
    with pytest.raises(UsageError, match=r"\.png or \.svg"):
        report().plot(tmp_path / "f.pdf")
    with pytest.raises(UsageError, match="no figure"):
        Report("bare", "t", {}).plot(tmp_path / "f.png")
    with pytest.raises(UsageError, match="cannot be written"):
        report().plot(tmp_path / "missing" / "f.png")


def test_lists_on_the_command_line() -> None:
    """Several values are given with commas between them, and each is checked."""
    small = ["simulate", "hotpages", "--pages", "200", "--repeats", "1", "--gatherers", "2"]
    shown = CliRunner().invoke(main, [*small, "--tables", "0,0.5,1", "--json"])
    assert shown.exit_code == 0
    assert len(json.loads(shown.output)["tables"][0]["rows"]) == 3
    wrong = CliRunner().invoke(main, [*small, "--tables", "0,many"])
    assert wrong.exit_code == 2
    assert "'many' is not a valid float" in wrong.output
    alone = CliRunner().invoke(main, ["simulate", "distribution", "--countries", "th,th"])
    assert alone.exit_code == 2


def test_every_experiment_is_listed() -> None:
    """`gcs simulate` lists every experiment, and each explains its options."""
    listed = CliRunner().invoke(main, ["simulate", "--help"])
    assert listed.exit_code == 0
    for name in EXPERIMENTS:
        assert name in listed.output
        shown = CliRunner().invoke(main, ["simulate", name, "--help"])
        assert shown.exit_code == 0
        assert "--seed" in shown.output


def test_an_experiment_from_the_command_line(tmp_path: Path) -> None:
    """An experiment runs from the command line, with a plot and as JSON, the same for the same seed."""
    plot = tmp_path / "oma.svg"
    ran = CliRunner().invoke(main, ["simulate", "oma", *SMALL, "--plot", str(plot)])
    assert ran.exit_code == 0, ran.output
    assert "Figure 3" in ran.output
    assert plot.exists()
    one, two = (
        CliRunner().invoke(main, ["simulate", "oma", *SMALL, "--json", "--seed", "7"]).output for _ in "ab"
    )
    assert json.loads(one)["parameters"]["seed"] == 7
    assert one == two


@pytest.mark.parametrize("wrong", [["--plot", "x.pdf"], ["--arms", "1"]])
def test_mistakes_are_one_sentence(wrong: list[str]) -> None:
    """A wrong plot or a number that makes no sense ends with a sentence, not with a traceback."""
    ran = CliRunner().invoke(main, ["simulate", "oma", *SMALL, *wrong])
    assert ran.exit_code == 2
    assert ran.output.startswith("gcs: ")
    assert "Traceback" not in ran.output
