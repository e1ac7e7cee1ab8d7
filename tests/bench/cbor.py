"""The cost of CBOR compared with JSON, in this process and without HTTP.

    python -m tests.bench.cbor

Figures are CPU microseconds per object, the minimum of several batches, for a pod and for a custom
object with the same content; `stored` is the encoding of stored custom objects.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import orjson

from kapiserver.api.custom_kinds import CustomKinds, Definition
from kapiserver.api.scheme import Scheme
from kapiserver.api.types import Tree
from kapiserver.codecs.codec_factory import CodecFactory
from kapiserver.codecs.media_types import CBOR, JSON
from kapiserver.codecs.storage_codec import encode_for_storage
from tests.bench.apply import pod

BATCHES, SIZE = 7, 100


def cost(act: Callable[[], object]) -> float:
    """CPU microseconds of one call."""
    fastest = 1e9
    for _ in range(BATCHES):
        start = time.process_time()
        for _ in range(SIZE):
            act()
        fastest = min(fastest, time.process_time() - start)
    return fastest / SIZE * 1e6


def custom_kinds() -> CustomKinds:
    """A custom kind whose objects have a pod's fields, with a schema of three levels."""
    free = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    containers = {"type": "array", "items": free}
    spec = {**free, "properties": {"containers": containers}}
    schema = {"type": "object", "properties": {"spec": spec}}
    names = {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    tree = {
        "kind": "CustomResourceDefinition",
        "apiVersion": "apiextensions.k8s.io/v1",
        "metadata": {"name": "widgets.example.com", "uid": "u", "generation": 1},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": names,
            "versions": [version],
        },
        "status": {"acceptedNames": names},
    }
    return CustomKinds([Definition(tree, lambda: tree)])


def main() -> None:
    """Print the costs, and their ratio to JSON's."""
    scheme = Scheme()
    scheme.custom = custom_kinds()
    codecs = CodecFactory(scheme)
    codecs_to_compare = [codecs.serializer_for(media) for media in (JSON, CBOR)]
    obj = pod(1, 5)
    widget = {**obj, "apiVersion": "example.com/v1", "kind": "Widget"}
    print(f"{'':24}{'JSON':>8}{'CBOR':>8}{'ratio':>8}")
    tree: Tree = {}
    for name, source in (("pod", obj), ("custom object", widget)):
        tree = codecs.serializer_for(JSON).decode(orjson.dumps(source)).object
        encoded = [form.encode(tree) for form in codecs_to_compare]
        _print(f"{name}, encode", [cost(partial(form.encode, tree)) for form in codecs_to_compare])
        pairs = zip(codecs_to_compare, encoded, strict=True)
        _print(f"{name}, decode", [cost(partial(form.decode, data)) for form, data in pairs])
        _print(f"{name}, bytes", [float(len(data)) for data in encoded])
    without_cbor = CodecFactory(codecs.scheme, [JSON])
    costs = [cost(partial(encode_for_storage, factory, tree)) for factory in (without_cbor, codecs)]
    _print("custom object, stored", costs)


def _print(name: str, costs: list[float]) -> None:
    print(f"{name:24}{costs[0]:8.1f}{costs[1]:8.1f}{costs[1] / costs[0]:8.2f}")


if __name__ == "__main__":
    main()
