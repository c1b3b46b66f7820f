"""`gcs config set`, `gcs config unset` and `gcs config show --crawl`: settings of gatherers that run.

They are rulings: all gatherers follow them within a heartbeat or two, keep them on their disks, and they win
over what is in their files, until somebody unsets them.
"""

from __future__ import annotations

import json
from collections.abc import Container, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from gcs.board import Board
from gcs.config import SETTINGS, Config, Loaded, Setting, read_setting
from gcs.core.rulings import ALL, Rulings
from gcs.errors import UsageError
from gcs.gatherer.node import RULINGS, name_of
from gcs.gatherer.reload import AT_ONCE, ruled
from gcs.operate.alarms import ignoring
from gcs.operate.asking import Answer, table
from gcs.operate.looking import Looker, View
from gcs.operate.ruling import GATHERER, rule, who_is
from gcs.store.view import View as StoreView

_SET: Final = "gcs config set"
_SAME_FOR_ALL: Final = frozenset({"member.heartbeat", "member.forget_after"})
"""Gatherers judge each other by these."""


async def set_(board: Board, config: Config, *, texts: Sequence[str], gatherer: str) -> Answer:
    """Let settings have other values, at one gatherer or at all; raises ConfigError or UsageError."""
    values: dict[str, str] = {}
    for text in texts:
        setting, value = read_setting(text, _SET)
        _check(setting, value, gatherer)
        values[setting.name] = setting.kind.written(value)
    who, whose = await _whom(board, config, gatherer)
    named = " ".join(f"{name}={value}" for name, value in values.items())

    def change(now: Rulings, epoch: int) -> Rulings:
        return now.set(who, values, epoch)

    return await rule(
        board, config, f"{named} is set{whose}", change, remarks=partial(_remarks, names=values)
    )


def _check(setting: Setting, value: object, gatherer: str) -> None:
    """Refuse what no gatherer could follow."""
    name = setting.name
    if name not in AT_ONCE:
        can = ", ".join(each for each in SETTINGS if each in AT_ONCE)
        raise UsageError(
            f"{name} cannot be changed while gatherers run: set it in their configuration, and restart them "
            f"one by one. What can be: {can}."
        )
    if name == "fetch.delay" and not value:
        raise UsageError(
            "fetch.delay=0s ends the taking of turns, which needs a restart: set it in the configuration of "
            "all gatherers, and start them again."
        )
    if gatherer and name in _SAME_FOR_ALL:
        raise UsageError(f"{name} has to be the same for all gatherers: leave --for out.")


async def unset(board: Board, config: Config, *, names: Sequence[str], gatherer: str) -> Answer:
    """Let settings have the values again that the gatherers' configurations give them."""
    who, whose = await _whom(board, config, gatherer)

    def change(now: Rulings, epoch: int) -> Rulings:
        there = now.settings.get(who, {})
        for name in names:
            if name not in there:
                known = ", ".join(there) or "nothing"
                raise UsageError(f"{name} is not set{whose}; what is: {known}.")
        return now.unset(who, names, epoch)

    return await rule(board, config, f"{' '.join(names)} is not set any more{whose}", change)


async def shown(board: Board, config: Config) -> Answer:
    """What is set, for whom, and who does not follow."""
    view = await Looker(board, config).look_twice()
    settings = view.rulings.settings
    rows = [
        [name, json.dumps(value), "all gatherers" if who == ALL else who]
        for who in sorted(settings)
        for name, value in sorted(settings[who].items())
    ]
    complaints = _remarks(view)
    facts = {
        "settings": {who: dict(values) for who, values in sorted(settings.items())},
        "late": [each.pulse.name for each in view.present if each.pulse.rulings < view.rulings.epoch],
        "remarks": complaints,
    }
    lines = (
        table(["setting", "value", "for"], rows) if rows else ["Nothing is set; `gcs config set` does it."]
    )
    return Answer(facts, [*lines, *complaints])


def at_gatherer(loaded: Loaded, directory: Path) -> Loaded:
    """A configuration with what operators have set, as a gatherer has it on its disk; raises StoreError."""
    with StoreView(directory) as view:
        rulings = Rulings.from_bytes(view.get_meta(RULINGS) or b"")
    outcome = ruled(loaded.config, rulings.settings, name_of(loaded.config))
    said = {name: _SET if who == ALL else f"{_SET} --for {who}" for name, who in outcome.origins.items()}
    return Loaded(outcome.config, loaded.file, {**loaded.origins, **said})


async def _whom(board: Board, config: Config, gatherer: str) -> tuple[str, str]:
    """Whom a setting is for, as rulings have it and as the end of a phrase."""
    if not gatherer:
        return ALL, ""
    who, _ = await who_is(board, config, GATHERER, gatherer)
    return who, f" for {who}"


def _remarks(view: View, *, names: Container[str] | None = None) -> list[str]:
    """Who does not follow settings, and why."""
    return [sentence for each in view.present for sentence in ignoring(each, names)]
