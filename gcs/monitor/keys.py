"""The tokens to sign in with, the sessions that they open, and how often one may try.

There is a token for each role, made by chance and kept in a file that only its owner can read; no password is
ever chosen or given. A session is a cookie that is signed with a third secret of that file, so it lasts over
a restart of the monitor, and ends for all when the file is removed. Who signs out is remembered until the
session would have ended.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
import stat
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from gcs.errors import ConfigError

FILE: Final = "tokens.json"
_TOKEN_BYTES: Final = 24
_TRIES: Final = 10
_PER_S: Final = 60.0
_MOST_CALLERS: Final = 10_000
_MOST_ENDED: Final = 10_000
_MODE: Final = stat.S_IRUSR | stat.S_IWUSR


class Role(StrEnum):
    """What somebody may do; an operator may do all that a viewer may."""

    VIEW = "view"
    OPERATE = "operate"

    def may(self, needed: Role) -> bool:
        """Whether this role is enough where another is needed."""
        return self is Role.OPERATE or needed is Role.VIEW


@dataclass(frozen=True, slots=True)
class Keys:
    """The tokens of the roles, and the secret that sessions are signed with."""

    view: str
    operate: str
    secret: str

    @classmethod
    def kept(cls, directory: Path) -> Keys:
        """Those that a directory has, or new ones; raises ConfigError for a file that others can read."""
        path = directory / FILE
        try:
            directory.mkdir(parents=True, exist_ok=True)
            if not path.exists():
                _write(path, cls(*(secrets.token_urlsafe(_TOKEN_BYTES) for _ in range(3))))
            if stat.S_IMODE(path.stat().st_mode) & ~_MODE:
                raise ConfigError(f"{path}: others can read it; chmod 600 {path}, or remove it for new ones.")
            return cls(**json.loads(path.read_text(encoding="utf-8")))
        except OSError as error:
            raise ConfigError(f"{path}: no tokens can be kept there: {error.strerror}.") from error
        except (ValueError, TypeError):
            raise ConfigError(f"{path}: these are no tokens; remove it, and new ones are made.") from None

    def role(self, token: str) -> Role | None:
        """What a token lets somebody do; it takes as long whether it is right or wrong."""
        said = token.encode("utf-8", "surrogatepass")
        is_view = hmac.compare_digest(said, self.view.encode())
        is_operate = hmac.compare_digest(said, self.operate.encode())
        return Role.OPERATE if is_operate else Role.VIEW if is_view else None


def _write(path: Path, keys: Keys) -> None:
    """Put it there, whole, and never readable by others."""
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    aside.unlink(missing_ok=True)
    aside.touch(_MODE, exist_ok=False)
    aside.write_text(json.dumps(asdict(keys), indent=2) + "\n", encoding="utf-8")
    aside.replace(path)


@dataclass(frozen=True, slots=True)
class Session:
    """Somebody who has signed in."""

    role: Role
    expires_at: float
    """Unix time."""
    name: str
    """What tells it from others."""


class Sessions:
    """Makes sessions, and recognises them again."""

    def __init__(self, keys: Keys, lasting_s: float, clock: Callable[[], float]) -> None:
        self._key = hashlib.sha256(f"{keys.secret} {keys.view} {keys.operate}".encode()).digest()
        self._lasting_s, self._clock = lasting_s, clock
        self._ended: OrderedDict[str, None] = OrderedDict()

    def begin(self, role: Role) -> tuple[Session, str]:
        """A new session, and what its cookie says."""
        session = Session(role, float(round(self._clock() + self._lasting_s)), secrets.token_urlsafe(12))
        said = f"{role}.{session.expires_at:.0f}.{session.name}"
        return session, f"{said}.{self._signature(said)}"

    def find(self, cookie: str) -> Session | None:
        """The session of a cookie; None if it is over, or no cookie of ours."""
        said, _, signature = cookie.rpartition(".")
        if not hmac.compare_digest(self._signature(said).encode(), signature.encode("utf-8", "replace")):
            return None
        role, expires_at, name = said.split(".")
        session = Session(Role(role), float(expires_at), name)
        return None if session.expires_at <= self._clock() or name in self._ended else session

    def end(self, session: Session) -> None:
        """It is not recognised any more."""
        self._ended[session.name] = None
        if len(self._ended) > _MOST_ENDED:
            self._ended.popitem(last=False)

    def _signature(self, said: str) -> str:
        return hmac.new(self._key, said.encode("utf-8", "replace"), hashlib.sha256).hexdigest()


class Patience:
    """How often each caller may still try a wrong token: so many at once, and then one every few seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._free_at: OrderedDict[str, float] = OrderedDict()
        """By caller: when all its tries are there again."""

    def wait_s(self, caller: str) -> float:
        """How long a caller has to wait before it may try; 0.0 if it need not."""
        each_s = _PER_S / _TRIES
        return max(0.0, self._free_at.get(caller, 0.0) - self._clock() - (_TRIES - 1) * each_s)

    def failed(self, caller: str) -> None:
        """It was wrong."""
        before = max(self._free_at.pop(caller, 0.0), self._clock())
        self._free_at[caller] = before + _PER_S / _TRIES
        if len(self._free_at) > _MOST_CALLERS:
            self._free_at.popitem(last=False)
