"""What is known of the hosts of ranges that change hands, as of one moment."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence

from gcs.core.politeness import Manner, Workbench
from gcs.core.traps import Dry, Novelty
from gcs.core.turns import overlaps


class Hosts:
    """The hosts of a workbench, looked through once for many ranges: valid until something is waited for."""

    def __init__(
        self, bench: Workbench, novelty: Novelty, clock: Callable[[], float], asking: Sequence[str]
    ) -> None:
        """`asking` are the hosts that are being asked for their rules, as they change."""
        self._bench, self._novelty, self._clock, self._asking = bench, novelty, clock, asking
        self.look_again()

    def look_again(self) -> None:
        """Forget what was seen."""
        self._asked = {*self._bench.asked(), *self._asking}
        self._manners = self._bench.manners(self._clock())
        self._dry: defaultdict[str, list[Dry]] = defaultdict(list)
        for each in self._novelty.dry():
            self._dry[each.host].append(each)

    def are_asked(self, start: str, end: str | None) -> bool:
        """Whether a host in a range is being asked, also for what has no row, such as its robots.txt."""
        return any(overlaps(host, start, end) for host in self._asked)

    def manners(self, start: str, end: str | None) -> list[Manner]:
        """How the hosts in a range are to be treated by whoever asks them next."""
        return [manner for manner in self._manners if overlaps(manner.host, start, end)]

    def traps(self, start: str, end: str | None) -> list[Dry]:
        """Which subtrees of the hosts in a range repeat something."""
        return [each for host, some in self._dry.items() if overlaps(host, start, end) for each in some]
