"""The configuration: one frozen, typed value, read once and passed to whoever needs it.

It owns the list of settings (each a field below, with what is allowed beside it) and the order of the
layers: defaults, a TOML file, the environment, the command line; what comes later wins. A value that is
wrong in any layer is refused, also when a later layer would replace it. A field's unit is at the end of
its name in code (`timeout_s`); the user's key goes without it (`redis.timeout = "10s"`).

To add a setting, add a field to a section, and the same with a comment to `config.toml`. To add a
section, add a class and a field of `Config`.
"""

import difflib
import os
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Final, get_type_hints

from gcs.errors import ConfigError
from gcs.settings import (
    Address,
    Choice,
    Decimals,
    Duration,
    FilePath,
    Flag,
    Kind,
    Network,
    Number,
    OrNone,
    Secret,
    Several,
    Shown,
    Size,
    Text,
)

SYSTEM_FILE = Path("/etc/gcs/config.toml")
DEFAULT = "default"
_MAX_SECRET_BYTES = 4096
LARGEST_TUPLE_BYTES = 8 << 20
"""Nobody can be told to write larger ones, so nobody has to read them."""

_NAME = Text(
    r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}",
    "a name of at most 64 letters, digits, dots, dashes and underscores that begins with a letter or digit",
)
_URL = Address(
    r"|(rediss?(\+(sentinel|cluster))?|unix)://\S+",
    'an address such as "redis://host:6379/0", or empty for a private server',
)
_RULE = Text(
    r"[+-](host|domain|prefix|scheme|regex):\S+", 'a rule such as "+domain:example.org", see docs/crawling.md'
)
_EXTENSION = Text(r"[a-z0-9]{1,10}", "the end of a file's name, such as jpg")
_CLEANING = Text(r"tracking|sessions|sort", "one of tracking, sessions, sort")
_AGENT = Text(
    r"[\x20-\x7e]{0,300}", "the crawler's name and a contact address in it, in at most 300 ASCII characters"
)
_PROXY = Address(
    r"|http://\S+", 'the address of an HTTP proxy such as "http://proxy:3128", or empty for none'
)
_NODE = Text(
    r"|[A-Za-z0-9][A-Za-z0-9._-]{0,63}",
    "a name of at most 64 letters, digits, dots, dashes and underscores, or empty for that of the machine",
)
STATISTICS: Final = (
    *("pages", "bytes", "failed", "queued", "done", "dropped", "passed", "under_way", "lent", "helped"),
    *("visited_again", "changed", "round_at", "returns", "next_visit_at"),
    *("outbox", "outbox_bytes", "outbox_is_full", "waits_for_room", "unanswered_s", "rest_s", "resting"),
    *("rate", "remaining_s", "moved", "held", "overhead_percent", "beat_s"),
)
"""What every gatherer publishes of itself, as numbers."""
_EVENT = Text(
    rf"({'|'.join(STATISTICS)})(>=|<=|>|<)[0-9]+(\.[0-9]+)?",
    "a number of `gcs nodes --json` and a limit, without spaces, such as queued>1000000",
)
_SITE = Address(
    r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}(:open)?(@(rediss?(\+(sentinel|cluster))?|unix)://\S+)?",
    "the name of a site such as office, volunteers:open, or volunteers:open@redis://host:6379",
)
_PORT = r"([0-9]{1,4}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])"
_ANY_PLACE = rf"([A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\]):{_PORT}|unix:/\S+"
_PLACE = Text(_ANY_PLACE, 'a place such as "127.0.0.1:8470", "[::1]:8470" or "unix:/run/gcs/monitor/page"')
_LISTEN = Text(
    rf"|{_ANY_PLACE}",
    'a place such as "127.0.0.1:9464", "[::1]:9464" or "unix:/run/gcs/one/metrics", or empty for none',
)
_BASE_PATH = Text(
    r"/([A-Za-z0-9._~-]+/)*",
    "a path that begins and ends with a slash, such as / or /crawl/",
)
_HOST_NAME = Text(
    r"([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?",
    "the name of a host, such as crawl.example.org, with its port if that is to be the only one",
)
_MASTER = Text(
    r"(local|spark|yarn|k8s)\S*", 'the master of a Spark cluster such as "spark://host:7077", or "local[*]"'
)
_DIRECTORY = Text(r"\S+", "the path of a directory, without spaces")
_OPENSEARCH = Address(
    r"|https?://\S+", 'the address of an OpenSearch such as "https://user:password@host:9200", or empty'
)
_INDEX_NAME = Text(
    r"[a-z0-9][a-z0-9._-]{0,99}", "a name of at most 100 small letters, digits, dots, dashes and underscores"
)
_SMTP = Address(
    r"|smtps?://\S+", 'the address of a server for mail such as "smtp://user:password@host:25", or empty'
)
_MAIL = Text(r"[^\s@<>]+@[^\s@<>]+", 'an address for mail such as "gcs@example.org"')
_ROOT = Text(
    r"(/|file:///)\S*",
    "the path of a directory, such as /srv/docs, without spaces; with spaces as file:///srv/my%20docs",
)
_NEWS = Text(
    r"(nntps?|s?news)://[^\s@]+",
    "a news server, or a group of one, such as nntps://news.example.org/comp.lang.c, without a password",
)
_FTP = Text(
    r"ftp://[^\s@]+",
    "an FTP server, or a directory of one, such as ftp://ftp.example.org/pub, without a password",
)
_SFTP = Text(
    r"sftp://[^\s@]+",
    "an SSH server, or a directory of one, such as sftp://host.example/srv, without a password",
)
_BUCKET = Text(r"s3://[^\s@]+", "a bucket, or a part of one, such as s3://archive/2024/, without a key")
_ENDPOINT = Text(
    r"https?://[^\s/@]+/?", 'the address of a server of buckets such as "https://s3.amazonaws.com"'
)
_REGION = Text(r"[a-z0-9-]{1,40}", "the name of a region such as eu-central-1")
_LOGIN = Secret(
    r"[^\s:]+:\S+@[^\s@]+",
    "a user, a password and the host that they are for, with its port if that is to be the only one, or the "
    "key of a bucket: user:password@host, user:password@host:port, or id:secret@bucket",
)
_DATABASE = Address(
    r"[a-z0-9][a-z0-9_-]{0,62}=[a-z0-9+_]+:/\S+",
    'a name and the address that SQLAlchemy has for it, such as "shop=postgresql+psycopg://user:password@host/shop"',
)
_SCHEDULE = Text(
    r"(/|[a-z][a-z0-9]*://)\S*=[0-9.]+[a-z][0-9a-z.]*",
    "a source, or a part of one, and after how long it is visited again, such as /srv/docs=1h",
)
_USERNAME = Text(r"\S*", "a user name without spaces, or empty")
_PASSWORD = Secret(r".*", "a string")

# fmt: off
_SKIPPED = (
    "7z", "aac", "avi", "avif", "bin", "bmp", "bz2", "css", "deb", "dmg", "eot", "exe", "flac", "flv", "gif",
    "gz", "ico", "iso", "jar", "jpeg", "jpg", "js", "m4a", "m4v", "mjs", "mkv", "mov", "mp3", "mp4", "mpeg",
    "mpg", "msi", "ogg", "ogv", "otf", "png", "rar", "rpm", "svg", "swf", "tar", "tgz", "tif", "tiff", "ttf",
    "wasm", "wav", "weba", "webm", "webp", "wma", "wmv", "woff", "woff2", "xz", "zip", "zst",
)
# fmt: on


class _Section:
    """A section shows its settings as the user spells them, so that no secret reaches a log by repr."""

    __slots__ = ()

    def __repr__(self) -> str:
        """The settings, with secrets masked."""
        shown = (f"{s.key}={s.kind.show(getattr(self, s.field))!r}" for s in _settings_of("", type(self)))
        return f"{type(self).__name__}({', '.join(shown)})"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Crawl(_Section):
    """What this crawl is."""

    name: Annotated[str, _NAME] = "crawl"
    scope: Annotated[tuple[str, ...], Several(_RULE)] = ()
    max_depth: Annotated[int | None, OrNone(Number(0, 1_000_000))] = None
    max_pages_per_host: Annotated[int | None, OrNone(Number(1, 10**12))] = None
    skip: Annotated[tuple[str, ...], Several(_EXTENSION)] = _SKIPPED
    traps: Annotated[bool, Flag()] = True
    clean: Annotated[tuple[str, ...], Several(_CLEANING)] = ()


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Fetch(_Section):
    """How pages are asked for: who we say we are, how politely, and within which limits."""

    agent: Annotated[str, _AGENT] = ""
    allow: Annotated[tuple[IPv4Network | IPv6Network, ...], Several(Network())] = ()
    hosts: Annotated[Path | None, FilePath()] = None
    proxy: Annotated[str, _PROXY] = ""
    tls_ca: Annotated[Path | None, FilePath()] = None
    concurrency: Annotated[int, Number(1, 10_000)] = 128
    per_host: Annotated[int, Number(1, 1_000)] = 1
    per_address: Annotated[int, Number(1, 1_000)] = 4
    delay_s: Annotated[float, Duration(0, 86_400)] = 1.0
    delay_factor: Annotated[float, Decimals(0, 1_000)] = 3.0
    max_delay_s: Annotated[float, Duration(0, 86_400)] = 60.0
    max_wait_s: Annotated[float, Duration(0.01, 86_400)] = 3600.0
    robots: Annotated[str, Choice(("obey", "ignore"))] = "obey"
    sitemaps: Annotated[bool, Flag()] = True
    connect_timeout_s: Annotated[float, Duration(0.1, 600)] = 10.0
    timeout_s: Annotated[float, Duration(0.1, 86_400)] = 60.0
    idle_timeout_s: Annotated[float, Duration(0, 3_600)] = 15.0
    min_rate_bytes: Annotated[int, Size(0, 1 << 30)] = 256
    max_header_bytes: Annotated[int, Size(1 << 10, 1 << 20)] = 32 << 10
    max_body_bytes: Annotated[int, Size(1 << 10, 1 << 32)] = 10 << 20
    max_ratio: Annotated[int, Number(1, 100_000)] = 200
    dns_lifetime_s: Annotated[float, Duration(0, 86_400)] = 300.0
    dns_concurrency: Annotated[int, Number(1, 1_000)] = 16


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Sources(_Section):
    """What is crawled beside the web."""

    files: Annotated[tuple[str, ...], Several(_ROOT)] = ()
    news: Annotated[tuple[str, ...], Several(_NEWS)] = ()
    ftp: Annotated[tuple[str, ...], Several(_FTP)] = ()
    sftp: Annotated[tuple[str, ...], Several(_SFTP)] = ()
    known_hosts: Annotated[Path | None, FilePath()] = None
    ssh_key: Annotated[Path | None, FilePath()] = None
    buckets: Annotated[tuple[str, ...], Several(_BUCKET)] = ()
    bucket_endpoint: Annotated[str, _ENDPOINT] = "https://s3.amazonaws.com"
    bucket_region: Annotated[str, _REGION] = "us-east-1"
    logins: Annotated[tuple[str, ...], Several(_LOGIN)] = ()
    databases: Annotated[tuple[str, ...], Several(_DATABASE)] = ()
    rows: Annotated[int, Number(0, 4_000)] = 100
    every: Annotated[tuple[str, ...], Several(_SCHEDULE)] = ()
    follow: Annotated[bool, Flag()] = False

    @property
    def any(self) -> bool:
        """Whether there are any."""
        return bool(self.files or self.news or self.ftp or self.sftp or self.buckets or self.databases)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Store(_Section):
    """What is kept on disk."""

    pages: Annotated[str, Choice(("warc.gz", "warc.zst", "none"))] = "warc.gz"
    warc_bytes: Annotated[int, Size(1 << 20, 1 << 40)] = 1 << 30
    segment_rows: Annotated[int, Number(100, 10_000_000)] = 50_000
    segment_every_s: Annotated[float, Duration(0.1, 365 * 86_400)] = 600.0
    keep_free_bytes: Annotated[int, Size(0, 1 << 50)] = 512 << 20


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Revisit(_Section):
    """When pages are visited again."""

    policy: Annotated[str, Choice(("none", "uniform", "anansi", "adaptive"))] = "none"
    once: Annotated[bool, Flag()] = False
    alpha: Annotated[float, Decimals(0, 1)] = 0.9
    every_s: Annotated[float, Duration(1, 10 * 365 * 86_400)] = 7 * 86_400.0
    least_s: Annotated[float, Duration(0.1, 365 * 86_400)] = 3600.0
    most_s: Annotated[float, Duration(1, 20 * 365 * 86_400)] = 90 * 86_400.0
    per_host: Annotated[int | None, OrNone(Number(1, 10**9))] = None

    @property
    def is_on(self) -> bool:
        """Whether pages are visited again at all."""
        return self.once or self.policy != "none"

    @property
    def is_standing(self) -> bool:
        """Whether there is always another visit to come, so that a crawl never ends by itself."""
        return self.policy != "none" and not self.once


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Summary(_Section):
    """What is said about a page."""

    level: Annotated[str, Choice(("full", "links"))] = "full"
    readers: Annotated[int, Number(0, 256)] = 1
    read_timeout_s: Annotated[float, Duration(0.1, 3_600)] = 20.0
    read_memory_bytes: Annotated[int, Size(256 << 20, 1 << 40)] = 1 << 30
    max_members: Annotated[int, Number(1, 100_000)] = 1_000
    max_member_bytes: Annotated[int, Size(1 << 10, 1 << 32)] = 32 << 20
    max_expanded_bytes: Annotated[int, Size(1 << 10, 1 << 40)] = 256 << 20
    max_ratio: Annotated[int, Number(1, 100_000)] = 200
    max_nesting: Annotated[int, Number(1, 16)] = 3
    thumbnail_px: Annotated[int, Number(0, 256)] = 128


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Redis(_Section):
    """How Redis is reached; `password` also holds what was read from `password_file`."""

    url: Annotated[str, _URL] = ""
    username: Annotated[str, _USERNAME] = ""
    password: Annotated[str, _PASSWORD] = ""
    password_file: Annotated[Path | None, FilePath()] = None
    timeout_s: Annotated[float, Duration(0.1, 600)] = 10.0
    tls_ca: Annotated[Path | None, FilePath()] = None
    tls_cert: Annotated[Path | None, FilePath()] = None
    tls_key: Annotated[Path | None, FilePath()] = None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Space(_Section):
    """The limits of the tuple space."""

    max_tuple_bytes: Annotated[int, Size(1 << 10, LARGEST_TUPLE_BYTES)] = 1 << 20
    max_depth: Annotated[int, Number(1, 64)] = 8
    lease_s: Annotated[float, Duration(0.1, 86400)] = 30.0
    max_deliveries: Annotated[int | None, OrNone(Number(1, 65_535))] = None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Member(_Section):
    """A gatherer as one of several."""

    name: Annotated[str, _NODE] = ""
    heartbeat_s: Annotated[float, Duration(0.05, 60)] = 1.0
    forget_after_s: Annotated[float, Duration(1, 30 * 86_400)] = 600.0
    leave_when_finished: Annotated[bool, Flag()] = False


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Exchange(_Section):
    """How URLs go to the gatherers that own them."""

    every_s: Annotated[float, Duration(0.01, 60)] = 0.5
    batch_bytes: Annotated[int, Size(1 << 10, 4 << 20)] = 64 << 10
    in_redis_bytes: Annotated[int, Size(1 << 10, 1 << 30)] = 2 << 20
    outbox_bytes: Annotated[int, Size(1 << 10, 1 << 40)] = 64 << 20
    again_after_s: Annotated[float, Duration(0.1, 3_600)] = 5.0


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Rebalance(_Section):
    """When and how the web is shared out anew."""

    cooldown_s: Annotated[float, Duration(0, 86_400)] = 60.0
    deadline_s: Annotated[float, Duration(0.1, 600)] = 10.0
    imbalance: Annotated[float, Decimals(1, 1_000)] = 1.5
    locality: Annotated[float, Decimals(1, 1_000)] = 2.0
    when: Annotated[tuple[str, ...], Several(_EVENT)] = ()


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Helpers(_Section):
    """Who helps this gatherer."""

    sites: Annotated[tuple[str, ...], Several(_SITE)] = ()
    credentials: Annotated[Path | None, FilePath()] = None
    bundle: Annotated[int, Number(1, 64)] = 32


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Placement(_Section):
    """Who owns what."""

    strategy: Annotated[str, Choice(("superpage", "hash", "proximity", "twoma", "oma"))] = "superpage"
    split_hosts: Annotated[bool, Flag()] = False
    measure_again_s: Annotated[float, Duration(1, 365 * 86_400)] = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Partition(_Section):
    """How superpages are shared out."""

    method: Annotated[str, Choice(("I", "II", "auto"))] = "auto"
    delta: Annotated[float, Decimals(1, 1_000)] = 20.0
    worth: Annotated[float, Decimals(0, 1)] = 0.02


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Rank(_Section):
    """How pages are ranked, and by what the graph of a crawl is computed."""

    every_s: Annotated[float | None, OrNone(Duration(10, 365 * 86_400))] = None
    directories: Annotated[tuple[str, ...], Several(_DIRECTORY)] = ()
    by: Annotated[str, Choice(("in-degree", "pagerank", "domain"))] = "in-degree"
    engine: Annotated[str, Choice(("duckdb", "spark"))] = "duckdb"
    spark_master: Annotated[str, _MASTER] = "local[*]"
    memory_bytes: Annotated[int, Size(256 << 20, 1 << 50)] = 4 << 30


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Index(_Section):
    """What is done so that pages can be searched for."""

    engine: Annotated[str, Choice(("none", "embedded", "opensearch"))] = "none"
    url: Annotated[str, _OPENSEARCH] = ""
    name: Annotated[str, _INDEX_NAME] = "gcs"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Profiles(_Section):
    """How matches of profiles are delivered."""

    patience_s: Annotated[float, Duration(0, 30 * 86_400)] = 3600.0
    smtp: Annotated[str, _SMTP] = ""
    sender: Annotated[str, _MAIL] = "gcs@localhost"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Log(_Section):
    """What is logged, and how."""

    level: Annotated[str, Choice(("debug", "info", "warning", "error"))] = "info"
    format: Annotated[str, Choice(("auto", "pretty", "json", "journald"))] = "auto"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Metrics(_Section):
    """Where monitoring can ask."""

    listen: Annotated[str, _LISTEN] = ""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Monitor(_Section):
    """The web page."""

    listen: Annotated[str, _PLACE] = "127.0.0.1:8470"
    path: Annotated[str, _BASE_PATH] = "/"
    hosts: Annotated[tuple[str, ...], Several(_HOST_NAME)] = ()
    session_s: Annotated[float, Duration(60, 30 * 86_400)] = 12 * 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Every setting; the defaults need no file, no environment and no set-up."""

    crawl: Crawl = field(default_factory=Crawl)
    fetch: Fetch = field(default_factory=Fetch)
    sources: Sources = field(default_factory=Sources)
    store: Store = field(default_factory=Store)
    revisit: Revisit = field(default_factory=Revisit)
    summary: Summary = field(default_factory=Summary)
    redis: Redis = field(default_factory=Redis)
    space: Space = field(default_factory=Space)
    member: Member = field(default_factory=Member)
    exchange: Exchange = field(default_factory=Exchange)
    rebalance: Rebalance = field(default_factory=Rebalance)
    helpers: Helpers = field(default_factory=Helpers)
    placement: Placement = field(default_factory=Placement)
    partition: Partition = field(default_factory=Partition)
    rank: Rank = field(default_factory=Rank)
    index: Index = field(default_factory=Index)
    profiles: Profiles = field(default_factory=Profiles)
    log: Log = field(default_factory=Log)
    metrics: Metrics = field(default_factory=Metrics)
    monitor: Monitor = field(default_factory=Monitor)


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting: where it is in `Config`, and what it may be."""

    section: str
    key: str
    field: str
    kind: Kind[Any]

    @property
    def name(self) -> str:
        """What users call it, such as `redis.timeout`."""
        return f"{self.section}.{self.key}"

    @property
    def variable(self) -> str:
        """The environment variable that sets it, such as `GCS_REDIS_TIMEOUT`."""
        return f"GCS_{self.section}_{self.key}".upper()


def _settings_of(section: str, cls: type[Any]) -> Iterator[Setting]:
    hints = get_type_hints(cls, include_extras=True)
    for each in fields(cls):
        kind: Kind[Any] = hints[each.name].__metadata__[0]
        yield Setting(section, each.name.removesuffix(kind.suffix), each.name, kind)


SECTIONS: Mapping[str, type[Any]] = MappingProxyType(get_type_hints(Config))
SETTINGS: Mapping[str, Setting] = MappingProxyType(
    {each.name: each for section, cls in SECTIONS.items() for each in _settings_of(section, cls)}
)


def variables(config: Config) -> dict[str, str]:
    """The environment that gives this configuration, and no file beside it; it has the secrets in it."""
    plain, found = Config(), {"GCS_CONFIG": os.devnull}
    for setting in SETTINGS.values():
        value = getattr(getattr(config, setting.section), setting.field)
        if value != getattr(getattr(plain, setting.section), setting.field):
            found[setting.variable] = setting.kind.plain(value)
    return found


@dataclass(frozen=True, slots=True)
class Loaded:
    """A configuration, the file it was read from, and for each setting the layer that it came from."""

    config: Config
    file: Path | None
    origins: Mapping[str, str]

    def changed(self, sections: Sequence[str]) -> list[str]:
        """The settings of some sections that somebody gave, as the command line has them; without secrets."""
        found = []
        for name, setting in SETTINGS.items():
            if setting.section in sections and setting.kind.quotable and self.origins[name] != DEFAULT:
                value = getattr(getattr(self.config, setting.section), setting.field)
                found.append(f"{name}={setting.kind.written(value)}")
        return found

    def shown(self) -> Iterator[tuple[Setting, Shown, str]]:
        """Each setting with its value, secrets masked, and its origin."""
        for name, setting in SETTINGS.items():
            value = getattr(getattr(self.config, setting.section), setting.field)
            yield setting, setting.kind.show(value), self.origins[name]


@dataclass(frozen=True, slots=True)
class _Assignment:
    """What one layer says about one setting."""

    name: str
    raw: object
    origin: str
    is_text: bool = True


def load(
    *,
    file: Path | None = None,
    overrides: Sequence[str] = (),
    environ: Mapping[str, str] = os.environ,
    system_file: Path | None = None,
) -> Loaded:
    """Read all layers; raises ConfigError, in one sentence, for the first thing that is wrong."""
    path = file or _default_file(environ, system_file or SYSTEM_FILE)
    layers = [*_from_file(path), *_from_environment(environ), *_from_overrides(overrides)]
    values: dict[str, object] = {}
    origins = dict.fromkeys(SETTINGS, DEFAULT)
    for assignment in layers:
        values[assignment.name] = _value(assignment)
        origins[assignment.name] = assignment.origin
    _read_password(values, origins, environ)
    sections = {
        section: cls(**{s.field: values[s.name] for s in _settings_of(section, cls) if s.name in values})
        for section, cls in SECTIONS.items()
    }
    return Loaded(Config(**sections), path, MappingProxyType(origins))


def _default_file(environ: Mapping[str, str], system_file: Path) -> Path | None:
    if named := environ.get("GCS_CONFIG"):
        return Path(named)
    try:
        return system_file if system_file.exists() else None
    except PermissionError:
        return system_file  # to read it says what is wrong


def _from_file(path: Path | None) -> Iterator[_Assignment]:
    if path is None:
        return
    try:
        text = path.read_text(encoding="utf-8")
        tables = tomllib.loads(text)
    except OSError as error:
        raise ConfigError(f"{path}: the configuration cannot be read: {error.strerror}.") from error
    except ValueError as error:
        raise ConfigError(f"{path}: the configuration is not valid TOML: {error}.") from error
    for section, table in tables.items():
        if not isinstance(table, dict):
            place, advice = _place(path, text, "", section), _advice(f".{section}")
            raise ConfigError(f"{place}: {section} stands outside of a section; {advice}")
        if section not in SECTIONS and not table:
            raise ConfigError(f"{path}: unknown section [{section}]; the sections are {', '.join(SECTIONS)}.")
        for key, raw in table.items():
            yield _Assignment(f"{section}.{key}", raw, _place(path, text, section, key), is_text=False)


def _from_environment(environ: Mapping[str, str]) -> Iterator[_Assignment]:
    """Settings from variables; a GCS_ variable that is none of ours is refused only if it looks like one."""
    by_variable = {setting.variable: setting.name for setting in SETTINGS.values()}
    prefixes = tuple(f"GCS_{section}_".upper() for section in SECTIONS)
    for variable in sorted(environ):
        if variable in by_variable:
            yield _Assignment(by_variable[variable], environ[variable], variable)
        elif variable.startswith("GCS_") and variable != "GCS_CONFIG":
            near = difflib.get_close_matches(variable, by_variable, n=1, cutoff=0.8)
            if near or variable.startswith(prefixes):
                advice = f"did you mean {near[0]}?" if near else "`gcs config show` lists the settings."
                raise ConfigError(f"{variable}: the environment sets an unknown setting; {advice}")


def _from_overrides(overrides: Sequence[str]) -> Iterator[_Assignment]:
    for override in overrides:
        name, equals, text = override.partition("=")
        if not equals:
            raise ConfigError(f"-s {override}: a setting is written section.key=value.")
        yield _Assignment(name.strip(), text, "-s")


def read_setting(text: str, origin: str) -> tuple[Setting, object]:
    """The setting and the value that `section.key=value` gives; raises ConfigError, with the origin."""
    name, equals, value = text.partition("=")
    if not equals:
        raise ConfigError(f"{origin} {text}: a setting is written section.key=value.")
    assignment = _Assignment(name.strip(), value, origin)
    read = _value(assignment)
    return SETTINGS[assignment.name], read


def _value(assignment: _Assignment) -> object:
    setting = SETTINGS.get(assignment.name)
    if setting is None:
        raise ConfigError(
            f"{assignment.origin}: unknown setting {assignment.name}; {_advice(assignment.name)}"
        )
    try:
        if assignment.is_text:
            return setting.kind.read_text(str(assignment.raw))
        return setting.kind.read(assignment.raw)
    except ValueError:
        found = f"is {_toml(assignment.raw)} but " if setting.kind.quotable else ""
        message = f"{assignment.origin}: {setting.name} {found}must be {setting.kind.allowed}."
    raise ConfigError(message)


def _read_password(values: dict[str, object], origins: dict[str, str], environ: Mapping[str, str]) -> None:
    """Put what `redis.password_file` holds into `redis.password`."""
    path = values.get("redis.password_file")
    if not isinstance(path, Path):
        return
    origin = origins["redis.password_file"]
    if values.get("redis.password"):
        raise ConfigError(
            f"{origin}: redis.password_file and redis.password (from {origins['redis.password']}) are both "
            "set; keep one of them."
        )
    path = Path(environ.get("CREDENTIALS_DIRECTORY", ""), path)
    secret = read_secret(path, f"{origin}: redis.password_file")
    values["redis.password"] = secret
    origins["redis.password"] = str(path)


def read_secret(path: Path, what: str) -> str:
    """The first line of a file; raises ConfigError, which says what it was to be."""
    try:
        with path.open("rb") as stream:
            secret = stream.read(_MAX_SECRET_BYTES).decode().partition("\n")[0].rstrip("\r")
    except OSError as error:
        raise ConfigError(f"{what} {path} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError:
        secret = ""
    if not secret or not secret.isprintable():
        where, _, name = what.rpartition(": ")
        place = f"{where}: " if where else ""
        raise ConfigError(f"{place}the first line of {name} {path} must be the password.")
    return secret


def _place(path: Path, text: str, section: str, key: str) -> str:
    """The file and, where a plain look at its lines finds the key, the line."""
    current = ""
    for number, line in enumerate(text.splitlines(), start=1):
        if header := re.match(r"\s*\[\s*([\w-]+)\s*\]", line):
            current = header[1]
        elif current == section and re.match(rf"\s*{re.escape(key)}\s*[=.]", line):
            return f"{path}:{number}"
    return str(path)


def _advice(name: str) -> str:
    """The end of a sentence about an unknown setting: the one probably meant, or those that there are."""
    section, _, key = name.partition(".")
    keys = [setting.key for setting in SETTINGS.values() if setting.section == section]
    near = [each for each in SETTINGS if each.endswith(f".{key}")]
    near += [f"{section}.{each}" for each in difflib.get_close_matches(key, keys, n=1)]
    near += difflib.get_close_matches(name, SETTINGS, n=1, cutoff=0.8)
    if near:
        return f"did you mean {near[0]}?"
    return f"[{section}] has {', '.join(keys)}." if keys else f"the sections are {', '.join(SECTIONS)}."


def _toml(raw: object) -> str:
    """A refused value as the user wrote it, cut to a readable length."""
    if isinstance(raw, bool):
        return str(raw).lower()
    text = f'"{raw}"' if isinstance(raw, str) else str(raw)
    return text if len(text) <= 60 else f"{text[:57]}…"
