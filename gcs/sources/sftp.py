"""Directories and files of SSH servers, over SFTP.

    sftp://host.example/srv/docs/           a directory, whose links are its entries; long ones in pieces
    sftp://host.example/srv/docs/a.txt      a file, as its bytes are

A server is asked by the guard's leave, and only if its key is in a file of known hosts: whoever stands
between is told no password. It is asked one thing at a time, in a thread, over one connection that is kept.
As with files of this machine, a path that leads over symbolic links is a redirect to where it really is, and
what is neither a file nor a directory is not opened. paramiko is imported only by a crawl that has such
servers.
"""

from __future__ import annotations

import errno
import logging
import socket
import stat
import struct
import time
from collections.abc import Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

import trio

from gcs.core.listings import is_name
from gcs.core.sources import Logins, after, beside, names, spelt
from gcs.errors import ConfigError
from gcs.fetch.outcome import Failure, Origin, Outcome, Reason
from gcs.sources.answers import HTML, PIECE, Conditions, Entry, page, piece, response, shown
from gcs.sources.ftpservers import Addresses

if TYPE_CHECKING:
    from paramiko import SFTPAttributes, SFTPClient, SSHClient

_STATUS: Final = {errno.EACCES: 403, errno.EPERM: 403, errno.ENOENT: 404, errno.ENOTDIR: 404}
_SETTLED_S: Final = 60.0
"""A time that is more recent proves nothing: there may be another change within it, and clocks differ."""
_LISTED_S: Final = 300.0
"""For how long the pieces of a directory are of one listing."""
_MOST_NAMES: Final = 1_000_000


class SftpServers:
    """SSH servers, each with the one connection that is kept to it."""

    def __init__(
        self,
        addresses: Addresses,
        logins: Logins,
        *,
        known_hosts: Path | None,
        key: Path | None,
        max_body_bytes: int,
        timeout_s: float,
    ) -> None:
        """`addresses` gives those of a host that may be asked; with a `key` of ours, passwords are for that.

        Raises ConfigError for what cannot be used.
        """
        if known_hosts is None:
            raise ConfigError(
                "sources.sftp needs sources.known_hosts: a file with the keys of servers, as ssh keeps them."
            )
        try:
            import paramiko
            from paramiko.hostkeys import InvalidHostKey
        except ImportError:
            raise ConfigError("sources.sftp needs paramiko: pip install 'gcs[sftp]'.") from None
        _check("known_hosts", known_hosts)
        try:
            paramiko.HostKeys(str(known_hosts))
        except (ValueError, InvalidHostKey):
            raise ConfigError(
                f"sources.known_hosts: {known_hosts} has a line that is not as ssh writes them."
            ) from None
        if key is not None:
            _check("ssh_key", key)
        # It says with tracebacks what is an answer here.
        logging.getLogger("paramiko").setLevel(logging.CRITICAL)
        self._addresses, self._logins = addresses, logins
        self._known_hosts, self._key = known_hosts, key
        self._max_body_bytes, self._timeout_s = max_body_bytes, timeout_s
        self._servers: dict[Origin, _Server] = {}

    async def fetch(self, url: str, conditions: Conditions) -> Outcome:
        """The answer to a canonical URL; when cancelled, the connection is closed, and so ends its thread."""
        origin, _ = Origin.split(url)
        found = await self._addresses(origin.host)
        if isinstance(found, Failure):
            return found
        if not found:
            return Failure(Reason.PROXY, "SSH servers are not asked through a proxy.")
        login = self._logins.at(origin.host, origin.port)
        if login is None:
            return Failure(Reason.CONNECT, f"sources.logins has no login for {origin.netloc}.")
        server = self._servers.get(origin)
        if server is None:
            server = self._servers[origin] = _Server(
                origin, login, self._known_hosts, self._key, self._max_body_bytes, self._timeout_s
            )
        try:
            return await trio.to_thread.run_sync(
                server.answer, url, conditions, found, abandon_on_cancel=True, limiter=server.limiter
            )
        except trio.Cancelled:
            # Others do not wait for the thread: it may be about to connect, which takes its time.
            if self._servers.get(origin) is server:
                del self._servers[origin]
            server.close()
            raise

    def close(self) -> None:
        """Close all connections."""
        for server in self._servers.values():
            server.close()


class _Server:
    """One of them; one thread at a time."""

    def __init__(
        self,
        origin: Origin,
        login: tuple[str, str],
        known_hosts: Path,
        key: Path | None,
        max_body_bytes: int,
        timeout_s: float,
    ) -> None:
        self._origin, self._login, self._known_hosts, self._key = origin, login, known_hosts, key
        self._max_body_bytes, self._timeout_s = max_body_bytes, timeout_s
        self.limiter = trio.CapacityLimiter(1)
        self._is_closed = False
        self._client: SSHClient | None = None
        self._files: SFTPClient | None = None
        self._listed: tuple[bytes, float, Sequence[bytes]] = (b"", 0.0, ())
        """The names of the directory in the middle of which somebody may be."""

    def answer(self, url: str, conditions: Conditions, addresses: Sequence[str]) -> Outcome:
        """The answer to a canonical URL, at once."""
        was_open = self._files is not None
        outcome = self._asked(url, conditions, addresses)
        if was_open and isinstance(outcome, Failure) and not self._is_closed:
            # The server may have closed a connection that was idle.
            outcome = self._asked(url, conditions, addresses)
        return outcome

    def _asked(self, url: str, conditions: Conditions, addresses: Sequence[str]) -> Outcome:
        from paramiko import SFTPError, SSHException

        try:
            files = self._files or self._connect(addresses)
            return self._answer(files, url, conditions)
        except (OSError, EOFError, SSHException, SFTPError, ValueError, struct.error) as error:
            if (status := self._status(error)) is not None:
                return response(status)
            is_odd_name = self._files is not None and isinstance(error, UnicodeDecodeError)
            self._drop()
            if is_odd_name:
                return response(500)  # paramiko cannot read it, and has left answers behind it unread
            why = "it took too long" if isinstance(error, TimeoutError) else str(error)
            why = why or type(error).__name__
            return Failure(Reason.CONNECT, f"The SSH server cannot be asked: {why.rstrip('.')}.")

    def _status(self, error: Exception) -> int | None:
        """What it means that a server refuses something; None where it is the connection that fails."""
        channel = self._files.get_channel() if self._files is not None else None
        if channel is None or channel.closed or not isinstance(error, OSError):
            return None
        # Whatever a server has no word for, such as an error of its disk, comes without a number.
        return 500 if type(error) is OSError and error.errno is None else _STATUS.get(error.errno or 0)

    def _connect(self, addresses: Sequence[str]) -> SFTPClient:
        from paramiko import RejectPolicy, SSHClient

        user, password = self._login
        self._client = client = SSHClient()
        client.load_system_host_keys(str(self._known_hosts))
        client.set_missing_host_key_policy(RejectPolicy())
        client.connect(
            self._origin.host,
            self._origin.port,
            username=user,
            password=None if self._key else password,
            key_filename=str(self._key) if self._key else None,
            passphrase=password if self._key else None,
            sock=self._socket(addresses),
            allow_agent=False,
            look_for_keys=False,
            timeout=self._timeout_s,
            banner_timeout=self._timeout_s,
            auth_timeout=self._timeout_s,
            channel_timeout=self._timeout_s,
        )
        if self._is_closed:
            raise EOFError("it is not asked any more")
        self._files = files = client.open_sftp()
        channel = files.get_channel()
        assert channel is not None
        channel.settimeout(self._timeout_s)
        return files

    def _socket(self, addresses: Sequence[str]) -> socket.socket:
        """A connection to the first address that answers; raises OSError."""
        port, share_s = self._origin.port, self._timeout_s / len(addresses)
        for address in addresses[:-1]:
            with suppress(OSError):
                return socket.create_connection((address, port), share_s)
        return socket.create_connection((addresses[-1], port), share_s)

    def close(self) -> None:
        """Close the connection for good; who asks over it is told so, and makes no other."""
        self._is_closed = True
        self._drop()

    def _drop(self) -> None:
        client, self._client, self._files = self._client, None, None
        if client is not None:
            client.close()

    # What is asked for

    def _answer(self, files: SFTPClient, url: str, conditions: Conditions) -> Outcome:
        steps = names(url)
        path = b"/" + b"/".join(steps if steps[-1] else steps[:-1])
        real = files.normalize(path).encode()
        info = files.lstat(real)
        mode = info.st_mode or 0
        if real != path or (stat.S_ISDIR(mode) and steps[-1]):
            slash = "/" * (stat.S_ISDIR(mode) and real != b"/")
            return response(301, location=beside(url, real) + slash)
        etag = _etag(info)
        if not (stat.S_ISDIR(mode) or stat.S_ISREG(mode)):
            return response(403)
        if stat.S_ISREG(mode) and not steps[-1]:
            return response(404)
        if etag and etag == conditions.etag:
            return response(304, etag=etag, modified=info.st_mtime)
        if stat.S_ISDIR(mode):
            return self._directory(files, path, after(url), etag, info)
        with files.open(real, "rb") as stream:
            stream.prefetch(min(info.st_size or 0, self._max_body_bytes + 1))
            body = stream.read(self._max_body_bytes + 1)
        cut = "length" if len(body) > self._max_body_bytes else ""
        body = body[: self._max_body_bytes]
        return response(200, body, etag=etag, modified=info.st_mtime, truncated=cut)

    def _directory(
        self, files: SFTPClient, path: bytes, since: bytes, etag: str, info: SFTPAttributes
    ) -> Outcome:
        of, at, listed = self._listed
        if not since or of != path or time.monotonic() - at > _LISTED_S:
            found = islice(files.listdir_iter(path), _MOST_NAMES)
            listed = sorted(_name(each) for each in found if is_name(each.filename.encode()))
            self._listed = path, time.monotonic(), listed
        entries, more = piece([name for name in listed if name > since][: 4 * PIECE + 1])
        links = [
            Entry("./" + spelt(name.removesuffix(b"/")) + "/" * name.endswith(b"/"), shown(name))
            for name in entries
        ]
        body = page(shown(path.rstrip(b"/") + b"/"), links, more=more)
        return response(200, body, content_type=HTML, etag=etag, modified=info.st_mtime)


def _check(setting: str, path: Path) -> None:
    """Raise ConfigError for a file that cannot be read."""
    try:
        path.open("rb").close()
    except OSError as error:
        raise ConfigError(f"sources.{setting}: {path} cannot be read: {error.strerror}.") from None


def _name(entry: SFTPAttributes) -> bytes:
    return entry.filename.encode() + b"/" * stat.S_ISDIR(entry.st_mode or 0)


def _etag(info: SFTPAttributes) -> str:
    """What changes with every change; empty if that is not sure."""
    if info.st_mtime is None or info.st_size is None or time.time() - info.st_mtime < _SETTLED_S:
        return ""
    return f'"{info.st_mtime}-{info.st_size}"'
