"""How fast `gcs crawl` is beside a peer, judged by what the server of a synthetic web saw.

    python -m benchmarks.crawl [--pages 3000] [--seeds 7 8 9] [--pairs 1] [--settings KEY=VALUE …] [--tls]
                               [--gzip] [--quick] [--json] [--server auto] [--peer CMD] [--crawler CMD]

The web is plain, so that a simple crawler gets through it, and is served by a process of its own on the last
core: by nginx from files that are written before, if nginx is installed, else by `gcs.simulate.webserver`.
Crawler and peer take turns, and who begins changes with every pair: read the ratio, which is the median over
the pairs, and not the absolute figures. The peer is `benchmarks.handroll`, or any command with `{seed}` for
the start page, `{hosts}` for a hosts file, `{names}` for a file of host names, `{ca}` for the authority to
trust and `{into}` for an empty directory. CPU time and memory are those of the command and all below it.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.parse import unquote

import trustme

from gcs.simulate.verdict import judge
from gcs.simulate.web import Answer, Host, Web

_SAMPLE_EVERY_S = 0.1
_SETTLE_S = 0.5
_PAGE_BYTES = resource.getpagesize()
_TICKS = os.sysconf("SC_CLK_TCK")
_NGINX = """
worker_processes 1; worker_rlimit_nofile 20000; daemon off; pid {d}/pid; error_log {d}/error.log error;
events {{ worker_connections 8000; multi_accept on; }}
http {{
  default_type text/html; types {{ application/pdf pdf; application/zip zip; audio/mpeg mp3; image/png png;
    image/jpeg jpg; image/gif gif; application/msword doc; text/plain txt; text/css css; }}
  sendfile on; tcp_nopush on; tcp_nodelay on; keepalive_timeout 60; keepalive_requests 1000000;
  map_hash_max_size 65536; map_hash_bucket_size 256; gzip {gzip}; gzip_comp_level 1; gzip_min_length 200;
  client_body_temp_path {d}/t1; proxy_temp_path {d}/t2; fastcgi_temp_path {d}/t3; uwsgi_temp_path {d}/t4;
  scgi_temp_path {d}/t5;
  log_format gcs '$msec $request_time $host $request_uri $status $body_bytes_sent $http_user_agent';
  access_log {d}/access.log gcs buffer=64k flush=100ms;
  map $host$uri $where {{ default ""; include {d}/where.conf; }}
  server {{ include {d}/listen.conf; server_name _; root {d}/web/$host; {tls}
    location /go/ {{ if ($where) {{ return 302 $where; }} return 404; }}
    location / {{ try_files $uri$is_args$args $uri $uri/index.html =404; }} }} }}
"""


@dataclass(frozen=True, slots=True)
class Run:
    """One crawl: what the server saw of it, and what it cost."""

    who: str
    seed: int
    exit: int
    coverage: float
    duplicates: int
    forbidden: int
    pages: int
    wall_s: float
    cpu_s: float
    memory_mb: float

    @property
    def per_s(self) -> float:
        """Pages per second."""
        return self.pages / self.wall_s

    @property
    def per_cpu_s(self) -> float:
        """Pages per second of CPU time."""
        return self.pages / self.cpu_s


@dataclass(frozen=True, slots=True)
class Site:
    """A web that is being served, and where the files are that a command is told of."""

    web: Web
    log: Path
    places: Mapping[str, str]


class Meter:
    """CPU time and memory of a process and all below it, sampled until it is stopped.

    A process that ended in between counts with what it had used when it was last seen.
    """

    def __init__(self, root: int) -> None:
        self.root = root
        self.memory_bytes = 0
        self._cpu_s: dict[int, float] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    @property
    def cpu_s(self) -> float:
        """CPU seconds of all processes together."""
        return sum(self._cpu_s.values())

    def stop(self) -> None:
        """Sample no more."""
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(_SAMPLE_EVERY_S):
            self._sample()

    def _sample(self) -> None:
        parents, memory, cpu = {}, {}, {}
        for pid, fields in _processes():
            parents[pid] = int(fields[1])
            cpu[pid] = (int(fields[11]) + int(fields[12])) / _TICKS
            memory[pid] = int(fields[21]) * _PAGE_BYTES
        below = _below(self.root, parents)
        self.memory_bytes = max(self.memory_bytes, sum(memory.get(pid, 0) for pid in below))
        self._cpu_s |= {pid: cpu[pid] for pid in below if pid in cpu}


def tree_cpu_s(root: int) -> float:
    """CPU seconds of a process so far, and of all that it has started, ended or not."""
    parents, cpu = {}, {}
    for pid, fields in _processes():
        parents[pid] = int(fields[1])
        cpu[pid] = sum(int(field) for field in fields[11:15]) / _TICKS
    return sum(cpu[pid] for pid in _below(root, parents) if pid in cpu)


def _below(root: int, parents: Mapping[int, int]) -> set[int]:
    """A process and all that come from it."""
    below, size = {root}, 0
    while len(below) > size:
        size = len(below)
        below |= {pid for pid, parent in parents.items() if parent in below}
    return below


def _processes() -> Iterator[tuple[int, list[str]]]:
    """Each process with the fields of its /proc/PID/stat that follow the name."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                text = (entry / "stat").read_text()
            except OSError:
                continue
            yield int(entry.name), text.rpartition(")")[2].split()


def run(who: str, command: Sequence[str], site: Site, seed: int) -> Run:
    """Run a crawler to its end, and judge it by the lines that the server's log has grown by."""
    before = site.log.stat().st_size if site.log.exists() else 0
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    with tempfile.TemporaryDirectory(prefix="gcs-bench-") as into:
        filled = [_filled(part, {**site.places, "into": f"{into}/crawl"}) for part in command]
        started = time.monotonic()
        with subprocess.Popen(filled, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as child:
            meter = Meter(child.pid)
            _, complaint = child.communicate()
            wall_s = time.monotonic() - started
            meter.stop()
    if child.returncode:
        print(f"{who} ended with {child.returncode}: {complaint[-2000:]}", file=sys.stderr)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    waited_for_s = after.ru_utime + after.ru_stime - used.ru_utime - used.ru_stime
    time.sleep(_SETTLE_S)  # until the server has written its log
    verdict = judge(_grown(site.log, before), site.web, sitemaps=False)
    return Run(
        who,
        seed,
        child.returncode,
        verdict.coverage,
        verdict.duplicates,
        sum(verdict.forbidden.values()),
        verdict.pages,
        wall_s,
        # What was waited for is exact, but leaves out what nobody waited for; samples miss the last moment.
        max(waited_for_s, meter.cpu_s),
        meter.memory_bytes / 1e6,
    )


def _filled(part: str, places: Mapping[str, str]) -> str:
    for name, value in places.items():
        part = part.replace(f"{{{name}}}", value)
    return part


def _grown(log: Path, before: int) -> Path:
    """A file of what was added to a log."""
    part = log.with_suffix(".part")
    with log.open("rb") as stream:
        stream.seek(before)
        part.write_bytes(stream.read())
    return part


@contextmanager
def served(seed: int, options: argparse.Namespace, into: Path) -> Iterator[Site]:
    """Serve a plain web in a process of its own."""
    share = 1.0 if options.gzip else 0.0
    web = Web(seed, options.hosts, options.pages, plain=True, gzip=share, https=1.0 if options.tls else 0.0)
    certificate = _certificate(web, into) if options.tls else None
    use_nginx = options.server == "nginx" or (options.server == "auto" and shutil.which("nginx"))
    with (_nginx if use_nginx else _python)(web, options, into, certificate) as (at, log):
        names = into / "names"
        hosts = into / "hosts"
        hosts.write_text(at.hosts_file())
        names.write_text("".join(f"{host.name}\n" for host in at.hosts))
        at.reachable(sitemaps=False)  # now, so that no run waits for it
        places = {"seed": at.seeds[0], "hosts": str(hosts), "names": str(names), "ca": str(into / "ca.pem")}
        yield Site(at, log, places)


def _certificate(web: Web, into: Path) -> tuple[Path, Path]:
    """A certificate for every host, by an authority that is in `ca.pem`."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(into / "ca.pem")
    issued = authority.issue_cert(*[host.name for host in web.hosts])
    issued.private_key_pem.write_to_path(into / "key.pem")
    (into / "cert.pem").write_bytes(b"".join(pem.bytes() for pem in issued.cert_chain_pems))
    return into / "cert.pem", into / "key.pem"


def _pinned(command: Sequence[str]) -> list[str]:
    """A command on the last core, if there are several and it can be said."""
    cores = os.cpu_count() or 1
    if cores == 1 or not shutil.which("taskset"):
        return list(command)
    return ["taskset", "-c", str(cores - 1), *command]


@contextmanager
def _python(
    web: Web, options: argparse.Namespace, into: Path, certificate: tuple[Path, Path] | None
) -> Iterator[tuple[Web, Path]]:
    command = [sys.executable, "-m", "gcs.simulate.webserver", "--plain", "--into", str(into)]
    command += ["--seed", str(web.seed), "--hosts", str(options.hosts), "--pages", str(options.pages)]
    command += ["--gzip", "1" if options.gzip else "0", "--https", "1" if options.tls else "0"]
    if certificate:
        command += ["--cert", str(certificate[0]), "--key", str(certificate[1])]
    with subprocess.Popen(_pinned(command), stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            said = json.loads(server.stdout.readline())
            yield web.at(said["port"]), Path(said["log"])
        finally:
            server.terminate()


@contextmanager
def _nginx(
    web: Web, options: argparse.Namespace, into: Path, certificate: tuple[Path, Path] | None
) -> Iterator[tuple[Web, Path]]:
    web = web.at(options.port)
    into.chmod(0o755)  # nginx's worker is another user
    render(web, into)
    tls = ""
    if certificate is not None:
        tls = f"ssl_certificate {certificate[0]}; ssl_certificate_key {certificate[1]};"
    configuration = into / "nginx.conf"
    configuration.write_text(_NGINX.format(d=into, gzip="on" if options.gzip else "off", tls=tls))
    with subprocess.Popen(_pinned(["nginx", "-p", str(into), "-c", str(configuration)])) as server:
        try:
            _await_file(into / "access.log")
            yield web, into / "access.log"
        finally:
            server.terminate()


def _await_file(path: Path) -> None:
    for _ in range(200):
        if path.exists():
            return
        time.sleep(0.05)
    raise TimeoutError(f"nginx did not start; see {path.parent}/error.log")


def render(web: Web, into: Path) -> None:
    """Write a plain web as files for nginx, and its redirects and addresses for the configuration."""
    where, listen = [], []
    for host in web.hosts:
        tls = " ssl" if host.scheme == "https" else ""
        listen.append(f"listen {host.address}:{web.port}{tls} backlog=4096;\n")
        for target in _targets(web, host):
            answer = web.respond(host.name, target)
            if answer.status == 200:
                _write(into / "web" / host.name, target, answer)
            elif 300 <= answer.status < 400:
                where.append(f'"{host.name}{target}" "{dict(answer.headers)["Location"]}";\n')
    (into / "where.conf").write_text("".join(where))
    (into / "listen.conf").write_text("".join(listen))


def _targets(web: Web, host: Host) -> Iterator[str]:
    yield from ("/robots.txt", "/static/style.css", "/static/app.js")
    yield from (web.path(number) for number in range(host.size))
    for number in range(host.extras):
        yield from (f"/go/{number}", f"/private/{number}.html")
        yield from (f"/files/{number}.{kind}" for kind in ("pdf", "zip", "mp3", "doc"))
        yield from (f"/img/{number}.{kind}" for kind in ("png", "jpg", "gif"))


def _write(root: Path, target: str, answer: Answer) -> None:
    path, question, query = target.partition("?")
    name = unquote(path)[1:] + question + query
    file = root / (f"{name}index.html" if target.endswith("/") else name)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(answer.body)


def _crawler(options: argparse.Namespace) -> list[str]:
    if options.crawler:
        return shlex.split(options.crawler)
    settings = ["fetch.allow=127.0.0.0/8", "fetch.hosts={hosts}", "fetch.delay=0s"]
    settings += ["fetch.tls_ca={ca}"] if options.tls else []
    given = [part for setting in [*settings, *options.settings] for part in ("-s", setting)]
    return [
        str(Path(sys.executable).parent / "gcs"),
        "crawl",
        "{seed}",
        "--into",
        "{into}",
        "-n",
        "1",
        *given,
    ]


def _peer(options: argparse.Namespace) -> list[str]:
    if options.peer:
        return shlex.split(options.peer)
    extra = ["--gzip"] if options.gzip else []
    extra += ["--ca", "{ca}"] if options.tls else []
    return [sys.executable, "-m", "benchmarks.handroll", "{seed}", "--hosts", "{hosts}", *extra]


def measure(options: argparse.Namespace) -> list[tuple[Run, Run]]:
    """The pairs of runs, crawler first and peer second, in whatever order they ran."""
    pairs: list[tuple[Run, Run]] = []
    commands = {"crawler": _crawler(options), "peer": _peer(options)}
    for seed in options.seeds:
        with (
            tempfile.TemporaryDirectory(prefix="gcs-bench-web-") as directory,
            served(seed, options, Path(directory)) as site,
        ):
            for _ in range(options.pairs):
                order = ["crawler", "peer"] if len(pairs) % 2 == 0 else ["peer", "crawler"]
                runs = {who: run(who, commands[who], site, seed) for who in order}
                pairs.append((runs["crawler"], runs["peer"]))
    return pairs


def summary(pairs: Sequence[tuple[Run, Run]]) -> dict[str, float]:
    """The medians over the pairs of what the crawler does for each that the peer does."""
    return {
        "pages_per_cpu_s": statistics.median(ours.per_cpu_s / peer.per_cpu_s for ours, peer in pairs),
        "pages_per_s": statistics.median(ours.per_s / peer.per_s for ours, peer in pairs),
        "memory": statistics.median(ours.memory_mb / peer.memory_mb for ours, peer in pairs),
    }


def _table(pairs: Sequence[tuple[Run, Run]]) -> None:
    titles = ("seed", "who", "exit", "coverage", "duplicates", "forbidden", "pages/s", "pages/CPU s", "MB")
    print("  ".join(f"{title:>11}" for title in titles))
    for each in (run for pair in pairs for run in pair):
        seen = (each.seed, each.who, each.exit, f"{each.coverage:.4f}", each.duplicates, each.forbidden)
        cells = (*seen, f"{each.per_s:.0f}", f"{each.per_cpu_s:.0f}", f"{each.memory_mb:.0f}")
        print("  ".join(f"{cell:>11}" for cell in cells))
    ratio = summary(pairs)
    print(
        f"\nratio, median of {len(pairs)} pairs: {ratio['pages_per_cpu_s']:.2f} in pages per CPU second, "
        f"{ratio['pages_per_s']:.2f} in pages per second, {ratio['memory']:.2f} in memory"
    )


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pages", type=int, default=3000)
    parser.add_argument("--hosts", type=int, default=100)
    parser.add_argument("--seeds", type=int, nargs="+", default=[7, 8, 9])
    parser.add_argument("--pairs", type=int, default=1, help="pairs of runs for each seed")
    parser.add_argument(
        "--settings", nargs="*", default=[], metavar="KEY=VALUE", help="further settings for gcs"
    )
    parser.add_argument("--tls", action="store_true", help="all hosts are https")
    parser.add_argument("--gzip", action="store_true", help="all hosts compress for who accepts it")
    parser.add_argument("--server", choices=("auto", "nginx", "python"), default="auto")
    parser.add_argument("--port", type=int, default=8098, help="where nginx listens")
    parser.add_argument("--peer", help="another peer's command")
    parser.add_argument("--crawler", help="another command in place of gcs crawl")
    parser.add_argument("--quick", action="store_true", help="one pair over 300 pages, to see that it works")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(argv)
    if options.quick:
        options.pages, options.hosts, options.seeds, options.pairs = 300, 20, options.seeds[:1], 1
    return options


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, and print what came out."""
    options = _options(argv)
    pairs = measure(options)
    if options.json:
        rows = [
            {**asdict(each), "per_s": each.per_s, "per_cpu_s": each.per_cpu_s} for p in pairs for each in p
        ]
        print(json.dumps({"runs": rows, "ratio": summary(pairs)}))
    else:
        _table(pairs)


if __name__ == "__main__":
    main()
