"""Rules for namespaces, nodes and events."""

from __future__ import annotations

from collections.abc import Iterator

from kapiserver.api import names
from kapiserver.api.core.validation.common import checked
from kapiserver.api.core.validation.resources import quantity, resource_name
from kapiserver.api.core.validation.scheduling import taints
from kapiserver.api.errors import FieldError, Path, forbidden, invalid, required
from kapiserver.api.objects import is_terminating, namespace_of, value_at
from kapiserver.api.types import Tree

_STANDARD_FINALIZERS = ("kubernetes", "orphan", "foregroundDeletion")
_SHORT = 128
_LONG = 1024


def namespace(obj: Tree) -> Iterator[FieldError]:
    """A namespace's finalizers."""
    path = Path("spec") / "finalizers"
    for finalizer in value_at(obj, "spec", "finalizers") or ():
        yield from checked(names.qualified_name, finalizer, path)
        if "/" not in finalizer and finalizer not in _STANDARD_FINALIZERS:
            detail = "name is neither a standard finalizer name nor is it fully qualified"
            yield invalid(path, finalizer, detail)


def changed_namespace_status(new: Tree, _: Tree) -> Iterator[FieldError]:
    """A namespace is Terminating exactly when its deletion was asked for."""
    phase = value_at(new, "status", "phase") or ""
    at = Path("status") / "Phase"
    if is_terminating(new):
        if phase != "Terminating":
            detail = "may only be 'Terminating' if `deletionTimestamp` is not empty"
            yield invalid(at, phase, detail)
    elif phase != "Active":
        yield invalid(at, phase, "may only be 'Active' if `deletionTimestamp` is empty")


def node(obj: Tree) -> Iterator[FieldError]:
    """A node."""
    spec, path = obj.get("spec") or {}, Path("spec")
    yield from taints(spec.get("taints"), path / "taints")
    for name in ("capacity", "allocatable"):
        for resource, text in (value_at(obj, "status", name) or {}).items():
            at = (Path("status") / name)[resource]
            yield from resource_name(resource, at)
            yield from quantity(resource, text, at)
    for index, cidr in enumerate(spec.get("podCIDRs") or ()):
        if "/" not in cidr or not names.is_ip(cidr.partition("/")[0]):
            detail = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
            yield invalid((path / "podCIDRs")[index], cidr, detail)


def changed_node(new: Tree, old: Tree) -> Iterator[FieldError]:
    """What the cloud and the controllers gave a node stays."""
    yield from node(new)
    spec, before, path = new.get("spec") or {}, old.get("spec") or {}, Path("spec")
    if before.get("podCIDRs") and spec.get("podCIDRs") != before["podCIDRs"]:
        detail = 'node updates may not change podCIDR except from "" to valid'
        yield forbidden(path / "podCIDRs", detail)
    if before.get("providerID") and spec.get("providerID") != before["providerID"]:
        detail = 'node updates may not change providerID except from "" to valid'
        yield forbidden(path / "providerID", detail)


def event(obj: Tree) -> Iterator[FieldError]:
    """An event lies in the namespace of what it is about; one with an `eventTime` may lie in any,
    and is told where that is when it is about something that lies in none."""
    own, about = namespace_of(obj), value_at(obj, "involvedObject", "namespace") or ""
    is_new = bool(obj.get("eventTime"))
    homes = ("default", "kube-system") if is_new else ("", "default")
    if own not in homes if not about else own != about and not is_new:
        detail = "does not match event.namespace"
        yield invalid(Path("involvedObject") / "namespace", about, detail)
    if is_new:
        yield from _new_style(obj)


_SAME_NAMES = (("action", "action"), ("reason", "reason"))


def _new_style(obj: Tree) -> Iterator[FieldError]:
    controller = obj.get("reportingComponent") or ""
    if not controller:
        yield required(Path("reportingComponent"))
    yield from checked(names.qualified_name, controller, Path("reportingComponent"))
    # The path of an instance that is too long is spelled as kube-apiserver does.
    for name, spelled in (("reportingInstance", "repotingIntance"), *_SAME_NAMES):
        value = obj.get(name) or ""
        if not value:
            yield required(Path(name))
        if len(value) > _SHORT:
            yield invalid(Path(spelled), "", f"can have at most {_SHORT} characters")
    if len(obj.get("message") or "") > _LONG:
        yield invalid(Path("message"), "", f"can have at most {_LONG} characters")
