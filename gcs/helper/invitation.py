"""The invitation: all that a helper needs to know to help, in one file to copy.

Nothing in it lets its holder do more than help: the user that it names may use the spaces of its site, and
nothing else on that server.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from gcs.errors import ConfigError
from gcs.helper.portal import Canary
from gcs.helper.sites import Site

VERSION: Final = 1
SUFFIX: Final = ".invitation"
"""How the names of their files end."""
_MAX_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Invitation:
    """What a helper is told by the operator of a crawl."""

    name: str
    """What the helper is called."""
    crawl: str
    site: str
    is_open: bool
    url: str
    """Where the spaces of its site are."""
    username: str
    password: str
    key: str
    """Seals its answers; hexadecimal, like the next."""
    bundles_key: str
    """Seals the bundles that it takes."""
    tls_ca: str = ""
    """The authority of that server, as PEM; empty for those that the system trusts."""
    canary: Canary | None = None
    max_tuple_bytes: int = 1 << 20
    version: int = VERSION

    @property
    def desk(self) -> str:
        """The name of the desk where the helper works."""
        return Site(self.site, self.is_open, "").desk(self.name)

    def text(self) -> str:
        """As it stands in the file."""
        return json.dumps(asdict(self), indent=1) + "\n"

    @classmethod
    def read(cls, path: Path) -> Invitation:
        """The invitation in a file; raises ConfigError, with one sentence."""
        try:
            with path.open("rb") as file:
                data = file.read(_MAX_BYTES)
        except OSError as error:
            raise ConfigError(f"The invitation {path} cannot be read: {error.strerror or error}.") from error
        try:
            said: dict[str, Any] = json.loads(data)
            if said.get("version") != VERSION:
                raise ConfigError(
                    f"{path} is an invitation of version {said.get('version')}, and this program reads "
                    f"version {VERSION}: ask for a new one, or update GCS."
                )
            canary = said.pop("canary", None)
            made = cls(**said, canary=Canary(**canary) if canary else None)
            bytes.fromhex(made.key + made.bundles_key)
        except (ValueError, TypeError, AttributeError) as error:
            raise ConfigError(f"{path} is not an invitation; `gcs helper invite` makes one.") from error
        return made
