"""POST of `pods/binding` and `bindings`: the scheduler assigns a pod to a node.

Mirrors BindingREST of pkg/registry/core/pod/storage.
"""

from __future__ import annotations

from kapiserver.api.accessors import (
    annotations_of,
    is_terminating,
    labels_of,
    metadata_of,
    name_of,
    resource_version_of,
    uid_of,
    value_at,
)
from kapiserver.api.errors import FieldError, Path, not_supported_in_order, required
from kapiserver.api.go_format import join_errors
from kapiserver.api.key_order import reorder_keys
from kapiserver.api.meta.v1 import ObjectMeta
from kapiserver.api.types import Tree
from kapiserver.apiserver.admission.chain import admission
from kapiserver.apiserver.caller import Caller
from kapiserver.apiserver.context import Server
from kapiserver.apiserver.endpoints.decode import (
    Body,
    check_namespace,
    decode_body,
    field_validation,
    read_body,
)
from kapiserver.apiserver.endpoints.negotiation import UNCONVERTED, negotiate
from kapiserver.apiserver.endpoints.options import is_dry_run, read_options
from kapiserver.apiserver.endpoints.responses import plain_response
from kapiserver.apiserver.endpoints.subresources.pod_conditions import set_condition
from kapiserver.apiserver.errors import BadRequest
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.response import AnyResponse
from kapiserver.apiserver.status import SUCCESS, status
from kapiserver.apiserver.target import Target
from kapiserver.storage.cache.entry import ObjectKey
from kapiserver.storage.cache.query import Preconditions, Write
from kapiserver.storage.errors import ObjectConflict
from kapiserver.storage.objects.lifecycle import timestamp


async def bind(server: Server, request: Request, target: Target) -> AnyResponse:
    """Assign the pod to the node and return a Status."""
    response_format = negotiate(server, request, UNCONVERTED)
    body = await read_body(server, request, target)
    options = read_options(server, request, "CreateOptions")
    tree = await bind_pod(server, target, request.caller(), options, body)
    return plain_response(server, response_format, tree, 201)


async def bind_pod(
    server: Server, target: Target, caller: Caller, options: Tree, body: Body
) -> Tree:
    """Assign the pod of a Binding to its node and return a Status."""
    binding = await decode_body(server, target, body, field_validation(options), caller.warnings)
    check_namespace(target, binding)
    caller.audit.record_reference(binding)
    dry_run = is_dry_run(options)
    admit = admission(server, caller, target, options, dry_run=dry_run)
    admitted = await admit(binding, None)
    name = name_of(binding)
    if target.key.name and name != target.key.name:
        raise BadRequest("name in URL does not match name in Binding object")
    if errors := _validate(binding):
        raise BadRequest(join_errors(map(str, errors)))
    if not name:
        raise BadRequest("Name parameter required.")
    await admitted.validate()
    pods = server.stores.by_name(target.version, "pods")
    write = Write(
        subresource="binding",
        preconditions=Preconditions(
            uid=uid_of(binding) or None, resource_version=resource_version_of(binding) or None
        ),
        dry_run=dry_run,
        cost=body.cost,
    )
    await pods.update(
        ObjectKey(target.key.namespace, name),
        lambda pod: _bind(pod or {}, binding, timestamp(server.clock.now())),
        write,
    )
    return status(code=201, message="", outcome=SUCCESS)


def _validate(binding: Tree) -> list[FieldError]:
    target, path = binding.get("target") or {}, Path("target")
    errors = []
    if target.get("kind") and target["kind"] != "Node":
        errors.append(not_supported_in_order(path / "kind", target["kind"], ("Node", "<empty>")))
    if not target.get("name"):
        errors.append(required(path / "name"))
    return errors


def _bind(pod: Tree, binding: Tree, now: str) -> Tree:
    name, spec = name_of(pod), pod["spec"]
    if is_terminating(pod):
        raise _conflict(name, f"pod {name} is being deleted, cannot be assigned to a host")
    if spec.get("nodeName"):
        raise _conflict(name, f'pod {name} is already assigned to node "{spec["nodeName"]}"')
    if spec.get("schedulingGates"):
        raise _conflict(name, f"pod {name} has non-empty .spec.schedulingGates")
    from kapiserver.api.core import v1

    spec["nodeName"] = value_at(binding, "target", "name")
    reorder_keys(spec, v1.PodSpec)
    (pod.get("status") or {}).pop("nominatedNodeName", None)  # meaningless for a bound pod
    metadata = metadata_of(pod)
    for part, values in (("annotations", annotations_of(binding)), ("labels", labels_of(binding))):
        if values:
            metadata[part] = dict(sorted({**(metadata.get(part) or {}), **values}.items()))
    reorder_keys(metadata, ObjectMeta)
    set_condition(pod, now, kind="PodScheduled")
    return pod


def _conflict(name: str, detail: str) -> ObjectConflict:
    return ObjectConflict(detail, resource="pods/binding", group="", name=name)
