"""The resources of the admissionregistration group, in the order of discovery. Imports no types."""

from __future__ import annotations

from functools import partial

from kapiserver.api.group import Deprecation, GroupVersionKind, Resource, Subresource

_admissionregistration = partial(
    Resource, group="admissionregistration.k8s.io", versions=("v1",), storage_version="v1"
)


def _old_version_deprecations(kind: str) -> tuple[Deprecation, ...]:
    use = GroupVersionKind("admissionregistration.k8s.io", "v1", kind)
    return (
        Deprecation(version="v1beta1", since=37, removed_in=40, replacement=use),
        Deprecation(version="v1alpha1", since=35, removed_in=38),
    )


_VALIDATING_DEPRECATIONS = (
    Deprecation(version="v1beta1", since=31, removed_in=34),
    Deprecation(version="v1alpha1", since=29, removed_in=32),
)

RESOURCES = (
    _admissionregistration(
        name="mutatingadmissionpolicies",
        kind="MutatingAdmissionPolicy",
        namespaced=False,
        versions=("v1", "v1beta1", "v1alpha1"),
        deprecations=_old_version_deprecations("MutatingAdmissionPolicy"),
        categories=("api-extensions",),
    ),
    _admissionregistration(
        name="mutatingadmissionpolicybindings",
        kind="MutatingAdmissionPolicyBinding",
        namespaced=False,
        versions=("v1", "v1beta1", "v1alpha1"),
        deprecations=_old_version_deprecations("MutatingAdmissionPolicyBinding"),
        categories=("api-extensions",),
    ),
    _admissionregistration(
        name="mutatingwebhookconfigurations",
        kind="MutatingWebhookConfiguration",
        namespaced=False,
        categories=("api-extensions",),
    ),
    _admissionregistration(
        name="validatingadmissionpolicies",
        kind="ValidatingAdmissionPolicy",
        namespaced=False,
        deprecations=_VALIDATING_DEPRECATIONS,
        categories=("api-extensions",),
        subresources=(Subresource(name="status"),),
    ),
    _admissionregistration(
        name="validatingadmissionpolicybindings",
        kind="ValidatingAdmissionPolicyBinding",
        namespaced=False,
        deprecations=_VALIDATING_DEPRECATIONS,
        categories=("api-extensions",),
    ),
    _admissionregistration(
        name="validatingwebhookconfigurations",
        kind="ValidatingWebhookConfiguration",
        namespaced=False,
        categories=("api-extensions",),
    ),
)
