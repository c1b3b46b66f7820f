"""Sites of helpers, as the configuration names them.

At a *trusted* site all helpers wait at one desk, and whoever is free takes what lies there. At an *open* site
every helper has a desk of its own: it can neither see nor take what is meant for another.

A site may have a server of its own. How gatherers and operators come in there stands in files that are named
after the site, in the directory `helpers.credentials`: `NAME.password`, `NAME.ca.pem`, `NAME.cert.pem` and
`NAME.key.pem`, each only if it is needed.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gcs.config import Config, read_secret
from gcs.errors import ConfigError

_OPEN: Final = ":open"


@dataclass(frozen=True, slots=True)
class Site:
    """A site as the configuration names it."""

    name: str
    is_open: bool
    url: str
    """Its own server; "" for the crawl's."""

    @classmethod
    def of(cls, text: str) -> Site:
        """The site that a text such as `office` or `volunteers:open@redis://host` names."""
        name, _, url = text.partition("@")
        return cls(name.removesuffix(_OPEN), name.endswith(_OPEN), url)

    def desk(self, helper: str) -> str:
        """The name of the desk at which a helper works."""
        return f"{self.name}/{helper}" if self.is_open else self.name


@dataclass(frozen=True, slots=True)
class Access:
    """How to come in at the server of a site: where it is, and what to show there."""

    url: str
    username: str = ""
    password: str = ""
    tls_ca: Path | None = None
    tls_cert: Path | None = None
    tls_key: Path | None = None

    @classmethod
    def to(cls, site: Site, config: Config, environ: Mapping[str, str] = os.environ) -> Access:
        """To the site's own server, or to the crawl's; raises ConfigError."""
        if not site.url:
            own = config.redis
            return cls(own.url, own.username, own.password, own.tls_ca, own.tls_cert, own.tls_key)
        if config.helpers.credentials is None:
            return cls(site.url)
        place = Path(environ.get("CREDENTIALS_DIRECTORY", ""), config.helpers.credentials)
        if not place.is_dir():
            raise ConfigError(f"helpers.credentials names {place}, which is no directory.")
        secret = _if_there(place / f"{site.name}.password")
        password = "" if secret is None else read_secret(secret, "helpers.credentials")
        if not site.url.startswith("rediss"):
            return cls(site.url, "", password)
        ca, cert, key = (_if_there(place / f"{site.name}.{each}.pem") for each in ("ca", "cert", "key"))
        return cls(site.url, "", password, ca, cert, key)


def _if_there(path: Path) -> Path | None:
    return path if path.exists() else None
