"""PodSecurity: what the labels of a namespace ask of pods in it.

`enforce` refuses pods; `warn` tells of pods and of templates that would be refused. Mirrors
k8s.io/pod-security-admission.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kapiserver.api.core.pod_security import LATEST, LEVELS, Level, Violation, violations
from kapiserver.api.errors import FieldError, InvalidObject, Path, invalid
from kapiserver.api.group import GroupVersion
from kapiserver.api.objects import labels_of, name_of, value_at
from kapiserver.api.types import Tree
from kapiserver.apiserver.admission import Attributes
from kapiserver.apiserver.context import Server
from kapiserver.storage.entry import ObjectKey
from kapiserver.storage.errors import NotFound
from kapiserver.storage.query import ListQuery

PREFIX = "pod-security.kubernetes.io/"
PODS_LOOKED_AT = 3000
"""Of a namespace that is to be held to more."""
_CORE = GroupVersion("", "v1")
_LABELS = Path("metadata") / "labels"
_VERSION = re.compile(r"v1\.(0|[1-9][0-9]{0,3})")
_TEMPLATES: Mapping[str, tuple[str, ...]] = {
    "podtemplates": ("template",),
    "replicationcontrollers": ("spec", "template"),
    "daemonsets.apps": ("spec", "template"),
    "deployments.apps": ("spec", "template"),
    "replicasets.apps": ("spec", "template"),
    "statefulsets.apps": ("spec", "template"),
    "jobs.batch": ("spec", "template"),
    "cronjobs.batch": ("spec", "jobTemplate", "spec", "template"),
}


@dataclass(frozen=True, slots=True)
class _Standard:
    """A level, as it was in some version."""

    level: Level = "privileged"
    minor: int = LATEST

    def __str__(self) -> str:
        return f"{self.level}:{'latest' if self.minor == LATEST else f'v1.{self.minor}'}"

    def broken_by(self, pod: Tree) -> list[Violation]:
        return violations(pod, self.level, self.minor)


def _standard(
    labels: Mapping[str, str], mode: str, errors: list[FieldError] | None = None
) -> _Standard:
    """What the labels ask in a mode; what makes no sense is read as the strictest."""
    said, version = labels.get(PREFIX + mode), labels.get(f"{PREFIX}{mode}-version")
    level: Level = next((one for one in LEVELS if one == said), "restricted")
    if said is None:
        level = "privileged"
    elif said != level and errors is not None:
        detail = f"must be one of {', '.join(LEVELS)}"
        errors.append(invalid(_LABELS[PREFIX + mode], said, detail))
    minor = LATEST
    found = _VERSION.fullmatch(version or "")
    if found is not None:
        minor = int(found[1])
    elif version not in (None, "latest") and errors is not None:
        label = f"{PREFIX}{mode}-version"
        errors.append(invalid(_LABELS[label], version, 'must be "latest" or "v1.x"'))
    return _Standard(level, minor)


def _wrong_with(labels: Mapping[str, str]) -> list[FieldError]:
    errors: list[FieldError] = []
    for mode in ("enforce", "audit", "warn"):
        _standard(labels, mode, errors)
    return errors


async def validate(
    server: Server, attributes: Attributes, new: Tree | None, old: Tree | None
) -> None:
    """Raises Forbidden, InvalidObject."""
    target = attributes.target
    if new is None:
        return
    if target.is_namespace:
        if not target.subresource:
            await _look_at_namespace(server, attributes, new, old)
        return
    namespace = await _namespace(server, target.key.namespace)
    labels = labels_of(namespace)
    if not any(key.startswith(PREFIX) for key in labels):
        return
    path = _TEMPLATES.get(target.resource.qualified_name)
    if path is None:
        _look_at_pod(attributes, new, labels)
    elif not target.subresource:
        template = value_at(new, *path)
        if template:
            _warn(attributes, template, labels)


def _look_at_pod(attributes: Attributes, pod: Tree, labels: Mapping[str, str]) -> None:
    below = attributes.target.subresource
    if below != "ephemeralcontainers" and (below or attributes.operation != "CREATE"):
        return  # nothing that counts can change
    standard = _standard(labels, "enforce")
    broken = standard.broken_by(pod)
    if broken:
        raise attributes.forbidden(f'violates PodSecurity "{standard}": {_listed(broken)}')
    _warn(attributes, pod, labels)


def _warn(attributes: Attributes, pod: Tree, labels: Mapping[str, str]) -> None:
    standard = _standard(labels, "warn")
    broken = standard.broken_by(pod)
    if broken:
        attributes.warnings.add(f'would violate PodSecurity "{standard}": {_listed(broken)}')


def _listed(broken: Sequence[Violation]) -> str:
    return ", ".join(map(str, broken))


async def _look_at_namespace(
    server: Server, attributes: Attributes, new: Tree, old: Tree | None
) -> None:
    labels, before = labels_of(new), labels_of(old or {})
    errors = _wrong_with(labels)
    if errors and (old is None or not _wrong_with(before)):
        raise InvalidObject(group="", kind="Namespace", name=name_of(new), errors=errors)
    standard, kept = _standard(labels, "enforce"), _standard(before, "enforce")
    if old is None or standard == kept or LEVELS.index(standard.level) == 0:
        return
    if LEVELS.index(standard.level) < LEVELS.index(kept.level) and standard.minor == kept.minor:
        return  # held to less
    store = server.stores.named(_CORE, "pods")
    query = ListQuery(namespace=name_of(new), resource_version="0")
    entries = (await store.list(query)).entries[:PODS_LOOKED_AT]
    found: dict[str, list[str]] = {}
    for entry in entries:
        pod = entry.tree()
        reasons = ", ".join(one.reason for one in standard.broken_by(pod))
        if reasons:
            found.setdefault(reasons, []).append(name_of(pod))
    if found:
        attributes.warnings.add(
            f'existing pods in namespace "{name_of(new)}" violate the new PodSecurity enforce '
            f'level "{standard}"'
        )
    for line in sorted(_told(names, reasons) for reasons, names in found.items()):
        attributes.warnings.add(line)


def _told(names: Sequence[str], reasons: str) -> str:
    first, others = min(names), len(names) - 1
    if others:
        first += f" (and {others} other {'pod' if others == 1 else 'pods'})"
    return f"{first}: {reasons}"


async def _namespace(server: Server, name: str) -> Tree:
    namespaces = server.stores.named(_CORE, "namespaces")
    try:
        return (await namespaces.get(ObjectKey("", name), resource_version="0")).tree()
    except NotFound:
        return {}  # it is somebody else's to say so
