"""Selectable fields of the core group that are computed."""

from __future__ import annotations

from kapiserver.api.accessors import value_at
from kapiserver.api.selectable_fields import Source, text_of
from kapiserver.api.types import Tree


def _pod_ips(pod: Tree) -> list[str]:
    return [address.get("ip") or "" for address in value_at(pod, "status", "podIPs") or []]


def _pod_ip(pod: Tree) -> str:
    return next(iter(_pod_ips(pod)), "")


def _flag(*path: str) -> Source:
    return lambda obj: text_of(bool(value_at(obj, *path)))


def _event_source(event: Tree) -> str:
    component = value_at(event, "source", "component") or event.get("reportingComponent")
    return text_of(component)


FIELDS: dict[tuple[str, str], Source] = {
    ("pods", "spec.hostNetwork"): _flag("spec", "hostNetwork"),
    ("pods", "status.podIP"): _pod_ip,
    ("pods", "status.podIPs"): lambda pod: ",".join(_pod_ips(pod)),
    ("nodes", "spec.unschedulable"): _flag("spec", "unschedulable"),
    ("events", "source"): _event_source,
}
