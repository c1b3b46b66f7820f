"""Who is invited to help, and who of them is there."""

from __future__ import annotations

from typing import Final

import trio

from gcs.config import Config
from gcs.core.rulings import Rulings
from gcs.helper.desks import OpenDesk, Presence
from gcs.helper.sites import Site
from gcs.operate.facts import HelperFacts
from tuplespace import TupleSpaceError, Unavailable

_PATIENCE_S: Final = 5.0
_UNASKED: Final = "its site has not answered yet"


def unasked(rulings: Rulings) -> list[HelperFacts]:
    """Who is invited, before any site was asked."""
    return [_row(name, invited.site, None, _UNASKED) for name, invited in sorted(rulings.helpers.items())]


async def helpers(config: Config, rulings: Rulings, open_desk: OpenDesk) -> list[HelperFacts]:
    """What helpers say of themselves; one whose site cannot be asked says so."""
    sites = {site.name: site for site in map(Site.of, config.helpers.sites)}
    there: dict[str, list[Presence]] = {}
    trouble: dict[str, str] = {}
    silent: dict[str, str] = {}
    found: list[HelperFacts] = []
    for name, invited in sorted(rulings.helpers.items()):
        site = sites.get(invited.site)
        desk = site.desk(name) if site else ""
        if site and site.name in silent:
            there[desk], trouble[desk] = [], silent[site.name]  # a server that does not answer is asked once
        elif site and desk not in there:
            try:
                with trio.fail_after(_PATIENCE_S):
                    there[desk] = await open_desk(desk).present(name if site.is_open else "")
            except (TupleSpaceError, trio.TooSlowError) as error:
                there[desk], trouble[desk] = [], f"its site cannot be asked: {str(error) or 'no answer'}"
                if isinstance(error, trio.TooSlowError | Unavailable):
                    silent[site.name] = trouble[desk]
        said = next((each for each in there.get(desk, ()) if each.name == name), None)
        says = said.sentence if said else trouble.get(desk, "")
        if site is None:
            says = f"helpers.sites does not name {invited.site} here"
        found.append(_row(name, invited.site, said, says))
    return found


def _row(name: str, site: str, said: Presence | None, says: str) -> HelperFacts:
    return {
        "helper": name,
        "site": site,
        "present": said is not None,
        "slots": said.slots if said else 0,
        "pages": said.pages if said else 0,
        "says": says,
    }
