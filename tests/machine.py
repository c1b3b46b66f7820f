"""A machine for tests: a real systemd as PID 1, in namespaces of its own, on a root that is thrown away.

The host's `/usr` is there, read-only; all else is bound in. Its network is a loopback interface of its own.
Booting it needs root, `systemd-nspawn`, and a kernel that lets a container have a cgroup hierarchy.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

_BOOT_S = 90.0
_SCRIPT = """
mount -t tmpfs -o mode=755 tmpfs /run
umount -R /sys/fs/cgroup
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mkdir "/sys/fs/cgroup/$1"
echo $$ > "/sys/fs/cgroup/$1/cgroup.procs"
name=$1; shift
exec systemd-nspawn --register=no --keep-unit --quiet --volatile=yes -D / -M "$name" --link-journal=no \
    --capability=CAP_BPF --system-call-filter=bpf --console=read-only "$@" \
    --boot systemd.unit=basic.target systemd.condition-first-boot=no
"""


class CannotBoot(Exception):
    """This machine cannot have another one in it; the message says why."""


class Machine:
    """A booted machine."""

    def __init__(self, leader: int) -> None:
        self.leader = leader
        """Its first process, as this machine counts."""
        self._enter = ["nsenter", "-t", str(leader), "-a"]

    def run(self, *words: str, check: bool = True, given: str | None = None) -> str:
        """What a command on the machine says."""
        done = self.ask(*words, given=given)
        if check and done.returncode:
            raise AssertionError(f"{' '.join(words)}: {done.returncode} {done.stdout}{done.stderr}")
        return done.stdout.strip()

    def ask(self, *words: str, given: str | None = None) -> subprocess.CompletedProcess[str]:
        """How a command on the machine ends."""
        return subprocess.run(
            [*self._enter, *words],
            input=given,
            stdin=None if given is not None else subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )

    def write(self, path: str, text: str) -> None:
        """Put a file there."""
        self.run("sh", "-c", 'mkdir -p "${0%/*}" && cat > "$0"', path, given=text)

    def show(self, unit: str, name: str) -> str:
        """A property of a unit."""
        return self.run("systemctl", "show", "-p", name, "--value", unit)

    def journal(self, unit: str) -> str:
        """What a unit has logged."""
        return self.run("journalctl", "-u", unit, "-o", "cat", "--no-pager", check=False)

    def kill(self, unit: str, number: signal.Signals) -> int:
        """Send a signal to the main process of a unit; returns its id there."""
        pid = int(self.show(unit, "MainPID"))
        assert pid > 1
        self.run("kill", f"-{number.value}", str(pid))
        return pid

    def until(self, condition: Callable[[], object], what: str, timeout_s: float = 90.0) -> None:
        """Wait for something."""
        deadline = time.monotonic() + timeout_s
        while not condition():
            if time.monotonic() > deadline:
                journal = self.run("journalctl", "-n", "30", "-o", "cat", check=False)
                raise TimeoutError(f"no {what}: {journal}")
            time.sleep(0.1)


@contextmanager
def machine(
    log: Path,
    binds: Mapping[str, Path],
    *,
    writable: Mapping[str, Path] | None = None,
    host: str | None = None,
    beside: Machine | None = None,
) -> Iterator[Machine]:
    """A machine with some files and directories of this one; raises CannotBoot.

    Some of them may be `writable`. It may have a name, and the network of another machine.
    """
    if sys.platform != "linux" or os.geteuid() != 0:
        raise CannotBoot("only root can boot a machine")
    for program in ("systemd-nspawn", "nsenter", "unshare"):
        if shutil.which(program) is None:
            raise CannotBoot(f"{program} is not installed")
    name = f"gcs{secrets.token_hex(4)}"
    options = [f"--bind-ro={source}:{target}" for target, source in binds.items()]
    options += [f"--bind={source}:{target}" for target, source in (writable or {}).items()]
    options += [f"--network-namespace-path=/proc/{beside.leader}/ns/net" if beside else "--private-network"]
    options += [f"--hostname={host}"] if host else []
    with log.open("wb") as said:
        # A session of its own, so that nothing of it reaches us.
        process = subprocess.Popen(
            ["unshare", "--mount", "--propagation", "private", "bash", "-euc", _SCRIPT, "_", name, *options],
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            start_new_session=True,
        )
    try:
        yield _booted(process, log)
    finally:
        process.terminate()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        _remove_groups(name)


def _booted(process: subprocess.Popen[bytes], log: Path) -> Machine:
    deadline = time.monotonic() + _BOOT_S
    while time.monotonic() < deadline and process.poll() is None:
        leader = _leader(process.pid)
        if leader is not None:
            found = Machine(leader)
            if found.run("systemctl", "is-system-running", check=False) in ("running", "degraded"):
                return found
        time.sleep(0.1)
    raise CannotBoot(f"systemd does not boot here: {log.read_text(errors='replace')[-500:]}")


def _leader(pid: int) -> int | None:
    """The machine's first process, which is a child of ours once all is mounted."""
    with suppress(OSError):
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            if Path(f"/proc/{child}/comm").read_text() == "systemd\n":
                return int(child)
    return None


def _remove_groups(name: str) -> None:
    for root in (Path("/sys/fs/cgroup/unified"), Path("/sys/fs/cgroup")):
        for directory, _, _ in os.walk(root / name, topdown=False):
            with suppress(OSError):
                Path(directory).rmdir()
