"""The servers that other tests stand on: each kind starts, can be disturbed, and leaves nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote

import pytest
import redis

from tests import servers
from tests.servers import PASSWORD, User, binaries, gone, until
from tuplespace import embedded

each_binary = pytest.mark.parametrize("binary", binaries())
ROOT = Path(servers.__file__).parents[1]
ENCODED = quote(PASSWORD, safe="")


@each_binary
def test_plain(binary: str) -> None:
    """A plain server answers at its URL, wants the password, and is gone after the block."""
    with servers.redis_server(binary) as server:
        assert server.url == f"redis://:{ENCODED}@127.0.0.1:{server.port}/0"
        assert embedded.answers(server.url)
        assert not embedded.answers(f"redis://127.0.0.1:{server.port}/0")
        assert server.running
        pid, directory = server.pid, server.directory
    assert gone(pid)
    assert not directory.exists()


@each_binary
def test_unix_socket(binary: str) -> None:
    """A server on a unix socket has no port."""
    with servers.redis_server(binary, unix_socket=True) as server:
        assert server.url.startswith("unix://:")
        assert server.port == 0
        assert embedded.answers(server.url)


@pytest.mark.skipif(not servers.tls_binaries(), reason="no server here was built with TLS")
def test_tls() -> None:
    """A server with TLS is trusted by who knows its authority, and by nobody else."""
    with servers.redis_server(tls=True) as server:
        assert server.url.startswith("rediss://")
        assert embedded.answers(server.url)
        stranger, _, _ = server.url.partition("?")
        with (
            redis.Redis.from_url(stranger, retry=None) as client,
            pytest.raises(redis.ConnectionError, match="certificate verify failed"),
        ):
            client.ping()


@each_binary
def test_user(binary: str) -> None:
    """The URL of a server with an ACL user is that user's, with that user's rights."""
    user = User("crawler", rules="~mine:* +get +set +ping")
    with servers.redis_server(binary, user=user) as server, redis.Redis.from_url(server.url) as client:
        client.set("mine:a", "b")
        with pytest.raises(redis.exceptions.NoPermissionError):
            client.set("yours:a", "b")
        assert embedded.answers(server.admin_url)


@each_binary
def test_kill_and_restart(binary: str) -> None:
    """A killed server comes back at the same address, with its data if it had an append-only file."""
    for appendonly, kept in ((True, "b"), (False, None)):
        with servers.redis_server(binary, appendonly=appendonly, appendfsync="always") as server:
            with server.client() as client:
                client.set("a", "b")
            server.kill()
            assert not server.running
            assert not embedded.answers(server.url)
            server.restart()
            with server.client() as client:
                assert client.get("a") == kept


def test_stop_and_restart_while_running() -> None:
    """A server that was stopped can be started, and one that runs is killed first by a restart."""
    with servers.redis_server(appendonly=True) as server:
        with server.client() as client:
            client.set("a", "b")
        server.stop()
        server.start()
        first = server.pid
        server.restart()
        assert gone(first)
        with server.client() as client:
            assert client.get("a") == "b"


def test_pause_and_resume() -> None:
    """A paused server answers nothing until it is resumed, and a block may end while it is paused."""
    with servers.redis_server() as server:
        server.pause()
        with (
            redis.Redis.from_url(server.url, socket_timeout=0.1, retry=None) as client,
            pytest.raises(redis.TimeoutError),
        ):
            client.ping()
        server.resume()
        assert embedded.answers(server.url)
        server.pause()
        pid = server.pid
    assert gone(pid)


def test_extra_and_failure() -> None:
    """Extra lines are configuration, and a server that does not start is an error with its log."""
    with servers.redis_server(extra=["databases 3"]) as server, server.client() as client:
        assert client.config_get("databases") == {"databases": "3"}
    with pytest.raises(RuntimeError, match="no-such-setting"):
        servers.redis_server(extra=["no-such-setting 1"]).__enter__()


def test_binaries() -> None:
    """A server is asked for by name or path, and one that is not there is an error."""
    assert binaries()
    path = next(iter(binaries().values()))
    with servers.redis_server(path) as server:
        assert server.binary == path
    with pytest.raises(LookupError, match="memcached is not installed"):
        servers.redis_server("memcached").__enter__()


@pytest.mark.parametrize(("binary", "kill"), list(zip(binaries(), [True, False], strict=False)))
def test_sentinel_group(binary: str, kill: bool) -> None:
    """When the master of a group is killed or deposed, the sentinels agree on another, which has the data."""
    with servers.sentinel_group(binary) as group:
        addresses = ",".join(f"127.0.0.1:{sentinel.port}" for sentinel in group.sentinels)
        expected = f"redis+sentinel://:{ENCODED}@{addresses}/{group.name}?sentinel_password={ENCODED}"
        assert group.url == expected
        old = group.master
        assert old is group.servers[0]
        with old.client() as client:
            client.set("a", "b")
            assert client.execute_command("WAIT", 1, 5000) == 1
        new = group.failover(kill=kill)
        assert new is group.master
        assert new is not old
        assert old.running is not kill
        with new.client() as client:
            assert client.get("a") == "b"
            client.set("a", "c")


@pytest.mark.parametrize("binary", list(binaries())[-1:])  # one is enough: a cluster takes seconds to form
def test_cluster(binary: str) -> None:
    """A cluster has its slots shared among its nodes, and a hung one does not stop the others."""
    with servers.cluster(binary, shards=3) as cluster:
        addresses = ",".join(f"127.0.0.1:{node.port}" for node in cluster.nodes)
        assert cluster.url == f"redis+cluster://:{ENCODED}@{addresses}"
        keys = [f"key:{number}" for number in range(50)]
        for key in keys:
            with cluster.node_of(key).client() as client:
                client.set(key, "value")
        assert {cluster.node_of(key).port for key in keys} == {node.port for node in cluster.nodes}
        hung = cluster.nodes[-1]
        hung.pause()
        for key in keys:
            if (node := cluster.node_of(key)) is not hung:
                with node.client() as client:
                    assert client.get(key) == "value"


def test_tests_killed() -> None:
    """No server and no directory is left of a test process that was killed, a paused server neither."""
    script = """
import json, time
from tests import servers
with servers.redis_server() as one, servers.redis_server() as other:
    other.pause()
    nodes = one, other
    print(json.dumps([[node.pid, str(node.directory)] for node in nodes]), flush=True)
    time.sleep(100)
"""
    with subprocess.Popen(
        [sys.executable, "-c", script],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    ) as process:
        assert process.stdout is not None
        said = json.loads(process.stdout.readline())
        assert not any(gone(pid) for pid, _ in said)
        process.kill()
    until(lambda: all(gone(pid) for pid, _ in said), "the servers to end", timeout_s=30)
    until(
        lambda: not any(Path(path).exists() for _, path in said), "the end of their directories", timeout_s=30
    )


def test_until() -> None:
    """Waiting in vain is bounded, and says for what."""
    with pytest.raises(TimeoutError, match="in vain for rain"):
        until(lambda: False, "rain", timeout_s=0.01)
