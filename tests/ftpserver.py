"""A real FTP server on loopback: pyftpdlib, in a thread, over a directory."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

with warnings.catch_warnings():
    # It stands on what Python 3.12 has no more; there it brings that itself.
    warnings.simplefilter("ignore", DeprecationWarning)
    from pyftpdlib.authorizers import DummyAuthorizer
    from pyftpdlib.handlers import FTPHandler, TLS_FTPHandler
    from pyftpdlib.ioloop import IOLoop
    from pyftpdlib.servers import FTPServer


@dataclass
class Served:
    """Where it is, and what it was asked."""

    port: int = 0
    asked: list[str] = field(default_factory=list)
    connections: int = 0
    most_at_once: int = 0


@contextmanager
def serve(
    root: Path,
    *,
    login: tuple[str, str] | None = None,
    certificate: Path | None = None,
    without: Sequence[str] = (),
    elsewhere: str = "",
    hangs_up_after: int | None = None,
) -> Iterator[Served]:
    """Serve a directory to anybody, or to who logs in; `without` some commands that old servers do not know.

    With a certificate it knows TLS. `elsewhere` is the address that it names for transfers.
    """
    served = Served()
    authorizer = DummyAuthorizer()
    if login is None:
        authorizer.add_anonymous(str(root))
    else:
        authorizer.add_user(*login, str(root))

    class Handler(TLS_FTPHandler if certificate else FTPHandler):  # type: ignore[misc]
        """One connection."""

        use_sendfile = False
        auth_failed_timeout = 0

        def on_connect(self) -> None:
            """Count it."""
            self.count = 0
            served.connections += 1
            served.most_at_once = max(served.most_at_once, len(server.handlers()))

        def pre_process_command(self, line: str, cmd: str, arg: str) -> None:
            """Note it, and answer."""
            served.asked.append(line)
            self.count += 1
            super().pre_process_command(line, cmd, arg)
            if self.count == hangs_up_after:
                self.close_when_done()

    Handler.authorizer = authorizer
    Handler.proto_cmds = {name: how for name, how in Handler.proto_cmds.items() if name not in without}
    if certificate is not None:
        Handler.certfile = str(certificate)
    if elsewhere:
        Handler.masquerade_address = elsewhere
    loop = IOLoop()
    server: Any = _Server(("127.0.0.1", 0), Handler, ioloop=loop)
    served.port = server.address[1]
    over = threading.Event()
    thread = threading.Thread(target=_run, args=(loop, over))
    thread.start()
    try:
        yield served
    finally:
        over.set()
        thread.join()
        server.close_all()


class _Server(FTPServer):  # type: ignore[misc]
    """One that tells its connections."""

    def handlers(self) -> list[object]:
        """Those of control connections that are open."""
        return list(self.ip_map)


def _run(loop: Any, over: threading.Event) -> None:
    while not over.is_set():
        loop.loop(timeout=0.01, blocking=False)
