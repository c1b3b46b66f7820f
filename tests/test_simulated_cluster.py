"""The simulated cluster: it keeps its promises, repeats itself exactly, and would notice if it did not."""

from __future__ import annotations

import os

import pytest
from click.testing import CliRunner

import cli
from gcs.simulate.cluster.campaign import Cast, Player, Result, play_all, shrunk
from gcs.simulate.cluster.faults import Kind

SEEDS = range(1, 31)


@pytest.mark.alone
def test_all_promises_are_kept() -> None:
    failed: list[Result] = []

    def note(result: Result) -> bool:
        if result.violations:
            failed.append(result)
        return True

    play_all(Cast(), SEEDS, os.cpu_count() or 1, note)
    assert [(each.seed, each.violations) for each in failed] == []


def test_the_same_seed_is_the_same_run() -> None:
    seen = []
    for _ in range(2):
        player = Player(Cast())
        seen += [player.play(3), player.play(15)]
        player.close()
    assert seen[:2] == seen[2:]


@pytest.mark.parametrize("kind", Kind)
def test_every_kind_of_fault_happens_and_is_survived(kind: Kind) -> None:
    cast = Cast(gatherers=3, helpers=1, pages=60, kinds=(kind,))
    seed = next(each for each in range(1, 1000) if cast.faults(each))
    player = Player(cast)
    result = player.play(seed)
    player.close()
    assert result.violations == []
    assert any(f"kind={kind}" in line for line in result.trace)


def test_a_broken_promise_is_noticed_and_made_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that has no time to end is one that does not end: with it or without any fault."""
    monkeypatch.setenv("GCS_SIMULATION_LIMIT_S", "3")
    cast = Cast(gatherers=2, helpers=0, pages=60)
    seed = next(each for each in range(1, 1000) if len(cast.faults(each)) > 2)
    player = Player(cast)
    result = player.play(seed)
    player.close()
    assert "did not end" in result.violations[0]
    assert shrunk(cast, result).kept == []
    words = f"--seed {seed} --gatherers 2 --helpers 0 --pages 60"
    said = CliRunner().invoke(cli.main, ["simulate", "cluster", *words.split()])
    assert said.exit_code == 9
    assert f"To repeat it: gcs simulate cluster {words}" in said.output


def test_schedules_depend_on_nothing_but_the_seed() -> None:
    assert Cast().faults(7) == Cast().faults(7)
    assert Cast().faults(7) != Cast().faults(8)
    kinds = {fault.kind for seed in range(200) for fault in Cast().faults(seed)}
    assert kinds == set(Kind)
