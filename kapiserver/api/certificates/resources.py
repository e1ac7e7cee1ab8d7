"""The resources of the certificates group, in the order of discovery. Imports no types."""

from __future__ import annotations

from functools import partial

from kapiserver.api.group import Deprecation, GroupVersionKind, Resource, Subresource

_certificates = partial(
    Resource, group="certificates.k8s.io", versions=("v1", "v1beta1"), storage_version="v1beta1"
)
_STATUS = Subresource(name="status")


def _beta_deprecations(kind: str) -> tuple[Deprecation, ...]:
    use = GroupVersionKind("certificates.k8s.io", "v1", kind)
    return (Deprecation(version="v1beta1", since=37, removed_in=40, replacement=use),)


RESOURCES = (
    _certificates(
        name="certificatesigningrequests",
        kind="CertificateSigningRequest",
        namespaced=False,
        versions=("v1",),
        storage_version="v1",
        short_names=("csr",),
        subresources=(Subresource(name="approval"), _STATUS),
        selectable_fields=("spec.signerName",),
    ),
    _certificates(
        name="clustertrustbundles",
        kind="ClusterTrustBundle",
        deprecations=(
            *_beta_deprecations("ClusterTrustBundle"),
            Deprecation(version="v1alpha1", since=34, removed_in=37),
        ),
        namespaced=False,
        selectable_fields=("spec.signerName",),
    ),
    _certificates(
        name="podcertificaterequests",
        kind="PodCertificateRequest",
        deprecations=_beta_deprecations("PodCertificateRequest"),
        namespaced=True,
        subresources=(_STATUS,),
        selectable_fields=("spec.signerName", "spec.podName", "spec.nodeName"),
    ),
)
