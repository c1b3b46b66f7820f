"""Content codings."""

from __future__ import annotations

import gzip
import random
import zlib
from collections.abc import Callable
from functools import partial

import brotli
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from gcs.fetch.decoding import FREE_BYTES, Decoded, Undecodable, codings, decode
from gcs.fetch.outcome import Reason

MIB = 1 << 20
PAGE = b"".join(
    b"<p>%d words and %d more</p>\n" % (n * 7919 % 1000, n * 104729 % 100000) for n in range(2000)
)


def bare(data: bytes) -> bytes:
    """Deflate without a wrapper."""
    squeezer = zlib.compressobj(wbits=-15)
    return squeezer.compress(data) + squeezer.flush()


CODINGS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "x-gzip": gzip.compress,
    "deflate": zlib.compress,
    "br": partial(brotli.compress, quality=4),
    "zstd": zstandard.compress,
}
ENCODERS = [*CODINGS.items(), ("deflate", bare)]


def decoded(raw: bytes, *names: str, max_bytes: int = MIB, max_ratio: int = 200) -> Decoded | Undecodable:
    """Decode with these limits."""
    return decode(raw, names, max_bytes=max_bytes, max_ratio=max_ratio)


def reason(outcome: Decoded | Undecodable) -> Reason:
    """Why there is no body."""
    assert isinstance(outcome, Undecodable)
    return outcome.reason


@pytest.mark.parametrize(("name", "encode"), ENCODERS)
@pytest.mark.parametrize("data", [b"x", PAGE, random.Random(1).randbytes(300_000)])
def test_every_coding_comes_off(name: str, encode: Callable[[bytes], bytes], data: bytes) -> None:
    """What was encoded is given back."""
    assert decoded(encode(data), name) == Decoded(data, "")


@pytest.mark.parametrize(("name", "encode"), ENCODERS)
def test_a_body_over_the_limit_is_cut(name: str, encode: Callable[[bytes], bytes]) -> None:
    """A decoded body is cut at the limit, and marked."""
    assert decoded(encode(PAGE), name, max_bytes=1000) == Decoded(PAGE[:1000], "length")
    assert decoded(encode(PAGE), name, max_bytes=len(PAGE)) == Decoded(PAGE, "")


@pytest.mark.parametrize(("name", "encode"), ENCODERS)
@pytest.mark.parametrize("limit", [MIB, 64 * MIB])
def test_bombs(name: str, encode: Callable[[bytes], bytes], limit: int) -> None:
    """A few bytes that become millions are given up, whether or not the limit on size is reached first."""
    assert reason(decoded(encode(bytes(32 * MIB)), name, max_bytes=limit)) is Reason.RATIO


@pytest.mark.parametrize(("name", "encode"), ENCODERS)
def test_a_short_page_of_blanks_is_no_bomb(name: str, encode: Callable[[bytes], bytes]) -> None:
    """The ratio counts only beyond the first bytes."""
    blanks = b" " * FREE_BYTES
    assert decoded(encode(blanks), name, max_ratio=1) == Decoded(blanks, "")
    assert reason(decoded(encode(blanks + b" "), name, max_ratio=1)) is Reason.RATIO


@pytest.mark.parametrize(("name", "encode"), ENCODERS)
def test_what_came_of_a_broken_body_is_kept(name: str, encode: Callable[[bytes], bytes]) -> None:
    """A body that ends early gives what could be decoded, marked if the coding tells."""
    random_text = random.Random(2).randbytes(400_000).hex().encode()
    whole = encode(random_text)
    outcome = decoded(whole[: len(whole) // 2], name)
    assert isinstance(outcome, Decoded)
    assert random_text.startswith(outcome.body)
    assert len(outcome.body) > 100_000
    assert outcome.truncated == ("" if name == "zstd" else "unspecified")


@pytest.mark.parametrize(("name", "encode"), ENCODERS)
def test_what_came_before_the_damage_is_kept(name: str, encode: Callable[[bytes], bytes]) -> None:
    """A body with damage in its middle gives what comes before it, within the limit."""
    random_text = random.Random(3).randbytes(400_000).hex().encode()
    damaged = bytearray(encode(random_text))
    damaged[len(damaged) // 2 : len(damaged) // 2 + 4000] = b"\xff" * 4000
    outcome = decoded(bytes(damaged), name)
    assert isinstance(outcome, Decoded)
    assert outcome.body[:100_000] == random_text[:100_000]
    assert len(decoded(bytes(damaged), name, max_bytes=50_000).body) == 50_000  # type: ignore[union-attr]


@pytest.mark.parametrize("name", sorted(CODINGS))
def test_what_is_not_encoded_at_all(name: str) -> None:
    """A body that is not what its header says cannot be decoded."""
    assert reason(decoded(b"<html>not encoded</html>" * 10, name)) is Reason.CODING


def test_members_of_gzip() -> None:
    """A gzip body may have several members and rubbish after them; broken or too many members are marked."""
    two = gzip.compress(b"one ") + gzip.compress(b"two")
    assert decoded(two, "gzip") == Decoded(b"one two", "")
    assert decoded(two + b"rubbish", "gzip") == Decoded(b"one two", "")
    assert decoded(two[:24] + b"\x1f\x8b\xff\xff\xff" * 9, "gzip") == Decoded(b"one ", "unspecified")
    assert decoded(gzip.compress(b"a") * 1000, "gzip") == Decoded(b"a" * 64, "unspecified")


def test_several_codings() -> None:
    """Codings come off in the reverse order; too many and unknown ones are refused."""
    assert decoded(gzip.compress(brotli.compress(PAGE)), "br", "gzip") == Decoded(PAGE, "")
    assert reason(decoded(b"x", "gzip", "gzip", "gzip", "gzip")) is Reason.CODING
    assert reason(decoded(b"x", "sdch")) is Reason.CODING


def test_bombs_in_bombs() -> None:
    """The ratio holds for all codings together, and for each."""
    bomb = bytes(16 * MIB)
    twice = gzip.compress(gzip.compress(bomb))
    assert reason(decoded(twice, "gzip", "gzip", max_bytes=64 * MIB)) is Reason.RATIO
    assert not isinstance(
        decoded(gzip.compress(bomb), "gzip", max_bytes=64 * MIB, max_ratio=1100), Undecodable
    )
    assert reason(decoded(twice, "gzip", "gzip", max_bytes=64 * MIB, max_ratio=1100)) is Reason.RATIO


def test_the_zstd_window_is_bounded() -> None:
    """A frame that wants a window of 128 MiB is not decoded."""
    parameters = zstandard.ZstdCompressionParameters(window_log=27)
    squeezer = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    raw = squeezer.compress(random.Random(4).randbytes(MIB)) + squeezer.flush()
    assert reason(decoded(raw, "zstd")) is Reason.CODING


def test_names_of_codings() -> None:
    """Codings of content and transfer are one list; words that mean nothing are not in it."""
    assert codings({}) == ()
    assert codings({"content-encoding": "GZip", "transfer-encoding": "br, chunked"}) == ("gzip", "br")
    assert codings({"content-encoding": "identity, none, UTF-8,"}) == ()


@given(st.binary(max_size=2000), st.lists(st.sampled_from(sorted(CODINGS)), max_size=4))
def test_any_bytes_end_in_a_value(raw: bytes, names: list[str]) -> None:
    """Arbitrary bytes under any codings give a body within the limit, or a reason."""
    outcome = decoded(raw, *names, max_bytes=5000)
    assert isinstance(outcome, Undecodable) or len(outcome.body) <= 5000


@given(st.binary(max_size=300), st.sampled_from(sorted(CODINGS)), st.data())
def test_damaged_bytes_end_in_a_value(content: bytes, name: str, data: st.DataObject) -> None:
    """Encoded bytes with some changed give a body within the limit, or a reason."""
    raw = bytearray(CODINGS[name](content * 20))
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    outcome = decoded(bytes(raw), name, max_bytes=5000)
    assert isinstance(outcome, Undecodable) or len(outcome.body) <= 5000
