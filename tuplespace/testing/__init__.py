"""The promises of a tuple space, as checks that every implementation passes.

    async def test_mine():
        await tuplespace.testing.check_space(connect_to_my_server)

Each call of `make` gives another client of the same server. Every check uses spaces of its own, so a
server may be shared, and waits by trio's clock only, so an implementation in one process can be checked
on virtual time. `CHECKS` has them one by one; `run_check` runs one.
"""

from __future__ import annotations

import secrets
from typing import Final

import trio

from tuplespace.testing import elections, leases, lines, matching, overview, swapping, taking, watching
from tuplespace.testing.stage import PATIENCE_S, Check, Make, Stage

__all__ = ["CHECKS", "Check", "Make", "Stage", "check_space", "run_check"]

CHECKS: Final[tuple[Check, ...]] = (
    *matching.CHECKS,
    *lines.CHECKS,
    *taking.CHECKS,
    *leases.CHECKS,
    *swapping.CHECKS,
    *elections.CHECKS,
    *watching.CHECKS,
    *overview.CHECKS,
)
"""All of them; the docstring of each is what it shows."""

# These fail when a renewal comes late, so nothing else keeps the client busy while they run.
_PROMPT: Final[tuple[Check, ...]] = (
    leases.a_living_holder_keeps_its_lease,
    elections.a_holder_renews_its_leadership,
)


async def check_space(make: Make) -> None:
    """Run every check, nearly all at once; raises a group of what failed, each with its check's name."""
    failures: list[Exception] = []

    async def one(check: Check, stage: Stage) -> None:
        try:
            await _run(check, stage)
        except Exception as error:  # noqa: BLE001 - one failure must not keep the others from being seen
            error.add_note(f"{check.__name__}: {check.__doc__}")
            failures.append(error)

    async with make() as first, make() as second:
        for checks in ([c for c in CHECKS if c not in _PROMPT], _PROMPT):
            async with trio.open_nursery() as nursery:
                for check in checks:
                    nursery.start_soon(one, check, Stage(first, second, make, _fresh(check)))
    if failures:
        raise ExceptionGroup("the space breaks its promises", failures)


async def run_check(check: Check, make: Make) -> None:
    """Run one of `CHECKS`."""
    async with make() as first, make() as second:
        await _run(check, Stage(first, second, make, _fresh(check)))


async def _run(check: Check, stage: Stage) -> None:
    with trio.fail_after(PATIENCE_S):
        await check(stage)


def _fresh(check: Check) -> str:
    """A name for spaces that no other run uses."""
    return f"{check.__name__}-{secrets.token_hex(4)}"
