"""The AdmissionRequest of one write, without its objects: webhooks get it, expressions read it.

Mirrors CreateV1AdmissionReview of pkg/admission/plugin/webhook/request and CreateAdmissionRequest
of pkg/admission/plugin/cel in k8s.io/apiserver.
"""

from __future__ import annotations

from kapiserver.api.group import GroupVersionKind
from kapiserver.api.types import Tree
from kapiserver.apiserver.admission.matching.rules import ResourceVariant
from kapiserver.apiserver.attributes import Attributes
from kapiserver.apiserver.user import user_info


def admission_request(attributes: Attributes, variant: ResourceVariant) -> Tree:
    """Return the AdmissionRequest of a write as one variant of its resource, without `uid`,
    `object` and `oldObject`. Empty fields are absent, and so are the options of CONNECT."""
    target, resource = attributes.target, variant.resource
    request: Tree = {
        "kind": _kind_tree(variant.kind),
        "resource": _resource_tree(resource.group, resource.version, resource.resource),
        "requestKind": _kind_tree(target.kind),
        "requestResource": _resource_tree(
            target.version.group, target.version.version, target.resource.name
        ),
        "operation": attributes.operation,
        "userInfo": user_info(attributes.user),
        "dryRun": attributes.dry_run,
    }
    optional = {
        "subResource": target.subresource,
        "requestSubResource": target.subresource,
        "name": attributes.requested_name,
        "namespace": attributes.namespace,
        "options": attributes.operation_options,
    }
    request.update({name: value for name, value in optional.items() if value})
    return request


def _kind_tree(kind: GroupVersionKind) -> Tree:
    return {"group": kind.group, "version": kind.version, "kind": kind.kind}


def _resource_tree(group: str, version: str, resource: str) -> Tree:
    return {"group": group, "version": version, "resource": resource}
