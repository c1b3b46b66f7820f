"""A web on loopback in which every page but the first is named by exactly one other, of another host."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

CHILDREN = 3
Write = Callable[[int, str], bytes]
"""A page, by its number and the links that it must have."""


def plain(page: int, links: str) -> bytes:
    """A page with a title, and nothing but links."""
    return f"<title>Page {page}</title><p>{links}".encode()


@dataclass
class TreeWeb:
    """Pages 0 … n - 1; page k names pages 3k + 1 … 3k + 3."""

    pages: int
    names: Sequence[str]
    """Of the hosts, which have the pages in turn."""
    hosts: Path
    """The file with the hosts' addresses."""
    write: Write = plain
    port: int = 0
    fetched: list[int] = field(default_factory=list)

    def url(self, page: int) -> str:
        """Where a page is."""
        return f"http://{self.names[page % len(self.names)]}:{self.port}/{page}"

    def body(self, page: int) -> bytes:
        """What stands there."""
        children = range(CHILDREN * page + 1, min(CHILDREN * page + CHILDREN + 1, self.pages))
        links = "".join(f'<a href="{self.url(child)}">{child}</a> ' for child in children)
        return self.write(page, links)


@contextmanager
def serve(place: Path, *, pages: int, hosts: int | Sequence[str], write: Write = plain) -> Iterator[TreeWeb]:
    """Serve one, with so many hosts or with those that are named, from threads of this process."""
    names = [f"h{number}.example" for number in range(hosts)] if isinstance(hosts, int) else hosts
    web = TreeWeb(pages, names, place, write)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            page = self.path.removeprefix("/")
            is_page = page.isdecimal() and int(page) < pages
            if is_page:
                web.fetched.append(int(page))
            body = web.body(int(page)) if is_page else b""
            self.send_response(200 if is_page else 404)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """The list is enough."""

    class Listener(ThreadingHTTPServer):
        request_queue_size = 128

        def handle_error(self, *_: object) -> None:
            """Whoever is killed says no good-bye."""

    with Listener(("127.0.0.1", 0), Handler) as listener:
        web.port = listener.server_address[1]
        place.write_text("".join(f"127.0.0.1 {name}\n" for name in names))
        threading.Thread(target=listener.serve_forever, daemon=True).start()
        try:
            yield web
        finally:
            listener.shutdown()
