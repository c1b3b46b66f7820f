"""Real gatherers that stand still past their leases, or until they are thought lost, and go on."""

from __future__ import annotations

import random

from tests.soak.progress import Progress
from tests.soak.standstill import LEASES_S, be_thought_lost, stand_still


def test_past_the_leases(progress: Progress) -> None:
    """A leader that stood still publishes nothing, and nobody asks in a turn that has become another's."""
    verdict = stand_still(400, 12, random.Random(1), progress, for_s=LEASES_S)
    assert "2 stood still" in verdict


def test_until_thought_lost(progress: Progress) -> None:
    """A gatherer that goes on when others have taken over what it had hands over what it has."""
    assert "coverage 1.0000" in be_thought_lost(600, 12, random.Random(2), progress, forget_after_s=3)
