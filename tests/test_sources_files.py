"""Files and directories as a source: what is answered, by a real file system."""

from __future__ import annotations

import os
import re
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from html import unescape
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gcs.core.sources import Reach
from gcs.fetch.outcome import Failure, Outcome, Reason, Response
from gcs.gatherer.links import Targets
from gcs.sources import answers, files
from gcs.sources.answers import Conditions
from gcs.sources.files import Files

NOBODY = 65534
LONG_AGO = (1_000_000_000, 1_000_000_000)


@pytest.fixture(autouse=True)
def everything_is_settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let files that were just made count as old."""
    monkeypatch.setattr(files, "_SETTLED_S", 0.0)


def source(root: Path, *, max_body_bytes: int = 1 << 20) -> Files:
    """The files below a directory."""
    return Files([bytes(root)], max_body_bytes=max_body_bytes)


def ask(root: Path, path: str, *, etag: str = "") -> Outcome:
    """What is answered for a path below a root."""
    return source(root).answer(f"file://{root}/{path}", Conditions(etag))


def response(root: Path, path: str, *, etag: str = "") -> Response:
    """The same, of what is no failure."""
    found = ask(root, path, etag=etag)
    assert isinstance(found, Response), found
    return found


def linked(root: Path, path: str) -> list[str]:
    """The URLs that a directory's page leads to, and those that its next pieces lead to."""
    targets = Targets(reach=Reach([f"file://{root}"]))
    page = f"file://{root}/{path}"
    found = []
    while page:
        answer = source(root).answer(page, Conditions())
        assert isinstance(answer, Response)
        hrefs = [unescape(each) for each in re.findall(r'href="([^"]*)"', answer.body.decode())]
        resolved = [target.url for target in targets.resolve(page, hrefs) if target is not None]
        assert len(resolved) == len(hrefs)
        page = resolved.pop() if resolved and "?after=" in resolved[-1] else ""
        found += resolved
    return found


def test_a_file(tmp_path: Path) -> None:
    """A file is answered with its bytes, its time, and something that changes with it."""
    (tmp_path / "a.txt").write_bytes(b"hello")
    os.utime(tmp_path / "a.txt", LONG_AGO)
    found = response(tmp_path, "a.txt")
    assert (found.status, found.body, found.truncated) == (200, b"hello", "")
    assert found.headers["last-modified"] == "Sun, 09 Sep 2001 01:46:40 GMT"
    assert response(tmp_path, "a.txt", etag=found.headers["etag"]).status == 304
    (tmp_path / "a.txt").write_bytes(b"HELLO")
    os.utime(tmp_path / "a.txt", LONG_AGO)
    again = response(tmp_path, "a.txt", etag=found.headers["etag"])
    assert (again.status, again.body) == (200, b"HELLO")


def test_what_has_just_changed_may_change_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of a moment ago has no validator, since another change may have the same time."""
    monkeypatch.setattr(files, "_SETTLED_S", 3600.0)
    (tmp_path / "a.txt").write_bytes(b"hello")
    assert "etag" not in response(tmp_path, "a.txt").headers


def test_a_large_file_is_cut(tmp_path: Path) -> None:
    """Of a file that is larger than a body may be, its beginning is answered, and that it was cut."""
    (tmp_path / "a").write_bytes(b"x" * 2000)
    found = source(tmp_path, max_body_bytes=1500).answer(f"file://{tmp_path}/a", Conditions())
    assert isinstance(found, Response)
    assert (len(found.body), found.truncated) == (1500, "length")


def test_a_directory(tmp_path: Path) -> None:
    """A directory is a page whose links are its entries; without the slash it is a redirect to that."""
    (tmp_path / "docs" / "sub").mkdir(parents=True)
    for name in ("a.txt", "b:c", ".hidden", "x?y#z%41", "ü <&>"):
        (tmp_path / "docs" / name).touch()
    assert sorted(linked(tmp_path, "docs/")) == sorted(
        f"file://{tmp_path}/docs/{name}"
        for name in (
            ".hidden",
            "a.txt",
            "b:c",
            "sub/",
            "x%3Fy%23z%2541",
            "%C3%BC%20%3C%26%3E".replace("%26", "&"),
        )
    )
    moved = response(tmp_path, "docs")
    assert (moved.status, moved.headers["location"]) == (301, f"file://{tmp_path}/docs/")
    listed = response(tmp_path, "docs/")
    assert listed.headers["content-type"].startswith("text/html")
    assert response(tmp_path, "docs/", etag=listed.headers["etag"]).status == 304


@given(st.lists(st.binary(min_size=1, max_size=30), max_size=8, unique=True))
def test_names_of_any_bytes(names: list[bytes]) -> None:
    """Whatever bytes a name has, the link to it leads to the file of that name."""
    with tempfile.TemporaryDirectory() as place:
        root = Path(place)
        made = [name for name in names if not set(b"/\0") & set(name) and name.strip(b".")]
        for name in made:
            (root / os.fsdecode(name)).write_bytes(name)
        found = [source(root).answer(url, Conditions()) for url in linked(root, "")]
        assert sorted(each.body for each in found if isinstance(each, Response)) == sorted(made)


class TestPieces:
    """Directories that are listed in pieces."""

    @pytest.fixture(autouse=True)
    def small_pieces(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Let a piece have some fifty names."""
        monkeypatch.setattr(answers, "PIECE", 50)
        monkeypatch.setattr(files, "PIECE", 50)

    def test_every_name_once(self, tmp_path: Path) -> None:
        """The pieces of a large directory have every name exactly once, and none is too large."""
        for number in range(1_000):
            (tmp_path / f"{number}").touch()
        assert sorted(linked(tmp_path, "")) == sorted(
            f"file://{tmp_path}/{number}" for number in range(1_000)
        )
        assert len(_pieces(tmp_path)) > 4
        assert response(tmp_path, "").body.count(b"<a ") <= 4 * 50 + 1

    def test_the_same_without_memory(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A directory with more names than are kept in memory is listed as any other."""
        for number in range(1_000):
            (tmp_path / f"{number}").touch()
        usual = linked(tmp_path, "")
        monkeypatch.setattr(files, "_MOST_NAMES", 300)
        assert linked(tmp_path, "") == usual

    def test_a_new_name_moves_no_other_piece(self, tmp_path: Path) -> None:
        """Of a directory with one more name, all pieces but one begin where they began."""
        for number in range(1_000):
            (tmp_path / f"{number}").touch()
        before = _pieces(tmp_path)
        (tmp_path / "250-and-a-half").touch()
        assert len(before) > 4
        assert len(before ^ _pieces(tmp_path)) <= 1


def _pieces(root: Path) -> set[bytes]:
    found, since = set[bytes](), b""
    while True:
        url = f"file://{root}/" + (f"?after={since.decode()}" if since else "")
        answer = source(root).answer(url, Conditions())
        assert isinstance(answer, Response)
        more = re.search(rb'href="\?after=([^"]*)"', answer.body)
        if more is None:
            return found
        since = more[1]
        found.add(since)


class TestRefused:
    """What is not read."""

    def test_links_out(self, tmp_path: Path) -> None:
        """A symbolic link out of the root is forbidden, whether to a file or through a directory."""
        root, outside = tmp_path / "root", tmp_path / "outside"
        root.mkdir()
        outside.mkdir()
        (outside / "secret").write_text("secret")
        (root / "file").symlink_to(outside / "secret")
        (root / "directory").symlink_to(outside)
        for path in ("file", "directory", "directory/", "directory/secret"):
            assert response(root, path).status == 403
        assert response(root, "../outside/secret").status == 403

    def test_a_root_is_no_prefix_of_names(self, tmp_path: Path) -> None:
        """The root `docs` has nothing of `docs-old`."""
        (tmp_path / "docs").mkdir()
        (tmp_path / "docs-old").write_text("old")
        found = source(tmp_path / "docs").answer(f"file://{tmp_path}/docs-old", Conditions())
        assert isinstance(found, Response)
        assert found.status == 403

    def test_links_within(self, tmp_path: Path) -> None:
        """A symbolic link within the root leads to where it points, so that a file has one URL."""
        (tmp_path / "a" / "b").mkdir(parents=True)
        (tmp_path / "a" / "file").write_text("x")
        (tmp_path / "a" / "b" / "up").symlink_to("..")
        (tmp_path / "to").symlink_to("a/file")
        for path, place in (
            ("to", "a/file"),
            ("a/b/up", "a/"),
            ("a/b/up/", "a/"),
            ("a/b/up/b/up/b/", "a/b/"),
            ("a/b/up/file", "a/file"),
        ):
            found = response(tmp_path, path)
            assert (found.status, found.headers["location"]) == (301, f"file://{tmp_path}/{place}")

    def test_a_root_that_is_a_link(self, tmp_path: Path) -> None:
        """A root may be a symbolic link: it leads to the directory, below which all is allowed."""
        (tmp_path / "real").mkdir()
        (tmp_path / "real" / "a").write_text("x")
        (tmp_path / "root").symlink_to("real")
        assert response(tmp_path / "root", "a").headers["location"] == f"file://{tmp_path}/real/a"
        found = source(tmp_path / "root").answer(f"file://{tmp_path}/real/a", Conditions())
        assert isinstance(found, Response)
        assert found.body == b"x"

    def test_nowhere(self, tmp_path: Path) -> None:
        """A loop of links, a link to nothing, a name that is too long or below a file: not found."""
        (tmp_path / "one").symlink_to("two")
        (tmp_path / "two").symlink_to("one")
        (tmp_path / "dangling").symlink_to("nothing")
        (tmp_path / "file").write_text("x")
        for path in ("one", "one/a", "dangling", "nothing", "file/below", "file/", "n" * 300):
            assert response(tmp_path, path).status == 404

    def test_special_files(self, tmp_path: Path) -> None:
        """A pipe, a socket and a device are not opened; nobody waits for them."""
        os.mkfifo(tmp_path / "pipe")
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(str(tmp_path / "socket"))
            for path in ("pipe", "socket"):
                assert response(tmp_path, path).status == 403
        assert response(Path("/dev"), "null").status == 403

    @pytest.mark.parametrize(("path", "status"), [("sub/file", 403), ("sub/", 404)])
    def test_what_takes_its_place(
        self, tmp_path: Path, path: str, status: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A directory that becomes a link out of the root between a look and the opening lets nobody out."""
        root, outside = tmp_path / "root", tmp_path / "outside"
        (root / "sub").mkdir(parents=True)
        outside.mkdir()
        (root / "sub" / "file").write_text("allowed")
        (outside / "file").write_text("secret")
        opened = os.open

        def swapped(path: bytes, flags: int) -> int:
            (root / "sub").rename(root / "was")
            (root / "sub").symlink_to(outside)
            return opened(path, flags)

        monkeypatch.setattr(os, "open", swapped)
        found = response(root, path)
        assert (found.status, found.body) == (status, b"")

    def test_permissions(self) -> None:
        """A file and a directory that this user may not read are forbidden; those beside them are not."""
        with tempfile.TemporaryDirectory() as place:
            root = Path(place)
            root.chmod(0o777)
            with unprivileged():
                (root / "closed").mkdir()
                for path in ("file", "closed/below", "beside"):
                    (root / path).write_text("x")
                (root / "file").chmod(0)
                (root / "closed").chmod(0)
                paths = ("file", "closed/", "closed/below", "beside")
                statuses = [response(root, path).status for path in paths]
                (root / "closed").chmod(0o700)
        assert statuses == [403, 403, 403, 200]

    def test_a_root_that_is_not_there(self, tmp_path: Path) -> None:
        """When the root itself is missing, its files have not gone: nobody can be asked for now."""
        found = ask(tmp_path / "unmounted", "a/b")
        assert isinstance(found, Failure)
        assert found.reason is Reason.CONNECT

    def test_a_file_that_vanishes(self, tmp_path: Path) -> None:
        """A file that was listed and is gone when it is asked for is not found."""
        (tmp_path / "a").write_text("x")
        (url,) = linked(tmp_path, "")
        (tmp_path / "a").unlink()
        found = source(tmp_path).answer(url, Conditions())
        assert isinstance(found, Response)
        assert found.status == 404


@contextmanager
def unprivileged() -> Iterator[None]:
    """Be somebody whom permissions hold for: root is above them."""
    if os.geteuid():
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)
