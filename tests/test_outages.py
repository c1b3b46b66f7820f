"""Real gatherers through what happens to networks, disks and Redis: smaller forms of acts of the soak."""

from __future__ import annotations

import random

import pytest

from tests.soak import Skipped
from tests.soak.failover import fail_over
from tests.soak.fulldisk import fill_disk
from tests.soak.network import disturb
from tests.soak.partition import part
from tests.soak.progress import Progress


def test_bad_network(progress: Progress) -> None:
    """Connections that are cut, refused or delayed, and lost replies, cost nothing but time."""
    assert "coverage 1.0000" in disturb(800, 12, random.Random(1), progress, for_s=5)


def test_partition(progress: Progress) -> None:
    """Groups that are cut off from Redis, one or all, fetch what they own, and go on together later."""
    try:
        assert "coverage 1.0000" in part(1500, 12, random.Random(1), progress)
    except Skipped as reason:
        pytest.skip(str(reason))


def test_full_disk(progress: Progress) -> None:
    """A gatherer whose disk is full says so once, waits, and goes on when there is room."""
    try:
        assert "1 times a disk was full" in fill_disk(800, 12, random.Random(1), progress)
    except Skipped as reason:
        pytest.skip(str(reason))


def test_failover(progress: Progress) -> None:
    """What a replica had missed when it was made the master is sent and put up again."""
    assert "1 failovers" in fail_over(800, 12, random.Random(1), progress)
