"""A strict reader of what Prometheus would read, and ways to ask a process for it."""

from __future__ import annotations

import http.client
import json
import math
import re
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

Labels = tuple[tuple[str, str], ...]
Sample = tuple[str, Labels]

_HELP = re.compile(r"# HELP ([a-zA-Z_:][a-zA-Z0-9_:]*) ((?:[^\\]|\\[\\n])*)")
_TYPE = re.compile(r"# TYPE ([a-zA-Z_:][a-zA-Z0-9_:]*) (counter|gauge|histogram)")
_VALUE = r"[+-]Inf|NaN|-?[0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?"
_SAMPLE = re.compile(rf"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:{{(.*)}})? ({_VALUE})")
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"(,|$)')
_SUFFIXES = {"histogram": ("_bucket", "_sum", "_count")}


class Unreadable(Exception):
    """It is not of the format."""


@dataclass(slots=True)
class Scrape:
    """All that was said at once."""

    kinds: dict[str, str] = field(default_factory=dict)
    helps: dict[str, str] = field(default_factory=dict)
    samples: dict[Sample, float] = field(default_factory=dict)

    def __contains__(self, name: str) -> bool:
        return any(each == name for each, _ in self.samples)

    def __getitem__(self, name: str) -> float:
        """The sum of all samples of a name."""
        found = [value for (each, _), value in self.samples.items() if each == name]
        if not found:
            raise KeyError(name)
        return sum(found)

    def at(self, name: str, **labels: str) -> float:
        """One sample."""
        return self.samples[name, tuple(sorted(labels.items()))]

    def grown(self) -> Mapping[Sample, float]:
        """The samples that never go down: counters, and all of a histogram."""
        return {
            sample: value
            for sample, value in self.samples.items()
            if self.kinds[family(sample[0], self.kinds)] != "gauge"
        }


def family(name: str, kinds: Mapping[str, str]) -> str:
    """The family of a sample."""
    if name in kinds:
        return name
    for each, kind in kinds.items():
        if name.removeprefix(each) in _SUFFIXES.get(kind, ()) and name.startswith(each):
            return each
    raise Unreadable(f"{name} has no TYPE")


def read(text: str) -> Scrape:
    """Read an exposition; raises Unreadable for anything that is not as it should be."""
    scrape = Scrape()
    current = ""
    if not text.endswith("\n"):
        raise Unreadable("the last line does not end")
    for line in text[:-1].split("\n"):
        if line.startswith("# HELP"):
            found = _HELP.fullmatch(line)
            if found is None or found[1] in scrape.helps:
                raise Unreadable(line)
            current = found[1]
            scrape.helps[current] = _plain(found[2])
        elif line.startswith("#"):
            found = _TYPE.fullmatch(line)
            if found is None or found[1] != current or current in scrape.kinds:
                raise Unreadable(line)
            scrape.kinds[current] = found[2]
        else:
            name, labels, value = _sample(line)
            if family(name, scrape.kinds) != current or (name, labels) in scrape.samples:
                raise Unreadable(line)
            scrape.samples[name, labels] = value
    if scrape.kinds.keys() != scrape.helps.keys():
        raise Unreadable("HELP and TYPE differ")
    _check_histograms(scrape)
    return scrape


def _sample(line: str) -> tuple[str, Labels, float]:
    found = _SAMPLE.fullmatch(line)
    if found is None:
        raise Unreadable(line)
    labels: dict[str, str] = {}
    rest = found[2] or ""
    while rest:
        label = _LABEL.match(rest)
        if label is None or label[1] in labels:
            raise Unreadable(line)
        labels[label[1]] = _plain(label[2])
        rest = rest[label.end() :]
    return found[1], tuple(sorted(labels.items())), float(found[3])


def _plain(text: str) -> str:
    return re.sub(r"\\(.)", lambda found: {"n": "\n"}.get(found[1], found[1]), text)


def _check_histograms(scrape: Scrape) -> None:
    for name in [each for each, kind in scrape.kinds.items() if kind == "histogram"]:
        buckets = {
            float(dict(labels)["le"]): value
            for (each, labels), value in scrape.samples.items()
            if each == f"{name}_bucket"
        }
        counts = [buckets[bound] for bound in sorted(buckets)]
        if counts != sorted(counts) or buckets[math.inf] != scrape[f"{name}_count"]:
            raise Unreadable(f"{name}: {buckets}")


class _Unix(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=60)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(10)
        self.sock.connect(self._path)


def get(place: str, path: str = "/metrics", *, method: str = "GET") -> tuple[int, str]:
    """Ask a process; the status and the body."""
    if place.startswith("unix:"):
        connection: http.client.HTTPConnection = _Unix(place.removeprefix("unix:"))
    else:
        connection = http.client.HTTPConnection(place.removeprefix("http://"), timeout=60)
    try:
        connection.request(method, path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def place_of(log: Path, *, timeout_s: float = 90.0) -> str:
    """Where a process listens, as its log says."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        for line in log.read_text().splitlines() if log.exists() else ():
            if line.startswith("{") and (said := json.loads(line)).get("event") == "metrics":
                return str(said["at"])
        time.sleep(0.05)
    raise TimeoutError(log.read_text())


def scrape(place: str) -> Scrape:
    """What a process measures."""
    status, text = get(place)
    assert status == 200
    return read(text)
