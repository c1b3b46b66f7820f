"""The crawler that a skilled user writes in an afternoon, as the peer that GCS is measured against.

    python -m benchmarks.handroll SEED [--concurrency 16] [--hosts FILE] [--ca FILE] [--gzip]

It follows links to every host, obeys robots.txt and keeps connections alive. It stores nothing, waits for
nobody, retries nothing and knows no traps. Its parts are the fastest that there are.
"""

from __future__ import annotations

import argparse
import asyncio  # noqa: TID251 - the peer is what one would write without this project, so here it is allowed
import ssl
from collections import defaultdict
from pathlib import Path

import ada_url
import httptools
from isal import isal_zlib
from protego import Protego
from selectolax.lexbor import LexborHTMLParser

SKIP = (".jpg", ".png", ".gif", ".pdf", ".css", ".js", ".zip", ".mp3", ".doc")
Connections = list[tuple[asyncio.StreamReader, asyncio.StreamWriter]]


class Answer:
    """What httptools calls while it reads an answer."""

    def __init__(self) -> None:
        self.headers: dict[bytes, bytes] = {}
        self.chunks: list[bytes] = []
        self.done = False
        self.on_body = self.chunks.append

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers[name.lower()] = value

    def on_message_complete(self) -> None:
        self.done = True


async def crawl(options: argparse.Namespace) -> None:  # noqa: C901 - a loop and its parts in one place
    """Crawl until there is nothing left."""
    lines = options.hosts.read_text().splitlines() if options.hosts else []
    names = {name: address for address, name in map(str.split, lines)}
    tls, coding = ssl.create_default_context(cafile=options.ca), "gzip" if options.gzip else "identity"
    queue, seen, idle = asyncio.Queue[str](), set[str](), defaultdict[str, Connections](list)
    robots: dict[str, asyncio.Task[Protego]] = {}

    def add(base: str | None, href: str) -> None:
        try:
            url = ada_url.join_url(base or href, href).partition("#")[0]
        except ValueError:
            return
        if url not in seen and url.startswith("http") and not url.lower().endswith(SKIP):
            seen.add(url)
            queue.put_nowait(url)

    async def get(url: str) -> tuple[int, dict[bytes, bytes], bytes]:
        scheme, _, netloc, path = url.split("/", 3)
        host, _, port = netloc.partition(":")
        free = idle[scheme + netloc]
        if not free:
            usual, context = (443, tls) if scheme == "https:" else (80, None)
            free.append(await asyncio.open_connection(names.get(host, host), port or usual, ssl=context,
                                                      server_hostname=host if context else None))  # fmt: skip
        reader, writer = free.pop()
        ask = f"GET /{path} HTTP/1.1\r\nHost: {netloc}\r\nUser-Agent: handroll\r\nAccept-Encoding: {coding}"
        writer.write(f"{ask}\r\n\r\n".encode())
        answer = Answer()
        parser = httptools.HttpResponseParser(answer)
        while not answer.done and (data := await reader.read(65536)):
            parser.feed_data(data)
        if answer.done and parser.should_keep_alive():
            free.append((reader, writer))
        else:
            writer.close()
        body, packed = b"".join(answer.chunks), b"content-encoding" in answer.headers
        return parser.get_status_code(), answer.headers, isal_zlib.decompress(body, 31) if packed else body

    async def load_robots(origin: str) -> Protego:
        status, _, body = await get(f"{origin}/robots.txt")
        return Protego.parse(body.decode(errors="replace") if status == 200 else "")

    async def visit(url: str) -> None:
        origin = url[: url.index("/", 8)]
        if origin not in robots:
            robots[origin] = asyncio.create_task(load_robots(origin))
        if not (await robots[origin]).can_fetch(url, "handroll"):
            return
        status, headers, body = await get(url)
        if 300 < status < 309:
            add(url, headers[b"location"].decode())
        elif status == 200 and b"html" in headers.get(b"content-type", b""):
            for link in LexborHTMLParser(body).css("a[href]"):
                href = link.attributes["href"]
                if href and href[0] != "#":
                    add(url, href)

    async def work() -> None:
        while True:
            url = await queue.get()
            try:
                await visit(url)
            except (OSError, ValueError, httptools.HttpParserError) as error:
                print("failed", url, repr(error))
            queue.task_done()

    add(None, options.seed)
    workers = [asyncio.create_task(work()) for _ in range(options.concurrency)]
    await queue.join()
    del workers  # which asyncio.run cancels


if __name__ == "__main__":
    usage = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    usage.add_argument("seed")
    usage.add_argument("--concurrency", type=int, default=16)
    usage.add_argument("--hosts", type=Path)
    usage.add_argument("--ca", type=Path)
    usage.add_argument("--gzip", action="store_true")
    asyncio.run(crawl(usage.parse_args()))
