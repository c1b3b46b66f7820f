"""A command that ends with the process that wanted it, however that process ends.

`spawn` starts a supervisor, a process of its own that runs this very file, and the supervisor starts
the command. The supervisor says one line to its owner: the command's process id, or "busy" when the
lock file is held for another command. The owner can say one thing in return, with SIGTERM. The
supervisor's standard input and error are the command's, whose output joins its error, and its exit code
is the command's (128 + n after signal n).

Two things make an orphan impossible. The supervisor ends the command as soon as its parent is no longer
the owner. And the kernel kills the command should the supervisor itself be killed: the "parent death
signal" is tied to the parent's *thread*, which is why it is asked for here, in a process with exactly one.
The supervisor asks for such a signal too, but only as a hint to look at its parent's id again: it also
comes when merely the thread that started the supervisor has ended.

The lock file is open in the command itself, so the lock lasts as long as anyone could still write to the
directory, whoever is killed in whichever order. It contains the owner's process id while the command is
meant to run; a lock that names nobody, or somebody who is gone, is about to be released.

When the owner asked for the end or is gone, the directories to remove are removed. When the command
ended by itself they stay: its data may be wanted for a restart, its log for a look.

The supervisor runs without site-packages and should be there in milliseconds, so it imports little.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import select
import signal
import sys
import time
from contextlib import suppress

if __name__ != "__main__":
    import subprocess  # the owner's half alone needs it

TYPE_CHECKING = False  # type checkers know this name, and importing typing takes a while
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path
    from typing import IO

_BUSY = b"busy\n"
_PR_SET_PDEATHSIG = 1
_ASKED = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGHUP})
_WAITED_FOR = _ASKED | {signal.SIGCHLD}
# How long at most a change of parents goes unnoticed where the kernel sends no hint.
_LOOK_AGAIN_S = 1.0
# What the supervisor's own part of a start or an end may take on a busy machine.
_SUPERVISOR_S = 15.0


class Supervised:
    """The owner's hold on a command under a supervisor."""

    def __init__(self, process: subprocess.Popen[bytes], pid: int, grace_s: float) -> None:
        self.pid = pid
        self._process = process
        self._grace_s = grace_s
        self._owner = os.getpid()

    @property
    def exit_code(self) -> int | None:
        """None while the command runs; after that, nothing of it is left."""
        return self._process.poll()

    def wait(self, timeout_s: float) -> int | None:
        """Waits for the command to end by itself, not longer than the timeout; gives its exit code."""
        deadline = time.monotonic() + timeout_s
        while (exit_code := self.exit_code) is None and time.monotonic() < deadline:
            time.sleep(0.005)
        return exit_code

    def ask_to_end(self) -> None:
        """Asks the command to end, and does not wait for it; it has its grace."""
        self._process.terminate()

    def kill(self) -> None:
        """Ends the command at once; the kernel does so when its supervisor is killed."""
        self._process.kill()

    def stop(self) -> None:
        """Ends the command and waits until nothing of it is left; may be repeated.

        In a process that was forked off the owner it does nothing: the command is not its own.
        """
        if os.getpid() != self._owner:
            return
        self.ask_to_end()
        if self.wait(self._grace_s + _SUPERVISOR_S) is None:
            self.kill()
            self._process.wait()


def spawn(
    command: Sequence[str | Path],
    *,
    lock: Path,
    log: Path,
    stdin: IO[bytes] | None = None,
    remove: Sequence[Path] = (),
    grace_s: float = 10.0,
    cwd: str | Path = "/",
    environment: Mapping[str, str] | None = None,
    umask: int = 0o077,
) -> Supervised | None:
    """Starts the command, its output appended to the log; None when another one holds the lock.

    The lock then names the process that owns the other one. Raises OSError when the supervisor itself
    cannot do its work; a command that cannot be run is one that ends with exit code 127. An environment
    replaces that of this process, and a umask of -1 keeps its own.
    """
    options = (os.getpid(), grace_s, lock, *remove)
    with open(log, "ab", opener=_private) as output:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", __file__, *map(str, options), "--", *map(str, command)],
            stdin=stdin if stdin is not None else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=output,
            cwd=cwd,
            env=environment,
            umask=umask,
            start_new_session=True,
        )
    report = b""
    try:
        report = _first_line(process)
    finally:
        if not report.strip().isdigit():
            process.kill()
            process.wait()
    if report == _BUSY:
        return None
    if not report:
        raise ChildProcessError("its supervisor did not start")
    return Supervised(process, int(report), grace_s)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _first_line(process: subprocess.Popen[bytes]) -> bytes:
    """The supervisor's report, or nothing when it ended without one or takes too long."""
    assert process.stdout is not None
    with process.stdout as pipe:
        poll = select.poll()
        poll.register(pipe, select.POLLIN)
        return os.read(pipe.fileno(), 64) if poll.poll(_SUPERVISOR_S * 1000) else b""


def main(arguments: Sequence[str]) -> int:
    """The supervisor: OWNER GRACE_S LOCK [REMOVE…] -- COMMAND…; gives its exit code."""
    split = arguments.index("--")
    owner, grace_s, lock, *remove = arguments[:split]
    return supervise(
        arguments[split + 1 :], owner=int(owner), grace_s=float(grace_s), lock=lock, remove=remove, report=1
    )


def supervise(
    command: Sequence[str], *, owner: int, grace_s: float, lock: str, remove: Sequence[str], report: int
) -> int:
    """Runs the command until it ends, until a signal asks for its end, or until the owner is gone."""
    lock_fd = _locked(lock, owner)
    if lock_fd is None:
        os.write(report, _BUSY)
        return 0
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # an inherited "ignore" would take the exit code away
    signal.pthread_sigmask(signal.SIG_BLOCK, _WAITED_FOR)  # they are received by sigtimedwait alone
    _ask_for_death_signal(signal.SIGCHLD)
    supervisor = os.getpid()
    pid = os.fork()
    if pid == 0:  # pragma: no cover - a measured process does not survive the exec
        _become(command, supervisor)
    with suppress(BrokenPipeError):  # the owner is gone, as the loop will find
        os.write(report, b"%d\n" % pid)
    asked = False
    while not (ended := _has_ended(pid)) and not asked and os.getppid() == owner:
        asked = _wait_for_signal(_LOOK_AGAIN_S)
    if not ended:
        _end(pid, grace_s)
    exit_code = _reap(pid)
    os.ftruncate(lock_fd, 0)
    if not ended:
        _remove(remove)
    os.close(lock_fd)
    return exit_code if exit_code >= 0 else 128 - exit_code


def _locked(path: str, owner: int) -> int | None:
    """The lock file, locked, inheritable, and naming the owner; None when another holds it."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        return None
    os.ftruncate(fd, 0)
    os.write(fd, b"%d\n" % owner)
    os.set_inheritable(fd, True)  # noqa: FBT003 - its signature
    return fd


def _become(command: Sequence[str], supervisor: int) -> None:  # pragma: no cover - see its caller
    """Turns the forked child into the command, in a session of its own; never returns."""
    try:
        os.setsid()  # the terminal's Ctrl-C is the owner's to handle, and the group can be swept
        _ask_for_death_signal(signal.SIGKILL)
        if os.getppid() != supervisor:  # it died before the kernel was asked
            os._exit(1)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.dup2(2, 1)
        os.execv(command[0], list(command))  # noqa: S606 - no shell is what is wanted
    except OSError as error:
        os.write(2, f"cannot run {command[0]}: {error.strerror}\n".encode())
    finally:
        os._exit(127)


def _ask_for_death_signal(number: int) -> None:
    if sys.platform == "linux":  # pragma: no branch - elsewhere the owner's death is found by looking
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, number)


def _has_ended(pid: int) -> bool:
    """Looks without reaping, so that until `_reap` the id cannot become another process's."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None


def _wait_for_signal(timeout_s: float) -> bool:
    """Waits for any signal, not longer than the timeout; True when it asks for the end."""
    received = signal.sigtimedwait(_WAITED_FOR, timeout_s)
    return received is not None and received.si_signo in _ASKED


def _end(pid: int, grace_s: float) -> None:
    """Asks the command to end and waits for it, not longer than the grace."""
    os.kill(pid, signal.SIGTERM)
    os.kill(pid, signal.SIGCONT)  # a stopped process acts on nothing else
    deadline = time.monotonic() + grace_s
    while not _has_ended(pid) and (left_s := deadline - time.monotonic()) > 0:
        _wait_for_signal(left_s)


def _reap(pid: int) -> int:
    """Kills what is left of the command and of the processes it started; gives its exit code."""
    os.kill(pid, signal.SIGKILL)
    with suppress(ProcessLookupError):  # it was killed before it had made a group of its own
        os.killpg(pid, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _remove(directories: Sequence[str]) -> None:
    import shutil  # slow to import, and the start should be fast

    for directory in directories:
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
