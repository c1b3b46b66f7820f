"""Another configuration for a gatherer that runs: what takes effect at once, and what needs a restart.

It comes from the gatherer's files, read again, or from operators, whose rulings win over files.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from gcs.config import SETTINGS, Config, Setting
from gcs.core.rulings import ALL
from gcs.errors import ConfigError
from gcs.gatherer.revisiting import table_of

AT_ONCE: Final = frozenset(
    {
        "fetch.delay",
        "fetch.delay_factor",
        "fetch.max_delay",
        "member.heartbeat",
        "member.forget_after",
        "member.leave_when_finished",
        "placement.split_hosts",
        *(name for name, each in SETTINGS.items() if each.section == "revisit" and each.field != "once"),
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
        config = _with(config, each, _value(wanted, each))
    return Reloaded(config, tuple(changed), tuple(name for name in differing if name not in changed))


@dataclass(frozen=True, slots=True)
class Ruled:
    """A configuration with what operators have set."""

    config: Config
    origins: Mapping[str, str] = field(default_factory=dict)
    """The settings that they have set, and for whom: ALL or the name of a gatherer."""
    ignored: Mapping[str, str] = field(default_factory=dict)
    """Those that mean nothing here, and why: they may be meant for gatherers of another version."""


def ruled(given: Config, settings: Mapping[str, Mapping[str, str]], gatherer: str) -> Ruled:
    """What a gatherer makes of the settings in rulings; those for it alone win over those for all."""
    config, origins, ignored = given, dict[str, str](), dict[str, str]()
    for who, name, text in _for(settings, gatherer):
        setting = SETTINGS.get(name)
        if setting is None:
            ignored[name] = "it is not known here"
            continue
        try:
            wanted = _with(config, setting, setting.kind.read_text(text))
        except ValueError:
            ignored[name] = f"it must be {setting.kind.allowed}"
            continue
        if not _takes_effect(name, given, wanted):
            ignored[name] = "it needs a restart, with the setting in the configuration"
            continue
        config, origins[name] = wanted, who
    try:
        table_of(config.revisit)
    except ConfigError as error:
        # What was read is possible, so it is what was set, each or all of it.
        config = replace(config, revisit=replace(given.revisit, alpha=config.revisit.alpha))
        bounds = [name for name in origins if SETTINGS[name].section == "revisit" and name != "revisit.alpha"]
        ignored |= {name: str(error) for name in bounds}
        origins = {name: who for name, who in origins.items() if name not in bounds}
    return Ruled(config, origins, ignored)


def _for(settings: Mapping[str, Mapping[str, str]], gatherer: str) -> Iterator[tuple[str, str, str]]:
    for who in (ALL, gatherer):
        for name, text in settings.get(who, {}).items():
            yield who, name, text


def _takes_effect(name: str, now: Config, wanted: Config) -> bool:
    """Gatherers that never wait take no turns; to begin or end with that needs a restart."""
    if name == "fetch.delay" and not (now.fetch.delay_s and wanted.fetch.delay_s):
        return False
    return name in AT_ONCE


def _with(config: Config, setting: Setting, value: object) -> Config:
    section = replace(getattr(config, setting.section), **{setting.field: value})
    return replace(config, **{setting.section: section})


def _value(config: Config, setting: Setting) -> object:
    return getattr(getattr(config, setting.section), setting.field)
