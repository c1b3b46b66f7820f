"""The kinds of value that a setting can have: how each is read, shown and described.

A kind annotates a field of a section in `gcs.config`. It reads a value as TOML gives it or, for the
environment and the command line, as text; it says in words what it allows; and it shows a value as
TOML would spell it, with secrets masked. Reading what was shown gives the same value, secrets aside.
"""

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from decimal import Decimal
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

T = TypeVar("T")
Shown = str | int | float | list[Any]
"""What TOML can spell."""
MASK = "********"

DURATION_UNITS_S = {
    "d": Decimal(86400),
    "h": Decimal(3600),
    "m": Decimal(60),
    "s": Decimal(1),
    "ms": Decimal("0.001"),
}
SIZE_UNITS_BYTES = {
    "GiB": 1 << 30,
    "MiB": 1 << 20,
    "KiB": 1 << 10,
    "GB": 10**9,
    "MB": 10**6,
    "kB": 10**3,
    "KB": 10**3,
    "B": 1,
}
_DURATION = re.compile(r"(?:[0-9]+(?:\.[0-9]+)?(?:ms|[dhms]))+")
_DURATION_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|[dhms])")
_SIZE = re.compile(rf"([0-9]+(?:\.[0-9]+)?) ?({'|'.join(SIZE_UNITS_BYTES)})")
_URL_PASSWORD = re.compile(r"((?:password|passwd|pwd|token|secret|odbc_connect)=)[^&#]*", re.IGNORECASE)


def duration_s(text: str) -> float:
    """The seconds in a duration such as `250ms`, `10s` or `1h30m`; raises ValueError."""
    if not _DURATION.fullmatch(text):
        raise ValueError(f"no duration: {text}")
    parts = _DURATION_PART.findall(text)
    units = [unit for _, unit in parts]
    if units != [unit for unit in DURATION_UNITS_S if unit in units]:
        raise ValueError(f"no duration: {text}")  # a unit twice, or a smaller one before a larger
    return float(sum(Decimal(number) * DURATION_UNITS_S[unit] for number, unit in parts))


def duration(seconds: float) -> str:
    """The shortest way to write a duration, to the millisecond."""
    rest = Decimal(str(seconds)).quantize(Decimal("0.001"))
    text = ""
    for unit, unit_s in DURATION_UNITS_S.items():
        whole = rest // unit_s
        rest -= whole * unit_s
        if whole:
            text += f"{whole:f}{unit}"
    return text or "0s"


def size_bytes(text: str) -> int:
    """The bytes in a size such as `512KiB` or `1MB`; raises ValueError."""
    match = _SIZE.fullmatch(text)
    if not match:
        raise ValueError(f"no size: {text}")
    size = Decimal(match[1]) * SIZE_UNITS_BYTES[match[2]]
    if size != int(size):
        raise ValueError(f"no size: {text}")
    return int(size)


def size(number_bytes: int) -> str:
    """A size in the largest binary unit that divides it."""
    for unit in ("GiB", "MiB", "KiB"):
        if number_bytes and number_bytes % SIZE_UNITS_BYTES[unit] == 0:
            return f"{number_bytes // SIZE_UNITS_BYTES[unit]}{unit}"
    return f"{number_bytes}B"


def masked_url(url: str) -> str:
    """The URL with any password in it masked; when in doubt it masks too much."""
    scheme, separator, rest = url.partition("://")
    credentials, at, host = rest.rpartition("@")
    user, colon, _ = credentials.partition(":")
    if at and colon:
        rest = f"{user}:{MASK}@{host}"
    return _URL_PASSWORD.sub(rf"\1{MASK}", f"{scheme}{separator}{rest}")


class Kind(ABC, Generic[T]):
    """What values a setting can have."""

    suffix: ClassVar[str] = ""
    """The unit at the end of the field's name, which the user's key goes without."""

    quotable: ClassVar[bool] = True
    """Whether a message may repeat a value that was refused."""

    @property
    @abstractmethod
    def allowed(self) -> str:
        """What is allowed, as the end of a sentence that began with "must be"."""

    @abstractmethod
    def read(self, raw: object) -> T:
        """The value that TOML gave; raises ValueError when it is not allowed."""

    def read_text(self, text: str) -> T:
        """The value that the environment or the command line gave; raises ValueError."""
        return self.read(text)

    @abstractmethod
    def show(self, value: T) -> Shown:
        """The value as TOML spells it, with secrets masked."""

    def written(self, value: T) -> str:
        """The value as the command line has it, with secrets masked."""
        shown = self.show(value)
        if isinstance(shown, bool):
            return str(shown).lower()
        return " ".join(map(str, shown)) if isinstance(shown, list) else str(shown)

    def plain(self, value: T) -> str:
        """The value as the command line has it, with the secrets in it."""
        return self.written(value)


@dataclass(frozen=True)
class Text(Kind[str]):
    """A string that matches a pattern."""

    pattern: str
    description: str

    @property
    def allowed(self) -> str:
        """The description."""
        return self.description

    def read(self, raw: object) -> str:
        """Raises ValueError unless the whole string matches and is printable."""
        if not isinstance(raw, str) or not raw.isprintable() or not re.fullmatch(self.pattern, raw):
            raise ValueError(raw)
        return raw

    def show(self, value: str) -> str:
        """The string itself."""
        return value


class Address(Text):
    """A URL, whose password is masked when shown."""

    quotable = False

    def show(self, value: str) -> str:
        """The URL without its password."""
        return masked_url(value)

    def plain(self, value: str) -> str:
        """The string itself."""
        return value


class Secret(Text):
    """A string that is never shown."""

    quotable = False

    def show(self, value: str) -> str:
        """A mask, or nothing when there is no secret."""
        return MASK if value else ""

    def plain(self, value: str) -> str:
        """The string itself."""
        return value


@dataclass(frozen=True)
class Choice(Kind[str]):
    """One of a few words."""

    options: tuple[str, ...]

    @property
    def allowed(self) -> str:
        """The words."""
        return f"one of {', '.join(self.options)}"

    def read(self, raw: object) -> str:
        """Raises ValueError for any other word."""
        if not isinstance(raw, str) or raw not in self.options:
            raise ValueError(raw)
        return raw

    def show(self, value: str) -> str:
        """The word itself."""
        return value


@dataclass(frozen=True)
class Number(Kind[int]):
    """A whole number between two bounds, both included."""

    low: int
    high: int

    @property
    def allowed(self) -> str:
        """The bounds."""
        return f"a whole number from {self.low} to {self.high}"

    def read(self, raw: object) -> int:
        """Raises ValueError for what is no number, or is out of bounds."""
        if not isinstance(raw, int) or isinstance(raw, bool) or not self.low <= raw <= self.high:
            raise ValueError(raw)
        return raw

    def read_text(self, text: str) -> int:
        """The same for digits."""
        return self.read(int(text))

    def show(self, value: int) -> int:
        """The number itself."""
        return value


@dataclass(frozen=True)
class Duration(Kind[float]):
    """A length of time between two bounds, both included; seconds in code, with a unit for users."""

    low_s: float
    high_s: float
    suffix = "_s"

    @property
    def allowed(self) -> str:
        """The bounds, and what a duration looks like."""
        return f'a duration from {duration(self.low_s)} to {duration(self.high_s)}, written like "1m30s"'

    def read(self, raw: object) -> float:
        """Raises ValueError for what has no unit, or is out of bounds."""
        if not isinstance(raw, str) or not self.low_s <= (seconds := duration_s(raw)) <= self.high_s:
            raise ValueError(raw)
        return seconds

    def show(self, value: float) -> str:
        """The duration with its units."""
        return duration(value)


@dataclass(frozen=True)
class Size(Kind[int]):
    """A number of bytes between two bounds, both included; with a unit for users."""

    low_bytes: int
    high_bytes: int
    suffix = "_bytes"

    @property
    def allowed(self) -> str:
        """The bounds, and what a size looks like."""
        return f'a size from {size(self.low_bytes)} to {size(self.high_bytes)}, written like "512KiB"'

    def read(self, raw: object) -> int:
        """Raises ValueError for what has no unit, or is out of bounds."""
        if not isinstance(raw, str) or not self.low_bytes <= (number := size_bytes(raw)) <= self.high_bytes:
            raise ValueError(raw)
        return number

    def show(self, value: int) -> str:
        """The size with its unit."""
        return size(value)


@dataclass(frozen=True)
class FilePath(Kind[Path | None]):
    """The path of a file, or none."""

    @property
    def allowed(self) -> str:
        """What any path is."""
        return "the path of a file, or empty for none"

    def read(self, raw: object) -> Path | None:
        """The path as it was given; whether it exists is not looked at."""
        if not isinstance(raw, str) or not raw.isprintable():
            raise ValueError(raw)
        return Path(raw) if raw else None

    def show(self, value: Path | None) -> str:
        """The path, or nothing."""
        return str(value or "")


@dataclass(frozen=True)
class Decimals(Kind[float]):
    """A number with decimals between two bounds, both included."""

    low: float
    high: float

    @property
    def allowed(self) -> str:
        """The bounds."""
        return f"a number from {self.low:g} to {self.high:g}"

    def read(self, raw: object) -> float:
        """Raises ValueError for what is no number, or is out of bounds."""
        if not isinstance(raw, int | float) or isinstance(raw, bool) or not self.low <= raw <= self.high:
            raise ValueError(raw)
        return float(raw)

    def read_text(self, text: str) -> float:
        """The same for digits."""
        return self.read(float(text))

    def show(self, value: float) -> float:
        """The number itself, without decimals if it has none."""
        return int(value) if value == int(value) else value


@dataclass(frozen=True)
class Flag(Kind[bool]):
    """Yes or no."""

    @property
    def allowed(self) -> str:
        """Both."""
        return "true or false"

    def read(self, raw: object) -> bool:
        """Raises ValueError for anything but a boolean."""
        if not isinstance(raw, bool):
            raise ValueError(raw)  # noqa: TRY004 - what a kind refuses is a ValueError, whatever it is
        return raw

    def read_text(self, text: str) -> bool:
        """The same for the words."""
        return self.read({"true": True, "false": False}.get(text, text))

    def show(self, value: bool) -> bool:  # noqa: FBT001 - the value of a setting
        """The word itself."""
        return value


@dataclass(frozen=True)
class Network(Kind[IPv4Network | IPv6Network]):
    """A network of addresses, or one address."""

    @property
    def allowed(self) -> str:
        """What a network looks like."""
        return 'a network such as "10.0.0.0/8" or "fd00::/8"'

    def read(self, raw: object) -> IPv4Network | IPv6Network:
        """Raises ValueError for what is no network."""
        if not isinstance(raw, str):
            raise ValueError(raw)  # noqa: TRY004 - as above
        return ip_network(raw)

    def show(self, value: IPv4Network | IPv6Network) -> str:
        """The network with its length."""
        return str(value)


@dataclass(frozen=True)
class Several(Kind[tuple[T, ...]]):
    """Any number of values of another kind: a list in TOML, with spaces between them elsewhere."""

    kind: Kind[T]

    @property
    def allowed(self) -> str:
        """What the other kind allows."""
        return f"a list, each {self.kind.allowed}"

    def read(self, raw: object) -> tuple[T, ...]:
        """Raises ValueError for what is no list, or what the other kind refuses."""
        if not isinstance(raw, list):
            raise ValueError(raw)  # noqa: TRY004 - as above
        return tuple(self.kind.read(each) for each in raw)

    def read_text(self, text: str) -> tuple[T, ...]:
        """The same for words."""
        return tuple(self.kind.read_text(each) for each in text.split())

    @property
    def quotable(self) -> bool:  # type: ignore[override] # those of the other kind decide
        """Whether the values of the other kind are."""
        return self.kind.quotable

    def show(self, value: tuple[T, ...]) -> list[Any]:
        """The values."""
        return [self.kind.show(each) for each in value]

    def plain(self, value: tuple[T, ...]) -> str:
        """The values, with spaces between them."""
        return " ".join(map(self.kind.plain, value))


@dataclass(frozen=True)
class OrNone(Kind[T | None]):
    """What another kind allows, or "none" for no limit."""

    kind: Kind[T]

    @property
    def suffix(self) -> str:  # type: ignore[override] # that of the other kind
        """What the other kind ends the names of its fields with."""
        return self.kind.suffix

    @property
    def allowed(self) -> str:
        """What the other kind allows, and "none"."""
        return f'{self.kind.allowed}, or "none" for no limit'

    def read(self, raw: object) -> T | None:
        """Raises ValueError for what the other kind refuses."""
        return None if raw == "none" else self.kind.read(raw)

    def read_text(self, text: str) -> T | None:
        """The same for text."""
        return None if text == "none" else self.kind.read_text(text)

    def show(self, value: T | None) -> Shown:
        """What the other kind shows, or "none"."""
        return "none" if value is None else self.kind.show(value)
