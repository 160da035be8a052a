"""The container: a file of Arrow IPC with a record of gpuhash, and a checksum of each of its bytes.

    ARROW1  schema, with the record  |  record batch  |  record batch  |  ...  |  end mark  footer  its size  ARROW1
    `------------ head ------------'    `- block 1 -'    `- block 2 -'

The schema's metadata have the record under "gpuhash", a JSON object (record.py). The footer's have "gpuhash.checksums":
the CRC-32 of the head, of each block, and of the footer, in hexadecimal digits with spaces in between. That of the
footer is of its bytes with its own eight digits as zeros. Nothing lies between the parts.

A reader takes memory for one block at a time. What a compressed block says of its size is believed up to `MOST_RATIO`
times its bytes; the writer leaves a block uncompressed that would be smaller.
"""

from __future__ import annotations

import json
import struct
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from pygpuhash.errors import Corrupt, InvalidArgument, Unsupported
from pygpuhash.saved import codecs
from pygpuhash.saved.chunk import Array, Chunk
from pygpuhash.saved.codecs import Codec
from pygpuhash.saved.flatbuffers import Malformed, Number, Structs, Table, built
from pygpuhash.saved.types import MOST_FIELDS, Type, buffers_of, layout, read_fields, written

__all__ = ["VERSION", "Reader", "Writer"]

VERSION = 1  # of the container
RECORD, CHECKSUMS = "gpuhash", "gpuhash.checksums"
MOST_RATIO = 1024

_MAGIC = b"ARROW1"
_V5 = Number("h", 4)  # of Arrow's metadata
_LITTLE = 0 if sys.byteorder == "little" else 1
_SCHEMA, _BATCH = 1, 3  # of the union MessageHeader
_MARK = b"\xff\xff\xff\xff"
_END = _MARK + bytes(4)
_ALIGNMENT = 64
_LONGEST_METADATA = 1 << 28
_NO_SUM = "00000000"


# ---- writing ---------------------------------------------------------------------------------------------------------


class Writer:
    """Writes a container by a function that takes bytes."""

    def __init__(
        self, write: Callable[[Any], object], types: Sequence[Type], record: dict[str, Any], codec: Codec | None
    ):
        fields = len(layout(tuple(types)))
        if fields > MOST_FIELDS:
            raise InvalidArgument(f"keys and values have {fields} fields, and a file has {MOST_FIELDS} at most")
        self._write, self._codec, self._at, self._sum = write, codec, 0, 0
        self._sums: list[int] = []
        self._blocks: list[tuple[int, int, int]] = []
        record = {"format": VERSION, **record}
        metadata = ([RECORD, json.dumps(record)],)
        self._schema = [Number("h", _LITTLE), tuple(written(type) for type in types), metadata]
        self._put(_MAGIC + b"\0\0")
        self._message(_SCHEMA, self._schema, 0)
        self._end_part()

    def block(self, chunk: Chunk) -> None:
        """Write a record batch."""
        begin = self._at
        parts, places, codec = self._encoded(chunk)
        nodes = Structs(len(chunk.nodes), b"".join(struct.pack("<qq", *node) for node in chunk.nodes))
        buffers = Structs(len(places), b"".join(struct.pack("<qq", *place) for place in places))
        compression = None if codec is None else [Number("b", codec.number), Number("b", 0)]
        body = sum(_padded(len(part)) for part in parts)
        metadata = self._message(_BATCH, [Number("q", chunk.rows), nodes, buffers, compression], body)
        for part in parts:
            self._put(part)
            self._put(bytes(_padded(len(part)) - len(part)))
        self._blocks.append((begin, metadata, body))
        self._end_part()

    def finish(self) -> None:
        """Write the footer."""
        blocks = Structs(len(self._blocks), b"".join(struct.pack("<qixxxxq", *block) for block in self._blocks))
        sums = " ".join([f"{one:08x}" for one in self._sums] + [_NO_SUM])
        footer = built([_V5, self._schema, Structs(0, b""), blocks, ([CHECKSUMS, sums],)])
        at = footer.index(sums.encode()) + len(sums)
        footer = footer[: at - 8] + f"{zlib.crc32(footer):08x}".encode() + footer[at:]
        self._put(_END + footer + struct.pack("<i", len(footer)) + _MAGIC)

    def _encoded(self, chunk: Chunk) -> tuple[list[Any], list[tuple[int, int]], Codec | None]:
        """(the body's parts, where they are, the codec that was used)."""
        parts: list[Any] = [buffer.data for buffer in chunk.buffers]
        codec = self._codec
        if codec is not None:
            squeezed = [_compressed(codec, part) for part in parts]
            whole = sum(map(len, parts))
            if whole <= MOST_RATIO * sum(map(len, squeezed)):
                parts = squeezed
            else:
                codec = None
        places, at = [], 0
        for part in parts:
            places.append((at, len(part)))
            at += _padded(len(part))
        return parts, places, codec

    def _message(self, kind: int, header: list[Any], body: int) -> int:
        """Write a message without its body; returns its bytes."""
        data = built([_V5, Number("B", kind), header, Number("q", body)])
        size = len(data) + -(self._at + 8 + len(data)) % _ALIGNMENT
        self._put(_MARK + struct.pack("<i", size) + data.ljust(size, b"\0"))
        return 8 + size

    def _put(self, data: Any) -> None:
        self._sum = zlib.crc32(data, self._sum)
        self._at += len(data)
        self._write(data)

    def _end_part(self) -> None:
        self._sums.append(self._sum)
        self._sum = 0


def _padded(size: int) -> int:
    return size + -size % _ALIGNMENT


def _compressed(codec: Codec, part: Any) -> bytes:
    if not len(part):
        return b""
    data = codec.compress(part)
    if len(data) >= len(part):
        return struct.pack("<q", -1) + bytes(part)
    return struct.pack("<q", len(part)) + data


# ---- reading ---------------------------------------------------------------------------------------------------------


class Reader:
    """Reads a container by read(offset, size), which gives so many bytes as an array; `name` is for messages.

    Raises `InvalidArgument` for a file that is none of these, `Unsupported` for a newer one, and `Corrupt`, with the
    part, for one that is not whole.
    """

    def __init__(self, read: Callable[[int, int], Array], size: int, name: str) -> None:
        self._read, self._size, self._name = read, size, name
        self.types: tuple[Type, ...] = ()
        self.record: dict[str, Any] = {}
        self._part("the footer", self._read_footer)

    def _part(self, part: str, action: Callable[[], Any]) -> Any:
        try:
            return action()
        except Malformed as error:
            raise Corrupt(f"{self._name}: {part} is broken: {error}. Save the table again, or take a copy") from None

    def _read_footer(self) -> None:
        if self._size < 8 or bytes(self._read(0, 8)) != _MAGIC + b"\0\0":
            raise InvalidArgument(f"{self._name} is no saved table: it does not begin as files of Arrow IPC do")
        tail = bytes(self._read(max(self._size - 10, 0), min(self._size, 10)))
        length = struct.unpack("<i", tail[:4])[0] if len(tail) == 10 else -1
        begin = self._size - 10 - length
        if tail[4:] != _MAGIC or length < 8 or begin < 16:
            raise Malformed("the file ends before its end mark")
        data = bytes(self._read(begin - 8, length + 8))
        if data[:8] != _END:
            raise Malformed("there is no end mark before it")
        footer = data[8:]
        root = Table.root(footer)
        schema = root.table(1)
        if schema is None:
            raise Malformed("it has no schema")
        recorded, summed = _entries(schema, 2).get(RECORD), _entries(root, 4).get(CHECKSUMS)
        if recorded is None and summed is None:
            raise InvalidArgument(
                f"{self._name} is a file of Arrow without a record of gpuhash: read it with pyarrow, and insert it"
            )
        if recorded is None or summed is None:
            raise Malformed("it has no record" if recorded is None else "it has no checksums")
        sums = _sums(footer, summed)
        self._read_record(recorded)
        self._read_places(root, sums, begin - 8)
        if schema.number(0, "h") != _LITTLE:
            raise Unsupported(f"{self._name} has numbers of another byte order: read it with pyarrow")
        self.types = read_fields(schema)

    def _read_record(self, entry: Table) -> None:
        try:
            record = json.loads(entry.text(1))
        except (ValueError, RecursionError) as error:
            raise Malformed(f"its record is no JSON: {str(error)[:80]}") from None
        version = record.get("format") if isinstance(record, dict) else None
        if type(version) is not int or version < 1:
            raise Malformed(f"its record has the format {str(version)[:40]!r}")
        if version > VERSION:
            raise Unsupported(
                f"{self._name} has format {version} of saved tables, and this gpuhash reads up to {VERSION}: "
                "update gpuhash"
            )
        self.record = record

    def _read_places(self, root: Table, sums: list[int], end: int) -> None:
        """Where all parts are. They follow each other from the file's first byte to the footer."""
        if root.count(2):
            raise Malformed("there are dictionaries")
        self._blocks = root.structs(3, "qixxxxq")
        if len(sums) != len(self._blocks) + 2:
            raise Malformed(f"it has {len(sums)} checksums for {len(self._blocks)} blocks")
        at = self._blocks[0][0] if self._blocks else end
        self._head, self._sums = at, sums
        for i, (begin, metadata, body) in enumerate(self._blocks):
            if begin != at or not 16 <= metadata <= _LONGEST_METADATA or body < 0 or begin + metadata + body > end:
                raise Malformed(f"block {i + 1} would be at byte {begin}, of {metadata} and {body} bytes")
            at = begin + metadata + body
        if at != end or self._head < 16:
            raise Malformed(f"the blocks end at byte {at}, and it begins at {end}")

    @property
    def blocks(self) -> int:
        """How many blocks there are."""
        return len(self._blocks)

    @property
    def nbytes(self) -> int:
        """Bytes of the whole file."""
        return self._size

    def chunks(self) -> Iterator[tuple[str, Chunk]]:
        """(the block's name for messages, its rows), one at a time."""
        self._part("the head", self._check_head)
        for i in range(len(self._blocks)):
            name = f"block {i + 1} of {len(self._blocks)}"
            yield name, self._part(name, lambda i=i: self._chunk(i))  # type: ignore[misc]

    def refused(self, part: str, action: Callable[[], Any]) -> Any:
        """action(), whose Malformed becomes `Corrupt` of this part."""
        return self._part(part, action)

    def _check_head(self) -> None:
        at, total = 0, 0
        while at < self._head:
            size = min(self._head - at, 1 << 20)
            total = zlib.crc32(self._read(at, size).data, total)
            at += size
        if total != self._sums[0]:
            raise Malformed("its bytes do not have its checksum")

    def _chunk(self, i: int) -> Chunk:
        begin, metadata, size = self._blocks[i]
        data = self._read(begin, metadata + size)
        if zlib.crc32(data.data) != self._sums[i + 1]:
            raise Malformed("its bytes do not have its checksum")
        head, body = bytes(data[:metadata]), data[metadata:]
        if head[:4] != _MARK or struct.unpack_from("<i", head, 4)[0] != metadata - 8:
            raise Malformed("it does not begin as a message")
        message = Table.root(head[8:])
        batch = message.table(2)
        if batch is None or message.number(1, "B") != _BATCH or message.number(3, "q") != size:
            raise Malformed("it is no record batch of its size")
        return self._batch(batch, body)

    def _batch(self, batch: Table, body: Array) -> Chunk:
        columns = layout(self.types)
        rows, nodes, places = batch.number(0, "q"), batch.structs(1, "qq"), batch.structs(2, "qq")
        wanted = sum(map(buffers_of, columns))
        if len(nodes) != len(columns) or len(places) != wanted:
            raise Malformed(f"it has {len(nodes)} columns and {len(places)} buffers, not {len(columns)} and {wanted}")
        compression = batch.table(3)
        codec = None if compression is None else codecs.numbered(compression.number(0, "b"))
        left = MOST_RATIO * body.size
        if rows < 0 or rows > 8 * (body.size if codec is None else left):
            raise Malformed(f"it has {rows} rows in {body.size} bytes")
        buffers, at = [], 0
        for begin, size in places:
            if begin != at or size < 0 or begin + size > body.size:
                raise Malformed(f"a buffer would be at byte {begin} of the body, of {size} bytes")
            at = begin + _padded(size)
            buffer = body[begin : begin + size]
            buffers.append(buffer if codec is None else _expanded(codec, buffer, left))
            left -= buffers[-1].size
        return Chunk(rows, [(a, b) for a, b in nodes], buffers)


def _entries(table: Table, field: int) -> dict[str, Table]:
    """The key-value pairs of custom metadata."""
    pairs = [table.element(field, i) for i in range(min(table.count(field), 64))]
    return {pair.text(0): pair for pair in pairs}


def _sums(footer: bytes, entry: Table) -> list[int]:
    """The checksums of all parts of the file; the one of the footer itself is checked here."""
    at, size = entry.text_place(1)
    end = at + size
    if (
        size < 8
        or f"{zlib.crc32(footer[: end - 8] + _NO_SUM.encode() + footer[end:]):08x}".encode() != footer[end - 8 : end]
    ):
        raise Malformed("its bytes do not have its checksum")
    try:
        return [int(word, 16) for word in footer[at:end].split(b" ")]
    except ValueError:
        raise Malformed("its checksums are no numbers") from None


def _expanded(codec: Codec, data: Array, most: int) -> Array:
    """The bytes of a compressed buffer before it was compressed."""
    if not data.size:
        return data
    if data.size < 8:
        raise Malformed("a compressed buffer has no size")
    size = struct.unpack("<q", bytes(data[:8]))[0]
    if size == -1:
        return data[8:]
    if not 0 <= size <= most:
        raise Malformed(f"a buffer of {data.size} bytes would become {size}, more than {MOST_RATIO} times the block")
    whole = np.frombuffer(codec.decompress(data[8:].data, size), np.uint8)
    if whole.size != size:
        raise Malformed(f"a compressed buffer has {whole.size} bytes, and says {size}")
    return whole
