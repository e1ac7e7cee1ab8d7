"""Logs, exec, attach and port forwarding: requests that a kubelet answers.

Of a simulated node, the kubelet is part of this server. Mirrors pkg/registry/core/pod.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from kapiserver.api.accessors import name_of, namespace_of, value_at
from kapiserver.api.errors import FieldError, InvalidObject, Path, forbidden, invalid
from kapiserver.api.group import CORE
from kapiserver.api.types import Tree
from kapiserver.apiserver.admission.chain import admission
from kapiserver.apiserver.context import Server
from kapiserver.apiserver.endpoints.negotiation import LOGS, negotiate
from kapiserver.apiserver.errors import BadRequest, Forbidden
from kapiserver.apiserver.proxy.kubelets import (
    forward_command,
    forward_log,
    forward_ports,
    kubelet_location,
)
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.response import AnyResponse, Response
from kapiserver.apiserver.streaming.local_kubelet import LocalKubelet, PodTarget
from kapiserver.apiserver.streaming.port_forward import serve_port_forward
from kapiserver.apiserver.streaming.remote_command import CommandOptions, serve_command
from kapiserver.apiserver.target import Target
from kapiserver.apiserver.user import APISERVER
from kapiserver.codecs.parameter_codec import ParameterCodec
from kapiserver.storage.cache.entry import ObjectKey


async def log(server: Server, request: Request, target: Target) -> AnyResponse:
    """Return the log of a container, which is empty until its pod is assigned to a node."""
    negotiate(server, request, LOGS)
    options = ParameterCodec(server.scheme).decode(request.query, "PodLogOptions", CORE)
    errors = list(_log_rules(options))
    if errors:
        raise InvalidObject(group="", kind="PodLogOptions", name=request.info.name, errors=errors)
    pod = await _pod(target)
    container = _chosen_container(pod, request.parameter("container"))
    if not value_at(pod, "spec", "nodeName"):
        return Response(status=204, media_type="")
    node, is_endless = await _node(server, pod), bool(options.get("follow"))
    local = _local_kubelet(server, node)
    if local is None:
        path = f"/containerLogs/{namespace_of(pod)}/{name_of(pod)}/{container}"
        is_verified = not options.get("insecureSkipTLSVerifyBackend")
        location = kubelet_location(
            server, node, path, _log_parameters(options), is_verified=is_verified
        )
        return await forward_log(server, request, location, is_endless=is_endless)
    body = await local.log(_pod_target(server, pod, container), options)
    request.cancel_when_gone()
    return Response(media_type="text/plain", body=body, is_passed_on=True, is_endless=is_endless)


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
    node, streams = await _node(server, pod), CommandOptions.of(options)
    local, subresource = _local_kubelet(server, node), request.info.subresource
    if local is None:
        path = f"/{subresource}/{namespace_of(pod)}/{name_of(pod)}/{container}"
        location = kubelet_location(server, node, path, _command_parameters(options))
        return await forward_command(server, request, location, node, streams)
    pod_target = _pod_target(server, pod, container)
    if subresource == "attach":
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
    node, ports = await _node(server, pod), options.get("ports") or ()
    local = _local_kubelet(server, node)
    if local is None:
        parameters = {"port": ",".join(map(str, ports))} if ports else {}
        path = f"/portForward/{namespace_of(pod)}/{name_of(pod)}"
        location = kubelet_location(server, node, path, parameters)
        return await forward_ports(server, request, location, node)
    forward = await local.port_forward(_pod_target(server, pod))
    return serve_port_forward(request, ports, forward, pod)


async def _pod(target: Target) -> Tree:
    return (await target.store.get(target.key)).tree()


def _check_has_host(pod: Tree) -> None:
    if not value_at(pod, "spec", "nodeName"):
        raise BadRequest(f"pod {name_of(pod)} does not have a host assigned")


def _pod_target(server: Server, pod: Tree, container: str = "") -> PodTarget:
    client = server.client(APISERVER, user_agent="kubelet", authorize=False)
    return PodTarget(pod=pod, container=container, client=client)


async def _node(server: Server, pod: Tree) -> Tree:
    """Return the node of a pod. Raises NotFound."""
    key = ObjectKey("", value_at(pod, "spec", "nodeName"))
    return (await server.stores.by_name(CORE, "nodes").get(key)).tree()


def _local_kubelet(server: Server, node: Tree) -> LocalKubelet | None:
    """Return what answers for the pods of a node inside this server; None: a real kubelet does."""
    local = server.local_kubelet
    return local if local is not None and local.serves(node) else None


def _log_parameters(options: Tree) -> dict[str, str]:
    """Return the parameters of a kubelet's log."""
    parameters = {
        name: "true" for name in ("follow", "previous", "timestamps") if options.get(name)
    }
    for name in ("sinceSeconds", "sinceTime", "tailLines", "limitBytes"):
        if options.get(name) is not None:
            parameters[name] = str(options[name])
    return parameters | {"stream": options.get("stream") or "All"}


def _command_parameters(options: Tree) -> dict[str, str | Sequence[str]]:
    """Return the parameters of a kubelet's exec and attach, which has other names for streams."""
    names = {"stdin": "input", "stdout": "output", "stderr": "error", "tty": "tty"}
    streams = {name: "1" for option, name in names.items() if options.get(option)}
    return streams | {"command": options.get("command") or ()}


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
    if options.get("stream") is not None:  # behind the gate PodLogsQuerySplitStreams
        yield forbidden(Path("stream"), "may not be specified")


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
