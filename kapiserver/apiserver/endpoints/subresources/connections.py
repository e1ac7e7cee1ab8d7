"""Logs, exec, attach and port forwarding: requests that a kubelet would serve.

No kubelet is attached to this server. Each request ends with a Status: the error of kube-apiserver
if there is nothing to connect to, else that there is no kubelet. Mirrors pkg/registry/core/pod.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from kapiserver.api.accessors import name_of, value_at
from kapiserver.api.errors import FieldError, InvalidObject, Path, forbidden, invalid
from kapiserver.api.group import CORE
from kapiserver.api.types import Tree
from kapiserver.apiserver.admission.chain import admission
from kapiserver.apiserver.context import Server
from kapiserver.apiserver.errors import BadRequest, Forbidden, ServiceUnavailable
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.response import AnyResponse, text_response
from kapiserver.apiserver.target import Target
from kapiserver.codecs.parameter_codec import ParameterCodec
from kapiserver.storage.cache.entry import ObjectKey


async def log(server: Server, request: Request, target: Target) -> AnyResponse:
    """Return the log of a pod, which is empty until it is assigned to a node."""
    options = ParameterCodec(server.scheme).decode(request.query, "PodLogOptions", CORE)
    errors = list(_log_rules(options))
    if errors:
        raise InvalidObject(group="", kind="PodLogOptions", name=request.info.name, errors=errors)
    pod = await _pod(target)
    _check_container(pod, request.parameter("container"))
    node = value_at(pod, "spec", "nodeName")
    if not node:
        return text_response("")
    raise await _no_kubelet(server, node)


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


async def stream(server: Server, request: Request, target: Target) -> AnyResponse:
    """Handle attach, exec and portforward."""
    options = await admit_connection(server, request, target)
    await _check_may_create(server, request)
    pod = await _pod(target)
    if request.info.subresource != "portforward":
        _check_container(pod, options.get("container") or "")
    node = value_at(pod, "spec", "nodeName")
    if not node:
        raise BadRequest(f"pod {name_of(pod)} does not have a host assigned")
    raise await _no_kubelet(server, node)


async def _pod(target: Target) -> Tree:
    return (await target.store.get(target.key)).tree()


async def _no_kubelet(server: Server, node: str) -> ServiceUnavailable:
    """Return the error for a request to the kubelet of a node. Raises NotFound if there is no such
    node."""
    await server.stores.by_name(CORE, "nodes").get(ObjectKey("", node))
    return ServiceUnavailable(
        f"error trying to reach the kubelet of node {node}: no kubelet is attached to this server, "
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


def _check_container(pod: Tree, container: str) -> None:
    """Raise BadRequest unless the pod has the container, or has one container and the request names
    none."""
    spec, name = pod.get("spec") or {}, name_of(pod)
    kinds = ("containers", "initContainers", "ephemeralContainers")
    names = {
        kind: [spec_container.get("name") or "" for spec_container in spec.get(kind) or ()]
        for kind in kinds
    }
    if container:
        if all(container not in listed for listed in names.values()):
            raise BadRequest(f"container {container} is not valid for pod {name}")
        return
    if len(names["containers"]) > 1:
        message = f"a container name must be specified for pod {name}, choose one of: "
        message += f"[{' '.join(names['containers'])}]"
        for kind, label in (("initContainers", "init"), ("ephemeralContainers", "ephemeral")):
            if names[kind]:
                message += f" or one of the {label} containers: [{' '.join(names[kind])}]"
        raise BadRequest(message)
