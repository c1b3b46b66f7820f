"""7z: its files, one after the other, with the codecs that Python has.

The header is a tree of numbers (7zFormat.txt of the LZMA SDK); it is read by `_Header`. A folder is a chain
of codecs over one stream, in which the files stand in a row. LZMA, LZMA2, BZip2, Deflate, the filters of
liblzma and plain copies can be read; what is encrypted, or packed by PPMd, BCJ2 or newer codecs, is refused.
"""

from __future__ import annotations

import bz2
import lzma
import struct
import zlib
from collections.abc import Callable, Iterator
from itertools import islice, zip_longest
from typing import Any, Final, NamedTuple

from gcs.summary.deep import unreadable
from gcs.summary.expanders.stepwise import Inflating, Stepwise, dictionary, lzma1
from gcs.summary.limits import Budget, Refused
from gcs.summary.plugins import Part

_SIGNATURE: Final = b"7z\xbc\xaf\x27\x1c"
_START: Final = struct.Struct("<6s2xIQQI")
_MAX_HEADER: Final = 16 << 20
_MAX_CODERS: Final = 8
_AES: Final = b"\x06\xf1\x07\x01"
_LZMA1, _LZMA2, _DELTA = b"\x03\x01\x01", b"\x21", b"\x03"
_COPY, _DEFLATE, _BZIP2 = b"\x00", b"\x04\x01\x08", b"\x04\x02\x02"
_BRANCHES: Final = {
    b"\x04": lzma.FILTER_X86,
    b"\x03\x03\x01\x03": lzma.FILTER_X86,
    b"\x03\x03\x02\x05": lzma.FILTER_POWERPC,
    b"\x03\x03\x04\x01": lzma.FILTER_IA64,
    b"\x03\x03\x05\x01": lzma.FILTER_ARM,
    b"\x03\x03\x07\x01": lzma.FILTER_ARMTHUMB,
    b"\x03\x03\x08\x05": lzma.FILTER_SPARC,
}


class _Coder(NamedTuple):
    id: bytes
    properties: bytes


class _Folder(NamedTuple):
    """Coders in the order in which packed bytes go through them; what comes out has this size."""

    coders: tuple[_Coder, ...]
    size: int


class _File(NamedTuple):
    """How long a file is, and its checksum; None if it has none."""

    size: int
    checksum: int | None


class _Streams(NamedTuple):
    """Where packed bytes are, what unpacks them, and the files that come out, by folder."""

    position: int
    packed: list[int]
    folders: list[_Folder]
    files: list[list[_File]]


class _Header:
    """The numbers of a header, read one after the other; raises Refused where there are none."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def take(self, count: int) -> bytes:
        taken = self._data[self._at : self._at + count]
        if len(taken) < count:
            raise Refused("damaged: the header ends too early")
        self._at += count
        return taken

    def byte(self) -> int:
        return self.take(1)[0]

    def number(self) -> int:
        """A number of up to 64 bits: as many ones begin its first byte as there are bytes after it."""
        first = self.byte()
        value = 0
        for place in range(8):
            mask = 0x80 >> place
            if not first & mask:
                return value | (first & (mask - 1)) << 8 * place
            value |= self.byte() << 8 * place
        return value

    def count(self) -> int:
        """A number of things of which each takes at least a bit of what is left."""
        found = self.number()
        if found > 8 * (len(self._data) - self._at) + 8:
            raise Refused("damaged: the header counts more than it has")
        return found

    def bits(self, count: int) -> list[bool]:
        data = self.take((count + 7) // 8)
        return [bool(data[place // 8] & 0x80 >> place % 8) for place in range(count)]

    def digests(self, count: int) -> list[int | None]:
        """The checksums of some streams; None for those that have none."""
        defined = [True] * count if self.byte() else self.bits(count)
        return [int.from_bytes(self.take(4), "little") if each else None for each in defined]

    def streams(self) -> _Streams:
        position, packed = 0, [0][:0]
        folders: list[_Folder] = []
        checksums: list[int | None] = []
        files: list[list[_File]] | None = None
        while (kind := self.byte()) != 0:
            if kind == 0x06:
                position, packed = self._pack_info()
            elif kind == 0x07:
                folders, checksums = self._unpack_info()
            elif kind == 0x08:
                files = self._substreams(folders, checksums)
            else:
                raise Refused("damaged: an unknown part of the header")
        if len(packed) < len(folders):
            raise Refused("damaged: less is packed than is unpacked")
        if files is None:
            files = [[_File(each.size, sum_)] for each, sum_ in zip(folders, checksums, strict=True)]
        return _Streams(position, packed, folders, files)

    def _pack_info(self) -> tuple[int, list[int]]:
        position, count = self.number(), self.count()
        sizes = [0] * count
        while (kind := self.byte()) != 0:
            if kind == 0x09:
                sizes = [self.number() for _ in range(count)]
            elif kind == 0x0A:
                self.digests(count)
            else:
                raise Refused("damaged: an unknown part of the header")
        return position, sizes

    def _unpack_info(self) -> tuple[list[_Folder], list[int | None]]:
        if self.byte() != 0x0B:
            raise Refused("damaged: no folders")
        count = self.count()
        if self.byte():
            raise Refused("parts of its header lie elsewhere")
        chains = [self._folder() for _ in range(count)]
        if self.byte() != 0x0C:
            raise Refused("damaged: no sizes")
        sizes = [[self.number() for _ in coders] for coders, _ in chains]
        checksums: list[int | None] = [None] * count
        while (kind := self.byte()) != 0:
            if kind != 0x0A:
                raise Refused("damaged: an unknown part of the header")
            checksums = self.digests(count)
        folders = [
            _Folder(tuple(coders[at] for at in order), size[order[-1]])
            for (coders, order), size in zip(chains, sizes, strict=True)
        ]
        return folders, checksums

    def _folder(self) -> tuple[list[_Coder], list[int]]:
        """The coders of a folder, and in which order packed bytes go through them."""
        count = self.number()
        if not 0 < count <= _MAX_CODERS:
            raise Refused("damaged: no, or too many, codecs")
        coders = [self._coder() for _ in range(count)]
        sources = {}
        for _ in range(count - 1):
            into, out_of = self.number(), self.number()
            sources[into] = out_of
        # The first is the one that gets what no other gives it.
        order = [at for at in range(count) if at not in sources][:1]
        follows = {out_of: into for into, out_of in sources.items()}
        while len(order) < count:
            following = follows.get(order[-1]) if order else None
            if following is None or following in order or following >= count:
                raise Refused("damaged: its codecs are no chain")
            order.append(following)
        return coders, order

    def _coder(self) -> _Coder:
        flags = self.byte()
        name = self.take(flags & 0x0F)
        if name == _AES:
            raise Refused("encrypted")
        if flags & 0x10 and (self.number(), self.number()) != (1, 1):
            raise Refused("packed by a codec that is not known here (several streams)")
        return _Coder(name, self.take(self.count()) if flags & 0x20 else b"")

    def _substreams(self, folders: list[_Folder], checksums: list[int | None]) -> list[list[_File]]:
        counts = [1] * len(folders)
        kind = self.byte()
        if kind == 0x0D:
            counts = [self.count() for _ in folders]
            kind = self.byte()
        sizes = [[folder.size] * (count == 1) for folder, count in zip(folders, counts, strict=True)]
        if kind == 0x09:
            for at, (folder, count) in enumerate(zip(folders, counts, strict=True)):
                if count > 1:
                    first = [self.number() for _ in range(count - 1)]
                    sizes[at] = [*first, folder.size - sum(first)]
            kind = self.byte()
        sums = [[each] if count == 1 else [] for count, each in zip(counts, checksums, strict=True)]
        if kind == 0x0A:
            # Those that have one already, as the only file of their folder, are not listed again.
            listed = [
                0 if each not in ([], [None]) else count for count, each in zip(counts, sums, strict=True)
            ]
            found = iter(self.digests(sum(listed)))
            sums = [
                list(islice(found, count)) if count else each
                for count, each in zip(listed, sums, strict=True)
            ]
            kind = self.byte()
        if kind != 0 or any(size < 0 for each in sizes for size in each):
            raise Refused("damaged: the sizes of files")
        return [
            [_File(*each) for each in zip_longest(of_folder, of_sums[: len(of_folder)])]
            for of_folder, of_sums in zip(sizes, sums, strict=True)
        ]

    def names(self) -> list[tuple[str, bool]]:
        """The names of all files, and whether there is anything in them."""
        count = self.count()
        names, are_empty = [""] * count, [False] * count
        while (kind := self.byte()) != 0:
            inner = _Header(self.take(self.number()))
            if kind == 0x0E:
                are_empty = inner.bits(count)
            elif kind == 0x11:
                if inner.byte():
                    raise Refused("parts of its header lie elsewhere")
                names = inner.rest().decode("utf-16-le", "replace").split("\0")[:count]
        names += [""] * (count - len(names))
        return list(zip(names, [not empty for empty in are_empty], strict=True))

    def rest(self) -> bytes:
        return self._data[self._at :]


def expand(part: Part, budget: Budget) -> Iterator[Part]:
    """The files of an archive; raises Refused."""
    body = part.body
    header = _header(body, budget)
    if header is None:
        return
    streams = _Streams(0, [], [], [])
    kind = header.byte()
    while kind not in {0, 0x05}:
        if kind != 0x04:
            raise Refused("damaged: an unknown part of the header")
        streams = header.streams()
        kind = header.byte()
    names = iter([name for name, has_content in (header.names() if kind else []) if has_content])
    position = _START.size + streams.position
    for folder, files, packed in zip(streams.folders, streams.files, streams.packed, strict=False):
        unpacked = _Unpacked(folder, body[position : position + packed], budget)
        position += packed
        for size, checksum in files:
            name = next(names, "")
            if size > budget.limits.member_bytes:
                unpacked.read(size, is_kept=False)
                yield unreadable(name, "larger than a member may be")
                continue
            data = unpacked.read(size)
            is_good = checksum is None or zlib.crc32(data) == checksum
            yield Part(data, name, "") if is_good else unreadable(name, "damaged: its checksum is another")


def _header(body: bytes, budget: Budget) -> _Header | None:
    """The header, unpacked if it is packed; None for an archive of nothing."""
    if len(body) < _START.size:
        raise Refused("truncated")
    signature, _, offset, size, checksum = _START.unpack_from(body)
    if signature != _SIGNATURE:
        raise Refused("damaged: not a 7z archive")
    if not size:
        return None
    if size > _MAX_HEADER or _START.size + offset + size > len(body):
        raise Refused("truncated")
    data = body[_START.size + offset : _START.size + offset + size]
    if zlib.crc32(data) != checksum:
        raise Refused("damaged: the checksum of the header")
    header = _Header(data)
    kind = header.byte()
    while kind == 0x17:
        streams = header.streams()
        if not streams.folders or streams.folders[0].size > _MAX_HEADER:
            raise Refused("damaged: the header of the header")
        start = _START.size + streams.position
        packed = body[start : start + streams.packed[0]]
        header = _Header(_Unpacked(streams.folders[0], packed, budget).read(streams.folders[0].size))
        kind = header.byte()
    if kind != 0x01:
        raise Refused("damaged: no header")
    return header


class _Unpacked:
    """What comes out of a folder, read bit by bit."""

    def __init__(self, folder: _Folder, packed: bytes, budget: Budget) -> None:
        self._packed, self._budget = packed, budget
        self._stages = list(_stages(folder, min(folder.size, budget.limits.expanded_bytes)))
        self._buffer = b""
        self._is_fed = False

    def read(self, size: int, *, is_kept: bool = True) -> bytes:
        """The next bytes; raises Refused when there are not so many, or they are not what they should be."""
        parts: list[bytes] = []
        while size:
            if not self._buffer:
                self._buffer = self._next()
                self._budget.take(len(self._buffer))
            taken, self._buffer = self._buffer[:size], self._buffer[size:]
            size -= len(taken)
            if is_kept:
                parts.append(taken)
        return b"".join(parts)

    def _next(self) -> bytes:
        data = b"" if self._is_fed else self._packed
        self._is_fed = True
        try:
            for stage in self._stages:
                data = stage(data)
        except (lzma.LZMAError, OSError, zlib.error, EOFError, ValueError) as error:
            raise Refused(f"damaged: {error}") from None
        if not data:
            raise Refused("truncated, or packed by a filter whose end is not known here")
        return data


def _stages(folder: _Folder, most: int) -> Iterator[Callable[[bytes], bytes]]:
    """What the packed bytes go through, each giving some of what it has; `most` is what can come out."""
    filters: list[dict[str, Any]] = []
    for coder in folder.coders:
        if coder.id in {_LZMA1, _LZMA2, _DELTA} or coder.id in _BRANCHES:
            filters.insert(0, _filter(coder, most))
        elif coder.id == _COPY:
            continue
        elif coder.id == _DEFLATE:
            yield Inflating()
        elif coder.id == _BZIP2:
            yield Stepwise(bz2.BZ2Decompressor())
        else:
            raise Refused(f"packed by a codec that is not known here ({coder.id.hex()})")
    if filters and filters[-1]["id"] not in {lzma.FILTER_LZMA1, lzma.FILTER_LZMA2}:
        raise Refused("packed by a filter alone")
    if filters:
        yield Stepwise(lzma.LZMADecompressor(lzma.FORMAT_RAW, filters=filters))


def _filter(coder: _Coder, most: int) -> dict[str, Any]:
    if coder.id in _BRANCHES:
        return {"id": _BRANCHES[coder.id]}
    if coder.id == _DELTA:
        return {"id": lzma.FILTER_DELTA, "dist": (coder.properties or b"\0")[0] + 1}
    if coder.id == _LZMA2:
        bits = (coder.properties or b"\0")[0] & 0x3F
        size = dictionary((2 | bits & 1) << (bits // 2 + 11), most)
        return {"id": lzma.FILTER_LZMA2, "dict_size": size}
    return lzma1(coder.properties, most)
