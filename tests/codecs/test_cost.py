"""The estimate of what it costs to process an object."""

import pytest

from kapiserver.codecs.cost import LARGE, SMALL_BYTES, cost_of


@pytest.mark.parametrize(
    "data",
    [
        b"[" + b",".join([b"1"] * 3000) + b"]",
        b'{"a":[' + b",".join([b"{}"] * LARGE) + b"]}",
        b'{"a":' * 100 + b"[" * 100 + b"]" * 100 + b"}" * 100 + b"," * LARGE + b" " * SMALL_BYTES,
        b'{"a":"' + b"x" * 300_000 + b'"}',
        b"[{}," + b",".join([b"{}"] * 300) + b"," + b" " * LARGE + b"{}]",
        b"a: &a [1]\nb: *a\n",
        b"k8s\0" + b"\x0a\x00" * 5000,
        b"k8s\0" + b"x" * 10_000,
        b"\xd9\xd9\xf7" + b"x" * 10_000,
    ],
    ids=["list", "objects", "depth", "text", "empty", "yaml", "empty-protobuf", "protobuf", "cbor"],
)
def test_large(data: bytes) -> None:
    """Bodies of very many values, in any format, are large; YAML always is."""
    assert cost_of(data) >= LARGE


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b'{"data":{' + b",".join(b'"k%d":"v"' % n for n in range(200)) + b"}}",
        b'{"data":"' + b"x" * 100_000 + b'"}',
        b"k8s\0" + b"x" * 3000,
    ],
)
def test_small(data: bytes) -> None:
    """Ordinary bodies are not, nor those of one text."""
    assert cost_of(data) < LARGE
