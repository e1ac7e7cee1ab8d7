"""The resources of the networking group, in the order of discovery. Imports no types."""

from __future__ import annotations

from functools import partial

from kapiserver.api.group import Deprecation, Resource, Subresource

_networking = partial(Resource, group="networking.k8s.io", versions=("v1",), storage_version="v1")
_STATUS = Subresource(name="status")
_BETA_DEPRECATIONS = (Deprecation(version="v1beta1", since=34, removed_in=37),)

RESOURCES = (
    _networking(name="ingressclasses", kind="IngressClass", namespaced=False),
    _networking(
        name="ingresses",
        kind="Ingress",
        namespaced=True,
        storage_prefix="ingress",
        short_names=("ing",),
        subresources=(_STATUS,),
    ),
    _networking(
        name="ipaddresses",
        kind="IPAddress",
        namespaced=False,
        short_names=("ip",),
        deprecations=_BETA_DEPRECATIONS,
    ),
    _networking(
        name="networkpolicies", kind="NetworkPolicy", namespaced=True, short_names=("netpol",)
    ),
    _networking(
        name="servicecidrs",
        kind="ServiceCIDR",
        namespaced=False,
        deprecations=_BETA_DEPRECATIONS,
        subresources=(_STATUS,),
    ),
)
