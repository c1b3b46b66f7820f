"""`gcs --monitor URL`: the questions of operators, asked over the monitor's HTTP API instead of Redis.

The token is in the environment or in a file, never on the command line. It is sent to the URL that was given
and nowhere else: redirects are not followed, and plain HTTP is for this machine only.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final

import httpx

from gcs.commandline import Remote
from gcs.errors import ConfigError, ExitCode, MonitorError, UsageError
from gcs.monitor.keys import OPERATOR
from gcs.operate.asking import Answer
from gcs.operate.ruling import operator

VARIABLE: Final = "GCS_TOKEN"
_WITHIN_S: Final = 60.0
_SPARE_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class Place:
    """Where a monitor is, and what lets us ask."""

    url: str
    token: str

    @classmethod
    def of(cls, url: str, token_file: Path | None, environ: Mapping[str, str] = os.environ) -> Place:
        """The place of a URL; raises ConfigError if it cannot be asked, or without a token."""
        token = environ.get(VARIABLE, "")
        if token_file is not None:
            try:
                token = token_file.read_text(encoding="utf-8").strip()
            except (OSError, ValueError) as error:
                raise ConfigError(f"{token_file}: no token can be read there: {error}.") from error
        if not token.isascii() or not token.isprintable() or not token:
            raise ConfigError(f"a monitor wants a token: give --token-file, or set {VARIABLE}.")
        try:
            parts = httpx.URL(url)
        except httpx.InvalidURL as error:
            raise ConfigError(f"{url} is no URL of a monitor: {error}.") from error
        if parts.scheme not in ("http", "https") or not parts.host:
            raise ConfigError(f"{url} is no URL of a monitor, such as http://127.0.0.1:8470/.")
        if parts.scheme == "http" and not _is_here(parts.host):
            raise ConfigError(f"{url}: a token goes over https only, unless the monitor is on this machine.")
        return cls(url.partition("#")[0].rstrip("/"), token)


def _is_here(host: str) -> bool:
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def ask(place: Place, remote: Remote) -> Answer:
    """Ask a monitor; raises MonitorError if it cannot answer, UsageError for what it refuses."""
    within_s = max(_WITHIN_S, float(remote.values.get("within_s", 0.0))) + _SPARE_S
    headers = {
        "authorization": f"Bearer {place.token}",
        "accept": "application/json",
        OPERATOR: operator().encode("ascii", "replace").decode(),
    }
    parameters: dict[str, Any] = {"params": dict(remote.values)} if remote.method == "GET" else {}
    if remote.method != "GET":
        parameters["json"] = dict(remote.values)
    try:
        # Proxies of the environment are not for a token.
        with httpx.Client(timeout=within_s, trust_env=False) as client:
            said = client.request(
                remote.method, f"{place.url}/api/{remote.path}", headers=headers, **parameters
            )
        told = said.json()
        if said.is_success:
            code = next(each for each in ExitCode if each == told["code"])
            return Answer(told["facts"], told["lines"], code)
        sentence = str(told["error"])
    except httpx.HTTPError as error:
        raise MonitorError(f"{place.url}: the monitor does not answer: {error}.") from error
    except (ValueError, KeyError, TypeError, StopIteration):
        raise MonitorError(f"{place.url}: this is not the answer of a monitor.") from None
    if said.status_code == httpx.codes.BAD_REQUEST:
        raise UsageError(sentence)
    raise MonitorError(f"{place.url}: {sentence}")
