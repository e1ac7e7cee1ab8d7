"""Reads the nodes of `--simulate-nodes-from`: Node objects in YAML or JSON.

A file holds one or several documents; a List, as `kubectl get nodes -o yaml` writes it, counts as
the objects in it. A node with the annotation `simulation.kapiserver.dev/count` stands for so many:
`gpu` with a count of 2 for `gpu-0` and `gpu-1`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from kapiserver.api.accessors import annotations_of, copy_tree, labels_of, metadata_of, name_of
from kapiserver.api.types import Tree
from kapiserver.apiserver.configuration_files import BadConfiguration, read_configuration_data
from kapiserver.codecs.errors import CodecError
from kapiserver.simulation.annotations import PREFIX
from kapiserver.simulation.node_objects import with_labels

COUNT = f"{PREFIX}count"
MAX_COUNT = 10_000
"""The number of nodes that a file may stand for."""
_HOSTNAME = "kubernetes.io/hostname"
_OF_ONE_NODE = {"spec": ("podCIDR", "podCIDRs", "providerID"), "status": ("addresses", "nodeInfo")}
"""The fields that no two nodes share."""
_METADATA = ("name", "labels", "annotations")
"""What is taken over of the metadata, which a running cluster may have written."""


def read_nodes(file: Path) -> list[Tree]:
    """Return the nodes that a file asks for. Raises BadConfiguration."""
    from kapiserver.codecs.yaml import decode_values  # most servers have no such file

    data = read_configuration_data(file, "node template")
    try:
        nodes: list[Tree] = []
        for document in decode_values(data):
            for template in _objects(document):
                nodes += _nodes(template, MAX_COUNT - len(nodes))
    except (CodecError, ValueError) as error:
        raise BadConfiguration(f"node template file {file}: {error}") from error
    (name, count), *_ = Counter(map(name_of, nodes)).most_common(1) or [("", 0)]
    if count > 1:
        raise BadConfiguration(f"node template file {file}: {count} nodes have the name {name}")
    return nodes


def _objects(document: Any) -> Iterator[Any]:
    if isinstance(document, Mapping) and isinstance(document.get("items"), list):
        yield from document["items"]
    else:
        yield document


def _nodes(template: Any, limit: int) -> list[Tree]:
    """Return the nodes of one template. Raises ValueError, also for more than `limit` nodes."""
    _check(template)
    count = annotations_of(template).get(COUNT)
    if (_number(count) or 1) > limit:
        raise ValueError(f"more than {MAX_COUNT} nodes are asked for")
    metadata = {key: value for key, value in metadata_of(template).items() if key in _METADATA}
    if count is None:
        return [with_labels(template | {"metadata": metadata})]
    return [_numbered(template, metadata, index) for index in range(_number(count))]


def _check(template: Any) -> None:
    """Raise ValueError for what is not a Node with a name."""
    is_node = isinstance(template, Mapping) and template.get("kind") == "Node"
    if not is_node or template.get("apiVersion") != "v1":
        raise ValueError("an object is not a Node of the version v1")
    parts = [template.get(field) or {} for field in ("metadata", "spec", "status")]
    parts += [parts[0].get(field) or {} for field in ("labels", "annotations")]
    if not all(isinstance(part, Mapping) for part in parts):
        raise ValueError("metadata, labels, annotations, spec and status must be objects")
    if not isinstance(parts[0].get("name"), str):
        raise ValueError("a Node has no name")


def _number(count: Any) -> int:
    """Return the number of nodes of a template. Raises ValueError."""
    if count is None:
        return 1
    if not isinstance(count, str) or not count.isdecimal() or len(count) > len(str(MAX_COUNT)):
        raise ValueError(f"the annotation {COUNT} is not a number: {count!r}")
    return int(count)


def _numbered(template: Tree, metadata: Tree, index: int) -> Tree:
    """Return one of several nodes of a template."""
    node = copy_tree(template)
    for part, fields in _OF_ONE_NODE.items():
        if part in node:
            node[part] = {key: value for key, value in node[part].items() if key not in fields}
    annotations = {key: value for key, value in annotations_of(template).items() if key != COUNT}
    labels = {key: value for key, value in labels_of(template).items() if key != _HOSTNAME}
    changed = {"name": f"{metadata['name']}-{index}", "labels": labels, "annotations": annotations}
    return with_labels(node | {"metadata": metadata | changed})
