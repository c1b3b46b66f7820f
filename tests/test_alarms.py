"""The dashboard, the alarms and their documents: all of them speak of what there is."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from gcs import process
from gcs.gatherer import crawl_meters, gatherer_meters
from gcs.helper import meters as helper_meters
from gcs.metrics import Kind, Meter
from gcs.monitor import meters as monitor_meters
from tests.crawling import ROOT

MONITORING = ROOT / "monitoring"
RULES, DASHBOARD = MONITORING / "alerts.yml", MONITORING / "grafana.json"
TABLES: Mapping[str, tuple[Meter[Any], ...]] = {
    "all": tuple(process.METERS),
    "crawl, gatherer": tuple(crawl_meters.METERS),
    "gatherer": tuple(gatherer_meters.METERS),
    "helper": tuple(helper_meters.METERS),
    "monitor": tuple(monitor_meters.METERS),
}
PROMTOOL = shutil.which("promtool")
with_promtool = pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed (Debian: prometheus)")


def samples() -> dict[str, set[str]]:
    """The names that samples can have, with their labels."""
    found = {"up": set[str]()}
    for meter in (each for table in TABLES.values() for each in table):
        if meter.kind is Kind.HISTOGRAM:
            found |= {
                f"{meter.name}_bucket": {"le"},
                f"{meter.name}_sum": set(),
                f"{meter.name}_count": set(),
            }
        else:
            found[meter.name] = set(meter.labels)
    return found


def unknown(expression: str) -> Iterator[str]:
    """Metrics that there are not, and labels that they have not."""
    names = samples()
    for name, labels in re.findall(r"\b(gcs_\w+|up)\b(?:\{([^}]*)\})?", expression):
        if name not in names:
            yield name
            continue
        for label in re.findall(r"(\w+)\s*(?:=~|!=|!~|=)", labels):
            if label not in names[name] | {"job", "instance"}:
                yield f"{name}{{{label}}}"


def expressions(dashboard: Mapping[str, Any]) -> list[str]:
    return [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", ())]


def alarms() -> dict[str, str]:
    """The expressions of the alarms, by name."""
    text = RULES.read_text()
    blocks = re.split(r"^ +- alert: ", text, flags=re.MULTILINE)[1:]
    return {
        block.split()[0]: re.split(r"^ {8}(?:for|labels):", block, flags=re.MULTILINE)[0] for block in blocks
    }


def promtool(*arguments: str) -> None:
    assert PROMTOOL is not None
    ended = subprocess.run(
        [PROMTOOL, *arguments], cwd=MONITORING, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_names_are_unique() -> None:
    """No process tells one thing twice."""
    common = [*TABLES["all"], *TABLES["crawl, gatherer"], *TABLES["gatherer"]]
    for table in (common, *([*TABLES["all"], *TABLES[role]] for role in ("helper", "monitor"))):
        names = [meter.name.removesuffix("_total") for meter in table]
        assert len(names) == len(set(names))


def test_metrics_are_documented() -> None:
    """docs/metrics.md has every metric, with its kind, labels and meaning, and no other."""
    text = (ROOT / "docs/metrics.md").read_text()
    rows = re.findall(r"^\| `(gcs_\w+)` \| (\w+) \| (.*?) \| (.*?) \|$", text, re.MULTILINE)
    wanted = [
        (meter.name, meter.kind.value, ", ".join(f"`{label}`" for label in meter.labels), meter.help)
        for table in TABLES.values()
        for meter in table
    ]
    assert rows == wanted


def test_alarms_are_documented() -> None:
    """docs/operations.md says of every alarm what it means, and of no other."""
    section = (ROOT / "docs/operations.md").read_text().split("\n## Alarms\n")[1].split("\n## ")[0]
    assert re.findall(r"^\| `(Gcs\w+)` \|", section, re.MULTILINE) == list(alarms())


def test_alarms_speak_of_what_there_is() -> None:
    """Every alarm looks at metrics and labels that exist."""
    found = alarms()
    assert len(found) >= 9
    for name, expression in found.items():
        assert re.search(r"\b(gcs_\w+|up)\b", expression), name
        assert not list(unknown(expression)), name


def test_the_dashboard_speaks_of_what_there_is() -> None:
    """Every panel looks at metrics and labels that exist, has a place of its own, and says what it shows."""
    dashboard = json.loads(DASHBOARD.read_text())
    for expression in expressions(dashboard):
        assert not list(unknown(expression)), expression
    panels = dashboard["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert place["x"] + place["w"] <= 24
        assert not taken & cells, panel["title"]
        taken |= cells
        assert panel["type"] == "row" or panel["description"].endswith("."), panel["title"]


def test_what_is_unknown() -> None:
    """The check itself finds what there is not."""
    assert list(unknown('gcs_pages_totals + gcs_urls{status="x",state="queued"}')) == [
        "gcs_pages_totals",
        "gcs_urls{status}",
    ]


@with_promtool
def test_alarms_by_promtool() -> None:
    """Prometheus's own tool reads the alarms and the example, and gives each alarm when it should."""
    promtool("check", "rules", RULES.name)
    promtool("check", "config", "prometheus.yml")
    promtool("test", "rules", "alerts.test.yml")
    tested = set(re.findall(r"alertname: (\w+)", (MONITORING / "alerts.test.yml").read_text()))
    assert tested == alarms().keys()


@with_promtool
def test_the_dashboard_by_promtool(tmp_path: Path) -> None:
    """All expressions of the dashboard can be evaluated."""
    every = expressions(json.loads(DASHBOARD.read_text()))
    rules = [
        {"record": f"panel:{number}", "expr": each.replace("$__rate_interval", "5m")}
        for number, each in enumerate(every)
    ]
    file = tmp_path / "rules.yml"
    # JSON is YAML.
    file.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))
    promtool("check", "rules", str(file))
