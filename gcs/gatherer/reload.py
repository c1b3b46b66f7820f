"""Another configuration for a gatherer that runs: what takes effect at once, and what needs a restart."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from gcs.config import SETTINGS, Config, Setting

_AT_ONCE: Final = frozenset(
    {
        "fetch.delay",
        "fetch.delay_factor",
        "fetch.max_delay",
        "member.heartbeat",
        "member.forget_after",
        "member.leave_when_finished",
        "placement.split_hosts",
        *(name for name, each in SETTINGS.items() if each.section in ("exchange", "rebalance", "partition")),
    }
)


@dataclass(frozen=True, slots=True)
class Reloaded:
    """A configuration that is in force from now on, and the settings that differ from the one before."""

    config: Config
    changed: tuple[str, ...]
    after_restart: tuple[str, ...]
    """Those that have another value in the file, but not here."""


def reloaded(now: Config, wanted: Config) -> Reloaded:
    """What becomes of the configuration in force when another one is wanted."""
    differing = {name: each for name, each in SETTINGS.items() if _value(now, each) != _value(wanted, each)}
    changed = [name for name in differing if _takes_effect(name, now, wanted)]
    config = now
    for each in map(differing.__getitem__, changed):
        section = replace(getattr(config, each.section), **{each.field: _value(wanted, each)})
        config = replace(config, **{each.section: section})
    return Reloaded(config, tuple(changed), tuple(name for name in differing if name not in changed))


def _takes_effect(name: str, now: Config, wanted: Config) -> bool:
    """Gatherers that never wait take no turns; to begin or end with that needs a restart."""
    if name == "fetch.delay" and not (now.fetch.delay_s and wanted.fetch.delay_s):
        return False
    return name in _AT_ONCE


def _value(config: Config, setting: Setting) -> object:
    return getattr(getattr(config, setting.section), setting.field)
