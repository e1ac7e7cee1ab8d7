"""Which controllers run: the names that `--controllers` takes.

Apart from the controllers, so that reading flags loads none of them.
"""

from __future__ import annotations

from collections.abc import Sequence

CONTROLLERS: dict[str, str] = {
    "disruption-controller": "disruption",
    "endpoints-controller": "endpoint",
    "endpointslice-controller": "endpointslice",
    "endpointslice-mirroring-controller": "endpointslicemirroring",
    "garbage-collector-controller": "garbagecollector",
    "namespace-controller": "namespace",
    "persistentvolume-protection-controller": "pv-protection",
    "persistentvolumeclaim-protection-controller": "pvc-protection",
    "resourcequota-controller": "resourcequota",
    "root-ca-certificate-publisher-controller": "root-ca-cert-publisher",
    "service-cidr-controller": "service-cidr",
    "serviceaccount-controller": "serviceaccount",
    "volumeattributesclass-protection-controller": "volumeattributesclass-protection",
}
"""Names as kube-controller-manager's `--controllers` has them, and their old ones."""


def chosen(flags: Sequence[str]) -> frozenset[str]:
    """The controllers that `--controllers` turns on: `*` for all, `name`, `-name`; the first word
    about one holds. Raises ValueError for a name nobody knows."""
    aliases = {alias: name for name, alias in CONTROLLERS.items()}
    said: dict[str, bool] = {}
    for flag in flags:
        name = flag.removeprefix("-")
        name = aliases.get(name, name)
        if name != "*" and name not in CONTROLLERS:
            raise ValueError(f'"{name}" is not in the list of known controllers')
        said.setdefault(name, not flag.startswith("-"))
    by_default = said.get("*", False)
    return frozenset(name for name in CONTROLLERS if said.get(name, by_default))
