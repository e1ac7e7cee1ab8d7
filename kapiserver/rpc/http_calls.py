"""Serves the unary calls of a group over HTTP, as create-only resources.

A call has the form of a TokenReview: its kind is the name of the call, `spec` is the request and
`status` the response. The API group is `<group>.<project>`, the resource the plural of the kind.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from types import ModuleType
from typing import TypeAlias

from kapiserver.api.errors import OMITTED, FieldError, InvalidObject, Path, invalid
from kapiserver.api.group import Group, GroupVersionKind, Resource
from kapiserver.api.groups import DECLARED_GROUPS
from kapiserver.api.meta.v1 import ObjectMeta
from kapiserver.api.names import dns1123_subdomain
from kapiserver.api.resource_client import StatusError
from kapiserver.api.types import Kind, Tree, field
from kapiserver.apiserver.caller import Caller
from kapiserver.apiserver.context import CallGroup, Server
from kapiserver.apiserver.errors import BadRequest
from kapiserver.apiserver.status import cause, details, status
from kapiserver.rpc.calls import GroupRunner, deprecation_warnings
from kapiserver.rpc.errors import CODES, OutOfRange
from kapiserver.rpc.http_messages import to_message, to_tree
from kapiserver.rpc.http_types import TypeMaker
from kapiserver.rpc.registration import Call, Method, RPCError, Version
from kapiserver.rpc.registration import Group as RPCGroup

_RESERVED = ("k8s.io", "kubernetes.io")
"""Domains of Kubernetes' own groups."""


RunnerOf: TypeAlias = Callable[[Server], GroupRunner]
"""Returns the runner of a group within a server."""


def call_group(rpc_group: RPCGroup, runner_of: RunnerOf) -> CallGroup:
    """Return the API group whose resources are the unary calls of a group. Raises ValueError for a
    name that cannot be that of an API group."""
    name = api_group_name(rpc_group)
    modules = _Modules(rpc_group, name)
    group = Group(
        name=name,
        package=modules.package,
        versions=tuple(version.name for version in rpc_group.versions),
        find_module=modules.find,
    )
    calls = {
        (version.name, method.name): (version, method)
        for version in rpc_group.versions
        for method in _unary_methods(version)
    }

    async def handle(server: Server, kind: GroupVersionKind, caller: Caller, tree: Tree) -> Tree:
        version, method = calls[kind.version, kind.kind]
        return await _handle(runner_of(server), version, method, caller, tree)

    return CallGroup(group=group, handle=handle)


def api_group_name(group: RPCGroup) -> str:
    """Return the name of the API group, `<group>.<project>`. Raises ValueError."""
    name = f"{group.name}.{group.project}"
    problems = dns1123_subdomain(name)
    if problems:
        raise ValueError(f"the group {name} cannot be served over HTTP: {'; '.join(problems)}")
    is_reserved = any(name.endswith(f".{domain}") for domain in _RESERVED)
    if is_reserved or any(name == declared.name for declared in DECLARED_GROUPS):
        raise ValueError(f"the group {name} would clash with a group of Kubernetes")
    return name


def plural(kind: str) -> str:
    """Return the name of the resource of a kind, as UnsafeGuessKindToResource does."""
    name = kind.lower()
    if name.endswith("s"):
        return f"{name}es"
    return f"{name[:-1]}ies" if name.endswith("y") else f"{name}s"


def _unary_methods(version: Version) -> list[Method]:
    return [
        method
        for method in version.methods
        if not (method.client_streaming or method.server_streaming)
    ]


class _Modules:
    """The modules of an API group, made when they are first needed."""

    def __init__(self, group: RPCGroup, api_group: str) -> None:
        self.package = api_group.replace(".", "_")
        self._api_group = api_group
        self._versions = {version.name: version for version in group.versions}
        self._modules: dict[str, ModuleType] = {}

    def find(self, name: str) -> ModuleType | None:
        """Return the module of a version, or `resources`; None for another name."""
        if name in ("resources", *self._versions) and name not in self._modules:
            self._modules[name] = self._make(name)
        return self._modules.get(name)

    def _make(self, name: str) -> ModuleType:
        module = ModuleType(f"kapiserver.rpc.{self.package}.{name}")
        if name == "resources":
            resources = [
                _resource(self._api_group, version, method)
                for version in self._versions.values()
                for method in _unary_methods(version)
            ]
            vars(module)["RESOURCES"] = tuple(resources)
            return module
        version = self._versions[name]
        # Schemas of custom kinds have such names, too: the reversed group and the version.
        package = ".".join([*reversed(self._api_group.split(".")), name])
        types = TypeMaker(module.__name__, package, version.comments)
        for method in _unary_methods(version):
            vars(module)[method.name] = _kind(types, version, method)
        return module


def _resource(api_group: str, version: Version, method: Method) -> Resource:
    return Resource(
        group=api_group,
        name=plural(method.name),
        kind=method.name,
        namespaced=False,
        versions=(version.name,),
        storage_version=version.name,
        verbs=("create",),
        stored=False,
        spec_generation=_digest(version),
    )


def _digest(version: Version) -> str:
    """Return a hash of what the types and their descriptions are made from."""
    comments = repr(sorted(version.comments.items())).encode()
    return hashlib.sha256(version.file_descriptor.serialized_pb + comments).hexdigest()


def _kind(types: TypeMaker, version: Version, method: Method) -> type[Kind]:
    warning = "Deprecated. " if version.deprecated or method.deprecated else ""
    full_name = f"{version.full_service}.{method.name}"
    comment = version.comments.get(full_name, f"A call of {full_name}.")
    type_ = type(
        method.name,
        (Kind,),
        {
            "__module__": types.module,
            "__doc__": f"{warning}{comment} Create it, and the answer has the response in status. "
            "It is not stored.",
            "package": types.package,
            "listed": False,
            "metadata": field(
                1, doc="Standard object's metadata, such as its name, labels and owners."
            ),
            "spec": field(2, doc="The request."),
            "status": field(3, doc="The response. Set by the server."),
        },
    )
    type_.__annotations__ = {
        "metadata": ObjectMeta,
        "spec": types.message_type(method.request.DESCRIPTOR),
        "status": types.message_type(method.response.DESCRIPTOR),
    }
    return type_


async def _handle(
    runner: GroupRunner, version: Version, method: Method, caller: Caller, tree: Tree
) -> Tree:
    """Return the call with its status. Raises BadRequest, InvalidObject, StatusError."""
    try:
        request = to_message(tree.get("spec") or {}, method.request)
    except ValueError as error:
        raise BadRequest(f"spec.{error}") from None
    for warning in deprecation_warnings(version, method, request):
        caller.warnings.add(warning)
    call = Call(version=version.name, method=method.name, user=caller.user)
    try:
        response = await runner.run(version, method, request, call)
        return {**tree, "status": to_tree(response)}
    except RPCError as error:
        raise _http_error(error, runner, method) from None
    except ValueError as error:  # a number that JSON does not have
        raise _invalid(runner, method, invalid(Path("status"), OMITTED, str(error))) from None


def _invalid(runner: GroupRunner, method: Method, problem: FieldError) -> InvalidObject:
    group = api_group_name(runner.group)
    return InvalidObject(group=group, kind=method.name, name="", errors=[problem])


def _http_error(error: RPCError, runner: GroupRunner, method: Method) -> Exception:
    if isinstance(error, OutOfRange):
        path = Path("status" if error.in_response else "spec") / error.error.path
        value = OMITTED if error.error.value is None else error.error.value
        return _invalid(runner, method, invalid(path, value, error.error.reason))
    _, code, reason = CODES[error.code_name]
    tree = status(
        code=code,
        reason=reason,
        message=error.message,
        details=details(
            group=api_group_name(runner.group),
            kind=plural(method.name),
            causes=[cause(reason=error.code_name, message=error.message)],
            retry_after=1 if code == 429 else 0,
        ),
    )
    return StatusError(tree, code)
