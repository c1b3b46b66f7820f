"""What a monitor remembers over a restart: one small file, replaced whole, now and then and in the end."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgpack
import structlog

from gcs.monitor.unreadable import UNREADABLE

VERSION: Final = 1
FILE: Final = "memory"


def recalled(directory: Path, crawl: str) -> Mapping[str, Any]:
    """What was kept of a crawl; nothing if there is none, or it cannot be understood."""
    try:
        said: Mapping[str, Any] = msgpack.unpackb(
            (directory / FILE).read_bytes(), use_list=False, strict_map_key=False
        )
        if said["version"] == VERSION and said["crawl"] == crawl:
            return said
    except FileNotFoundError:
        pass
    except (OSError, *UNREADABLE) as error:
        structlog.get_logger().warning("what was seen before cannot be read", why=str(error))
    return {}


def keep(directory: Path, crawl: str, state: Mapping[str, Any]) -> None:
    """Keep it; a disk that does not take it is complained about, and nothing else."""
    aside = directory / f".{FILE}.new"
    try:
        aside.write_bytes(msgpack.packb({"version": VERSION, "crawl": crawl, **state}))
        aside.replace(directory / FILE)
    except OSError as error:
        structlog.get_logger().warning("what was seen cannot be kept", why=str(error))
