"""The resources of the authorization group, in the order of discovery. Imports no types."""

from __future__ import annotations

from functools import partial

from kapiserver.api.group import Resource

_authorization = partial(
    Resource, group="authorization.k8s.io", versions=("v1",), storage_version="v1"
)

RESOURCES = (
    _authorization(
        name="localsubjectaccessreviews",
        kind="LocalSubjectAccessReview",
        namespaced=True,
        verbs=("create",),
        stored=False,
    ),
    _authorization(
        name="selfsubjectaccessreviews",
        kind="SelfSubjectAccessReview",
        namespaced=False,
        verbs=("create",),
        stored=False,
    ),
    _authorization(
        name="selfsubjectrulesreviews",
        kind="SelfSubjectRulesReview",
        namespaced=False,
        verbs=("create",),
        stored=False,
    ),
    _authorization(
        name="subjectaccessreviews",
        kind="SubjectAccessReview",
        namespaced=False,
        verbs=("create",),
        stored=False,
    ),
)
