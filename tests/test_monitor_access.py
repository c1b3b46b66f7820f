"""Who may ask the monitor what: sessions, roles, where changes come from, names, tokens; over real HTTP."""

from __future__ import annotations

import json
import re
import signal
import socket
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from gcs.errors import ExitCode
from tests import servers
from tests.crawling import ROOT, command, gcs
from tests.manager import manager
from tests.monitors import READ, Monitor, events, monitor, until
from tests.servers import Node

WRONG = {"authorization": "Bearer wrong"}


@pytest.fixture(scope="module")
def redis() -> Iterator[Node]:
    """A Redis without any crawl."""
    with servers.redis_server("redis") as node:
        yield node


@pytest.fixture(scope="module")
def page(redis: Node, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Monitor]:
    """A monitor that sees nobody."""
    with monitor(redis.url, tmp_path_factory.mktemp("monitor")) as one:
        until(lambda: one.get("overview")["state"] == "stuck")
        yield one


def test_nobody_sees_anything_without_a_session(page: Monitor) -> None:
    """Without a token there is the page and the way to sign in, and nothing of the crawl."""
    with page.client() as client:
        for path in READ:
            assert client.get(path).status_code == httpx.codes.UNAUTHORIZED, path
        assert client.get("stream").status_code == httpx.codes.UNAUTHORIZED
        assert client.get("session").json() == dict.fromkeys(("role", "crawl", "version", "expires_at"))
        assert client.get("openapi.json").json()["openapi"].startswith("3.1")
        assert client.get("../").headers["content-type"].startswith("text/html")
        assert client.get("nothing").status_code == httpx.codes.UNAUTHORIZED
        assert client.get("../static/../keys.py").status_code == httpx.codes.NOT_FOUND
    with page.client("view") as client:
        for path in READ:
            assert client.get(path).status_code == httpx.codes.OK, path
        assert client.get("nothing").status_code == httpx.codes.NOT_FOUND


def with_cookies(one: Monitor, cookies: dict[str, str]) -> int:
    """How a request with some cookies is answered."""
    headers = {"cookie": "; ".join(f"{name}={value}" for name, value in cookies.items())}
    return httpx.get(f"{one.url}api/overview", headers=headers).status_code


def test_a_session(page: Monitor) -> None:
    """Who signs in gets a cookie that is for our page only, and events, until it signs out."""
    origin = page.url.rstrip("/")
    with httpx.Client(base_url=f"{page.url}api/", headers={"origin": origin}) as client:
        wrong = client.post("session", json={"token": "wrong"})
        assert (wrong.status_code, wrong.json()) == (401, {"error": "This token is wrong."})
        said = client.post("session", json={"token": page.tokens["view"]})
        assert said.json()["role"] == "view"
        cookie = said.headers["set-cookie"]
        for part in ("HttpOnly", "SameSite=strict", "Path=/"):
            assert part in cookie
        assert client.get("overview").status_code == 200
        refused = client.post("pause", json={})
        assert (refused.status_code, "needs operate" in refused.text) == (403, True)
        kept = dict(client.cookies)
        with client.stream("GET", "stream") as heard, page.client("view") as other:
            lines = heard.iter_lines()
            assert events(lines, ["overview"])
            with other.stream("GET", "stream") as still_heard:
                still = still_heard.iter_lines()
                assert events(still, ["overview"])
                assert client.request("DELETE", "session").status_code == 204
                assert len(list(lines)) < 100
                assert events(still, ["history"])
        assert with_cookies(page, kept) == 401
        forged = {name: value.replace("view", "operate", 1) for name, value in kept.items()}
        assert with_cookies(page, forged) == 401


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 403),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-site", "origin": "OWN"}, 403),
        ({"sec-fetch-site": "same-origin", "origin": "http://evil.example"}, 403),
        ({"sec-fetch-site": "same-origin"}, 400),
        ({"origin": "OWN"}, 400),
    ],
)
def test_where_changes_come_from(page: Monitor, headers: dict[str, str], status: int) -> None:
    """A change with a cookie has to come from the monitor's own page; its body is looked at only then."""
    own = page.url.rstrip("/")
    with httpx.Client(base_url=f"{page.url}api/") as client:
        client.post("session", json={"token": page.tokens["operate"]}, headers={"origin": own})
        told = {name: own if value == "OWN" else value for name, value in headers.items()}
        assert client.post("pause", json={"what": "nothing"}, headers=told).status_code == status


def test_a_token_that_says_nothing(page: Monitor) -> None:
    """It does not let a change with a cookie come from nowhere."""
    cookie = cookie_of(page, "operate")
    for said in ("Bearer", "bearer", "Basic"):
        headers = {"authorization": said, "cookie": cookie}
        answered = httpx.post(f"{page.url}api/pause", json={"what": "nothing"}, headers=headers)
        assert answered.status_code == 403, said


def test_a_password_beside_a_session(page: Monitor) -> None:
    """A password is for what cannot sign in, and takes nothing from who has signed in."""
    password, cookie = ("", page.tokens["view"]), cookie_of(page, "operate")
    headers = {"cookie": cookie, "origin": page.url.rstrip("/")}
    said = httpx.get(f"{page.url}api/session", auth=password, headers=headers).json()
    assert said["role"] == "operate"
    changed = httpx.post(f"{page.url}api/pause", auth=password, headers=headers, json={"what": "nothing"})
    assert changed.status_code == 400
    assert httpx.get(f"{page.url}api/overview", auth=password).status_code == 401
    assert httpx.get(f"{page.url}api/places.kml", auth=password).status_code == 200
    wrong = httpx.get(f"{page.url}api/places.kml", auth=("", "wrong"), headers=headers)
    assert wrong.status_code == 200


@pytest.mark.parametrize(
    "cookies",
    ['prefs={"a":1}; OURS', "OURS; =;;b@d", "NAME=old.1.x.y; OURS", "OURS; NAME=", "a; OURS"],
)
def test_cookies_of_others(page: Monitor, cookies: str) -> None:
    """Whatever else a browser sends along, a session is found."""
    ours = cookie_of(page, "view")
    headers = {"cookie": cookies.replace("OURS", ours).replace("NAME", ours.partition("=")[0])}
    assert httpx.get(f"{page.url}api/overview", headers=headers).status_code == 200


def test_two_monitors_of_one_host(page: Monitor, redis: Node, tmp_path: Path) -> None:
    """Their cookies have names of their own, as a browser sends them to both, and each finds its session."""
    with monitor(redis.url, tmp_path) as other:
        cookies = "; ".join(cookie_of(each, "view") for each in (page, other))
        for each in (page, other):
            assert httpx.get(f"{each.url}api/session", headers={"cookie": cookies}).json()["role"] == "view"
            named = each.get("openapi.json")["components"]["securitySchemes"]["session"]["name"]
            assert f"{named}=" in cookies


def cookie_of(one: Monitor, role: str) -> str:
    """What a browser sends for who has signed in."""
    said = httpx.post(
        f"{one.url}api/session", json={"token": one.tokens[role]}, headers={"origin": one.url.rstrip("/")}
    )
    return said.headers["set-cookie"].partition(";")[0]


def test_what_changes_look_like(page: Monitor) -> None:
    """A form cannot be sent, nor too much, nor what nobody asked for."""
    with page.client("operate") as client:
        assert client.post("pause", data={"what": "crawl"}).status_code == 415
        assert client.post("seeds", json={"urls": ["http://x.test/" + "y" * 300_000]}).status_code == 413
        for body in (
            b'{"what": "crawl", "name": "x"}',
            b'{"what": "host"}',
            b'{"wrong": 1}',
            b"[]",
            b"{",
            b"\xff",
        ):
            said = client.post("pause", content=body, headers={"content-type": "application/json"})
            assert said.status_code == 400, body
        assert client.get("pause").status_code == 405
        assert client.get("hosts", params={"order": "wrong"}).status_code == 400
        assert client.get("events", params={"most": "-1"}).status_code == 400


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "", "a b", "localhost:1:2"])
def test_other_names(page: Monitor, host: str) -> None:
    """A page elsewhere that has bound our address to its own name gets nothing, not even the page."""
    with page.client("view") as client:
        for path in ("overview", "../", "session"):
            assert client.get(path, headers={"host": host}).status_code in (400, 421), path
        assert client.get("overview", headers={"host": "localhost:1234"}).status_code == 200


def test_every_answer_is_guarded(page: Monitor) -> None:
    """Whatever is answered, no browser runs what is not ours, shows it in a frame, or guesses its type."""
    with page.client("view") as client:
        for path in ("overview", "../", "nothing", "../static/nothing", "why?url=:", "pause"):
            headers = client.get(path).headers
            policy = headers["content-security-policy"]
            assert "default-src 'none'" in policy
            assert "unsafe" not in policy
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["x-frame-options"] == "DENY"
            assert headers["referrer-policy"] == "no-referrer"
            assert "server" not in headers


def test_tokens_are_kept_from_others(page: Monitor, redis: Node, tmp_path: Path) -> None:
    """Only their owner can read them, and a file that others could read is refused."""
    path = page.directory / "tokens.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert len({*json.loads(path.read_text()).values()}) == 3
    (tmp_path / "tokens.json").write_text(path.read_text())
    (tmp_path / "tokens.json").chmod(0o644)
    refused = gcs("monitor", "--into", str(tmp_path), "-s", f"redis.url={redis.url}")
    assert (refused.returncode, "others can read it" in refused.stderr) == (ExitCode.CONFIG, True)


def test_under_a_path(redis: Node, tmp_path: Path) -> None:
    """Behind a proxy everything is below one path, under the proxy's name, and so is the cookie."""
    settings = ["monitor.path=/crawl/", "monitor.hosts=crawl.example.org"]
    with monitor(redis.url, tmp_path, *settings) as below:
        assert below.url.endswith("/crawl/")
        root = below.url.removesuffix("crawl/")
        assert httpx.get(f"{root}crawl").headers["location"] == "/crawl/"
        assert httpx.get(f"{root}api/session").status_code == 404
        headers = {"host": "crawl.example.org", "origin": "https://crawl.example.org"}
        said = httpx.post(f"{below.url}api/session", json={"token": below.tokens["view"]}, headers=headers)
        assert "Path=/crawl/" in said.headers["set-cookie"]
        assert "Secure" in said.headers["set-cookie"]
        assert with_cookies(below, dict(said.cookies)) == 200
        assert httpx.get(below.url, headers={"host": "other.example.org"}).status_code == 421


def test_trying_tokens(redis: Node, tmp_path: Path) -> None:
    """Who tries wrong tokens has to wait, and so has who signs in, but no request with a right one."""
    with monitor(redis.url, tmp_path) as guarded, guarded.client() as client:
        statuses = [client.get("overview", headers=WRONG).status_code for _ in range(12)]
        assert statuses == [*[401] * 10, 429, 429]
        assert client.get("overview", headers=WRONG).headers["retry-after"].isdigit()
        assert client.get("places.kml", auth=("", "wrong")).status_code == 429
        token, origin = guarded.tokens["view"], guarded.url.rstrip("/")
        signed_in = client.post("session", json={"token": token}, headers={"origin": origin})
        assert signed_in.status_code == 429
        assert guarded.get("overview", role="view")["state"]
        assert client.get("places.kml", auth=("", token)).status_code == 200


def test_a_client_that_reads_nothing(redis: Node, tmp_path: Path) -> None:
    """Somebody who listens and reads nothing is cut off, and holds up nobody."""
    with monitor(redis.url, tmp_path, "metrics.listen=unix:" + str(tmp_path / "metrics")) as one:
        host, port = re.findall(r"//(.*):(\d+)/", one.url)[0]
        with socket.create_connection((host, int(port))) as lazy:
            lazy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
            token = f"Authorization: Bearer {one.tokens['view']}"
            lazy.sendall(f"GET /api/stream HTTP/1.1\r\nHost: localhost\r\n{token}\r\n\r\n".encode())
            with httpx.Client(transport=httpx.HTTPTransport(uds=str(tmp_path / "metrics"))) as metrics:
                until(lambda: "gcs_monitor_listeners 1" in metrics.get("http://x/metrics").text)
                assert metrics.get("http://x/healthz").status_code == 200
            one.child.send_signal(signal.SIGTERM)
            one.child.wait(60)


def test_redis_that_was_never_there(tmp_path: Path) -> None:
    """A monitor starts without Redis, and says what is wrong; what needs it is refused."""
    with monitor("redis://127.0.0.1:1", tmp_path, "redis.timeout=1s") as alone:
        seen = until(lambda: not (it := alone.get("overview"))["reach"]["redis"] and it)
        assert seen["state"] == "unknown"
        assert "127.0.0.1:1" in seen["reach"]["sentence"]
        assert alone.get("tree")["nodes"] == []
        with alone.client("operate") as client:
            for said in (client.get("status"), client.get("seeds"), client.post("pause", json={})):
                assert said.status_code == 503, said.text


def test_under_a_manager(redis: Node, tmp_path: Path) -> None:
    """A manager is told that it runs and how it is, also while Redis is away; no token gets into its log."""
    line = command("monitor", "--into", str(tmp_path / "monitor"))
    for each in ("monitor.listen=127.0.0.1:0", f"redis.url={redis.url}", "member.heartbeat=200ms"):
        line += ["-s", each]
    with manager(str(tmp_path / "notify")) as listening:
        environment = listening.environment(watchdog_s=3.0)
        with subprocess.Popen(line, cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True) as child:
            listening.until(lambda said: said == {"READY": "1"})
            listening.until(
                lambda said: "no gatherer is there" in said.get("STATUS", "") and "WATCHDOG" in said
            )
            redis.pause()
            try:
                listening.until(lambda said: "Redis" in said.get("STATUS", "") and "WATCHDOG" in said)
            finally:
                redis.resume()
            child.terminate()
            _, log = child.communicate(timeout=90)
            assert child.returncode == 0
        assert listening.until(lambda said: "STOPPING" in said)
    kept = json.loads((tmp_path / "monitor" / "tokens.json").read_text())
    assert "monitor" in log
    assert not any(token in log for token in kept.values())
