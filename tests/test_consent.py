"""When a helper may work, by what its owner has said."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gcs.core.consent import (
    AT_MOST_S,
    NOTICE_S,
    Hours,
    Idle,
    Network,
    QuietSpell,
    Surroundings,
    Terms,
    decide,
    in_words,
)

MONDAY = datetime(2024, 1, 1, tzinfo=UTC)
DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")

minutes_of_day = st.integers(0, 24 * 60 - 1)
moments = st.builds(lambda s: MONDAY + timedelta(seconds=s), st.integers(0, 7 * 86400 - 1))


def at(text: str) -> datetime:
    """A moment of the week, such as "fri 23:59"."""
    day, clock = text.split()
    hour, minute, *second = map(int, clock.split(":"))
    return MONDAY + timedelta(days=DAYS.index(day), hours=hour, minutes=minute, seconds=sum(second))


def clock(minute: int) -> str:
    """A minute of the day as a clock shows it."""
    return f"{minute // 60:02}:{minute % 60:02}"


def surroundings(when: str = "mon 12:00", **changed: object) -> Surroundings:
    """An idle desktop on mains, with these changes."""
    return Surroundings(**{"local_time": at(when), "idle": Idle(3600, "X11"), **changed})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("hours", "inside", "outside"),
    [
        (
            "20:00-07:00",
            ["mon 20:00", "mon 23:59:59", "tue 00:00", "tue 06:59:59", "mon 03:00"],
            ["mon 07:00", "mon 19:59:59"],
        ),
        ("09:00-17:00", ["sun 09:00", "sun 16:59:59"], ["sun 08:59:59", "sun 17:00"]),
        (
            "mon-fri 20:00-07:00",
            ["mon 20:00", "sat 06:59:59"],
            ["mon 06:59", "sat 07:00", "sat 20:00", "sun 21:00"],
        ),
        ("sun 22:00-02:00", ["sun 22:00", "mon 01:59:59"], ["mon 02:00", "sat 23:00", "sun 01:00"]),
        (
            "fri-mon 12:00-13:00",
            ["fri 12:00", "sat 12:30", "sun 12:30", "mon 12:59"],
            ["tue 12:30", "thu 12:30"],
        ),
        ("wed 00:00-24:00", ["wed 00:00", "wed 23:59:59"], ["tue 23:59:59", "thu 00:00"]),
        (
            "Mon-Fri 20:00-07:00, sat-sun 00:00-24:00",
            ["sat 12:00", "sun 23:59", "tue 05:00"],
            ["mon 05:00", "mon 12:00"],
        ),
        ("7:30-8:00,8:00-9:00", ["mon 07:30", "mon 08:00", "mon 08:59"], ["mon 09:00"]),
    ],
)
def test_hours(hours: str, inside: list[str], outside: list[str]) -> None:
    """A range holds its first moment and not its last; one over midnight belongs to the day it begins on."""
    read = Hours.read(hours)
    assert [moment for moment in inside if not read.are_open(at(moment))] == []
    assert [moment for moment in outside if read.are_open(at(moment))] == []


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "must be written like"),
        ("20-7", "must be written like"),
        ("20:00-07:00,", "must be written like"),
        ("mo 20:00-07:00", "must be written like"),
        ("mon,tue 20:00-07:00", "must be written like"),
        ("25:00-07:00", "which no clock shows"),
        ("20:60-07:00", "which no clock shows"),
        ("20:00-24:01", "which no clock shows"),
        ("24:00-07:00", "must begin before 24:00"),
        ("20:00-20:00", "the whole day is 00:00-24:00"),
    ],
)
def test_hours_that_are_none(text: str, why: str) -> None:
    """What cannot be read is refused with one sentence that says how to write it."""
    with pytest.raises(ValueError, match=why) as caught:
        Hours.read(text)
    assert str(caught.value).endswith(".")


@given(minutes_of_day, minutes_of_day, moments)
def test_over_midnight_is_the_rest(start: int, end: int, moment: datetime) -> None:
    """A range and the one from its end to its beginning share out every moment between them."""
    if start == end:
        return
    one, other = Hours.read(f"{clock(start)}-{clock(end)}"), Hours.read(f"{clock(end)}-{clock(start)}")
    assert one.are_open(moment) != other.are_open(moment)


@given(
    st.lists(st.tuples(st.integers(0, 6), minutes_of_day, minutes_of_day), min_size=1, max_size=6), moments
)
def test_the_next_change(ranges: list[tuple[int, int, int]], moment: datetime) -> None:
    """Up to the next change nothing changes, and then it does."""
    wanted = [(day, start, end) for day, start, end in ranges if start != end]
    if not wanted:
        return
    hours = Hours.read(", ".join(f"{DAYS[day]} {clock(start)}-{clock(end)}" for day, start, end in wanted))
    is_open, left_s = hours.are_open(moment), hours.until_change_s(moment)
    if left_s == math.inf:
        assert is_open
        return
    assert left_s > 0
    assert hours.are_open(moment + timedelta(seconds=left_s)) != is_open
    assert hours.are_open(moment + timedelta(seconds=left_s - 0.5)) == is_open
    assert hours.are_open(moment + timedelta(seconds=left_s / 2)) == is_open


@given(moments, st.integers(-12, 14), st.integers(0, 1))
def test_only_the_wall_clock_counts(moment: datetime, offset: int, fold: int) -> None:
    """What zone the wall is in, and whether its clock shows the hour for the second time, is no matter."""
    terms = Terms(hours=Hours.read("mon-fri 01:30-02:30, sun 20:00-03:00"))
    elsewhere = moment.replace(tzinfo=timezone(timedelta(hours=offset)), fold=fold)
    assert decide(terms, Surroundings(local_time=moment)) == decide(terms, Surroundings(local_time=elsewhere))


def test_hours_without_end() -> None:
    """Hours that fill the week never end, and nothing is said about when."""
    assert Hours.read("00:00-12:00, 12:00-24:00").until_change_s(MONDAY) == math.inf
    consent = decide(Terms(hours=Hours.read("00:00-24:00")), surroundings())
    assert consent.why == "It may work at any time."


def test_at_any_time() -> None:
    """An owner who has said nothing lets it work, on mains."""
    assert decide(Terms(), surroundings(idle=None)).may
    assert decide(Terms(), surroundings(on_battery=False)).may
    assert not decide(Terms(), surroundings(on_battery=True)).may
    assert decide(Terms(on_battery=True), surroundings(on_battery=True)).may


def test_the_sentences() -> None:
    """Why it works or not is said in plain words."""
    terms = Terms.read(hours="20:00-07:00", when_idle="10m")
    said = {
        "hours": decide(terms, surroundings("mon 12:00")),
        "idle": decide(terms, surroundings("mon 21:00", idle=Idle(125, "logind"))),
        "battery": decide(terms, surroundings("mon 21:00", on_battery=True)),
        "paused": decide(terms, surroundings("mon 21:00", paused=True)),
        "captive": decide(terms, surroundings("mon 21:00", network=Network.CAPTIVE)),
        "works": decide(terms, surroundings("mon 21:00", idle=Idle(720, "logind"))),
        "unknown": decide(terms, surroundings("mon 21:00", idle=None)),
    }
    assert {name: consent.why for name, consent in said.items()} == {
        "hours": "It is outside the hours 20:00-07:00; they begin in 8 h.",
        "idle": "Somebody is at the desktop: idle for 2 min by logind, of the 10 min asked for.",
        "battery": "The machine runs on battery.",
        "paused": "The owner has paused it.",
        "captive": "Something else than the web answers, such as a portal that wants a login.",
        "works": "It may work: the desktop is idle for 12 min by logind, and "
        "the hours last for another 10 h.",
        "unknown": "It may work: nothing here tells how long the desktop is idle, so only the hours count, "
        "and the hours last for another 10 h.",
    }
    assert {name for name, consent in said.items() if consent.may} == {"works", "unknown"}


@given(
    moments,
    st.none() | st.floats(0, 1e5),
    st.none() | st.booleans(),
    st.booleans(),
    st.sampled_from(list(Network)),
    st.booleans(),
)
def test_every_condition_counts(
    moment: datetime,
    idle_s: float | None,
    battery: bool | None,
    paused: bool,
    network: Network,
    works_on_battery: bool,
) -> None:
    """It works exactly when nothing speaks against it, and looks again soon whatever it does."""
    hours = Hours.read("mon-thu 20:00-07:00")
    idle = None if idle_s is None else Idle(idle_s, "X11")
    terms = Terms(hours=hours, idle_s=600, on_battery=works_on_battery)
    now = Surroundings(local_time=moment, idle=idle, on_battery=battery, paused=paused, network=network)
    consent = decide(terms, now)
    assert consent.may == (
        hours.are_open(moment)
        and (idle_s is None or idle_s >= 600)
        and (not battery or works_on_battery)
        and not paused
        and network is Network.CLEAR
    )
    assert consent.why.endswith(".")
    assert 1.0 <= consent.look_again_s <= (NOTICE_S if consent.may else AT_MOST_S)


def test_terms_as_written() -> None:
    """The options of the command line become terms."""
    terms = Terms.read(
        hours="20:00-07:00",
        when_idle="10m",
        on_battery=True,
        max_bandwidth="500KB/s",
        max_cpu=25,
        max_memory="512MiB",
    )
    assert terms == Terms(
        hours=Hours("20:00-07:00", terms.hours.spans if terms.hours else ()),
        idle_s=600.0,
        on_battery=True,
        max_bandwidth_bytes=500_000,
        max_cpu_percent=25,
        max_memory_bytes=512 << 20,
    )
    assert Terms.read() == Terms()
    assert Terms.read(max_bandwidth="1MB").max_bandwidth_bytes == 1_000_000


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("when_idle", "10"),
        ("max_bandwidth", "fast"),
        ("max_bandwidth", "1KiB/s"),
        ("max_memory", "much"),
        ("max_cpu", 0),
        ("max_cpu", 101),
    ],
)
def test_terms_that_are_none(option: str, value: object) -> None:
    """What an option cannot be is refused with a sentence that names it."""
    with pytest.raises(ValueError, match=f"--{option.replace('_', '-')}") as caught:
        Terms.read(**{option: value})  # type: ignore[arg-type]
    assert str(caught.value).endswith(".")


def test_quiet_spell() -> None:
    """A machine is quiet from when others need less than three tenths of its cores, until they need more."""
    spell = QuietSpell()
    assert spell.note(0.0, 2.0, own=0.0, cores=4) == 0.0
    assert spell.note(10.0, 1.0, own=0.0, cores=4) == 0.0
    assert spell.note(70.0, 1.1, own=0.0, cores=4) == 60.0
    assert spell.note(80.0, 2.0, own=1.0, cores=4) == 70.0
    assert spell.note(90.0, 0.5, own=3.0, cores=4) == 80.0
    assert spell.note(100.0, 1.2, own=0.0, cores=4) == 0.0
    assert spell.note(130.0, 0.0, own=0.0, cores=4) == 0.0


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "0 s"), (59.9, "59 s"), (60, "1 min"), (7199, "119 min"), (7200, "2 h"), (7321, "2 h 2 min")],
)
def test_in_words(seconds: float, words: str) -> None:
    """Lengths of time are said as people say them."""
    assert in_words(seconds) == words
