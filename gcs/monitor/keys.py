"""The tokens to sign in with, and how often one may try.

There is a token for each role, made by chance and kept in a file that only its owner can read; no password is
ever chosen or given. A third secret of that file signs sessions (`gcs.monitor.sessions`).
"""

from __future__ import annotations

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
OPERATOR: Final = "x-operator"
"""The header in which a program that sends a token says for whom it asks."""
_TOKEN_BYTES: Final = 24
_TRIES: Final = 10
_PER_S: Final = 60.0
_MOST_CALLERS: Final = 10_000
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
