"""Frames of SPDY/3.1: each is read as it was written, however the bytes are split."""

from __future__ import annotations

import zlib
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kapiserver.codecs.spdy import (
    DICTIONARY,
    MAX_CONTROL_BYTES,
    MAX_DATA_BYTES,
    Data,
    Frame,
    FrameReader,
    FrameWriter,
    GoAway,
    MoreHeaders,
    Ping,
    Reset,
    SpdyError,
    SynReply,
    SynStream,
)

STREAMS = st.integers(1, (1 << 31) - 1)
NUMBERS = st.integers(0, (1 << 32) - 1)
NAMES = st.text(st.characters(codec="ascii", exclude_characters="\0"), max_size=20).map(str.lower)
HEADERS = st.dictionaries(NAMES, st.text(st.characters(codec="utf-8"), max_size=50), max_size=10)
FRAMES = st.one_of(
    st.builds(SynStream, STREAMS, HEADERS, st.booleans(), st.booleans()),
    st.builds(SynReply, STREAMS, HEADERS, st.booleans()),
    st.builds(MoreHeaders, STREAMS, HEADERS, st.booleans()),
    st.builds(Reset, STREAMS, NUMBERS),
    st.builds(Ping, NUMBERS),
    st.builds(GoAway, STREAMS, NUMBERS),
    st.builds(Data, STREAMS, st.binary(max_size=100), st.booleans()),
)


def joined(frames: Iterable[Frame]) -> list[Frame]:
    """Return frames with the pieces of each data frame as one; empty pieces count for nothing."""
    result: list[Frame] = []
    for frame in frames:
        last = result[-1] if result else None
        match last, frame:
            case Data(before, begin, False), Data(after, rest, fin) if before == after:
                result[-1] = Data(after, begin + rest, fin)
            case _:
                result.append(frame)
    return [frame for frame in result if not isinstance(frame, Data) or frame.data or frame.fin]


@given(st.lists(FRAMES, max_size=8), st.integers(1, 100))
def test_round_trip(frames: list[Frame], size: int) -> None:
    writer, reader = FrameWriter(), FrameReader()
    data = b"".join(map(writer.encode, frames))
    read: list[Frame] = []
    for start in range(0, len(data), size):
        read += reader.feed(data[start : start + size])
    assert joined(read) == joined(frames)


@given(st.lists(FRAMES, max_size=3), st.binary(max_size=60))
def test_hostile_bytes(frames: list[Frame], garbage: bytes) -> None:
    """What follows frames is read as frames, or is an error of SPDY."""
    writer, reader = FrameWriter(), FrameReader()
    data = b"".join(map(writer.encode, frames)) + garbage
    try:
        for frame in reader.feed(data):
            assert frame is not None
    except SpdyError:
        pass


def test_bytes_of_the_specification() -> None:
    """The dictionary has the checksum that peers look for; frames have the fields of the draft."""
    assert (len(DICTIONARY), zlib.adler32(DICTIONARY)) == (1423, 0xE3C6A7C2)
    writer = FrameWriter()
    assert writer.encode(Ping(7)) == bytes.fromhex("80030006 00000004 00000007")
    assert writer.encode(Reset(3, 5)) == bytes.fromhex("80030003 00000008 00000003 00000005")
    assert writer.encode(Data(3, b"ab", fin=True)) == bytes.fromhex("00000003 01000002") + b"ab"
    head = writer.encode(SynStream(1, {"StreamType": "error"}, fin=True))
    assert head[:8] == bytes.fromhex("80030001 01") + (len(head) - 8).to_bytes(3)
    plain = zlib.decompressobj(zdict=DICTIONARY)
    block = bytes.fromhex("00000001 0000000a") + b"streamtype" + b"\0\0\0\5error"
    assert head[8:18] == bytes.fromhex("00000001 00000000 0000")
    assert _decompressed(plain, head[18:]) == block


def _decompressed(decompressor: zlib._Decompress, data: bytes) -> bytes:
    return decompressor.decompress(data)


def test_flow_control_is_read_over() -> None:
    settings = bytes.fromhex("80030004 00000004 00000000")
    window = bytes.fromhex("80030009 00000008 00000001 00010000")
    ping = FrameWriter().encode(Ping(1))
    assert list(FrameReader().feed(settings + window + ping)) == [Ping(1)]


def _bomb() -> bytes:
    """A frame whose headers are a thousand times as large as the frame."""
    compressor = zlib.compressobj(zdict=DICTIONARY)
    block = compressor.compress(bytes(8 << 20)) + compressor.flush(zlib.Z_SYNC_FLUSH)
    payload = bytes.fromhex("00000001 00000000 0000") + block
    return bytes.fromhex("80030001 00") + len(payload).to_bytes(3) + payload


@pytest.mark.parametrize(
    "data",
    [
        bytes.fromhex("80020006 00000004 00000007"),
        bytes.fromhex("80030006 00000003 000000"),
        bytes.fromhex("80030001 00") + (MAX_CONTROL_BYTES + 1).to_bytes(3),
        bytes.fromhex("80030002 00000008 00000001 ffffffff"),
        _bomb(),
    ],
    ids=["version", "short", "large", "not compressed", "bomb"],
)
def test_malformed_frames(data: bytes) -> None:
    with pytest.raises(SpdyError):
        list(FrameReader().feed(data))


def test_limits_of_writing() -> None:
    with pytest.raises(SpdyError):
        FrameWriter().encode(Data(1, bytes(MAX_DATA_BYTES + 1)))
    with pytest.raises(SpdyError):
        FrameWriter().encode(SynReply(1, {"a": "x" * MAX_CONTROL_BYTES}))


def test_a_large_frame_is_not_held() -> None:
    """The data of a frame is passed on as it arrives."""
    frame = FrameWriter().encode(Data(1, bytes(1 << 20), fin=True))
    reader = FrameReader()
    assert list(reader.feed(frame[: 8 + 1000])) == [Data(1, bytes(1000))]
    *_, last = reader.feed(frame[1008:])
    assert isinstance(last, Data)
    assert last.fin
