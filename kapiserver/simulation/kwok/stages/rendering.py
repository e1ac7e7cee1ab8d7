"""The templates of Stages: their functions, and the YAML that they write.

Mirrors pkg/utils/gotpl of kwok, and the functions of its controllers of nodes and pods.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol

from kapiserver.api.accessors import kind_of
from kapiserver.api.go_format import go_map, json_text, quote
from kapiserver.api.types import Tree, Value
from kapiserver.codecs import yaml
from kapiserver.codecs.errors import CodecError
from kapiserver.simulation.templates.errors import TemplateError, check_size
from kapiserver.simulation.templates.functions import BUILTINS, functions
from kapiserver.simulation.templates.sprig import SPRIG
from kapiserver.simulation.templates.template import Template
from kapiserver.simulation.templates.values import from_json, to_json

_MAX_INDENT = 100


class Hosts(Protocol):
    """The addresses of nodes and pods."""

    def node_ips(self, node: str) -> Sequence[str]:
        """Return the addresses of a node, by name."""

    def pod_ips(self, node: str, uid: str) -> Sequence[str]:
        """Return the addresses of a pod on a node, by uid; new ones for a new pod."""


@dataclass(frozen=True)
class Surroundings:
    """What templates know besides their object.

    now         returns the time, in seconds since 1970
    started     the time at which the server started
    version     the version of Kubernetes
    """

    hosts: Hosts
    now: Callable[[], float]
    started: float
    version: str


# The functions of kwok.


def _quote(value: Any) -> str:
    text = json_text(go_map(to_json(value)))
    return text if text.startswith('"') else quote(text)


def _yaml(value: Any, indent: int = 0) -> str:
    text = yaml.encode_value(to_json(value)).decode()
    if indent <= 0:
        return text
    padding = "  " * min(indent, _MAX_INDENT)
    check_size(len(text) + len(padding) * (text.count("\n") + 1))
    return ("\n" + text).replace("\n", "\n" + padding)


def _node_conditions() -> list[Any]:
    return [dict(zip(_CONDITION_FIELDS, row, strict=True)) for row in _CONDITIONS]


_CONDITION_FIELDS = ("type", "status", "reason", "message")
_CONDITIONS = (
    ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
    (
        "MemoryPressure",
        "False",
        "KubeletHasSufficientMemory",
        "kubelet has sufficient memory available",
    ),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    ("NetworkUnavailable", "False", "RouteCreated", "RouteController created a route"),
)


def _of_surroundings(surroundings: Surroundings) -> Mapping[str, Callable[..., Any]]:
    """Return the functions whose results follow from more than their arguments."""
    hosts = surroundings.hosts

    def pod_ips(node: str, host_network: Any, uid: str, _name: str, _namespace: str) -> list[str]:
        return list(hosts.node_ips(node) if host_network else hosts.pod_ips(node, uid))

    def node_ips(node: str) -> list[str]:
        return list(hosts.node_ips(node))

    return {
        "NodeIPWith": lambda node: _first(node_ips(node)),
        "NodeIPsWith": node_ips,
        "NodePort": lambda: 0,
        "Now": lambda: _time_text(surroundings.now()),
        "PodIPWith": lambda *arguments: _first(pod_ips(*arguments)),
        "PodIPsWith": pod_ips,
        "StartTime": lambda: _time_text(surroundings.started),
        "Version": lambda: surroundings.version,
        "now": lambda: _time_text(surroundings.now()),
    }


def _of_object(surroundings: Surroundings, obj: Tree) -> Mapping[str, Callable[..., Any]]:
    """Return the functions that know the object: the node itself, or that of a pod."""
    is_pod = kind_of(obj).kind == "Pod"
    node = (obj.get("spec") or {}).get("nodeName") or "" if is_pod else obj["metadata"]["name"]
    hosts, uid = surroundings.hosts, obj["metadata"].get("uid") or ""
    return {
        "NodeIP": lambda: _first(hosts.node_ips(node)),
        "NodeName": lambda: node,
        "PodIP": lambda: _first(hosts.pod_ips(node, uid)),
    }


def _first(addresses: Sequence[str]) -> str:
    return addresses[0] if addresses else ""


def _time_text(seconds: float) -> str:
    """Return a time as time.RFC3339Nano writes it."""
    text = datetime.fromtimestamp(seconds, UTC).isoformat(timespec="microseconds")
    whole, _, fraction = text.removesuffix("+00:00").partition(".")
    fraction = fraction.rstrip("0")
    return f"{whole}.{fraction}Z" if fraction else f"{whole}Z"


_SHARED = functions(
    BUILTINS, SPRIG, {"NodeConditions": _node_conditions, "Quote": _quote, "YAML": _yaml}
)
_NAMES = frozenset(
    (*_SHARED, "NodeIP", "NodeIPWith", "NodeIPsWith", "NodeName", "NodePort", "Now", "PodIP",
     "PodIPWith", "PodIPsWith", "StartTime", "Version", "now")
)  # fmt: skip


def parse_template(source: str) -> Template:
    """Return the template of a Stage. Raises TemplateError."""
    return Template(source.strip(), _NAMES)


class Renderer:
    """Renders templates for objects.

    overrides   functions that replace others, by name
    """

    def __init__(
        self,
        surroundings: Surroundings,
        overrides: Mapping[str, Callable[..., Any]] | None = None,
    ) -> None:
        self._surroundings = surroundings
        self._functions = {**_SHARED, **functions(_of_surroundings(surroundings))}
        self._overrides = functions(overrides or {})

    def render(self, template: Template, obj: Tree) -> Value:
        """Return the value that the YAML of a template is for an object. Raises TemplateError."""
        own = functions(_of_object(self._surroundings, obj))
        text = template.evaluate(
            from_json(_typed(obj)), {**self._functions, **own, **self._overrides}
        )
        try:
            return yaml.decode_value(text.encode(errors="replace"))
        except CodecError as error:
            raise TemplateError(f"the output is not YAML: {error}") from None


def _typed(obj: Tree) -> Tree:
    """Return an object with the fields that Go writes for a node or pod although they are empty."""
    kind = kind_of(obj)
    if kind.kind not in ("Node", "Pod") or kind.group_version.group:
        return obj
    typed = obj | {"spec": obj.get("spec") or {}, "status": obj.get("status") or {}}
    if kind.kind == "Node":
        info = _NODE_INFO | (typed["status"].get("nodeInfo") or {})
        typed["status"] = typed["status"] | {"nodeInfo": info}
    return typed


_NODE_INFO: dict[str, str] = dict.fromkeys(
    ("machineID", "systemUUID", "bootID", "kernelVersion", "osImage", "containerRuntimeVersion",
     "kubeletVersion", "kubeProxyVersion", "operatingSystem", "architecture"),
    "",
)  # fmt: skip
