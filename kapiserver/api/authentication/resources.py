"""The resources of the authentication group, in the order of discovery. Imports no types."""

from __future__ import annotations

from functools import partial

from kapiserver.api.group import Deprecation, Resource

_authentication = partial(
    Resource, group="authentication.k8s.io", versions=("v1",), storage_version="v1"
)

RESOURCES = (
    _authentication(
        name="selfsubjectreviews",
        kind="SelfSubjectReview",
        namespaced=False,
        deprecations=(
            Deprecation(version="v1beta1", since=30, removed_in=33),
            Deprecation(version="v1alpha1", since=29, removed_in=32),
        ),
        verbs=("create",),
        stored=False,
    ),
    _authentication(
        name="tokenreviews", kind="TokenReview", namespaced=False, verbs=("create",), stored=False
    ),
)
