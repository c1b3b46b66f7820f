"""The configuration: its layers, its values, its sentences about what is wrong, and the shipped file."""

import dataclasses
import tomllib
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gcs import settings
from gcs.config import DEFAULT, SETTINGS, Config, Loaded, Log, Redis, Space, load, variables
from gcs.errors import ConfigError

SHIPPED = Path(__file__).parent.parent / "config.toml"
NOWHERE = Path("/nonexistent/config.toml")
LEASE = 'a duration from 100ms to 1d, written like "1m30s"'
TUPLE = 'a size from 1KiB to 8MiB, written like "512KiB"'
DELIVERIES = 'a whole number from 1 to 65535, or "none" for no limit'
SECTION_NAMES = (
    "crawl, fetch, sources, store, revisit, summary, redis, space, member, exchange, rebalance, helpers, "
    "placement, partition, rank, index, profiles, log, metrics, monitor"
)


def loaded(
    toml: str | None = None,
    *overrides: str,
    at: Path | None = None,
    environ: Mapping[str, str] | None = None,
) -> Loaded:
    """Load from exactly these layers, whatever the machine has."""
    file = None
    if toml is not None:
        assert at is not None
        file = at / "config.toml"
        file.write_text(toml)
    return load(file=file, overrides=overrides, environ=environ or {}, system_file=NOWHERE)


def sentence(
    toml: str | None = None,
    *overrides: str,
    at: Path | None = None,
    environ: Mapping[str, str] | None = None,
) -> str:
    """What the user is told about a configuration that is refused, less the directory of the file."""
    with pytest.raises(ConfigError) as caught:
        loaded(toml, *overrides, at=at, environ=environ)
    return str(caught.value).replace(f"{at}/", "")


class TestShippedFile:
    """`config.toml` is the reference of all settings."""

    def test_equals_the_defaults(self) -> None:
        """Loading the shipped file gives the defaults."""
        assert load(file=SHIPPED, environ={}).config == Config()

    def test_has_every_setting(self) -> None:
        """The shipped file and the configuration have the same settings in the same order."""
        tables = tomllib.loads(SHIPPED.read_text())
        assert [f"{section}.{key}" for section, table in tables.items() for key in table] == list(SETTINGS)

    def test_says_why(self) -> None:
        """Right above each setting of the shipped file stands a comment that is a sentence."""
        lines = SHIPPED.read_text().splitlines()
        keys = [number for number, line in enumerate(lines) if line and line[0] not in "#[ ]"]
        assert len(keys) == len(SETTINGS)
        for number in keys:
            assert lines[number - 1].startswith("# "), lines[number]
            assert lines[number - 1].endswith("."), lines[number]

    @pytest.mark.parametrize("name", SETTINGS)
    def test_defaults_are_allowed(self, name: str) -> None:
        """Each default is a value that its setting allows, spelled as the shipped file spells it."""
        setting = SETTINGS[name]
        value = getattr(getattr(Config(), setting.section), setting.field)
        spelled = tomllib.loads(SHIPPED.read_text())[setting.section][setting.key]
        assert setting.kind.show(value) == spelled
        assert setting.kind.read(spelled) == value


class TestLayers:
    """Defaults, file, environment, command line: what comes later wins."""

    def test_without_anything_the_defaults_are_in_force(self) -> None:
        """With no file, no variable and no option, every setting is its default and says so."""
        result = loaded()
        assert result.config == Config()
        assert set(result.origins.values()) == {DEFAULT}
        assert result.file is None

    def test_later_layers_win(self, tmp_path: Path) -> None:
        """The environment wins over the file, and the command line over both."""
        toml = '[log]\nlevel = "error"\n[space]\nlease = "1m"\n[redis]\ntimeout = "1s"\n'
        environ = {"GCS_SPACE_LEASE": "2m", "GCS_REDIS_TIMEOUT": "2s"}
        result = loaded(toml, "redis.timeout=3s", at=tmp_path, environ=environ)
        assert result.config == Config(
            log=Log(level="error"), space=Space(lease_s=120), redis=Redis(timeout_s=3)
        )
        assert result.origins["log.level"] == f"{tmp_path}/config.toml:2"
        assert result.origins["space.lease"] == "GCS_SPACE_LEASE"
        assert result.origins["redis.timeout"] == "-s"

    def test_of_two_options_the_last_wins(self) -> None:
        """A setting given twice on the command line has the last value."""
        assert loaded(None, "crawl.name=a", "crawl.name=b").config.crawl.name == "b"

    def test_a_value_may_contain_an_equals_sign(self) -> None:
        """Only the first equals sign of an option ends the name."""
        assert loaded(None, "redis.url=redis://h?a=b").config.redis.url == "redis://h?a=b"

    def test_the_file_is_found(self, tmp_path: Path) -> None:
        """The file is the one given, else the one in GCS_CONFIG, else the system's if it exists."""
        given_, variable, system = (tmp_path / name for name in ("given", "variable", "system"))
        for file in (given_, variable, system):
            file.write_text(f'[crawl]\nname = "{file.name}"\n')
        environ = {"GCS_CONFIG": str(variable)}
        assert load(file=given_, environ=environ, system_file=system).config.crawl.name == "given"
        assert load(environ=environ, system_file=system).config.crawl.name == "variable"
        assert load(environ={"GCS_CONFIG": ""}, system_file=system).config.crawl.name == "system"
        assert load(environ={}, system_file=NOWHERE).config.crawl.name == "crawl"

    def test_a_file_that_is_not_for_us(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A system-wide file in a directory that this user may not look into is one sentence."""

        def refuse(_: Path) -> bool:
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr(Path, "exists", refuse)
        with pytest.raises(ConfigError, match="the configuration cannot be read"):
            load(environ={}, system_file=tmp_path / "config.toml")

    def test_the_configuration_is_frozen(self) -> None:
        """Nobody can change a configuration that others were given."""
        with pytest.raises(dataclasses.FrozenInstanceError):
            Config().log.level = "debug"  # type: ignore[misc]

    def test_other_programs_variables_are_left_alone(self) -> None:
        """A variable that only shares the prefix, as those of a storage service do, is ignored."""
        assert loaded(environ={"GCS_BUCKET": "x", "GCS_CREDENTIALS": "y"}).config == Config()

    def test_text_becomes_a_number(self) -> None:
        """Numbers and "none" can be given where only text can be."""
        result = loaded(None, "space.max_deliveries=none", environ={"GCS_SPACE_MAX_DEPTH": "3"})
        assert (result.config.space.max_depth, result.config.space.max_deliveries) == (3, None)
        assert loaded(None, "space.max_deliveries=7").config.space.max_deliveries == 7


class TestSentences:
    """What is wrong is said in one sentence that names the source, the setting and what is allowed."""

    @pytest.mark.parametrize(
        ("toml", "expected"),
        [
            ('[redis]\nulr = ""', "config.toml:2: unknown setting redis.ulr; did you mean redis.url?"),
            ('[redsi]\nurl = ""', "config.toml:2: unknown setting redsi.url; did you mean redis.url?"),
            ("[log]\nlease = 1", "config.toml:2: unknown setting log.lease; did you mean space.lease?"),
            ("[log]\nxyz = 1", "config.toml:2: unknown setting log.xyz; [log] has level, format."),
            (
                "[q]\nxyz = 1",
                f"config.toml:2: unknown setting q.xyz; the sections are {SECTION_NAMES}.",
            ),
            ("[q]", f"config.toml: unknown section [q]; the sections are {SECTION_NAMES}."),
            ("lease = 1", "config.toml:1: lease stands outside of a section; did you mean space.lease?"),
            (
                "[log.level]\nx = 1",
                "config.toml: log.level is {'x': 1} but must be one of debug, info, warning, error.",
            ),
            (
                "[space]\nlease = 30",
                f"config.toml:2: space.lease is 30 but must be {LEASE}.",
            ),
            (
                '[space]\nlease = "1ms"',
                f'config.toml:2: space.lease is "1ms" but must be {LEASE}.',
            ),
            (
                '[space]\nmax_tuple = "1TB"',
                f'config.toml:2: space.max_tuple is "1TB" but must be {TUPLE}.',
            ),
            (
                "[space]\n\nmax_depth = true",
                "config.toml:3: space.max_depth is true but must be a whole number from 1 to 64.",
            ),
            (
                '[space]\nmax_depth = "3"',
                'config.toml:2: space.max_depth is "3" but must be a whole number from 1 to 64.',
            ),
            (
                "[space]\nmax_deliveries = 0",
                f"config.toml:2: space.max_deliveries is 0 but must be {DELIVERIES}.",
            ),
            (
                '[log]\nlevel = "loud"',
                'config.toml:2: log.level is "loud" but must be one of debug, info, warning, error.',
            ),
            (
                f'[log]\nlevel = "{"x" * 500}"',
                f'config.toml:2: log.level is "{"x" * 56}… but must be one of debug, info, warning, error.',
            ),
            (
                "[redis]\ntls_ca = 1",
                "config.toml:2: redis.tls_ca is 1 but must be the path of a file, or empty for none.",
            ),
        ],
    )
    def test_a_wrong_file(self, tmp_path: Path, toml: str, expected: str) -> None:
        """A file is refused with its name, the line where it can be told, and what is allowed."""
        assert sentence(toml, at=tmp_path) == expected

    @pytest.mark.parametrize(
        "event", ["nothing>1", "queued>", "queued>1.2.3", "queued>.", "queued=>1", "id>1"]
    )
    def test_no_event(self, event: str) -> None:
        """An event has the name of a number that gatherers publish, and a limit that is one."""
        with pytest.raises(ConfigError, match=r"rebalance\.when"):
            load(overrides=[f"rebalance.when={event}"], environ={}, system_file=Path("/nonexistent"))

    @pytest.mark.parametrize("toml", ["[redis", "x", '[a]\nb = "\x00"', "\xff"])
    def test_no_toml(self, tmp_path: Path, toml: str) -> None:
        """A file that is no TOML is refused with its name and the parser's reason."""
        file = tmp_path / "config.toml"
        file.write_bytes(toml.encode("latin-1"))
        with pytest.raises(ConfigError, match=r"config\.toml: the configuration is not valid TOML: .+\."):
            load(file=file, environ={})

    def test_no_file(self, tmp_path: Path) -> None:
        """A file that was named but does not exist is an error, not a silent default."""
        with pytest.raises(ConfigError, match=r"gone: the configuration cannot be read: No such file"):
            load(environ={"GCS_CONFIG": str(tmp_path / "gone")})

    def test_a_wrong_variable(self) -> None:
        """A variable with a wrong value, or that nearly is one of ours, is refused by its name."""
        assert sentence(environ={"GCS_LOG_LEVEL": "x"}) == (
            'GCS_LOG_LEVEL: log.level is "x" but must be one of debug, info, warning, error.'
        )
        assert sentence(environ={"GCS_REDSI_URL": "x"}) == (
            "GCS_REDSI_URL: the environment sets an unknown setting; did you mean GCS_REDIS_URL?"
        )
        assert sentence(environ={"GCS_LOG_COLOUR_OF_LINES": "x"}) == (
            "GCS_LOG_COLOUR_OF_LINES: the environment sets an unknown setting; "
            "`gcs config show` lists the settings."
        )

    def test_a_wrong_option(self) -> None:
        """An option is refused as such."""
        assert sentence(None, "space.max_depth=x").startswith('-s: space.max_depth is "x" but must be')
        assert (
            sentence(None, "space.max_depth") == "-s space.max_depth: a setting is written section.key=value."
        )

    def test_a_wrong_value_that_a_later_layer_replaces(self, tmp_path: Path) -> None:
        """A mistake in the file is found even while an option hides it."""
        assert "log.level" in sentence('[log]\nlevel = "x"', "log.level=info", at=tmp_path)


class TestVariables:
    """A configuration as the environment of another process."""

    def test_everything_is_passed_on(self, tmp_path: Path) -> None:
        """Another process gets the same configuration, with its secrets, whatever files there are."""
        changed = [
            "crawl.scope=+domain:a.test -regex:[?&]x=",
            "crawl.max_depth=none",
            "crawl.traps=false",
            "fetch.agent=mine (+http://a.test/)",
            "fetch.allow=127.0.0.0/8 fd00::/8",
            "fetch.delay=250ms",
            "fetch.hosts=hosts",
            "fetch.proxy=http://user:word@proxy:3128",
            "store.keep_free=0B",
            "redis.url=redis://:word@a.test:6379/0",
            "redis.password=other",
            "helpers.sites=office far:open@redis://:word@b.test",
        ]
        config = load(overrides=changed, environ={}, system_file=Path("/nonexistent")).config
        other = tmp_path / "config.toml"
        other.write_text('[fetch]\ntimeout = "5s"\n')
        assert load(environ=variables(config), system_file=other).config == config
        assert load(environ=variables(Config()), system_file=other).config == Config()


class TestSecrets:
    """Passwords come from files, and are never shown."""

    def test_the_password_is_in_a_file(self, tmp_path: Path) -> None:
        """The first line of redis.password_file becomes redis.password, which says where it came from."""
        (tmp_path / "secret").write_text("hunter2\nnot this\n")
        result = loaded(None, f"redis.password_file={tmp_path}/secret")
        assert result.config.redis.password == "hunter2"
        assert result.origins["redis.password"] == f"{tmp_path}/secret"

    def test_credentials_of_systemd(self, tmp_path: Path) -> None:
        """A relative redis.password_file is looked up in the directory of systemd's credentials."""
        (tmp_path / "redis").write_text("hunter2")
        environ = {"CREDENTIALS_DIRECTORY": str(tmp_path), "GCS_REDIS_PASSWORD_FILE": "redis"}
        assert loaded(environ=environ).config.redis.password == "hunter2"

    @pytest.mark.parametrize("content", [b"", b"\nsecret", b"\xff\xfe", b"a\x00b"])
    def test_a_file_without_a_password(self, tmp_path: Path, content: bytes) -> None:
        """A password file whose first line is no password is refused without repeating what it holds."""
        (tmp_path / "secret").write_bytes(content)
        assert sentence(None, f"redis.password_file={tmp_path}/secret", at=tmp_path) == (
            "-s: the first line of redis.password_file secret must be the password."
        )

    def test_no_password_file(self, tmp_path: Path) -> None:
        """A password file that is missing is refused by its path."""
        assert sentence(None, f"redis.password_file={tmp_path}/gone", at=tmp_path) == (
            "-s: redis.password_file gone cannot be read: No such file or directory."
        )

    def test_two_passwords(self, tmp_path: Path) -> None:
        """A password given both ways is refused, naming both sources and neither secret."""
        (tmp_path / "secret").write_text("hunter2")
        environ = {"GCS_REDIS_PASSWORD": "hunter3"}
        assert sentence(None, f"redis.password_file={tmp_path}/secret", environ=environ) == (
            "-s: redis.password_file and redis.password (from GCS_REDIS_PASSWORD) are both set; "
            "keep one of them."
        )

    def test_nothing_shows_a_secret(self) -> None:
        """Neither repr nor what `gcs config show` prints has a password, also inside an address."""
        far = "helpers.sites=office far:open@redis://:hunter4@host"
        result = loaded(None, "redis.password=hunter2", "redis.url=redis://me:hunter3@host:1/0", far)
        shown = repr(result) + repr(list(result.shown()))
        assert "hunter" not in shown
        assert "redis://me:********@host:1/0" in shown
        assert "'office', 'far:open@redis://:********@host'" in shown
        assert result.config.redis.password == "hunter2"
        assert result.config.redis.url == "redis://me:hunter3@host:1/0"

    def test_a_refused_secret_is_not_repeated(self) -> None:
        """The sentence about a wrong address does not repeat it, as it may hold a password."""
        assert sentence(None, "redis.url=me:hunter2@host") == (
            '-s: redis.url must be an address such as "redis://host:6379/0", or empty for a private server.'
        )
        assert "hunter2" not in sentence(None, "helpers.sites=far@nowhere://:hunter2@host")

    @pytest.mark.parametrize(
        ("url", "masked"),
        [
            ("redis://host:6379/0", "redis://host:6379/0"),
            ("redis://me@host", "redis://me@host"),
            ("redis://:p@host", "redis://:********@host"),
            ("rediss://me:a/b@c@host/0", "rediss://me:********@host/0"),
            ("unix:///run/redis?db=1&password=p&x=2", "unix:///run/redis?db=1&password=********&x=2"),
            ("redis://h?Sentinel_Password=p", "redis://h?Sentinel_Password=********"),
            ("", ""),
        ],
    )
    def test_addresses_are_masked(self, url: str, masked: str) -> None:
        """A password is masked wherever an address can hold one."""
        assert settings.masked_url(url) == masked


class TestQuantities:
    """Durations and sizes carry their units."""

    @pytest.mark.parametrize(
        ("text", "seconds"),
        [
            ("250ms", 0.25),
            ("10s", 10),
            ("5m", 300),
            ("1h30m", 5400),
            ("1.5s", 1.5),
            ("2d", 172800),
            ("0s", 0),
        ],
    )
    def test_durations(self, text: str, seconds: float) -> None:
        """A duration is one number and unit after another, the larger units first."""
        assert settings.duration_s(text) == seconds

    @pytest.mark.parametrize(
        "text", ["", "10", "s", "-1s", "1 s", "30m1h", "1s1s", "1e3s", "1w", "٣s", "1s\n"]
    )
    def test_no_durations(self, text: str) -> None:
        """Without a unit, or with units out of order, it is no duration."""
        with pytest.raises(ValueError, match="no duration"):
            settings.duration_s(text)

    @pytest.mark.parametrize(
        ("text", "number"),
        [("512KiB", 524288), ("1MB", 1000000), ("1 MiB", 1048576), ("0.5KiB", 512), ("7B", 7), ("2kB", 2000)],
    )
    def test_sizes(self, text: str, number: int) -> None:
        """A size has a unit, decimal or binary."""
        assert settings.size_bytes(text) == number

    @pytest.mark.parametrize("text", ["", "10", "KiB", "-1B", "0.3B", "1TB", "1mib", "1e3B", "1B\n"])
    def test_no_sizes(self, text: str) -> None:
        """Without a known unit, or with a part of a byte, it is no size."""
        with pytest.raises(ValueError, match="no size"):
            settings.size_bytes(text)

    @given(st.integers(0, 10**12))
    def test_durations_return(self, milliseconds: int) -> None:
        """Reading a duration that was shown gives the same duration."""
        seconds = milliseconds / 1000
        assert settings.duration_s(settings.duration(seconds)) == seconds

    @given(st.integers(0, 1 << 50))
    def test_sizes_return(self, number: int) -> None:
        """Reading a size that was shown gives the same size."""
        assert settings.size_bytes(settings.size(number)) == number
