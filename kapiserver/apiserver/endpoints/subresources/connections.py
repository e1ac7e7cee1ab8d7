"""Logs, exec, attach and port forwarding: requests that a kubelet answers.

The kubelet of the pod's node is part of this server if the node is simulated. Mirrors
pkg/registry/core/pod.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from kapiserver.api.accessors import name_of, namespace_of, value_at
from kapiserver.api.errors import FieldError, InvalidObject, Path, forbidden, invalid
from kapiserver.api.group import CORE
from kapiserver.api.types import Tree
from kapiserver.apiserver.admission.chain import admission
from kapiserver.apiserver.context import Server
from kapiserver.apiserver.errors import BadRequest, Forbidden, ServiceUnavailable
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.response import AnyResponse, Response, text_response
from kapiserver.apiserver.streaming.local_kubelet import LocalKubelet, PodTarget
from kapiserver.apiserver.streaming.port_forward import serve_port_forward
from kapiserver.apiserver.streaming.remote_command import CommandOptions, serve_command
from kapiserver.apiserver.target import Target
from kapiserver.apiserver.user import APISERVER
from kapiserver.codecs.parameter_codec import ParameterCodec
from kapiserver.storage.cache.entry import ObjectKey


async def log(server: Server, request: Request, target: Target) -> AnyResponse:
    """Return the log of a container, which is empty until its pod is assigned to a node."""
    options = ParameterCodec(server.scheme).decode(request.query, "PodLogOptions", CORE)
    errors = list(_log_rules(options))
    if errors:
        raise InvalidObject(group="", kind="PodLogOptions", name=request.info.name, errors=errors)
    pod = await _pod(target)
    container = _chosen_container(pod, request.parameter("container"))
    if not value_at(pod, "spec", "nodeName"):
        return text_response("")
    local = await _local_kubelet(server, pod)
    body = await local.log(_pod_target(server, pod, container), options)
    request.cancel_when_gone()
    is_endless = bool(options.get("follow"))
    return Response(media_type="text/plain", body=body, is_endless=is_endless)


async def admit_connection(server: Server, request: Request, target: Target) -> Tree:
    """Run admission of CONNECT for the options in the query, and the path below the subresource
    `proxy`, and return them. Raises BadRequest, and the error of a plugin that rejects the
    request."""
    if "dryRun" in request.query:
        raise BadRequest("dryRun is not supported")
    options = ParameterCodec(server.scheme).decode(request.query, target.kind.kind, CORE)
    if target.subresource == "proxy":
        options.pop("path", None)
        if path := _path_below(request):
            options["path"] = path
    admit = admission(server, request.caller(), target, {}, connect=True)
    admitted = await admit(options, None)
    await admitted.validate()
    return options


async def _check_may_create(server: Server, request: Request) -> None:
    """Raise Forbidden unless the user may create the subresource. The verb is `get` over WebSocket,
    which must not need less."""
    info = request.info
    if info.verb == "create":
        return
    decision = await server.authorizer.authorize(request.user, replace(info, verb="create"))
    if not decision.allowed:
        group, name = info.version.group, info.name
        raise Forbidden(decision.reason, resource=info.resource, group=group, name=name)


async def execute(server: Server, request: Request, target: Target) -> AnyResponse:
    """Handle exec and attach: connect the client with a command, or with the main process of a
    container."""
    options = await admit_connection(server, request, target)
    await _check_may_create(server, request)
    pod = await _pod(target)
    container = _chosen_container(pod, options.get("container") or "")
    _check_has_host(pod)
    local = await _local_kubelet(server, pod)
    pod_target, streams = _pod_target(server, pod, container), CommandOptions.of(options)
    if request.info.subresource == "attach":
        command = await local.attach(pod_target)
    else:
        command = await local.exec(pod_target, options.get("command") or ())
    return serve_command(request, streams, command)


async def port_forward(server: Server, request: Request, target: Target) -> AnyResponse:
    """Handle portforward: connect the client with ports of a pod."""
    options = await admit_connection(server, request, target)
    await _check_may_create(server, request)
    pod = await _pod(target)
    _check_has_host(pod)
    local = await _local_kubelet(server, pod)
    forward = await local.port_forward(_pod_target(server, pod))
    return serve_port_forward(request, options.get("ports") or (), forward, pod)


async def _pod(target: Target) -> Tree:
    return (await target.store.get(target.key)).tree()


def _check_has_host(pod: Tree) -> None:
    if not value_at(pod, "spec", "nodeName"):
        raise BadRequest(f"pod {name_of(pod)} does not have a host assigned")


def _pod_target(server: Server, pod: Tree, container: str = "") -> PodTarget:
    client = server.client(APISERVER, user_agent="kubelet", authorize=False)
    pods = client.resource("v1", "pods", namespace=namespace_of(pod)).shared
    return PodTarget(pod=pod, container=container, pods=pods)


async def _local_kubelet(server: Server, pod: Tree) -> LocalKubelet:
    """Return what answers for a pod. Raises NotFound if its node does not exist, and
    ServiceUnavailable if the node has no kubelet."""
    name = value_at(pod, "spec", "nodeName")
    node = (await server.stores.by_name(CORE, "nodes").get(ObjectKey("", name))).tree()
    local = server.local_kubelet
    if local is not None and local.serves(node):
        return local
    raise ServiceUnavailable(
        f"error trying to reach the kubelet of node {name}: no kubelet is attached to this server, "
        "nothing runs here"
    )


def _path_below(request: Request) -> str:
    """Return the path below the subresource, with the slash at its end."""
    path = "".join(f"/{segment}" for segment in request.info.trailing)
    return path + "/" if request.path.endswith("/") else path


def _log_rules(options: Tree) -> Iterator[FieldError]:
    if options.get("tailLines", 0) < 0:
        at = Path("tailLines")
        yield invalid(at, options["tailLines"], "must be greater than or equal to 0")
    if options.get("limitBytes", 1) < 1:
        yield invalid(Path("limitBytes"), options["limitBytes"], "must be greater than 0")
    since = options.get("sinceSeconds")
    if since is not None and options.get("sinceTime") is not None:
        detail = "at most one of `sinceTime` or `sinceSeconds` may be specified"
        yield forbidden(Path("[]"), detail)  # Go's string form of an empty path
    elif since is not None and since < 1:
        yield invalid(Path("sinceSeconds"), since, "must be greater than 0")


def _chosen_container(pod: Tree, container: str) -> str:
    """Return the name of the container that a request is about. Raises BadRequest unless the pod
    has it, or has one container and the request names none."""
    spec, name = pod.get("spec") or {}, name_of(pod)
    kinds = ("containers", "initContainers", "ephemeralContainers")
    names = {
        kind: [spec_container.get("name") or "" for spec_container in spec.get(kind) or ()]
        for kind in kinds
    }
    if container:
        if all(container not in listed for listed in names.values()):
            raise BadRequest(f"container {container} is not valid for pod {name}")
        return container
    if len(names["containers"]) == 1:
        return names["containers"][0]
    message = f"a container name must be specified for pod {name}, choose one of: "
    message += f"[{' '.join(names['containers'])}]"
    for kind, label in (("initContainers", "init"), ("ephemeralContainers", "ephemeral")):
        if names[kind]:
            message += f" or one of the {label} containers: [{' '.join(names[kind])}]"
    raise BadRequest(message)
