"""The operations that OpenAPI documents list: each method of each path, as data.

Derived from resources (verbs, scope, subresources) and from the declared option kinds. Refers to
schemas by kind, and knows no version of OpenAPI. Operation ids, parameters and responses are those
of kube-apiserver, because client generators name functions after them. Mirrors
apiserver/pkg/endpoints/installer.go of k8s.io/apiserver.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from kapiserver.api.group import Group, GroupVersion, GroupVersionKind, Resource, Subresource
from kapiserver.api.types import ListOf, Scalar, Type
from kapiserver.apiserver.discovery.openapi_descriptions import PARAMETERS, article
from kapiserver.codecs.media_types import MEDIA_TYPES

META = "meta.k8s.io"
PATCH = GroupVersionKind(META, "v1", "Patch")
STRING = GroupVersionKind("", "", "string")
"""Stands for a response that is a text."""
WATCH_EVENT = GroupVersionKind(META, "v1", "WatchEvent")
VERSION_INFO = GroupVersionKind("", "", "version.Info")

JSON = ("application/json",)
MEDIA = tuple(media.name for media in MEDIA_TYPES)
STREAMS = (*MEDIA, *(media.stream_name for media in MEDIA_TYPES if media.stream_name))
ANY_MEDIA_TYPE = ("*/*",)
PATCH_TYPES = (
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
    "application/apply-patch+cbor",
)
_STRATEGIC = "application/strategic-merge-patch+json"

Location: TypeAlias = Literal["query", "path"]
_TYPES = {"string": "string", "bool": "boolean", "int32": "integer", "int64": "integer"}


class Parameter(Struct, frozen=True):
    """One parameter of a path or of its query."""

    name: str
    location: Location
    type: str
    description: str


class Operation(Struct, frozen=True, kw_only=True):
    """One method of one path.

    method      the method in lower case
    action      `x-kubernetes-action`; "" for an operation without objects
    kind        the kind of the objects
    body        kind of the request body, or None
    needs_body  whether the body is required
    response    kind of the response body
    codes       status codes of success
    """

    path: str
    method: str
    id: str
    tag: str
    description: str
    response: GroupVersionKind
    action: str = ""
    kind: GroupVersionKind | None = None
    body: GroupVersionKind | None = None
    needs_body: bool = False
    codes: tuple[int, ...] = (200,)
    parameters: tuple[Parameter, ...] = ()
    consumes: tuple[str, ...] = ANY_MEDIA_TYPE
    produces: tuple[str, ...] = MEDIA

    @property
    def kinds(self) -> list[GroupVersionKind]:
        """The kinds of the bodies of requests and responses."""
        return [self.response] if self.body is None else [self.body, self.response]


class _Verb(Struct, frozen=True):
    """How a verb appears in the documents.

    word        first word of the operation id
    options     kinds of options whose fields are query parameters
    description template of the description: {kind} is the kind, {a} the kind with its article, {of}
                the text "SUBRESOURCE of ", empty without a subresource
    """

    method: str
    action: str
    word: str
    options: tuple[str, ...]
    description: str
    codes: tuple[int, ...] = (200,)


_COLLECTION_VERBS = {
    "list": _Verb("get", "list", "list", ("ListOptions",), "list or watch objects of kind {kind}"),
    "create": _Verb(
        "post", "post", "create", ("CreateOptions",), "create {of}{a}", (200, 201, 202)
    ),
    "deletecollection": _Verb(
        "delete",
        "deletecollection",
        "delete",
        ("DeleteOptions", "ListOptions"),
        "delete collection of {kind}",
    ),
}
_ITEM_VERBS = {
    "get": _Verb("get", "get", "read", (), "read {of}the specified {kind}"),
    "update": _Verb(
        "put", "put", "replace", ("UpdateOptions",), "replace {of}the specified {kind}", (200, 201)
    ),
    "patch": _Verb(
        "patch",
        "patch",
        "patch",
        ("PatchOptions",),
        "partially update {of}the specified {kind}",
        (200, 201),
    ),
    "delete": _Verb("delete", "delete", "delete", ("DeleteOptions",), "delete {a}", (200, 202)),
}
_DEPRECATION = "; deprecated: list with the 'watch' parameter"
_CONNECT_METHODS = {
    "create": ("post",),
    "get": ("get", "head", "options"),
    "update": ("put",),
    "delete": ("delete",),
    "patch": ("patch",),
}


def friendly_name(group: str) -> str:
    """Return the name of a group in ids and tags: `core`, `apps`, `rbacAuthorization`."""
    first, *labels = (group.removesuffix(".k8s.io") or "core").split(".")
    return first + "".join(part[:1].upper() + part[1:] for part in labels)


def _title(word: str) -> str:
    return word[:1].upper() + word[1:]


def operations_of_group(group: Group) -> Iterator[Operation]:
    """Yield the operation of `/apis/GROUP/`."""
    name = friendly_name(group.name)
    yield Operation(
        path=f"/apis/{group.name}/",
        method="get",
        id=f"get{_title(name)}APIGroup",
        tag=name,
        description="get information of a group",
        response=GroupVersionKind(META, "v1", "APIGroup"),
        consumes=MEDIA,
    )


ROOTS = (
    Operation(
        path="/api/",
        method="get",
        id="getCoreAPIVersions",
        tag="core",
        description="get available API versions",
        response=GroupVersionKind(META, "v1", "APIVersions"),
        consumes=MEDIA,
    ),
    Operation(
        path="/apis/",
        method="get",
        id="getAPIVersions",
        tag="apis",
        description="get available API versions",
        response=GroupVersionKind(META, "v1", "APIGroupList"),
        consumes=MEDIA,
    ),
    Operation(
        path="/version/",
        method="get",
        id="getCodeVersion",
        tag="version",
        description="get the version of this server",
        response=VERSION_INFO,
        consumes=JSON,
        produces=JSON,
    ),
    Operation(
        path="/.well-known/openid-configuration",
        method="get",
        id="getServiceAccountIssuerOpenIDConfiguration",
        tag="WellKnown",
        description="get the OpenID configuration of the issuer of service account tokens",
        response=STRING,
        produces=JSON,
    ),
    Operation(
        path="/openid/v1/jwks",
        method="get",
        id="getServiceAccountIssuerOpenIDKeyset",
        tag="openid",
        description="get the keys that verify service account tokens",
        response=STRING,
        produces=("application/jwk-set+json",),
    ),
)
"""Operations of paths that belong to no group."""


TypeOf: TypeAlias = Callable[[GroupVersionKind], type[Type]]
"""Returns the type of a kind. Raises NotRegistered."""


class _VersionPaths(Struct, frozen=True):
    """The root path of a group-version, and its name in ids and tags."""

    type_of: TypeOf
    version: GroupVersion

    @property
    def root(self) -> str:
        return f"/apis/{self.version}" if self.version.group else f"/api/{self.version}"

    @property
    def name(self) -> str:
        return _title(friendly_name(self.version.group)) + _title(self.version.version)

    @property
    def tag(self) -> str:
        return f"{friendly_name(self.version.group)}_{self.version.version}"


def operations_of_version(type_of: TypeOf, version: GroupVersion) -> Iterator[Operation]:
    """Yield the operation of the root path of a group-version."""
    version_paths = _VersionPaths(type_of, version)
    yield Operation(
        path=f"{version_paths.root}/",
        method="get",
        id=f"get{version_paths.name}APIResources",
        tag=version_paths.tag,
        description="get available resources",
        response=GroupVersionKind(META, "v1", "APIResourceList"),
        consumes=MEDIA,
    )


def operations_of_resource(
    type_of: TypeOf, version: GroupVersion, resource: Resource
) -> Iterator[Operation]:
    """Yield every operation of a resource and of its subresources."""
    version_paths = _VersionPaths(type_of, version)
    yield from _resource_operations(version_paths, resource)
    for subresource in resource.subresources:
        if subresource.kind is not None and subresource.kind.kind.endswith("Options"):
            yield from _connect_operations(version_paths, resource, subresource)
        else:
            yield from _subresource_operations(version_paths, resource, subresource)


def _resource_operations(version_paths: _VersionPaths, resource: Resource) -> Iterator[Operation]:
    collection = _collection(version_paths.root, resource)
    item = f"{collection}/{{name}}"
    for verb in _COLLECTION_VERBS:
        if verb in resource.verbs:
            yield _operation(version_paths, resource, verb, collection)
    for verb in _ITEM_VERBS:
        if verb in resource.verbs:
            yield _operation(version_paths, resource, verb, item)
    if resource.namespaced and "list" in resource.verbs:
        list_operation = _operation(version_paths, resource, "list", collection)
        yield replace(
            list_operation,
            path=f"{version_paths.root}/{resource.name}",
            id=f"list{version_paths.name}{resource.kind}ForAllNamespaces",
            parameters=_without(list_operation.parameters, "namespace"),
        )
    if "watch" in resource.verbs:
        yield from _watch_operations(version_paths, resource)


def _collection(root: str, resource: Resource) -> str:
    scoped = f"{root}/namespaces/{{namespace}}" if resource.namespaced else root
    return f"{scoped}/{resource.name}"


def _subresource_operations(
    version_paths: _VersionPaths, resource: Resource, subresource: Subresource
) -> Iterator[Operation]:
    path = f"{_collection(version_paths.root, resource)}/{{name}}/{subresource.name}"
    for verb in subresource.verbs:
        operation = _operation(version_paths, resource, verb, path, subresource)
        if subresource.name == "log":
            options = _option_parameters(
                version_paths.type_of, GroupVersionKind("", "v1", "PodLogOptions")
            )
            operation = replace(
                operation,
                response=STRING,
                produces=("text/plain", *MEDIA),
                parameters=_sorted((*operation.parameters, *options)),
            )
        yield operation


def _operation(
    version_paths: _VersionPaths,
    resource: Resource,
    verb: str,
    path: str,
    subresource: Subresource | None = None,
) -> Operation:
    """Return the operation of one verb of a resource or subresource."""
    verb_info = _COLLECTION_VERBS.get(verb) or _ITEM_VERBS[verb]
    kind = version_paths.version.with_kind(resource.kind)
    operation_kind = subresource.kind or kind if subresource is not None else kind
    scope = "Namespaced" if resource.namespaced else ""
    collection = "Collection" if verb == "deletecollection" else ""
    suffix = _title(subresource.name) if subresource is not None else ""
    options = [GroupVersionKind(META, "v1", name) for name in verb_info.options]
    query = {
        parameter.name: parameter
        for name in options
        for parameter in _option_parameters(version_paths.type_of, name)
    }
    if verb == "deletecollection":  # cannot be watched
        query.pop("watch", None)
        query.pop("allowWatchBookmarks", None)
    return Operation(
        path=path,
        method=verb_info.method,
        action=verb_info.action,
        id=f"{verb_info.word}{version_paths.name}{collection}{scope}{resource.kind}{suffix}",
        tag=version_paths.tag,
        description=verb_info.description.format(
            kind=resource.kind,
            a=article(resource.kind),
            of=f"{subresource.name} of " if subresource is not None else "",
        ),
        kind=operation_kind,
        body=_body(verb, operation_kind),
        needs_body=verb in ("create", "update", "patch"),
        response=_response(resource, verb, operation_kind),
        codes=verb_info.codes,
        parameters=_sorted((*_path_parameters(path, resource.kind), *query.values(), _PRETTY)),
        consumes=_patch_types(version_paths, kind) if verb == "patch" else ANY_MEDIA_TYPE,
        produces=STREAMS if verb == "list" else MEDIA,
    )


def _body(verb: str, kind: GroupVersionKind) -> GroupVersionKind | None:
    if verb in ("create", "update"):
        return kind
    if verb == "patch":
        return PATCH
    if verb in ("delete", "deletecollection"):
        return GroupVersionKind(META, "v1", "DeleteOptions")
    return None


def _response(resource: Resource, verb: str, kind: GroupVersionKind) -> GroupVersionKind:
    if verb == "list":
        return kind._replace(kind=resource.list_kind_name)
    if verb == "deletecollection" or (verb == "delete" and not resource.returns_deleted_object):
        return GroupVersionKind(META, "v1", "Status")
    return kind


def _patch_types(version_paths: _VersionPaths, kind: GroupVersionKind) -> tuple[str, ...]:
    if version_paths.type_of(kind).wire:
        return PATCH_TYPES
    # Fields of custom kinds have no merge keys.
    return tuple(name for name in PATCH_TYPES if name != _STRATEGIC)


def _watch_operations(version_paths: _VersionPaths, resource: Resource) -> Iterator[Operation]:
    """Yield the operations of the deprecated paths below `/watch/`."""
    root = f"{version_paths.root}/watch"
    kind = resource.kind
    scope = "Namespaced" if resource.namespaced else ""
    list_text = f"watch changes to a list of {kind}{_DEPRECATION}"
    object_text = f"watch changes to an object of kind {kind}{_DEPRECATION} and a 'fieldSelector'"
    collection = _collection(root, resource)
    watches = [
        (
            collection,
            f"watch{version_paths.name}{scope}{kind}List",
            "watchlist",
            list_text,
        ),
        (
            f"{collection}/{{name}}",
            f"watch{version_paths.name}{scope}{kind}",
            "watch",
            object_text,
        ),
    ]
    if resource.namespaced:
        id_ = f"watch{version_paths.name}{kind}ListForAllNamespaces"
        watches.append((f"{root}/{resource.name}", id_, "watchlist", list_text))
    for path, id_, action, description in watches:
        query = _option_parameters(
            version_paths.type_of, GroupVersionKind(META, "v1", "ListOptions")
        )
        yield Operation(
            path=path,
            method="get",
            action=action,
            id=id_,
            tag=version_paths.tag,
            description=description,
            kind=version_paths.version.with_kind(kind),
            response=WATCH_EVENT,
            parameters=_sorted((*_path_parameters(path, kind), *query, _PRETTY)),
            produces=STREAMS,
        )


def _connect_operations(
    version_paths: _VersionPaths, resource: Resource, subresource: Subresource
) -> Iterator[Operation]:
    """Yield the operations that connect to a pod, node or service, one for each method."""
    assert subresource.kind is not None
    path = f"{_collection(version_paths.root, resource)}/{{name}}/{subresource.name}"
    scope = "Namespaced" if resource.namespaced else ""
    query = _option_parameters(version_paths.type_of, subresource.kind)
    is_proxy = subresource.name == "proxy"
    for verb in subresource.verbs:
        for method in _CONNECT_METHODS[verb] if is_proxy else _CONNECT_METHODS[verb][:1]:
            word = f"connect{version_paths.name}{_title(method)}{scope}{resource.kind}"
            operation = Operation(
                path=path,
                method=method,
                action="connect",
                id=word + _title(subresource.name),
                tag=version_paths.tag,
                description=f"connect {method.upper()} requests to {subresource.name} of "
                f"{resource.kind}",
                kind=subresource.kind,
                response=STRING,
                parameters=_sorted((*_path_parameters(path, resource.kind), *query)),
                produces=ANY_MEDIA_TYPE,
            )
            yield operation
            if is_proxy:
                path_parameter = Parameter("path", "path", "string", PARAMETERS["path"])
                yield replace(
                    operation,
                    path=f"{path}/{{path}}",
                    id=f"{operation.id}WithPath",
                    parameters=_sorted((*operation.parameters, path_parameter)),
                )


def _path_parameters(path: str, kind: str) -> Iterator[Parameter]:
    if "{name}" in path:
        yield Parameter("name", "path", "string", f"Name of the {kind}.")
    if "{namespace}" in path:
        yield Parameter("namespace", "path", "string", PARAMETERS["namespace"])


def _option_parameters(type_of: TypeOf, kind: GroupVersionKind) -> list[Parameter]:
    """Return the fields of an option kind as query parameters."""
    type_ = type_of(kind)
    parameters = []
    for field in type_.fields():
        shape = field.shape.item if isinstance(field.shape, ListOf) else field.shape
        if field.number is None or not isinstance(shape, Scalar):
            continue
        # A list is a repeated parameter; the documents show the type of an item.
        type_name = "string" if isinstance(field.shape, ListOf) else _TYPES[shape.name]
        text = field.options.doc or PARAMETERS.get(field.name, "")
        parameters.append(Parameter(field.name, "query", type_name, text))
    return parameters


def _sorted(parameters: Iterable[Parameter]) -> tuple[Parameter, ...]:
    return tuple(sorted(parameters, key=lambda parameter: (parameter.name, parameter.location)))


def _without(parameters: tuple[Parameter, ...], name: str) -> tuple[Parameter, ...]:
    return tuple(parameter for parameter in parameters if parameter.name != name)


_PRETTY = Parameter("pretty", "query", "string", PARAMETERS["pretty"])
