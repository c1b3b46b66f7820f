"""Documents that are ZIP archives: their parts by name, within what such an archive may expand to."""

from __future__ import annotations

import io
import zipfile
from types import TracebackType

from gcs.summary.limits import Budget, Limits, Refused

_ENCRYPTED = 0x1


class Package:
    """An archive whose parts are read one by one."""

    def __init__(self, body: bytes, limits: Limits) -> None:
        """Raises what `zipfile` raises."""
        self._archive = zipfile.ZipFile(io.BytesIO(body))
        self._budget = Budget(limits, len(body))
        self.names = [info.filename for info in self._archive.infolist()][: 10 * limits.members]
        if any(info.flag_bits & _ENCRYPTED for info in self._archive.infolist()):
            raise Refused("encrypted")

    def read(self, name: str) -> bytes:
        """A part; nothing if there is none, or it is too large. Raises Refused for a bomb."""
        try:
            with self._archive.open(name) as stream:
                return self._budget.read(stream) or b""
        except KeyError:
            return b""

    def numbered(self, beginning: str) -> list[str]:
        """The parts `…1.xml`, `…2.xml` and so on, in the order of their numbers."""
        ends = [(name[len(beginning) : -4], name) for name in self.names if name.startswith(beginning)]
        numbers = [(int(end), name) for end, name in ends if name.endswith(".xml") and end.isdecimal()]
        return [name for _, name in sorted(numbers)]

    def __enter__(self) -> Package:
        """Itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        """Closed."""
        self._archive.close()
