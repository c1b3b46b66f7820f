"""The parts of the monitor: keys, history, outlook, chronicle, plans, what was found, KML, what is kept."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import msgpack
import pytest
import trio
from fastkml import validator
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from gcs.board import Member, Pulse
from gcs.core.estimate import Progress
from gcs.core.holdings import Charter, Made
from gcs.core.placement import Plan
from gcs.core.rounds.knowledge import Knowledge
from gcs.core.rulings import ALL, Rulings
from gcs.core.tree import Expansion
from gcs.core.urls import key
from gcs.errors import ConfigError
from gcs.gatherer.findings import VERSION, Findings
from gcs.monitor import keeping, kml
from gcs.monitor import sessions as signing
from gcs.monitor.chronicle import Chronicle
from gcs.monitor.found import Found
from gcs.monitor.history import DAY_S, RECENT, RECENT_S, History
from gcs.monitor.keys import FILE, Keys, Patience, Role
from gcs.monitor.landscape import Landscape
from gcs.monitor.outlook import outlook, sentence
from gcs.monitor.plans import Plans
from gcs.monitor.sessions import Session, Sessions
from gcs.monitor.stream import Stream
from gcs.monitor.summing import Speeds
from gcs.operate.condition import Condition, State
from gcs.operate.looking import View
from gcs.operate.overview import Overview
from gcs.operate.parts import prefix_of

SCHEMA = Path(validator.__file__).parent / "schema" / "ogckml22.xsd"
TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), max_size=20)


class Clock:
    """A clock that a test turns."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


# Keys


def test_sessions_end(tmp_path: Path) -> None:
    """A session lasts for its time, over a restart, but not for who has signed out, nor with other keys."""
    clock, keys = Clock(), Keys.kept(tmp_path)
    assert Keys.kept(tmp_path) == keys

    def started(keys: Keys = keys) -> Sessions:
        return Sessions(keys, 60.0, clock, tmp_path)

    first = started()
    (one, cookie), (two, other) = first.begin(Role.VIEW), first.begin(Role.OPERATE)
    assert started().find(cookie) == one
    assert started(replace(keys, operate="another")).find(cookie) is None
    first.end(one)
    assert (first.find(cookie), first.left_s(one), first.left_s(two)) == (None, 0.0, 60.0)
    again = started()
    assert (again.find(cookie), again.find(other)) == (None, two)
    assert again.cookie == first.cookie != started(replace(keys, operate="another")).cookie
    clock.now += 61
    assert again.find(other) is None
    assert again.left_s(Session(Role.VIEW)) == math.inf


@pytest.mark.parametrize("text", ["", "[]", "{", '{"era": "x"}', '{"era": "x", "ended": {"a": "b"}}', None])
def test_who_has_signed_out_is_not_known(tmp_path: Path, text: str | None) -> None:
    """Then all sessions are over, rather than one that has ended be valid again."""
    clock, keys = Clock(), Keys("view", "operate", "secret")
    sessions = Sessions(keys, 60.0, clock, tmp_path)
    _, cookie = sessions.begin(Role.VIEW)
    path = tmp_path / signing.FILE
    path.unlink() if text is None else path.write_text(text)
    again = Sessions(keys, 60.0, clock, tmp_path)
    assert again.find(cookie) is None
    session, cookie = again.begin(Role.VIEW)
    assert Sessions(keys, 60.0, clock, tmp_path).find(cookie) == session


def test_very_many_sign_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is remembered of them is bounded, and none of them comes back."""
    monkeypatch.setattr(signing, "MOST", 5)
    sessions = Sessions(Keys("view", "operate", "secret"), 60.0, Clock(), tmp_path)
    made = [sessions.begin(Role.VIEW) for _ in range(8)]
    for session, _ in made:
        sessions.end(session)
        assert len(json.loads((tmp_path / signing.FILE).read_text())["ended"]) <= 5
    assert [sessions.find(cookie) for _, cookie in made] == [None] * 8
    assert [sessions.left_s(session) for session, _ in made] == [0.0] * 8


@given(st.text(), st.text())
def test_no_other_cookie_is_a_session(said: str, signature: str) -> None:
    """Whatever somebody invents is no session, and no error."""
    with TemporaryDirectory() as place:
        sessions = Sessions(Keys("view", "operate", "secret"), 60.0, Clock(), Path(place))
    assert sessions.find(said) is None
    assert sessions.find(f"operate.9999999999.x.{signature}") is None


def test_roles() -> None:
    """Each token has its role, an operator may do what a viewer may, and nothing else is a token."""
    keys = Keys("v", "o", "s")
    assert [keys.role(each) for each in ("v", "o", "s", "", "\udcff")] == [
        Role.VIEW,
        Role.OPERATE,
        None,
        None,
        None,
    ]
    assert Role.OPERATE.may(Role.VIEW)
    assert not Role.VIEW.may(Role.OPERATE)


@pytest.mark.parametrize("text", ["", "[]", "{", '{"view": "x"}'])
def test_a_file_that_has_no_tokens(tmp_path: Path, text: str) -> None:
    """It is refused in a sentence, and not replaced."""
    path = tmp_path / FILE
    path.touch(0o600)
    path.write_text(text)
    with pytest.raises(ConfigError, match="these are no tokens"):
        Keys.kept(tmp_path)


def test_patience() -> None:
    """Ten wrong tokens at once, then one every six seconds; each caller has its own."""
    clock = Clock()
    patience = Patience(clock)
    for _ in range(10):
        assert patience.wait_s("a") == 0.0
        patience.failed("a")
    assert patience.wait_s("a") == pytest.approx(6.0)
    assert patience.wait_s("b") == 0.0
    clock.now += 6
    assert patience.wait_s("a") == 0.0
    patience.failed("a")
    assert patience.wait_s("a") > 0.0


# How it goes


def test_outlook() -> None:
    """What is left, at the pace of late, gives the time to go, between the ends of the estimate."""
    totals = {"done": 380, "dropped": 0, "queued": 200}
    said = outlook(totals, Progress(380, 580, 1000.0, 700.0, 1600.0, growing=True), 10.0)
    assert (said["share"], said["share_low"], said["share_high"]) == (0.38, 380 / 1600, 380 / 700)
    assert (said["remaining_s"], said["remaining_low_s"], said["remaining_high_s"]) == (62.0, 32.0, 122.0)
    assert said["sentence"] == "About 38% of what is reachable, 1m2s to go, between 32s and 2m2s."
    endless = outlook(totals, Progress(380, 580, 1000.0, 700.0, None, growing=True), 10.0)
    assert endless["sentence"].endswith("at least 32s.")
    assert outlook(totals, None, 10.0)["sentence"].startswith("66% of the known URLs are done")
    assert outlook(totals, Progress(380, 580, 1e3, 7e2, 2e3, growing=True), 0.0)["remaining_s"] is None
    assert (
        outlook({"done": 5, "dropped": 0, "queued": 0}, None, 0.0)["sentence"] == "All that is known is done."
    )
    assert outlook({"done": 0, "dropped": 0, "queued": 0}, None, 0.0)["sentence"] == "Nothing is known yet."


@given(st.integers(0, 10**9), st.integers(0, 10**9), st.floats(0, 1e9), st.floats(0, 2e9), st.floats(0, 1e6))
def test_outlooks_are_in_order(done: int, queued: int, low: float, more: float, per_s: float) -> None:
    """The likely share and time lie between the least and the most, whatever was estimated."""
    progress = Progress(done, done + queued, low + more / 2, low, low + more, growing=False)
    said: Any = outlook({"done": done, "dropped": 0, "queued": queued}, progress, per_s)
    assert 0 <= said["share_low"] <= said["share"] <= said["share_high"] <= 1
    if said["remaining_high_s"] is not None:
        assert said["remaining_low_s"] <= said["remaining_s"] <= said["remaining_high_s"]


def test_sentences() -> None:
    """A crawl that waits says why, and one that goes on how fast."""
    totals = {"pages_per_s": 41.26}
    crawling = Condition(State.CRAWLING, "812 queued; two is silent")
    assert sentence(crawling, totals, 3, 12) == (
        "Crawling: 41.3 pages/s by 3 gatherers, 812 queued; 12 hosts rest between requests, for politeness; "
        "two is silent."
    )
    assert (
        sentence(Condition(State.STUCK, "no gatherer is there"), totals, 0, 0)
        == "Stuck: no gatherer is there."
    )
    waiting = Condition(State.WAITING, "4 queued, and no host may be asked now")
    assert sentence(waiting, totals, 1, 12).startswith("Waiting for politeness on 12 hosts: 4 queued")
    done = Condition(State.FINISHED, "nothing is left")
    assert (
        sentence(done, totals, 1, 0, finished_at=60.0)
        == "Finished at 1970-01-01 00:01:00 UTC: nothing is left."
    )
    caught_up = Condition(State.CAUGHT_UP, "next page due at 1970-01-01 01:00:00 UTC")
    assert sentence(caught_up, totals, 1, 3) == "Caught up, next page due at 1970-01-01 01:00:00 UTC."
    assert "yet" in sentence(None, {}, 0, 0)


def test_history() -> None:
    """The last hour is kept in steps, the last day in means; who is gone for an hour is forgotten."""
    history = History()
    at = 0.0
    for number in range(2 * RECENT):
        at = number * RECENT_S
        assert history.is_due(at)
        each = {"one": {"queued": 1.0}} if number < 10 else {"two": {"pages_per_s": 2.0, "queued": 3.0}}
        history.add(at, {"pages_per_s": float(number)}, each)
        assert not history.is_due(at + 1)
    shown = history.shown()
    recent, day = shown["recent"], shown["day"]
    assert len(recent["at"]) == RECENT
    assert recent["at"][-1] == at
    assert set(recent["gatherers"]) == {"two"}
    assert recent["gatherers"]["two"]["overhead_percent"] == [None] * RECENT
    assert {len(values) for values in recent["gatherers"]["two"].values()} == {RECENT}
    assert len(day["at"]) == 2 * RECENT * RECENT_S / DAY_S
    assert day["pages_per_s"][-1] == pytest.approx(2 * RECENT - 18, abs=1)
    back = History()
    back.recent.restore(msgpack.unpackb(msgpack.packb(history.recent.state())))
    assert back.recent.shown() == recent
    with pytest.raises((ValueError, KeyError)):
        back.recent.restore({"at": b"12345678", "all": {}, "each": {}})


# What happens


def overview(*members: Member, silent: str = "", **changes: object) -> Overview:
    """What was seen of some gatherers."""
    view = View(
        members={each.id: each for each in members},
        living=frozenset(each.id for each in members if each.pulse.name not in silent.split()),
        charter=changes.get("charter"),  # type: ignore[arg-type]
        rulings=changes.get("rulings", Rulings()),  # type: ignore[arg-type]
        at=1000.0,
    )
    state = changes.get("state", State.CRAWLING)
    assert isinstance(state, State)
    alarms = changes.get("alarms", ())
    return Overview("c", view, Condition(state, ""), alarms=alarms)  # type: ignore[arg-type]


def member(name: str, incarnation: str = "1", standing: str = "crawling", **facts: object) -> Member:
    """A gatherer."""
    return Member(name * 2, 1, Pulse(name, incarnation, standing=standing, facts=facts))


def test_chronicle() -> None:
    """Who comes and goes, plans, rulings, alarms and the end are told once each."""
    chronicle = Chronicle()

    def told(before: Overview, now: Overview) -> list[tuple[str, str]]:
        return [(each.kind, each.who) for each in chronicle.compare(before, now)]

    a, b = member("a"), member("b")
    assert told(overview(a), overview(a, b)) == [("joined", "b")]
    assert told(overview(a, b), overview(a, b, silent="b")) == [("silent", "b")]
    assert told(overview(a, b, silent="b"), overview(a, member("b", "2"))) == [
        ("back", "b"),
        ("restarted", "b"),
    ]
    assert told(overview(a, b), overview(a, member("b", standing="left"))) == [("left", "b")]
    new = replace(b, at=999.9)
    assert told(overview(a, new, silent="b"), overview(a, new)) == []
    everything = Plan.of([("", "aa")])
    charter = Charter(5, everything, everything, {}, history=[Made(5, 1.0, "join", 2, 3, 4)])
    assert told(overview(a), overview(a, charter=charter)) == [("plan", "")]
    assert chronicle.events[-1].sentence == (
        "A new plan was made, since a gatherer joined: 3 ranges with about 4 URLs changed hands."
    )
    assert told(overview(a, charter=charter), overview(a, charter=charter)) == []
    paused = Rulings().pause(ALL, 3)
    assert told(overview(a), overview(a, rulings=paused)) == [("ruling", "")]
    assert chronicle.events[-1].sentence == "Ruled: the crawl is paused."
    blocked = Rulings().rest(prefix_of("h.example"), 2000.0, 4)
    over = blocked.in_force(3000.0)
    assert told(overview(a, rulings=blocked), overview(a, rulings=over)) == [("ruling", "")]
    assert chronicle.events[-1].sentence.startswith("No longer: h.example is blocked until")
    late = ["b is silent for 20s: start it again."]
    assert told(overview(a), overview(a, alarms=late)) == [("alarm", "")]
    later = ["b is silent for 1m21s: start it again."]
    assert told(overview(a, alarms=late), overview(a, alarms=later)) == []
    assert (
        told(overview(a, alarms=["b is silent for 20s."]), overview(a, alarms=["b is silent for 21s."])) == []
    )
    assert told(overview(a, alarms=late), overview(a)) == [("cleared", "")]
    assert told(overview(a), overview(a, state=State.FINISHED)) == [("finished", "")]
    assert told(overview(a, state=State.FINISHED), overview(a)) == [("going-on", "")]
    numbers = [each.id for each in chronicle.events]
    assert numbers == list(range(1, len(numbers) + 1))
    assert Chronicle(map(list, chronicle.events)).last == chronicle.last
    assert [each["id"] for each in chronicle.since(2, 2)] == numbers[:-3:-1]


@pytest.mark.parametrize(
    ("made", "sentence"),
    [
        (Made(5, 1.0, "first", 2, 1, 0), "The first plan was made, for 2 gatherers."),
        (Made(5, 1.0, "", 2, 0, 0), "A new plan was made, since somebody wanted one: nothing changed hands."),
        (
            Made(5, 1.0, "operator: even, quickly", 2, 0, 0),
            "A new plan was made, since an operator asked for it (even, quickly): nothing changed hands.",
        ),
    ],
)
def test_sentences_about_plans(made: Made, sentence: str) -> None:
    """The first plan, one that moves nothing, and one that an operator wanted are each told as they are."""
    everything = Plan.of([("", "aa")])
    charter = Charter(5, everything, everything, {}, history=[made])
    (event,) = Chronicle().compare(overview(), overview(charter=charter))
    assert event.sentence == sentence


def test_speeds() -> None:
    """What gatherers have done while nobody saw them is no speed, nor is a count that begins anew."""
    speeds, at = Speeds(), 0.0

    def note(*seen: Member) -> float:
        nonlocal at
        at += 1
        speeds.note(at, overview(*seen).view)
        return speeds["done"] * (min(at, 11) - 1)

    def one(done: int) -> Member:
        return member("one", done=done, dropped=1, bytes=2 * done, failed=0)

    def two(done: int) -> Member:
        return member("two", done=done, dropped=0, bytes=7, failed=0)

    assert note(one(10)) == 0
    assert note(one(14)) == pytest.approx(4)
    assert note(one(15), two(5_000)) == pytest.approx(5)
    assert note() == pytest.approx(5)
    assert note(one(16), two(9_000)) == pytest.approx(5)
    assert note(one(0), two(9_000)) == pytest.approx(5)
    assert note(one(2), two(9_000)) == pytest.approx(7)
    assert speeds["bytes"] == pytest.approx(2 * speeds["done"])


def test_plans() -> None:
    """Of a plan that was seen to come it is told what was left before; of others, that they were made."""
    first = Made(4, 1.0, "first", 1, 0, 0)
    charter = Charter(
        5,
        Plan.of([("", "aa"), ("m", "bb")]),
        Plan.of([("", "aa")]),
        {"aa": "a", "bb": "b"},
        history=[first, Made(5, 2.0, "join", 2, 1, 9)],
        forecast={
            "times": {"aa": 10.0, "bb": 12.0},
            "bound": 10.0,
            "method": "I",
            "superpages": 2,
            "cut_links": 0,
        },
    )
    plans = Plans()
    before = overview(member("a", remaining_s=60.0, queued=90)).view
    now = overview(member("a"), member("b"), charter=charter).view
    assert plans.compare(before, now)
    assert not plans.compare(now, now)
    newest, oldest = Plans(dict(plans.state)).shown(charter)
    assert (newest["over_bound"], newest["moves"]) == (1.2, [{"from": "a", "to": "b", "ranges": 1}])
    assert [(row["gatherer"], row["before_s"], row["after_s"]) for row in newest["times"]] == [
        ("a", 60.0, 10.0),
        ("b", None, 12.0),
    ]
    assert (oldest["reason"], oldest["times"]) == ("first", [])


def test_the_tree_of_a_plan() -> None:
    """A node's children are below it and not below its neighbours; a node that is one superpage is that."""
    expansion = Expansion.from_lines(["http://s1.example.com/", "http://s10.example.com/", "com | k"])
    expansion.visit_many([key(f"http://s10.example.com/{n}") for n in range(5)], Random(1))
    knowledge = Knowledge(["aa"], expansion)
    everything = Plan.of([("", "aa")])
    charter = Charter(9, everything, everything, {"aa": "a"}, state=knowledge.to_bytes())
    nodes = nodes_of(Landscape(View(charter=charter), charter))
    names = [node["name"] for node in nodes]
    assert len(names) == len({(node["parent"], node["label"], node["kind"]) for node in nodes})
    ten = next(node for node in nodes if node["label"] == "s10")
    assert nodes[ten["parent"]]["label"] == "example"
    assert (ten["weight"], nodes[0]["weight"], nodes[0]["owners"]) == (5, 5, {"a": 5})
    empty = Landscape(View(), None)
    assert (nodes_of(empty), empty.rates(5)) == ([], {"gatherers": [], "sites": []})


def nodes_of(landscape: Landscape) -> list[dict[str, Any]]:
    """The rows of its tree."""
    found: list[dict[str, Any]] = json.loads(landscape.tree.data)["nodes"]
    return found


# What was found


def told(name: str, findings: Findings, **more: object) -> bytes:
    """What a gatherer tells."""
    said = {"version": VERSION, "name": name, "incarnation": "1", "sent": {}, "traffic": (1, 2, 297)}
    packed: bytes = msgpack.packb({**said, **findings.told(0.0), **more})
    return packed


def test_found() -> None:
    """Tables of all gatherers add up, several domains to one country, and what came before is not new."""
    one, two = Findings(), Findings()
    for place, size in (("ru", 10), ("xn--p1ai", 5), ("com", 1)):
        one.answered(place, size)
        one.read(place, "ru", "koi8-r", "utf-8")
    two.answered("ru", 7)
    two.read("ru", "en", "", "utf-8")
    two.linked("ru", "de", 16)
    found = Found()
    found.take_in({"1": told("a", one), "2": told("b", two)})
    assert found.take_in({"1": told("a", one), "2": told("b", two)}) == ([], [])
    countries = found.countries()
    (russia,) = countries["countries"]
    assert (russia["code"], russia["pages"], russia["bytes"], russia["gatherers"]) == (
        "RU",
        3,
        22,
        {"1": 2, "2": 1},
    )
    assert countries["elsewhere"] == [{"domain": "com", "pages": 1}]
    assert (countries["links"], countries["other_links"]) == (
        [{"from": "RU", "to": "DE", "links": 16}],
        0,
    )
    languages = found.languages()
    assert languages["languages"] == [{"language": "ru", "pages": 3}, {"language": "en", "pages": 1}]
    assert languages["charsets"][0] == {"declared": "koi8-r", "detected": "utf-8", "pages": 3}
    assert [(each["id"], each["name"], each["pages"]) for each in languages["gatherers"]] == [
        ("1", "a", 3),
        ("2", "b", 1),
    ]
    traffic = found.traffic({"1": "a", "2": "b"}, {"1": {"2": 4}})
    assert (traffic["waiting_urls"], traffic["overhead_percent"]) == ([[0, 4], [0, 0]], [1.0, 1.0])


def test_a_name_that_was_given_again() -> None:
    """What a gatherer told that is gone counts beside what another one tells that has its name."""
    found = Found()
    for gatherer in ("1", "2"):
        findings = Findings()
        findings.answered("de", 10)
        findings.read("de", "de", "", "utf-8")
        found.take_in({gatherer: told("a", findings)})
    assert found.languages()["pages"] == found.countries()["countries"][0]["pages"] == 2


def test_what_has_no_room() -> None:
    """However many rows there are, those that are shown come to all that was counted."""
    found = Found()
    for gatherer in ("1", "2"):
        findings = Findings()
        for number in range(1_500):
            findings.answered(f"t{gatherer}{number}", 10)
            findings.read("de", f"l{gatherer}{number}", f"c{gatherer}{number}", "utf-8")
        found.take_in({gatherer: told(gatherer, findings)})
    languages, elsewhere = found.languages(), found.countries()["elsewhere"]
    assert languages["pages"] == sum(row["pages"] for row in languages["languages"]) == 3_000
    for table in (languages["charsets"], languages["rows"], elsewhere):
        assert len(table) <= 400
        assert sum(row["pages"] for row in table) == 3_000


def test_links_to_invented_domains() -> None:
    """However many a page names, links between countries are counted."""
    findings = Findings()
    for number in range(3_000):
        findings.linked("de", f"xn--invented{number}", 16)
    findings.linked("de", "fr", 16)
    assert dict(findings.links) == {("de", "other"): 48_000, ("de", "fr"): 16}


@pytest.mark.parametrize(
    "bad",
    [
        b"\xc1damaged",
        b"",
        msgpack.packb([1]),
        msgpack.packb({"version": VERSION, "name": "b"}),
        told("b", Findings(), hosts=[("too", "short")]),
        told("b", Findings(), places=7, incarnation="2"),
    ],
)
def test_one_who_tells_nonsense(bad: bytes) -> None:
    """What cannot be read of one gatherer keeps nobody from what the others tell."""
    findings, found = Findings(), Found()
    findings.answered("de", 10)
    findings.read("de", "de", "", "utf-8")
    found.take_in({"1": bad, "2": told("a", findings)})
    assert [row["pages"] for row in found.countries()["countries"]] == [1]
    assert found.languages()["pages"] == 1
    assert found.hosts("errors", 5) == []


@given(st.lists(st.tuples(TEXTS, TEXTS, st.integers(0, 10**9)), max_size=8), TEXTS)
def test_kml(rows: list[tuple[str, str, int]], crawl: str) -> None:
    """Whatever languages and names the web comes up with, it is KML by the schema of the OGC."""
    countries = [
        {
            "code": f"C{number}",
            "name": name,
            "latitude": 1.5,
            "longitude": -2.5,
            "pages": pages,
            "bytes": pages,
            "languages": [{"language": language, "pages": pages}],
        }
        for number, (name, language, pages) in enumerate(rows)
    ]
    links = [{"from": "C0", "to": "C1", "links": 3}, {"from": "C0", "to": "C0", "links": 9}]
    made = kml.written(crawl, 0.0, countries, links)
    tree = etree.fromstring(made)
    etree.XMLSchema(file=str(SCHEMA)).assertValid(tree)
    lines = tree.findall(f".//{{{kml.NAMESPACE}}}LineString")
    assert len(lines) == (1 if len(rows) > 1 else 0)


def test_what_is_kept(tmp_path: Path) -> None:
    """It comes back for the same crawl, and a damaged file is as good as none."""
    keeping.keep(tmp_path, "c", {"events": [1]})
    assert keeping.recalled(tmp_path, "c")["events"] == (1,)
    assert keeping.recalled(tmp_path, "other") == {}
    (tmp_path / keeping.FILE).write_bytes(b"\xc1damaged")
    assert keeping.recalled(tmp_path, "c") == {}
    keeping.keep(tmp_path / "missing", "c", {})


async def test_a_listener_that_does_not_keep_up() -> None:
    """It is cut off, and the others go on."""
    stream = Stream(lambda: [("overview", {"n": 0})])
    slow, fast = (stream.listen({"overview"}, lambda: math.inf) for _ in range(2))
    await anext(slow)
    heard = [await anext(fast)]
    for number in range(100):
        stream.tell("overview", {"n": number})
        heard.append(await anext(fast))
        stream.tell("pages", {"nobody": "listens"})
    assert len(heard) == 101
    assert heard[-1] == b'event: overview\ndata: {"n":99}\n\n'
    assert (stream.listeners, stream.cut_off) == (1, 1)
    assert len([each async for each in slow]) == 64
    await fast.aclose()  # type: ignore[attr-defined]
    assert stream.listeners == 0
    stream.tell("overview", math.nan)
    await trio.lowlevel.checkpoint()


@pytest.mark.virtual_time
async def test_a_listener_whose_time_is_over() -> None:
    """It hears nothing more: neither what was told already, nor after it was dismissed."""
    stream, left = Stream(lambda: [("overview", {"n": 0})]), {"one": 40.0, "two": 40.0}
    one = stream.listen({"overview"}, lambda: left["one"])
    two = stream.listen({"overview"}, lambda: left["two"] - trio.current_time())
    for each in (one, two):
        await anext(each)
    stream.tell("overview", {"n": 1})
    left["one"] = 0.0
    stream.dismiss()
    assert [each async for each in one] == []
    heard = [each async for each in two]
    assert (heard[0], {*heard[1:]}) == (b'event: overview\ndata: {"n":1}\n\n', {b": still here\n\n"})
    assert trio.current_time() == pytest.approx(40)
    assert stream.listeners == 0
