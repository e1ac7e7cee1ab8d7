"""The steps of a workload, and the file that has them.

namespace: default
steps:
- apply: database.yaml
- wait: {for: condition=Ready, on: databases.example.com/db}
- patch: {on: databases.example.com/db, with: {spec: {size: 3}}}
- settle: {}
- delete: databases.example.com/db
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from msgspec import Struct

from kapiserver.api.types import Tree
from kapiserver.codecs import yaml
from kapiserver.codecs.errors import CodecError
from kapiserver.testing.durations import parse_seconds
from kapiserver.testing.history.conditions import parse_condition
from kapiserver.testing.state.manifests import read_manifests

MAX_FILE_BYTES = 16 << 20
MAX_STEPS = 1000
DEFAULT_WAIT_SECONDS = 30.0


class Target(Struct, frozen=True):
    """An object that a step names: a kind as kubectl takes it, a name and a namespace."""

    kind: str
    name: str
    namespace: str

    def __str__(self) -> str:
        return f"{self.kind}/{self.name}"


class Apply(Struct, frozen=True):
    """Applies objects as `kubectl apply --server-side` does."""

    objects: tuple[Tree, ...]
    namespace: str

    def __str__(self) -> str:
        names = [f"{obj['kind']} {obj['metadata'].get('name', '')}" for obj in self.objects]
        return f"apply {', '.join(names)}"


class Patch(Struct, frozen=True):
    """Patches an object with a merge patch."""

    target: Target
    patch: Tree

    def __str__(self) -> str:
        return f"patch {self.target}"


class Scale(Struct, frozen=True):
    """Sets the replicas of an object by its subresource `scale`."""

    target: Target
    replicas: int

    def __str__(self) -> str:
        return f"scale {self.target} to {self.replicas}"


class Delete(Struct, frozen=True):
    """Deletes an object, and does not wait until it is gone."""

    target: Target

    def __str__(self) -> str:
        return f"delete {self.target}"


class Wait(Struct, frozen=True):
    """Waits until an object meets a condition, for this many real seconds at most."""

    target: Target
    condition: str
    seconds: float

    def __str__(self) -> str:
        return f"wait for {self.condition} of {self.target}"


class Settle(Struct, frozen=True):
    """Waits until nothing is left to do at this time of the clock."""

    def __str__(self) -> str:
        return "settle"


class Advance(Struct, frozen=True):
    """Moves the server's clock forward by this many seconds."""

    seconds: float

    def __str__(self) -> str:
        return f"advance {self.seconds:g} s"


Step: TypeAlias = Apply | Patch | Scale | Delete | Wait | Settle | Advance


def read_workload(path: Path) -> tuple[Step, ...]:
    """Return the steps of a file. Files that it names are relative to it. Raises OSError, and
    ValueError with the number of the step for what is not a workload."""
    if path.stat().st_size > MAX_FILE_BYTES:
        raise ValueError(f"{path} has more than {MAX_FILE_BYTES} bytes")
    try:
        document = yaml.decode_value(path.read_bytes())
    except CodecError as error:
        raise ValueError(f"{path}: {error}") from error
    try:
        return parse_workload(document, path.parent)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def parse_workload(document: Any, folder: Path) -> tuple[Step, ...]:
    """Return the steps of a workload: a mapping with `steps` and perhaps `namespace`. Raises
    OSError, ValueError."""
    document = _mapping(document, "the workload", {"steps"}, {"namespace"})
    namespace = _text(document.get("namespace", "default"), "namespace")
    steps = document["steps"]
    if not isinstance(steps, list) or not steps:
        raise ValueError("steps must be a list with at least one step")
    if len(steps) > MAX_STEPS:
        raise ValueError(f"there are {len(steps)} steps; at most {MAX_STEPS} are allowed")
    parsed = []
    for number, step in enumerate(steps, 1):
        try:
            parsed.append(_step(step, folder, namespace))
        except ValueError as error:
            raise ValueError(f"step {number}: {error}") from error
    return tuple(parsed)


def _step(step: Any, folder: Path, namespace: str) -> Step:
    if not isinstance(step, dict) or len(step) != 1:
        raise ValueError(f"a step is a mapping with one key: {', '.join(_PARSERS)}")
    ((verb, value),) = step.items()
    if verb not in _PARSERS:
        raise ValueError(f"{verb!r} is not a step; write {', '.join(_PARSERS)}")
    return _PARSERS[verb](value, folder, namespace)


def _apply(value: Any, folder: Path, namespace: str) -> Apply:
    sources = value if isinstance(value, list) else [value]
    for source in sources:
        if not isinstance(source, str | dict):
            raise ValueError("apply takes an object, the name of a file or folder, or a list")
    objects = read_manifests(
        folder / source if isinstance(source, str) else source for source in sources
    )
    if not objects:
        raise ValueError(f"there are no objects in {value}")
    return Apply(tuple(objects), namespace)


def _patch(value: Any, _: Path, namespace: str) -> Patch:
    value = _mapping(value, "patch", {"on", "with"}, {"namespace"})
    if not isinstance(value["with"], dict):
        raise ValueError("with must be a merge patch: a mapping")
    return Patch(_target(value["on"], value.get("namespace", namespace)), value["with"])


def _scale(value: Any, _: Path, namespace: str) -> Scale:
    value = _mapping(value, "scale", {"on", "replicas"}, {"namespace"})
    replicas = value["replicas"]
    if not isinstance(replicas, int) or isinstance(replicas, bool) or replicas < 0:
        raise ValueError("replicas must be a number, at least 0")
    return Scale(_target(value["on"], value.get("namespace", namespace)), replicas)


def _delete(value: Any, _: Path, namespace: str) -> Delete:
    if isinstance(value, str):
        return Delete(_target(value, namespace))
    value = _mapping(value, "delete", {"on"}, {"namespace"})
    return Delete(_target(value["on"], value.get("namespace", namespace)))


def _wait(value: Any, _: Path, namespace: str) -> Wait:
    value = _mapping(value, "wait", {"for", "on"}, {"namespace", "timeout"})
    condition = _text(value["for"], "for")
    condition = "delete" if condition == "gone" else condition
    parse_condition(condition)
    seconds = parse_seconds(value.get("timeout", DEFAULT_WAIT_SECONDS))
    return Wait(_target(value["on"], value.get("namespace", namespace)), condition, seconds)


def _settle(value: Any, _: Path, namespace: str) -> Settle:  # noqa: ARG001 - a parser
    _mapping({} if value is None else value, "settle", set(), set())
    return Settle()


def _advance(value: Any, _: Path, namespace: str) -> Advance:  # noqa: ARG001 - a parser
    if not isinstance(value, str | int | float) or isinstance(value, bool):
        raise ValueError("advance takes a duration such as 10m")
    return Advance(parse_seconds(value))


_PARSERS: Mapping[str, Callable[[Any, Path, str], Step]] = {
    "apply": _apply,
    "patch": _patch,
    "scale": _scale,
    "delete": _delete,
    "wait": _wait,
    "settle": _settle,
    "advance": _advance,
}


def _target(value: Any, namespace: Any) -> Target:
    kind, _, name = _text(value, "an object").rpartition("/")
    if not kind or not name:
        raise ValueError(f"{value!r} is not an object: write kind/name")
    return Target(kind, name, _text(namespace, "namespace"))


def _text(value: Any, name: str) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(f"{name} must be text, not {value!r}")
    return value


def _mapping(value: Any, name: str, required: set[str], optional: set[str]) -> dict[str, Any]:
    """Return the value if it is a mapping with these keys. Raises ValueError."""
    if not isinstance(value, dict):
        raise ValueError(f"{name} must be a mapping, not {value!r}")
    # YAML 1.1, which Kubernetes reads, takes the key `on` for a boolean.
    mapping = {"on" if key == "true" else key: item for key, item in value.items()}
    for key in sorted(required - mapping.keys()):
        raise ValueError(f"{name} must have {key}")
    for key in mapping:
        if key not in required | optional:
            raise ValueError(f"{name} has no key {key!r}; write {', '.join(required | optional)}")
    return mapping
