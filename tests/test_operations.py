"""Every command of docs/operations.md is run, in its order, on the machines that it names.

Each machine is a real systemd of its own (`tests.machine`): a Redis, another one to move to, four gatherers,
five desktops, and a web. They share one network. The document says where a block of commands is to be typed
("On alpha and beta:"), and what is in files. A command that is not in `EXPECTED` fails the test, so the
document cannot have one that was never tried.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import pytest

from gcs.simulate.web import Web
from tests.crawling import ROOT
from tests.machine import CannotBoot, Machine, machine
from tests.servers import binaries

T = TypeVar("T")

DOCUMENT = ROOT / "docs" / "operations.md"
WEB = Web(3, 10, 20_000, port=80, plain=True, slowness=0.0)
REDISES = {"redis": "127.7.0.1", "redis2": "127.7.0.2"}
GATHERERS = ("alpha", "beta", "gamma", "delta")
DESKTOPS = ("desk1", "desk2", "desk3", "desk4", "desk5")
OWN_NAME = r"gcs-gatherer@\$\(hostname -s\)"

# What differs from what the document says, and why. All else is as a reader would type it.
OTHER_WORDS = {
    # The web of the test has other names, and no certificates.
    "https://example.org/": " ".join(WEB.seeds),
}
ENVIRONMENT = {
    # Nothing is downloaded: what GCS depends on is in the environment of the tests already.
    "PIP_NO_INDEX": "1",
    "PIP_NO_DEPS": "1",
    "PIP_NO_BUILD_ISOLATION": "0",  # which means that there is none
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "PYTHONPATH": "/opt/packages",
    # Most commands wait for heartbeats.
    "GCS_MEMBER_HEARTBEAT": "200ms",
    # The web of the test is on loopback.
    "GCS_FETCH_ALLOW": "127.0.0.0/8",
} | ({} if sys.base_prefix == "/usr" else {"LD_LIBRARY_PATH": "/opt/python/lib"})
STAND_INS = {
    # No machine has sshd; homes of all machines are in one place instead.
    "scp": """#!/bin/sh -e
to=${2#*@} user=${2%%@*}
home=/srv/homes/${to%%:*}/$user
cp "$1" "$home/${to#*:}"
chown -R --reference="$home" "$home"
""",
}
REDIS_UNIT = """
# As the distribution's package has it, which is not there; but the machines share a network, so each server
# has an address of its own.
[Service]
ExecStart=/opt/server /etc/redis/redis.conf --daemonize no --bind ADDRESS
ExecStartPost=/bin/sh -c 'until redis-cli -h ADDRESS ping; do sleep 0.1; done'
User=redis
Group=redis

[Install]
WantedBy=multi-user.target
"""
INSTALLS = r".*/opt/gcs/bin/pip install \./gcs"
"""It takes some seconds, so it is run on the first machine only, and the others get what it has made."""


@dataclass(frozen=True)
class Expected:
    """What a command says, and what holds afterwards; both are waited for if need be."""

    says: str = ""
    """A regular expression."""
    then: str = ""
    """A command that succeeds."""
    again: bool = False
    """Whether a reader repeats it until it says that."""


BALANCED = Expected(r"^balanced\.", again=True)
RUNS = Expected(then="systemctl is-active gcs-gatherer@$(hostname -s)")
ENDED = Expected(then="! systemctl is-active gcs-gatherer@$(hostname -s)")
REDIS_RUNS = Expected(then="systemctl is-active redis-server")
EXPECTED = {
    INSTALLS: Expected(then="/opt/gcs/bin/gcs --version"),
    r"export [A-Z_]+=.*": Expected(),
    r"redis-cli -h redis.example ping": Expected("^PONG$"),
    r"systemctl (restart|start|enable --now) redis-server": REDIS_RUNS,
    r"systemctl (stop|disable --now) redis-server": Expected(then="! systemctl is-active redis-server"),
    r"install -m 600 .* /var/lib/redis/users\.acl": Expected(then="test -s /var/lib/redis/users.acl"),
    r"install -m \d+ (-g gcs )?\S+ /etc/gcs/\S+( && rm \S+)?": Expected(),
    r"install -D -m 600 invitation ~/\S+ && rm invitation": Expected(then="test -s ~/.config/gcs/invitation"),
    r"gcs install-units": Expected(r"written +/etc/systemd/system/gcs-gatherer@\.service"),
    r"gcs install-units --user": Expected(r"written +/home/ann/\.config/systemd/user/gcs-helper\.service"),
    r"gcs install-units (--user )?--force && systemctl (--user )?daemon-reload": Expected(
        r"written .*helper"
    ),
    r"systemd-sysusers gcs.conf && systemd-tmpfiles --create gcs.conf": Expected(
        then="test $(stat -c %U:%G:%a /etc/gcs) = root:gcs:750"
    ),
    r"gcs config check": Expected("/etc/gcs/config.toml"),
    r"gcs doctor --into /var/lib/gcs": Expected("(?i)redis"),
    r"systemctl (--user )?daemon-reload": Expected(),
    rf"systemctl (enable --now gcs\.target|start|restart) {OWN_NAME}": RUNS,
    r"curl -sS http://127\.0\.0\.1:9464/healthz": Expected("^All is well", again=True),
    rf"systemctl status {OWN_NAME}": Expected(r'Status: "\w+: [0-9.]+ pages/s, ', again=True),
    r"systemctl stop 'gcs-gatherer@\*'": ENDED,
    r"systemctl reload 'gcs-gatherer@\*'": Expected(),
    rf"journalctl -u {OWN_NAME} -n 4": Expected("changed=fetch.delay", again=True),
    r"gcs seed add \S+": Expected("."),
    r"gcs status": Expected(r"^crawling: (.*\n)+.*[1-9][0-9,]* pages,", again=True),
    r"gcs nodes": Expected(r"(?s)alpha .*beta .*delta ", again=True),
    r"gcs pause": Expected("paused, at all gatherers"),
    r"gcs resume": Expected("at all gatherers"),
    r"gcs audit": BALANCED,
    r"gcs drain gamma --wait": Expected("gamma has left"),
    r"systemctl disable gcs-gatherer@gamma": ENDED,
    r"rm -r /var/lib/gcs/gamma": Expected(),
    r"rm -r /var/lib/(redis|gcs/\$\(hostname -s\))": Expected(),
    r"tar -C /\S* -czf (\S+) .*": Expected(),
    r"tar -C /\S* -xzf (\S+)": Expected(),
    r"scp moved\.tar\.gz root@redis2:": Expected(),
    r"for desk in (desk\d ?)+; do gcs helper invite \$desk; done": Expected("desk5 may help at office"),
    r"for desk in (desk\d ?)+; do scp \$desk\.invitation \w+@\$desk:invitation; done": Expected(),
    r"gcs helper list": Expected("".join(rf"^{desk} +office .*\n?" for desk in DESKTOPS[:4])),
    r"gcs helper pause": Expected("paused"),
    r"gcs helper resume": Expected(r"^why: "),
    r"gcs helper status": Expected(
        r"^why: +(It may work|Somebody is at the desktop: idle for .* of the 10 min)", again=True
    ),
    r"gcs helper revoke desk5": Expected("may not help any more"),
    r"systemctl enable --now gcs-helper\.timer": Expected(then="systemctl is-active gcs-helper-stop.timer"),
    r"systemctl (start|restart) gcs-helper": Expected(then="systemctl is-active gcs-helper"),
    r"systemctl --user (enable --now|restart) gcs-helper": Expected(
        then="systemctl --user is-active gcs-helper"
    ),
    r"systemctl --user disable --now gcs-helper": Expected(then="! systemctl --user is-active gcs-helper"),
}
FILES = {
    "/etc/redis/redis.conf": ("redis",),
    "users.acl": ("redis",),
    "news.toml": GATHERERS,
    "redis-password": GATHERERS,
    "/etc/gcs/gatherer.env": ("alpha",),
    "~/.config/gcs/helper.env": ("ann@desk3", "ann@desk4", "ann@desk5"),
}
"""Where the files are written whose content the document has."""
SAMPLES = ("Status: ",)
"""What is shown as an example of what is said."""


@dataclass(frozen=True)
class Block:
    """Commands, and who types them where, such as "alpha" or "ann@desk3"; at once, or one after the other."""

    where: tuple[str, ...]
    in_turn: bool
    commands: tuple[str, ...]


@dataclass(frozen=True)
class File:
    """What is in a file."""

    name: str
    text: str


@dataclass(frozen=True)
class Prose:
    """A paragraph."""

    text: str


PARTS = re.compile(
    r"""
    ^```[\s\S]*?^```$
    | (?:^[ ]{4}.*\n | ^\n(?=[ ]{4}))+
    | (?:^(?!```).+\n)+
    """,
    re.MULTILINE | re.VERBOSE,
)
"""A block of commands, what is in a file, or a paragraph."""


def steps(text: str) -> Iterator[Block | File | Prose]:
    """What there is to do, in the order of the document; raises ValueError where that is not clear."""
    before = ""
    for part in PARTS.findall(text):
        if part.startswith("```"):
            yield _block(before, part)
        elif part.lstrip("\n").startswith("    "):
            if not part.strip().startswith(SAMPLES):
                names = re.findall(r"`([^`]+)`", before)
                if not names or names[-1] not in FILES:
                    raise ValueError(f"it is not said into which file this belongs: {part}")
                yield File(names[-1], re.sub(r"^ {4}", "", part.strip("\n"), flags=re.MULTILINE) + "\n")
        else:
            before = part
            yield Prose(" ".join(part.split()))


def _block(before: str, fenced: str) -> Block:
    found = re.search(r"\*\*On (.+?)(?:, as (\w+))?:\*\*$", before.strip())
    if found is None:
        raise ValueError(f"it is not said on which machine this is to be run: {fenced}")
    names = re.split(r", then |, | and ", found[1])
    who = f"{found[2]}@" if found[2] else ""
    lines = fenced.replace("\\\n", " ").splitlines()[1:-1]
    return Block(tuple(who + name for name in names), ", then " in found[1], tuple(filter(None, lines)))


class Cluster:
    """All machines, and what is typed on them."""

    def __init__(self, place: Path, machines: Mapping[str, Machine]) -> None:
        self._place, self._machines = place, machines
        self._lock = threading.Lock()
        self._made: dict[int, str] = {}
        self._version = 0
        self._deeds: dict[str, Callable[[], None]] = {
            "Change `/etc/gcs/config.toml` on all machines.": self._change_settings,
            "To upgrade, bring the new checkout": self._bring_another_version,
            "Now let the name redis.example lead to redis2.": lambda: self.name_redis("redis2"),
        }
        """What the document asks for in words."""
        self.undone = set(self._deeds)

    def read(self, prose: Prose) -> None:
        """Do what a paragraph asks for."""
        for words, deed in self._deeds.items():
            if words in prose.text:
                deed()
                self.undone.discard(words)

    def write(self, file: File) -> None:
        """Have a file where it belongs."""
        for where in FILES[file.name]:
            words = f'mkdir -p "$(dirname {file.name})" && cat >> {file.name}'
            assert self._shell(where, words, given=file.text) == (0, "")

    def type(self, block: Block) -> None:
        """Type commands on all machines where they belong."""
        with ThreadPoolExecutor(1 if block.in_turn else len(block.where)) as pool:
            for _ in pool.map(lambda where: self._type_there(where, block.commands), block.where):
                pass

    def _type_there(self, where: str, commands: tuple[str, ...]) -> None:
        for command in commands:
            began = time.monotonic()
            self._type_one(where, command)
            print(f"{time.monotonic() - began:5.1f} s {where}: {command}")

    def _type_one(self, where: str, command: str) -> None:
        expected = next((said for each, said in EXPECTED.items() if re.fullmatch(each, command)), None)
        assert expected is not None, f"what to expect of this command is not known: {command}"
        words = command
        for theirs, ours in OTHER_WORDS.items():
            words = words.replace(theirs, ours)

        def is_done() -> bool:
            code, said = (
                self._installs(where, words) if re.fullmatch(INSTALLS, words) else self._shell(where, words)
            )
            assert code == 0, f"{where}: {words}: {code} {said}"
            found = re.search(expected.says, said, re.MULTILINE) is not None
            assert found or expected.again, f"{where}: {words} says: {said}"
            return found

        here = self._machines[where.rpartition("@")[2]]
        # After Redis was started, hosts rest for a minute.
        here.until(is_done, f"{expected.says!r} from {words!r} on {where}", timeout_s=240.0)
        if expected.then:
            here.until(lambda: self._shell(where, expected.then)[0] == 0, f"{expected.then!r} on {where}")

    def _installs(self, where: str, words: str) -> tuple[int, str]:
        with self._lock:
            if self._version not in self._made:
                self._made[self._version] = where
                return self._shell(where, words)
            made = self._place / "opt" / self._made[self._version]
            subprocess.run(["cp", "-alf", f"{made}/.", self._place / "opt" / where], check=True)
            return 0, ""

    def _shell(self, where: str, line: str, given: str | None = None) -> tuple[int, str]:
        """How a line ends in somebody's shell, which remembers what was exported, and what it says."""
        user, _, name = where.rpartition("@")
        before, after = "cd; [ ! -e .session ] || . ./.session", "code=$?; export -p > .session; exit $code"
        script = f"{before}\n{{\n{line}\n}} 2>&1\n{after}"
        environment = ENVIRONMENT | {
            "HOME": f"/home/{user}" if user else "/root",
            "PATH": "/opt/stand-ins:/opt/python/bin:/usr/local/bin:/usr/bin:/usr/sbin",
            "XDG_RUNTIME_DIR": f"/run/user/{1000 if user else 0}",
        }
        enter = ["setpriv", "--reuid=1000", "--regid=1000", "--clear-groups"] if user else []
        variables = [f"{variable}={value}" for variable, value in environment.items()]
        done = self._machines[name].ask(*enter, "env", "-i", *variables, "bash", "-c", script, given=given)
        return done.returncode, done.stdout + done.stderr

    def name_redis(self, name: str) -> None:
        """Have redis.example lead to a machine."""
        names = "127.0.0.1 localhost\n" + WEB.hosts_file() + f"{REDISES[name]} redis.example\n"
        (self._place / "hosts").write_text(names)

    def _change_settings(self) -> None:
        for name in ("alpha", "beta", "gamma"):
            self._shell(name, r"""sed -i 's/^agent/delay = "500ms"\nagent/' /etc/gcs/config.toml""")

    def _bring_another_version(self) -> None:
        """Its units differ from those before."""
        self._version += 1
        for unit in (self._place / "gcs" / "systemd").rglob("*.service"):
            unit.write_text(f"# The next version.\n{unit.read_text()}")


def _prepare(place: Path) -> tuple[dict[str, Path], str]:
    """What all machines have in common, and their Python."""
    checkout = place / "gcs"
    checkout.mkdir()
    for name in ("gcs", "tuplespace", "systemd"):
        shutil.copytree(
            ROOT / name, checkout / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__")
        )
    for name in ("cli.py", "pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, checkout)
    (place / "stand-ins").mkdir()
    for name, text in STAND_INS.items():
        (place / "stand-ins" / name).write_text(text)
        (place / "stand-ins" / name).chmod(0o755)
    defaults = " ".join(f'"{name}={value}"' for name, value in ENVIRONMENT.items())
    texts = {
        "system.conf": f"[Manager]\nDefaultEnvironment={defaults}\n",
        "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
        "sysusers.conf": 'u redis - "Redis" /var/lib/redis\nu ann 1000 "Ann" /home/ann /bin/bash\n',
    }
    for name, text in texts.items():
        (place / name).write_text(text)
    binds = {
        "/etc/hosts": place / "hosts",
        "/etc/nsswitch.conf": place / "nsswitch.conf",
        "/etc/systemd/system.conf.d/test.conf": place / "system.conf",
        "/etc/sysusers.d/test.conf": place / "sysusers.conf",
        "/opt/stand-ins": place / "stand-ins",
        "/opt/packages": Path(next(each for each in sys.path if each.endswith("site-packages"))),
        "/opt/server": binaries()["valkey"],
    }
    if sys.base_prefix == "/usr":
        return binds, "/usr/bin/python3"
    return binds | {"/opt/python": Path(sys.base_prefix)}, "/opt/python/bin/python3"


def _boot(stack: ExitStack, place: Path) -> Cluster:
    """All machines, and on each what its owner had there before."""
    binds, python = _prepare(place)
    machines: dict[str, Machine] = {}
    cluster = Cluster(place, machines)
    cluster.name_redis("redis")
    web = stack.enter_context(machine(place / "web.log", binds | {"/opt/source": ROOT}, host="web"))
    served = f"-m gcs.simulate.webserver --seed {WEB.seed} --hosts 10 --pages 20000 --port 80 --plain"
    served += " --slowness 0 --into /run/web"
    source = "Environment=PYTHONPATH=/opt/source:/opt/packages"
    web.run("systemd-run", "--unit=web", "-p", source, "-p", "RuntimeDirectory=web", python, *served.split())

    def boot(name: str) -> None:
        homes = place / "homes" / name
        for path in (homes / "root", homes / "ann", place / "opt" / name):
            path.mkdir(parents=True)
        os.chown(homes / "ann", 1000, 1000)
        writable = {
            "/root": homes / "root",
            "/root/gcs": place / "gcs",
            "/home/ann": homes / "ann",
            "/opt/gcs": place / "opt" / name,
            "/srv/homes": place / "homes",
        }
        booted = machine(place / f"{name}.log", binds, writable=writable, host=name, beside=web)
        machines[name] = stacks[name].enter_context(booted)
        _furnish(machines[name], name)

    stacks = {name: ExitStack() for name in (*REDISES, *GATHERERS, *DESKTOPS)}
    stack.callback(_at_once, ExitStack.close, stacks.values())
    _at_once(boot, stacks)
    web.until(lambda: '"port"' in web.journal("web"), "web")
    machines["web"] = web
    return cluster


def _at_once(do: Callable[[T], None], each: Iterable[T]) -> None:
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(do, each))


def _furnish(here: Machine, name: str) -> None:
    here.run("systemd-sysusers", "test.conf")
    here.run("install", "-d", "-m", "1777", "/var/tmp")
    if name in REDISES:
        here.run("install", "-d", "-o", "redis", "-g", "redis", "-m", "750", "/var/lib/redis", "/etc/redis")
        here.write("/etc/redis/redis.conf", "dir /var/lib/redis\n")
        here.write("/etc/systemd/system/redis-server.service", REDIS_UNIT.replace("ADDRESS", REDISES[name]))
        here.run("systemctl", "daemon-reload")
        here.run("systemctl", "start", "redis-server")
    if name in DESKTOPS:
        # Ann has logged in; there is no logind. Users' managers need a directory that the system's makes for
        # its first service with mounts of its own.
        here.run("systemd-run", "--wait", "-p", "PrivateTmp=yes", "/bin/true")
        here.run("install", "-d", "-m", "700", "-o", "ann", "/run/user/1000")
        variables = "Environment=XDG_RUNTIME_DIR=/run/user/1000 HOME=/home/ann"
        options = ["--unit=manager", "--uid=ann", "-p", variables, "-p", "Delegate=yes"]
        here.run("systemd-run", *options, "/lib/systemd/systemd", "--user")


def test_every_command_is_known() -> None:
    """The document says where each command is to be typed, and the test below what it is to say."""
    blocks = [step for step in steps(DOCUMENT.read_text(encoding="utf-8")) if isinstance(step, Block)]
    commands = [command for block in blocks for command in block.commands]
    assert len(commands) > 50
    assert [each for each in commands if not any(re.fullmatch(known, each) for known in EXPECTED)] == []
    assert [known for known in EXPECTED if not any(re.fullmatch(known, each) for each in commands)] == []
    there = {where.rpartition("@")[2] for block in blocks for where in block.where}
    assert there == {*REDISES, *GATHERERS, *DESKTOPS}


def test_what_is_not_clear() -> None:
    """Commands that belong nowhere, and files without a name, are refused."""
    with pytest.raises(ValueError, match="on which machine"):
        list(steps("Then:\n\n```\ngcs status\n```\n"))
    with pytest.raises(ValueError, match="into which file"):
        list(steps("Write this:\n\n    [crawl]\n"))


def test_the_walk_through(tmp_path: Path) -> None:
    """A reader who follows the document from its beginning to its end has a crawl that works."""
    if shutil.which("redis-cli") is None:
        pytest.skip("redis-cli is not installed, which the document uses")
    todo = list(steps(DOCUMENT.read_text(encoding="utf-8")))
    with ExitStack() as stack:
        try:
            cluster = _boot(stack, tmp_path)
        except CannotBoot as reason:
            pytest.skip(f"{reason}, so the commands of the document are not run")
        for step in todo:
            match step:
                case Prose():
                    cluster.read(step)
                case File():
                    cluster.write(step)
                case Block():
                    cluster.type(step)
        assert cluster.undone == set()
