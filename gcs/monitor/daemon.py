"""`gcs monitor`: watches the crawl that the configuration names, and serves its page, until told to stop."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path

import structlog
import trio

from gcs import board as boards
from gcs import endpoint, memory
from gcs.config import Config
from gcs.core import vitals
from gcs.errors import ConfigError, ExitCode
from gcs.monitor.keys import FILE, Role
from gcs.monitor.meters import MonitorMeters
from gcs.monitor.monitor import Monitor, running
from gcs.notify import Notifier
from gcs.process import Process

Say = Callable[[str], None]


def run(config: Config, directory: Path, say: Say) -> ExitCode:
    """Serve until a signal says so; `say` tells whoever started it where the page is."""
    if not config.redis.url:
        raise ConfigError(
            "redis.url must name the Redis of the crawl, as its gatherers have it, such as "
            "-s redis.url=redis://localhost; `gcs crawl --monitor` needs none."
        )
    memory.spare()
    return trio.run(_run, config, directory, say)


async def _run(config: Config, directory: Path, say: Say) -> ExitCode:
    notifier = Notifier.from_environment(os.environ)
    async with (
        endpoint.opened(config.metrics.listen) as monitored,
        boards.opened(config) as board,
        running(config, board, directory) as monitor,
        trio.open_nursery() as nursery,
    ):
        trouble = partial(_trouble, monitor, notifier)
        process = Process("monitor", "", config.crawl.name, trouble)
        nursery.start_soon(monitored.serve, process, MonitorMeters(monitor.watch))
        nursery.start_soon(_report, monitor, notifier, trouble)
        structlog.get_logger().info("monitor", at=monitor.address, tokens=str(directory / FILE))
        if not notifier.is_heard:  # a journal is no place for a token
            invite(monitor, say)
        with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            async for _ in signals:
                break
        notifier.stopping()
        nursery.cancel_scope.cancel()
    return ExitCode.OK


def invite(monitor: Monitor, say: Say) -> None:
    """Tell somebody where the page is, and how to sign in."""
    say(f"Monitor: {monitor.link(Role.OPERATE)}")
    say(f"To look only: {monitor.link(Role.VIEW)}")


def _trouble(monitor: Monitor, notifier: Notifier) -> str:
    signs = {"watch": monitor.watch.sign}
    return vitals.trouble(signs, trio.current_time(), notifier.watchdog_s or vitals.UNWATCHED_S)


async def _report(monitor: Monitor, notifier: Notifier, trouble: Callable[[], str]) -> None:
    """Tell the manager that it runs, and how it is, again and again."""
    if not notifier.is_heard:
        return
    notifier.ready()
    while True:
        said = trouble()
        notifier.status(said or monitor.watch.line(), is_well=not said)
        await trio.sleep(notifier.every_s)
