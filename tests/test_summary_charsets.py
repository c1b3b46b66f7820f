"""Character sets and languages: what is declared, what is found, and for how many both are right."""

from __future__ import annotations

import codecs
import tomllib
from collections import defaultdict
from pathlib import Path

import cchardet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gcs.summary import read
from gcs.summary.charsets import Charset, decode, detect
from gcs.summary.labels import CODECS, canonical_name
from gcs.summary.language import UNKNOWN, identify
from gcs.summary.text import fitted

SAMPLES = tomllib.loads(Path(__file__).with_name("test_summary_languages.toml").read_text(encoding="utf-8"))
RUSSIAN = SAMPLES["ru"]["text"]
GERMAN = SAMPLES["de"]["text"]
URL = "http://host.test/"


def _codec(charset: str) -> str:
    # The standard reads ISO 8859-1 and 8859-9 as their supersets; the texts were written in the originals.
    return charset if charset in {"iso-8859-1", "iso-8859-9"} else CODECS[charset]


def _page(text: str) -> str:
    return f"<!DOCTYPE html><html><head><title>{text[:20]}</title></head><body><p>{text}</p></body></html>"


def _pairs() -> dict[str, set[bytes]]:
    """For each language the pages, as bytes, whose language and text come out right with nothing declared."""
    right = defaultdict(set)
    for language, sample in SAMPLES.items():
        for charset in ("utf-8", *sample.get("charsets", ())):
            body = _page(sample["text"]).encode(_codec(charset))
            found = read(body, url=URL, content_type="text/html")
            if found.language == language and found.excerpt == fitted(sample["text"], 500):
                right[language].add(body)
    return right


def test_languages_and_pairs() -> None:
    """At least 61 languages and 110 pairs of language and character set are told right, from bytes alone.

    Two character sets in which a text has the same bytes count as one.
    """
    right = _pairs()
    languages, pairs = len(right), sum(map(len, right.values()))
    print(f"{languages} languages, {pairs} pairs of language and character set")
    assert languages >= 95
    assert pairs >= 180


def test_two_judges_are_better_than_one() -> None:
    """More legacy texts are read right than uchardet alone reads right."""
    ours = alone = 0
    for sample in SAMPLES.values():
        for charset in sample.get("charsets", ()):
            body = sample["text"].encode(_codec(charset))
            ours += decode(body, markup=False).utf8.decode() == sample["text"]
            name = canonical_name(cchardet.detect(body)["encoding"] or "")
            alone += bool(name) and body.decode(CODECS[name], "replace") == sample["text"]
    print(f"{ours} by both, {alone} by uchardet alone")
    assert ours > alone


@pytest.mark.parametrize("language", sorted(SAMPLES))
def test_identify(language: str) -> None:
    """Each sample is found to be in its language; Bosnian is taken for Croatian, so near are they."""
    found = identify(SAMPLES[language]["text"])
    assert found.code == ("hr" if language == "bs" else language)
    assert found.confidence > 0.8


def test_hints_help_and_do_not_decide() -> None:
    """A hint settles what is open, and does not outweigh a text that is plain."""
    assert identify("Hej, hur mår du?", lang="sv-SE").code == "sv"
    assert identify(GERMAN, lang="fr", domain="fr", charset="big5").code == "de"
    assert identify(SAMPLES["he"]["text"], lang="he_IL").code == "he"
    assert identify(GERMAN, lang="no such language").code == "de"


@pytest.mark.parametrize("text", ["", "   ", "1234567890", "\x00\x01", "𐀀𐀀𐀀𐀀", "?!"])
def test_no_language(text: str) -> None:
    """What is in no language has none."""
    assert identify(text) == UNKNOWN


@given(st.text(max_size=200))
def test_any_text_can_be_asked(text: str) -> None:
    """Any text can be asked for its language."""
    assert 0 <= identify(text, domain="zz", lang=text[:5], charset="euc-jp").confidence <= 1


def test_unreadable_characters() -> None:
    """Controls in a text do not hide its language."""
    assert identify("\x01" + GERMAN.replace(" ", "\x00 ", 5) + "\ufffe\udcff").code == "de"


def test_labels() -> None:
    """The labels are those of the WHATWG standard, without regard to case and white space."""
    assert canonical_name(" Latin1\n") == "windows-1252"
    assert canonical_name("SJIS") == "shift_jis"
    assert canonical_name("utf8") == "utf-8"
    assert canonical_name("hz-gb-2312") == canonical_name("x-user-defined") == canonical_name("klingon") == ""
    for name, codec in CODECS.items():
        assert canonical_name(name) == name
        assert codecs.lookup(codec)


@pytest.mark.parametrize(
    ("page", "declared"),
    [
        ('<meta charset="koi8-r">', "koi8-r"),
        ("<META  CHARSET = koi8-r >", "koi8-r"),
        ("<meta http-equiv=Content-Type content='text/html; charset=koi8-r'>", "koi8-r"),
        ("<!-- <meta charset=big5> --><meta charset='koi8-r'/>", "koi8-r"),
        ("<meta name=x content=y><meta charset=koi8-r>", "koi8-r"),
        ("<?xml version='1.0' encoding='KOI8-R'?><html>", "koi8-r"),
        ("<?xml version='1.0'?><meta charset=koi8-r>", "koi8-r"),
        ('<meta charset="utf-16">', "utf-8"),
        ("<meta charset=klingon>", ""),
        ("<metadata charset=koi8-r>", ""),
        ("<meta charset>", ""),
        (" " * 2000 + "<meta charset=koi8-r>", ""),
    ],
)
def test_prescan(page: str, declared: str) -> None:
    """What a page declares is found in its first 1,024 bytes, in comments nothing is."""
    assert decode(page.encode()).charset == Charset(declared or "utf-8", declared, "us-ascii")
    assert decode(page.encode(), markup=False).charset.declared == ""


def test_header_goes_before_page() -> None:
    """The header wins over the page, unless it says nothing that is known."""
    body = f"<meta charset=koi8-r>{RUSSIAN}".encode("cp1251")
    assert decode(body, "windows-1251").charset == ("windows-1251", "windows-1251", "windows-1251")
    assert decode(body, "klingon").charset.declared == "koi8-r"


@pytest.mark.parametrize(("codec", "name"), [("utf-8-sig", "utf-8"), ("utf-16", "utf-16le")])
def test_marks(codec: str, name: str) -> None:
    """A byte order mark wins over everything, and is no part of the text."""
    found = decode(RUSSIAN.encode(codec), "koi8-r")
    assert found.utf8.decode() == RUSSIAN
    assert found.charset == (name, name, name)
    big = decode(codecs.BOM_UTF16_BE + RUSSIAN.encode("utf-16-be"))
    assert big.utf8.decode() == RUSSIAN


@pytest.mark.parametrize(("codec", "name"), [("utf-16-le", "utf-16le"), ("utf-16-be", "utf-16be")])
def test_wide_without_mark(codec: str, name: str) -> None:
    """UTF-16 without a mark is known by its zeros."""
    body = _page(GERMAN).encode(codec)
    assert decode(body).charset.detected == name
    assert read(body, url=URL, content_type="text/html").language == "de"


def test_zeros_alone_are_not_wide() -> None:
    """A zero here and there does not make UTF-16."""
    body = b"<p>a\0bc" * 50
    assert decode(body).charset == ("windows-1252", "", "")
    assert decode(body, "koi8-r").charset.used == "koi8-r"


def test_wrong_declaration() -> None:
    """Where a body cannot be read as declared, or makes no sense so, it is read as what it is."""
    assert decode(RUSSIAN.encode("cp1251"), "utf-8").charset == ("windows-1251", "utf-8", "windows-1251")
    assert decode(RUSSIAN.encode("cp1251"), "iso-8859-1").charset.used == "windows-1251"
    assert decode(RUSSIAN.encode(), "iso-8859-1").charset == ("utf-8", "windows-1252", "utf-8")
    assert decode(SAMPLES["ja"]["text"].encode("cp932"), "euc-jp").charset.used == "shift_jis"


def test_right_declaration() -> None:
    """A declared character set in which the body reads well is taken for granted."""
    for charset in ("koi8-r", "iso-8859-5"):
        assert decode(RUSSIAN.encode(CODECS[charset]), charset).charset == (charset, charset, charset)
    assert decode(SAMPLES["ja"]["text"].encode("euc_jp"), "euc-jp").charset.used == "euc-jp"


def test_nothing_to_go_by() -> None:
    """Bytes that are no text in any character set are read as Windows-1252, and no detection is claimed."""
    assert decode(b"\x81\x8d\x8f\x90\x9d").charset == ("windows-1252", "", "")
    assert decode(b"\x81\x8d\x8f\x90\x9d", "koi8-r").charset.used == "koi8-r"


def test_cut_off() -> None:
    """A body that was cut off inside of a character is still what it was."""
    assert decode(RUSSIAN.encode()[:101]).charset.detected == "utf-8"
    assert decode(SAMPLES["zh"]["text"].encode("gb18030")[:-1]).charset.detected in {"gb18030", "gbk"}


def test_few_bad_bytes() -> None:
    """UTF-8 with a bad byte in it stays UTF-8, and the byte is replaced."""
    found = decode(RUSSIAN.encode() + b" \xe9 " + RUSSIAN.encode())
    assert found.charset.used == "utf-8"
    assert found.utf8.decode() == f"{RUSSIAN} \ufffd {RUSSIAN}"


def test_seven_bits() -> None:
    """ISO-2022-JP is known by its escapes, though its bytes are ASCII."""
    body = SAMPLES["ja"]["text"].encode("iso2022_jp")
    assert decode(body).utf8.decode() == SAMPLES["ja"]["text"]
    assert decode(b"\x1b[1mbold\x1b[0m").charset.detected != "iso-2022-jp"
    assert detect(b"\x1b$B\xff\xff\xff\xff\xff") != "iso-2022-jp"


@given(st.binary(max_size=300), st.sampled_from(["", *CODECS, "klingon"]), st.booleans())
def test_decode_never_raises(body: bytes, label: str, markup: bool) -> None:
    """Any bytes under any label become UTF-8 that can be read."""
    found = decode(body, label, markup=markup)
    if found.charset.detected != "utf-8":
        found.utf8.decode()
    assert found.charset.used in CODECS


def test_fitted() -> None:
    """A text is cut to size with single spaces between its words, also behind a lot of white space."""
    assert fitted("  a \n b  ", 10) == "a b"
    assert fitted("a b c", 2) == "a"
    assert fitted(" " * 10_000 + "word", 10) == "word"


def test_declared_charset_is_believed_only_when_asked() -> None:
    body = "<p>Съешь же ещё этих мягких французских булок, да выпей чаю".encode("koi8-r") * 9
    judged = decode(body, "windows-1251")
    believed = decode(body, "windows-1251", believed=True)
    assert (judged.charset.used, judged.charset.detected) == ("koi8-r", "koi8-r")
    assert (believed.charset.used, believed.charset.detected) == ("windows-1251", "")
    assert decode(body, believed=True).charset.used == "koi8-r"
