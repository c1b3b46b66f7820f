"""An SSH server on loopback, of paramiko's, that serves a directory over SFTP as OpenSSH's does."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import paramiko
from paramiko import SFTPAttributes, SFTPHandle, SFTPServer, SFTPServerInterface
from paramiko.common import AUTH_FAILED, AUTH_SUCCESSFUL, OPEN_SUCCEEDED
from paramiko.sftp import SFTP_FAILURE


@dataclass
class Served:
    """Where it is, what it was asked, and by how many connections."""

    root: Path
    login: tuple[str, str]
    key: paramiko.PKey = field(default_factory=paramiko.ECDSAKey.generate)
    trusted: paramiko.PKey | None = None
    """The public key that may log in without the password."""
    port: int = 0
    asked: list[str] = field(default_factory=list)
    connections: int = 0
    passwords: list[str] = field(default_factory=list)
    broken: str = ""
    """The end of the path of what its disk cannot read."""
    stalls: threading.Event | None = None
    """What it waits for before it says what something is."""

    @property
    def known_hosts(self) -> str:
        """The line of a file of known hosts."""
        return f"[127.0.0.1]:{self.port} {self.key.get_name()} {self.key.get_base64()}\n"


@contextmanager
def serve(served: Served) -> Iterator[Served]:
    """Serve, until the block ends."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        served.port = listener.getsockname()[1]
        transports: list[paramiko.Transport] = []
        thread = threading.Thread(target=_accept, args=(listener, served, transports))
        thread.start()
        try:
            yield served
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()
            for transport in transports:
                transport.close()


def _accept(listener: socket.socket, served: Served, transports: list[paramiko.Transport]) -> None:
    with suppress(OSError):
        while True:
            connection, _ = listener.accept()
            served.connections += 1
            transport = paramiko.Transport(connection)
            transports.append(transport)
            transport.add_server_key(served.key)
            transport.set_subsystem_handler("sftp", SFTPServer, _files(served))
            with suppress(paramiko.SSHException, EOFError):
                transport.start_server(server=_Door(served))


class _Door(paramiko.ServerInterface):
    """Who may come in."""

    def __init__(self, served: Served) -> None:
        self._served = served

    def check_auth_password(self, username: str, password: str) -> int:
        """The one user, by its password."""
        self._served.passwords.append(password)
        is_known = (username, password) == self._served.login
        return AUTH_SUCCESSFUL if is_known else AUTH_FAILED

    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:
        """The same, by its key."""
        return AUTH_SUCCESSFUL if key == self._served.trusted else AUTH_FAILED

    def get_allowed_auths(self, username: str) -> str:
        """Both."""
        return "password,publickey"

    def check_channel_request(self, kind: str, chanid: int) -> int:
        """A session."""
        return OPEN_SUCCEEDED


def _files(served: Served) -> type[SFTPServerInterface]:
    """The files below a root, as the whole of a server's."""

    def place(path: str) -> str:
        return f"{served.root}{path}"

    class Files(SFTPServerInterface):
        """What is asked for."""

        def canonicalize(self, path: str) -> str:
            """Where it really is, also if it is not there."""
            real = os.path.realpath(place(path))
            return "/" + os.path.relpath(real, served.root).removeprefix(".").lstrip("/")

        def list_folder(self, path: str) -> list[SFTPAttributes] | int:
            """The entries, without following links."""
            served.asked.append(f"list {path}")
            try:
                return [
                    SFTPAttributes.from_stat(entry.stat(follow_symlinks=False), entry.name)
                    for entry in os.scandir(place(path))
                ]
            except OSError as error:
                return SFTPServer.convert_errno(error.errno or 0)

        def lstat(self, path: str) -> SFTPAttributes | int:
            """What is there."""
            if served.stalls is not None:
                served.stalls.wait()
            try:
                return SFTPAttributes.from_stat(os.lstat(place(path)))
            except OSError as error:
                return SFTPServer.convert_errno(error.errno or 0)

        def open(self, path: str, flags: int, attr: SFTPAttributes) -> SFTPHandle | int:
            """A file."""
            served.asked.append(f"open {path}")
            if served.broken and path.endswith(served.broken):
                return SFTP_FAILURE
            try:
                handle = SFTPHandle(flags)
                handle.readfile = Path(place(path)).open("rb")  # type: ignore[attr-defined] # noqa: SIM115 - it closes it
            except OSError as error:
                return SFTPServer.convert_errno(error.errno or 0)
            return handle

    return Files
