"""Framing of streams: readers return the same bodies however the input is split."""

import contextlib

import cbor2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kapiserver.codecs.cbor_scanner import ItemScanner
from kapiserver.codecs.errors import CodecError, Malformed, TooLarge
from kapiserver.codecs.framing import CBOR_SEQUENCE, JSON_LINES, LENGTH_PREFIXED, MAX_FRAME

CBOR_BODIES = [cbor2.dumps(value) for value in ({}, {"a": [1, -1, "x", b"y", None]}, 1.5, [[]])]
CASES = [
    (JSON_LINES, [b'{"a":1}\n', b"{}\n", b'{"b":"c"}\n']),
    (LENGTH_PREFIXED, [b"k8s\0abc", b"", b"x" * 300]),
    (
        CBOR_SEQUENCE,
        [*CBOR_BODIES, b"\xd9\xd9\xf7\xa0", b"\x9f\x01\xff", b"\xbf\x41a\x5f\x41b\xff\xff"],
    ),
]
IDS = [framing.name for framing, _ in CASES]


@pytest.mark.parametrize(("framing", "bodies"), CASES, ids=IDS)
@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_round_trip(framing, bodies, size):
    """Any split of a stream returns the same bodies."""
    stream = b"".join(map(framing.frame, bodies))
    reader = framing.make_reader()
    frames = []
    for start in range(0, len(stream), size):
        frames += reader.feed(stream[start : start + size])
    reader.close()
    assert frames == bodies


@pytest.mark.parametrize(("framing", "bodies"), CASES, ids=IDS)
def test_truncated(framing, bodies):
    """A stream that ends within a body is an error; one that ends after a body is not."""
    frame = framing.frame(bodies[-1])
    for length in range(1, len(frame)):
        reader = framing.make_reader()
        assert reader.feed(frame[:length]) == []
        with pytest.raises(Malformed):
            reader.close()


def test_a_line_gets_its_end():
    """A body without a newline gets one."""
    assert JSON_LINES.frame(b"{}") == b"{}\n"


def test_bounds():
    """A frame above the size limit is refused before it is buffered."""
    with pytest.raises(TooLarge):
        LENGTH_PREFIXED.make_reader().feed((MAX_FRAME + 1).to_bytes(4, "big"))
    reader = JSON_LINES.make_reader()
    assert reader.feed(b"x" * MAX_FRAME) == []
    with pytest.raises(TooLarge):
        reader.feed(b"x" * 10)
    with pytest.raises(Malformed):
        CBOR_SEQUENCE.make_reader().feed(b"\x81" * 10_000)
    with pytest.raises(Malformed):
        CBOR_SEQUENCE.make_reader().feed(b"\xff")


@settings(max_examples=150)
@given(st.binary(max_size=80))
def test_any_bytes(data):
    """The item scanner finds the end of an item where cbor2 does, or raises an error."""
    for framing, _ in CASES:
        with contextlib.suppress(CodecError):
            framing.make_reader().feed(data)
    try:
        end = ItemScanner().find_end(data)
    except Malformed:
        return
    try:
        value = cbor2.loads(data)
    except cbor2.CBORDecodeEOF:
        assert end is None
    except (cbor2.CBORError, ValueError):
        pass
    else:
        assert end is not None, value
