"""Who has signed in, until when, and who has signed out.

A session is a cookie that is signed with the secret of the keys and with an era, so it lasts over a restart
of the monitor. Who signs out is written down beside the era until the session would have ended. A new era
begins, and all sessions are over, when too many have signed out, or when what was written down is gone or
cannot be read. So a session that has ended is never valid again.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import math
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import structlog

from gcs.monitor.keys import Keys, Role

FILE: Final = "signed-out.json"
MOST: Final = 10_000
_COOKIE: Final = "gcs_session_"


@dataclass(frozen=True, slots=True)
class Session:
    """Somebody who may ask."""

    role: Role
    expires_at: float = math.inf
    """Unix time; who sends the token itself has no end."""
    name: str = ""
    """What tells it from others."""
    era: str = ""


class Sessions:
    """Makes sessions, and recognises them again."""

    def __init__(self, keys: Keys, lasting_s: float, clock: Callable[[], float], directory: Path) -> None:
        """Who has signed out is kept in `directory`."""
        self._keys, self._lasting_s, self._clock = keys, lasting_s, clock
        self._path = directory / FILE
        # Cookies are shared by all ports of a host, so each monitor has a name of its own for its cookie.
        self.cookie = _COOKIE + self._signature("the name of the cookie", "")[:8]
        self._era, self._ended = "", dict[str, float]()
        if not self._recall():
            self._begin_era()

    def begin(self, role: Role) -> tuple[Session, str]:
        """A new session, and what its cookie says."""
        expires_at = float(round(self._clock() + self._lasting_s))
        session = Session(role, expires_at, secrets.token_urlsafe(12), self._era)
        said = f"{role}.{session.expires_at:.0f}.{session.name}"
        return session, f"{said}.{self._signature(said, self._era)}"

    def find(self, cookie: str) -> Session | None:
        """The session of a cookie; None if it is over, or no cookie of ours."""
        said, _, signature = cookie.rpartition(".")
        expected = self._signature(said, self._era)
        if not hmac.compare_digest(expected.encode(), signature.encode("utf-8", "replace")):
            return None
        role, expires_at, name = said.split(".")
        session = Session(Role(role), float(expires_at), name, self._era)
        return session if self.left_s(session) > 0 else None

    def left_s(self, session: Session) -> float:
        """How long it still lasts; 0.0 if it is over."""
        if session.expires_at == math.inf:
            return math.inf
        is_ended = session.era != self._era or session.name in self._ended
        return 0.0 if is_ended else max(0.0, session.expires_at - self._clock())

    def end(self, session: Session) -> None:
        """It is not recognised any more."""
        if not 0 < self.left_s(session) < math.inf:
            return
        now = self._clock()
        self._ended = {name: at for name, at in self._ended.items() if at > now}
        self._ended[session.name] = session.expires_at
        if len(self._ended) > MOST:
            self._begin_era()
        else:
            self._keep()

    def _signature(self, said: str, era: str) -> str:
        keys = self._keys
        secret = hashlib.sha256(f"{keys.secret} {keys.view} {keys.operate} {era}".encode()).digest()
        return hmac.new(secret, said.encode("utf-8", "replace"), hashlib.sha256).hexdigest()

    # What is written down

    def _begin_era(self) -> None:
        self._era, self._ended = secrets.token_urlsafe(12), {}
        self._keep()

    def _recall(self) -> bool:
        """Whether it is known who has signed out."""
        try:
            said = json.loads(self._path.read_text(encoding="utf-8"))
            self._era = str(said["era"])
            self._ended = {str(name): float(at) for name, at in said["ended"].items()}
        except FileNotFoundError:
            return False
        except (OSError, ValueError, TypeError, LookupError, AttributeError) as error:
            why = repr(error)
            structlog.get_logger().warning("who has signed out cannot be read: all are signed out", why=why)
            return False
        return True

    def _keep(self) -> None:
        """Where it cannot be kept there is no file, and all sessions end with this process."""
        aside = self._path.with_suffix(".new")
        try:
            aside.write_text(json.dumps({"era": self._era, "ended": self._ended}), encoding="utf-8")
            aside.replace(self._path)
        except OSError as error:
            structlog.get_logger().warning("who has signed out cannot be kept", why=str(error))
            self._forget()

    def _forget(self) -> None:
        try:
            self._path.unlink(missing_ok=True)
        except OSError as error:
            structlog.get_logger().error("sessions that have ended may come back", why=str(error))
