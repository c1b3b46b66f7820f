"""What profiles cost: 10,000 of them, matched against summaries as they pass.

    python -m benchmarks.profiles [--profiles N] [--pages N] [--json]

Summaries are those of `benchmarks.search`; queries have two to four words that say something, not the most
frequent ones, and phrases, fields, alternatives: each match is a message. What is measured is what the
process beside a gatherer does for each page: to unpack its row, find its terms, and match. Compared with: the
same with every query asked by itself, and the CPU that a gatherer needs for a page, which
`python -m benchmarks.crawl` measures (--page-us).
"""

from __future__ import annotations

import argparse
import gc
import json
import time
from dataclasses import asdict
from pathlib import Path
from random import Random

from benchmarks.result import Row
from benchmarks.search import LANGUAGES, SHARES, Texts
from gcs.core.query import parse
from gcs.core.words import Words
from gcs.index.entries import unpacked
from gcs.profiles.worker import Matching
from gcs.store.columns import pack_row
from gcs.summary.records import Summary

PER_S = 1_000
"""Summaries a second that the goal is about."""
NAIVE_PAGES = 20
LEARNING = 10_000
"""Summaries from which it is learnt how rare words are, before anything is measured."""


def queries(texts: Texts, count: int) -> dict[str, str]:
    """Saved queries by name: narrower than what people type, since each match is a message."""
    random = Random(9)
    found: dict[str, str] = {}
    while len(found) < count:
        language = random.choices(LANGUAGES, SHARES)[0]
        words = texts.telling(language, random.choice([2, 2, 3, 4]))
        kind = random.random()
        query = " ".join(words)
        if kind < 0.15:
            query = f'"{words[0]} {words[1]}"'
        elif kind < 0.3:
            query = f"title:{words[0]} {words[1]}"
        elif kind < 0.4:
            query = f"({words[0]} OR {words[1]}) host:site{len(found)}.example"
        elif kind < 0.5:
            query = f"{query} lang:{language} -{texts.telling(language, 1)[0]}"
        found[f"p{len(found)}"] = query
    return found


def rows(texts: Texts, count: int) -> bytes:
    """Summaries as a journal entry has them."""
    return b"".join(pack_row(Summary.row(*texts.summary(number))).data for number in range(count))


def measured(profiles: int, pages: int, page_us: float | None) -> list[Row]:
    """All figures."""
    texts, words = Texts(), Words()
    saved = queries(texts, profiles)
    gc.set_threshold(50_000)  # as `gcs.child` does
    matching = Matching(Path())
    matching.answer("profiles", [(name, text, 0.0) for name, text in saved.items()])
    learning, packed = rows(texts, min(pages, LEARNING)), rows(texts, pages)
    matching.answer("rows", 0, [(min(pages, LEARNING), learning)])
    began = time.process_time()
    _, found = matching.answer("rows", 1, [(pages, packed)])
    spent = (time.process_time() - began) / pages
    matched = sum(len(names) for _, names, _ in found)
    terms = 0.0
    for _ in range(2):  # the second time stems are remembered, as they are while matching
        began = time.process_time()
        for entry in unpacked(packed):
            entry.paper(words)
        terms = (time.process_time() - began) / pages
    some = [entry.paper(words) for entry in unpacked(rows(texts, NAIVE_PAGES))]
    every = [parse(text) for text in saved.values()]
    began = time.process_time()
    for paper in some:
        for query in every:
            query.holds(paper)
    naive = terms + (time.process_time() - began) / NAIVE_PAGES
    share = spent * PER_S
    made = [
        Row(
            f"CPU for a summary, {profiles:,} profiles",
            f"{spent * 1e6:.0f} µs",
            f"each query by itself {naive * 1e6:,.0f} µs",
            naive / spent,
        ),
        Row(
            f"of one processor at {PER_S:,} summaries a second",
            f"{share:.1%}",
            "",
            None,
            "< 10%",
            share < 0.1,
        ),
        Row("of that to unpack and to find terms", f"{terms * 1e6:.0f} µs", "", None),
        Row("matches of a summary", f"{matched / pages:.2f}", "", None),
    ]
    if page_us is not None:
        ratio = spent * 1e6 / page_us
        made.append(
            Row(
                "of the CPU of a gatherer",
                f"{ratio:.1%}",
                f"page {page_us:.0f} µs",
                ratio,
                "< 10%",
                ratio < 0.1,
            )
        )
    return made


def main() -> None:
    """Measure, and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--profiles", type=int, default=10_000)
    parser.add_argument("--pages", type=int, default=20_000)
    parser.add_argument("--page-us", type=float, help="the CPU that a gatherer needs for a page, in µs")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    found = measured(asked.profiles, asked.pages, asked.page_us)
    if asked.json:
        print(json.dumps([asdict(row) for row in found], indent=2))
        return
    for row in found:
        judged = f"  goal {row.goal}: {'yes' if row.reached else 'NO'}" if row.goal else ""
        compared = f"  {row.compared_with}" if row.compared_with else ""
        print(f"{row.what:<55} {row.ours:>10}{compared}{judged}")


if __name__ == "__main__":
    main()
