"""Table columns of the networking group. Mirrors pkg/printers/internalversion of Kubernetes."""

from __future__ import annotations

from collections.abc import Sequence

from kapiserver.api.accessors import annotations_of, name_of, value_at
from kapiserver.api.columns import AGE, NAME, NONE, Column, Columns, selector, text
from kapiserver.api.types import Tree

_DEFAULT_CLASS = "ingressclass.kubernetes.io/is-default-class"
_HOSTS_SHOWN = 3


def _hosts(ingress: Tree) -> str:
    rules: Sequence[Tree] = value_at(ingress, "spec", "rules") or ()
    hosts = [rule["host"] for rule in rules if rule.get("host")]
    if not hosts:
        return "*"
    text = ",".join(hosts[:_HOSTS_SHOWN])
    return f"{text} + {len(hosts) - _HOSTS_SHOWN} more..." if len(hosts) > _HOSTS_SHOWN else text


def _addresses(ingress: Tree) -> str:
    entries = value_at(ingress, "status", "loadBalancer", "ingress") or ()
    return ",".join(
        sorted({entry.get("ip") or entry.get("hostname") or "" for entry in entries} - {""})
    )


def _ports(ingress: Tree) -> str:
    return "80, 443" if value_at(ingress, "spec", "tls") else "80"


def _class_name(ingress_class: Tree) -> str:
    is_default = annotations_of(ingress_class).get(_DEFAULT_CLASS) == "true"
    return f"{name_of(ingress_class)} (default)" if is_default else name_of(ingress_class)


def _parameters(ingress_class: Tree) -> str:
    parameters = value_at(ingress_class, "spec", "parameters")
    if parameters is None:
        return NONE
    group = f".{parameters['apiGroup']}" if parameters.get("apiGroup") else ""
    return f"{parameters.get('kind') or ''}{group}/{parameters.get('name') or ''}"


def _cidrs(service_cidr: Tree) -> str:
    return ",".join(value_at(service_cidr, "spec", "cidrs") or ())


def _parent(ip_address: Tree) -> str:
    parent_ref = value_at(ip_address, "spec", "parentRef")
    if parent_ref is None:
        return NONE
    group, namespace = parent_ref.get("group"), parent_ref.get("namespace")
    resource = f"{parent_ref.get('resource') or ''}{f'.{group}' if group else ''}".lower()
    parts = (resource, namespace, parent_ref.get("name") or "")
    return "/".join(part for part in parts if part is not None)


COLUMNS: dict[str, Columns] = {
    "IPAddress": Columns((NAME, Column("ParentRef", _parent, "Object that uses the address."))),
    "Ingress": Columns(
        (
            NAME,
            Column("Class", text("spec", "ingressClassName", empty=NONE), "Class of the ingress."),
            Column("Hosts", _hosts, "Hosts of the rules."),
            Column("Address", _addresses, "Addresses of the load balancer."),
            Column("Ports", _ports, "Ports that the ingress is served on."),
            AGE,
        )
    ),
    "IngressClass": Columns(
        (
            Column("Name", _class_name, NAME.description, format="name"),
            Column(
                "Controller",
                text("spec", "controller"),
                "Controller that handles ingresses of the class.",
            ),
            Column("Parameters", _parameters, "Object with the parameters of the controller."),
            AGE,
        )
    ),
    "NetworkPolicy": Columns(
        (
            NAME,
            Column(
                "Pod-Selector",
                selector("spec", "podSelector"),
                "Label selector of the pods that the policy applies to.",
            ),
            AGE,
        )
    ),
    "ServiceCIDR": Columns((NAME, Column("CIDRs", _cidrs, "Ranges of addresses."), AGE)),
}
