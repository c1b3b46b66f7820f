"""The users of helpers on the servers of sites: made, removed, and what went wrong with that."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Final

import redis
import trio

from gcs.errors import ExitCode, GcsError, UsageError
from gcs.helper.sites import Access
from gcs.settings import masked_url

_PATIENCE_S: Final = 10.0


class NotDone(GcsError):
    """The server of a site has not done what it was told."""

    exit_code = ExitCode.REDIS


async def tell(access: Access, line: str) -> None:
    """Have a server do something, and remember it where that is possible; raises NotDone or UsageError."""
    if "+" in access.url.partition("://")[0]:
        raise UsageError(
            "Users of a cluster or a Sentinel group have to be made on every server: use --by-hand."
        )
    await trio.to_thread.run_sync(_told, access, line)


def _told(access: Access, line: str) -> None:
    options: dict[str, Any] = {"socket_timeout": _PATIENCE_S, "socket_connect_timeout": _PATIENCE_S}
    options |= {name: given for name in ("username", "password") if (given := getattr(access, name))}
    if access.url.startswith("rediss"):
        files = {
            "ssl_ca_certs": access.tls_ca,
            "ssl_certfile": access.tls_cert,
            "ssl_keyfile": access.tls_key,
        }
        options |= {name: str(path) for name, path in files.items() if path}
    try:
        with redis.Redis.from_url(access.url, **options) as server:
            server.execute_command(*line.split(" "))
            # Without a file for users its configuration has to name them, or they are gone after a restart.
            with suppress(redis.ResponseError):
                server.execute_command("ACL", "SAVE")
    except redis.RedisError as error:
        raise NotDone(f"{_trouble(error, masked_url(access.url))} Or use --by-hand.") from error


def _trouble(error: redis.RedisError, where: str) -> str:
    """What is wrong with a server, and what can be done about that."""
    if isinstance(error, redis.exceptions.NoPermissionError):
        return f"{where} does not let us ({error}); our user there needs the right +acl."
    if isinstance(error, redis.AuthenticationError):
        return f"{where} does not accept our user and password ({error})."
    if isinstance(error, redis.ConnectionError | redis.TimeoutError):
        return f"{where} is out of reach ({error}); try again when it is back."
    return f"{where} does not do it: {error}."


def without_credentials(url: str) -> str:
    """An address without the user, the password and the files of ours in it: a helper has its own."""
    scheme, separator, rest = url.partition("://")
    place, mark, query = rest.partition("?")
    before, slash, path = place.partition("/")
    kept = [each for each in query.split("&") if not _is_ours(each.partition("=")[0])]
    query = "&".join(each for each in kept if each)
    return f"{scheme}{separator}{before.rpartition('@')[2]}{slash}{path}{mark if query else ''}{query}"


def _is_ours(option: str) -> bool:
    return option in ("username", "password") or option.startswith("ssl_")
