"""Who may be lent to: the sites of the configuration, and the helpers that operators have invited."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache

from gcs.core.rulings import Rulings
from gcs.helper.sites import Site


class SiteBooks:
    """The books of one gatherer."""

    def __init__(self, sites: Sequence[Site], rulings: Callable[[], Rulings]) -> None:
        self._sites = {site.name: site for site in sites}
        self._rulings = rulings

    def site(self, desk: str) -> Site | None:
        """The site of a desk."""
        return self._sites.get(desk.partition("/")[0])

    def desks(self) -> Iterable[str]:
        """The names of the desks at which invited helpers may be."""
        sites, helpers = self._sites, self._rulings().helpers
        return {sites[each.site].desk(name) for name, each in helpers.items() if each.site in sites}

    def stranger(self, desk: str) -> str:
        """The helper of a desk at an open site, who has to be checked; "" at a trusted one."""
        return desk.partition("/")[2]

    def record(self, desk: str) -> str:
        """Under which name the record of the helper of a desk at an open site is kept; "" for no such one.

        The key is part of it: who is revoked and invited again is somebody new.
        """
        key = self.helper_key(desk, self.stranger(desk))
        return record_name(self.stranger(desk), key) if key is not None and self.stranger(desk) else ""

    def records(self) -> set[str]:
        """The names of the records of all who are invited."""
        return {record_name(name, each.key) for name, each in self._rulings().helpers.items()}

    def key(self, desk: str) -> bytes | None:
        """What seals bundles at a desk."""
        site, rulings = self.site(desk), self._rulings()
        if site is None:
            return None
        if not site.is_open:
            return rulings.sites.get(site.name)
        return self.helper_key(desk, self.stranger(desk))

    def helper_key(self, desk: str, helper: str) -> bytes | None:
        """What seals the answers of a helper that works at a desk."""
        site, invited = self.site(desk), self._rulings().helpers.get(helper)
        if site is None or invited is None or invited.site != site.name or site.desk(helper) != desk:
            return None
        return invited.key


@lru_cache(maxsize=4096)
def record_name(helper: str, key: bytes) -> str:
    """Under which name the record of a helper with a key is kept."""
    return f"{helper} {hashlib.sha256(key).hexdigest()[:16]}"
