"""`gcs doctor`: whether this machine and its Redis are fit for a crawl, with a sentence for each matter."""

from __future__ import annotations

import os
import resource
import shutil
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

import redis

from gcs.config import Config
from gcs.errors import ExitCode
from gcs.native import is_compiled
from gcs.settings import size
from gcs.sources.chosen import path_of
from tuplespace import Unavailable
from tuplespace.embedded import find_binary

SPARE_FILES: Final = 256
"""Open files that a gatherer needs beside its connections: the store, logs, Redis."""
MAX_SKEW_S: Final = 2.0
SLOW_DNS_S: Final = 2.0


class Grade(StrEnum):
    """How well something is."""

    OK = "ok"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Finding:
    """What was looked at, how it is, and what to do about it."""

    what: str
    grade: Grade
    sentence: str
    exit_code: ExitCode = ExitCode.LIMIT

    @property
    def as_json(self) -> dict[str, str]:
        """The finding for machines."""
        return {"what": self.what, "grade": self.grade.value, "sentence": self.sentence}


def examine(config: Config, directory: Path, *, name: str = "localhost") -> Iterator[Finding]:
    """Look at everything, one after the other; `name` is the host whose address is asked for."""
    yield open_files(config)
    yield disk(config, directory)
    yield dns(name)
    yield agent(config)
    yield from files(config)
    yield compiled_part()
    yield from redis_server(config)


def verdict(findings: list[Finding]) -> ExitCode:
    """The exit code: that of the first error."""
    return next((f.exit_code for f in findings if f.grade is Grade.ERROR), ExitCode.OK)


def open_files(config: Config) -> Finding:
    """Whether as many connections can be open as the configuration asks for."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = config.fetch.concurrency * 2 + SPARE_FILES
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return Finding("open files", Grade.OK, f"{soft} may be open, {needed} are enough.")
    advice = "raise LimitNOFILE= or `ulimit -n`, or lower fetch.concurrency"
    return Finding("open files", Grade.ERROR, f"only {soft} may be open but {needed} are needed; {advice}.")


def disk(config: Config, directory: Path) -> Finding:
    """Whether there is room where the store is, or will be."""
    place = next(each for each in (directory.absolute(), *directory.absolute().parents) if each.exists())
    if not os.access(place, os.W_OK):
        return Finding("disk", Grade.ERROR, f"{place} cannot be written to.", ExitCode.STORE)
    free = shutil.disk_usage(place).free
    shown = size(free - free % (1 << 20))
    if free < config.store.keep_free_bytes:
        least = size(config.store.keep_free_bytes)
        sentence = f"{shown} are free at {place}, and a crawl pauses below {least} (store.keep_free)."
        return Finding("disk", Grade.ERROR, sentence, ExitCode.STORE)
    grade = Grade.WARNING if free < 4 * config.store.keep_free_bytes else Grade.OK
    return Finding("disk", grade, f"{shown} are free at {place}.")


def dns(name: str, ask: Callable[..., Any] = socket.getaddrinfo) -> Finding:
    """Whether names are found, and how fast."""
    began = time.monotonic()
    try:
        ask(name, 80, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        return Finding(
            "DNS", Grade.ERROR, f"{name} was not found: {getattr(error, 'strerror', None) or error}."
        )
    took = time.monotonic() - began
    grade = Grade.WARNING if took > SLOW_DNS_S else Grade.OK
    return Finding("DNS", grade, f"{name} was found in {took * 1000:.0f} ms.")


def agent(config: Config) -> Finding:
    """Whether the owner of a site can reach us."""
    if not config.fetch.agent:
        sentence = (
            "fetch.agent is not set: public sites cannot be crawled before it names you and an address."
        )
        return Finding("agent", Grade.WARNING, sentence)
    return Finding("agent", Grade.OK, f'sites see "{config.fetch.agent}".')


def files(config: Config) -> Iterator[Finding]:
    """Whether the directories that are crawled are there, and can be read."""
    for root in config.sources.files:
        path = path_of(root)
        what, shown = "files", os.fsdecode(path)
        if not os.path.lexists(path):
            yield Finding(what, Grade.ERROR, f"{shown} (sources.files) is not there; is it mounted?")
        elif not os.access(path, os.R_OK):
            yield Finding(what, Grade.ERROR, f"{shown} (sources.files) cannot be read by this user.")
        else:
            yield Finding(what, Grade.OK, f"{shown} can be read.")


def compiled_part() -> Finding:
    """Whether what is done most often is done by compiled code."""
    what = "compiled part"
    if is_compiled:
        return Finding(what, Grade.OK, "it is in use.")
    if os.environ.get("GCS_COMPILED") == "no":
        return Finding(what, Grade.WARNING, "it is not in use: GCS_COMPILED=no.")
    advice = "install a C compiler and Python's headers (gcc, python3-dev), then GCS again"
    sentence = f"it is not in use, so a crawl takes about half as much time again; {advice}."
    return Finding(what, Grade.WARNING, sentence)


def redis_server(config: Config) -> Iterator[Finding]:
    """Whether Redis is there, keeps what it is given, and has our time."""
    if not config.redis.url:
        path = find_binary()
        yield Finding("Redis", Grade.OK, f"none is configured; crawls start a private one ({path.name}).")
        return
    try:
        with _client(config) as client:
            server = client.info("server")
            yield Finding("Redis", Grade.OK, f"version {server.get('redis_version', '?')} answers.")
            yield _eviction(client)
            yield _persistence(client)
            yield _clock(client)
    except (redis.RedisError, OSError, ValueError) as error:
        yield Finding("Redis", Grade.ERROR, f"it cannot be used: {str(error).rstrip('.')}.", ExitCode.REDIS)


def redis_bytes(config: Config) -> int:
    """How much memory the configured Redis takes; raises Unavailable."""
    try:
        with _client(config) as client:
            return int(client.info("memory")["used_memory"])
    except (redis.RedisError, OSError, ValueError) as error:
        raise Unavailable(f"Redis cannot be asked for its memory: {str(error).rstrip('.')}.") from None


def _client(config: Config) -> redis.Redis:
    settings = config.redis
    url = settings.url.replace("+sentinel", "").replace("+cluster", "")
    options: dict[str, Any] = {"socket_timeout": settings.timeout_s}
    if settings.username:
        options["username"] = settings.username
    if settings.password:
        options["password"] = settings.password
    if url.startswith("rediss://") and settings.tls_ca:
        options["ssl_ca_certs"] = str(settings.tls_ca)
    return redis.Redis.from_url(url, **options)


def _eviction(client: redis.Redis) -> Finding:
    policy = client.info("memory").get("maxmemory_policy", "noeviction")
    if policy == "noeviction":
        return Finding("Redis eviction", Grade.OK, "maxmemory-policy is noeviction.")
    sentence = f"maxmemory-policy is {policy}: Redis may throw tuples away; set it to noeviction."
    return Finding("Redis eviction", Grade.ERROR, sentence, ExitCode.REDIS)


def _persistence(client: redis.Redis) -> Finding:
    if client.info("persistence").get("aof_enabled"):
        return Finding("Redis persistence", Grade.OK, "the append-only file is on.")
    sentence = (
        "the append-only file is off: a restart of Redis loses what gatherers were told; set appendonly yes."
    )
    return Finding("Redis persistence", Grade.WARNING, sentence)


def _clock(client: redis.Redis) -> Finding:
    before = time.time()
    seconds, microseconds = client.time()
    ahead = (before + time.time()) / 2 - (seconds + microseconds / 1e6)
    grade = Grade.OK if abs(ahead) <= MAX_SKEW_S else Grade.WARNING
    return Finding("clock", grade, f"this machine is {ahead:+.3f} s from Redis's clock.")
