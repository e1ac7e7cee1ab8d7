"""A fuzz target for the decoders of request bodies, which may raise only CodecError.

`make fuzz` runs it with atheris; `test_fuzz.py` runs it over a small corpus. The first byte of an
input selects the media type, the second the expected kind.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from kapiserver.api.group import GroupVersionKind
from kapiserver.api.scheme import Scheme
from kapiserver.codecs.codec_factory import CodecFactory
from kapiserver.codecs.errors import CodecError
from kapiserver.codecs.media_types import CBOR, JSON, PROTOBUF, YAML

CODECS = CodecFactory(Scheme())
MEDIA = (JSON, YAML, PROTOBUF, CBOR)
KINDS = (
    GroupVersionKind("", "v1", "Pod"),
    GroupVersionKind("", "v1", "ConfigMap"),
    GroupVersionKind("apps", "v1", "Deployment"),
    GroupVersionKind("", "v1", "Secret"),
)


def decode_any(data: bytes) -> None:
    """Decode an input; check that the object can be encoded and decoded in every form."""
    if len(data) < 2:
        return
    media = MEDIA[data[0] % len(MEDIA)]
    kind = KINDS[data[1] % len(KINDS)]
    try:
        tree = CODECS.limited_serializer_for(media).decode(data[2:], defaults=kind).object
    except CodecError:
        return
    for form in (JSON, CBOR, PROTOBUF):
        serializer = CODECS.serializer_for(form)
        try:
            encoded = serializer.encode(tree)
        except CodecError as error:
            if form is PROTOBUF and "does not implement" in str(error):
                continue
            raise AssertionError(f"{form.name} cannot write {tree!r}: {error}") from error
        serializer.decode(encoded)


_TEMPLATE = {"metadata": {}, "spec": {"containers": [{"name": "c"}]}}
_CONTENT = (
    {"spec": {"containers": [{"name": "c", "ports": [{"containerPort": 80}]}]}},
    {"data": {"k": "v"}, "binaryData": {"b": "AAE="}},
    {"spec": {"selector": {"matchLabels": {"a": "b"}}, "template": _TEMPLATE}},
    {"data": {"k": "YQ=="}, "type": "Opaque"},
)


def corpus() -> list[bytes]:
    """Each kind in each form, prefixed with the bytes that select them."""
    inputs = []
    for number, kind in enumerate(KINDS):
        head = {"kind": kind.kind, "apiVersion": str(kind.group_version)}
        metadata = {"name": "a", "labels": {"k": "v"}, "creationTimestamp": "2020-01-01T00:00:00Z"}
        data = json.dumps({**head, "metadata": metadata, **_CONTENT[number]}).encode()
        tree = CODECS.serializer_for(JSON).decode(data).object
        for choice, media in enumerate(MEDIA):
            inputs.append(bytes((choice, number)) + CODECS.serializer_for(media).encode(tree))
    return inputs


def main() -> None:
    """Run libFuzzer with the command line's arguments; the first that is not an option is the
    corpus."""
    import atheris

    for argument in sys.argv[1:]:
        if not argument.startswith("-"):
            folder = Path(argument)
            folder.mkdir(parents=True, exist_ok=True)
            for number, data in enumerate(corpus()):
                (folder / f"seed-{number}").write_bytes(data)
            break
    atheris.instrument_all()
    atheris.Setup(sys.argv, decode_any)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
