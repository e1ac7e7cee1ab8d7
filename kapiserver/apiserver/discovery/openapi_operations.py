"""What OpenAPI says that clients can do: every operation of a path, as data.

Derived from resources (verbs, scope, subresources) and from the declared option kinds. Knows no
schema but by the name of a kind, and no version of OpenAPI. Ids, parameters and answers are those
of kube-apiserver: client generators name functions after them. Mirrors
apiserver/pkg/endpoints/installer.go of k8s.io/apiserver.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from kapiserver.api.group import Group, GroupVersion, GroupVersionKind, Resource, Subresource
from kapiserver.api.types import ListOf, Scalar, Type
from kapiserver.apiserver.discovery.openapi_descriptions import PARAMETERS, article
from kapiserver.codecs.media_types import MEDIA_TYPES

META = "meta.k8s.io"
PATCH = GroupVersionKind(META, "v1", "Patch")
STRING = GroupVersionKind("", "", "string")
"""Stands for an answer that is no object."""
WATCH_EVENT = GroupVersionKind(META, "v1", "WatchEvent")
VERSION_INFO = GroupVersionKind("", "", "version.Info")

JSON = ("application/json",)
MEDIA = tuple(media.name for media in MEDIA_TYPES)
STREAMS = (*MEDIA, *(media.stream_name for media in MEDIA_TYPES if media.stream_name))
ANYTHING = ("*/*",)
PATCH_TYPES = (
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
    "application/apply-patch+cbor",
)
_STRATEGIC = "application/strategic-merge-patch+json"

In: TypeAlias = Literal["query", "path"]
_TYPES = {"string": "string", "bool": "boolean", "int32": "integer", "int64": "integer"}


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a path or of its query."""

    name: str
    where: In
    type: str
    description: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One method of one path.

    method      in lower case, as the documents have it
    action      `x-kubernetes-action`; "" for what is about no object
    kind        of the objects it is about
    body        kind of the request's body; None: none
    needs_body  whether it must have one
    answer      kind of the answer's body
    codes       of the answers of a request that went well
    """

    path: str
    method: str
    id: str
    tag: str
    description: str
    answer: GroupVersionKind
    action: str = ""
    kind: GroupVersionKind | None = None
    body: GroupVersionKind | None = None
    needs_body: bool = False
    codes: tuple[int, ...] = (200,)
    parameters: tuple[Parameter, ...] = ()
    consumes: tuple[str, ...] = ANYTHING
    produces: tuple[str, ...] = MEDIA


@dataclass(frozen=True, slots=True)
class _Verb:
    """How one verb shows.

    word        the first of the operation id
    options     kinds of options whose fields are query parameters
    says        the description; {a}: article and kind, {kind}, {of}: "SUBRESOURCE of "
    """

    method: str
    action: str
    word: str
    options: tuple[str, ...]
    says: str
    codes: tuple[int, ...] = (200,)


_OF_COLLECTION = {
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
_OF_ITEM = {
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
_WATCHED = "; deprecated: list with the 'watch' parameter"
_CONNECT_METHODS = {
    "create": ("post",),
    "get": ("get", "head", "options"),
    "update": ("put",),
    "delete": ("delete",),
    "patch": ("patch",),
}


def friendly_name(group: str) -> str:
    """How ids and tags name a group: `core`, `apps`, `rbacAuthorization`."""
    first, *rest = (group.removesuffix(".k8s.io") or "core").split(".")
    return first + "".join(part[:1].upper() + part[1:] for part in rest)


def _title(word: str) -> str:
    return word[:1].upper() + word[1:]


def operations_of_group(group: Group) -> Iterator[Operation]:
    """`/apis/GROUP/`."""
    name = friendly_name(group.name)
    yield Operation(
        path=f"/apis/{group.name}/",
        method="get",
        id=f"get{_title(name)}APIGroup",
        tag=name,
        description="get information of a group",
        answer=GroupVersionKind(META, "v1", "APIGroup"),
        consumes=MEDIA,
    )


ROOTS = (
    Operation(
        path="/api/",
        method="get",
        id="getCoreAPIVersions",
        tag="core",
        description="get available API versions",
        answer=GroupVersionKind(META, "v1", "APIVersions"),
        consumes=MEDIA,
    ),
    Operation(
        path="/apis/",
        method="get",
        id="getAPIVersions",
        tag="apis",
        description="get available API versions",
        answer=GroupVersionKind(META, "v1", "APIGroupList"),
        consumes=MEDIA,
    ),
    Operation(
        path="/version/",
        method="get",
        id="getCodeVersion",
        tag="version",
        description="get the version of this server",
        answer=VERSION_INFO,
        consumes=JSON,
        produces=JSON,
    ),
    Operation(
        path="/.well-known/openid-configuration",
        method="get",
        id="getServiceAccountIssuerOpenIDConfiguration",
        tag="WellKnown",
        description="get the OpenID configuration of the issuer of service account tokens",
        answer=STRING,
        produces=JSON,
    ),
    Operation(
        path="/openid/v1/jwks",
        method="get",
        id="getServiceAccountIssuerOpenIDKeyset",
        tag="openid",
        description="get the keys that verify service account tokens",
        answer=STRING,
        produces=("application/jwk-set+json",),
    ),
)
"""Paths that belong to no group."""


TypeOf: TypeAlias = Callable[[GroupVersionKind], type[Type]]
"""From a kind to its type. Raises NotRegistered."""


@dataclass(frozen=True, slots=True)
class _Place:
    """Where operations are: the group-version's root, what ids and tags call it."""

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


def operations(
    type_of: TypeOf, version: GroupVersion, resources: Iterable[Resource]
) -> Iterator[Operation]:
    """Every operation of a group-version."""
    place = _Place(type_of, version)
    yield Operation(
        path=f"{place.root}/",
        method="get",
        id=f"get{place.name}APIResources",
        tag=place.tag,
        description="get available resources",
        answer=GroupVersionKind(META, "v1", "APIResourceList"),
        consumes=MEDIA,
    )
    for resource in resources:
        yield from _of_resource(place, resource)
        for subresource in resource.subresources:
            if subresource.kind is not None and subresource.kind.kind.endswith("Options"):
                yield from _connections(place, resource, subresource)
            else:
                yield from _of_subresource(place, resource, subresource)


def _of_resource(place: _Place, resource: Resource) -> Iterator[Operation]:
    collection = _collection(place.root, resource)
    item = f"{collection}/{{name}}"
    for verb in _OF_COLLECTION:
        if verb in resource.verbs:
            yield _operation(place, resource, verb, collection)
    for verb in _OF_ITEM:
        if verb in resource.verbs:
            yield _operation(place, resource, verb, item)
    if resource.namespaced and "list" in resource.verbs:
        listed = _operation(place, resource, "list", collection)
        yield replace(
            listed,
            path=f"{place.root}/{resource.name}",
            id=f"list{place.name}{resource.kind}ForAllNamespaces",
            parameters=_without(listed.parameters, "namespace"),
        )
    if "watch" in resource.verbs:
        yield from _watches(place, resource)


def _collection(root: str, resource: Resource) -> str:
    scoped = f"{root}/namespaces/{{namespace}}" if resource.namespaced else root
    return f"{scoped}/{resource.name}"


def _of_subresource(
    place: _Place, resource: Resource, subresource: Subresource
) -> Iterator[Operation]:
    path = f"{_collection(place.root, resource)}/{{name}}/{subresource.name}"
    for verb in subresource.verbs:
        made = _operation(place, resource, verb, path, subresource)
        if subresource.name == "log":
            options = _options(place.type_of, GroupVersionKind("", "v1", "PodLogOptions"))
            made = replace(
                made,
                answer=STRING,
                produces=("text/plain", *MEDIA),
                parameters=_sorted((*made.parameters, *options)),
            )
        yield made


def _operation(
    place: _Place,
    resource: Resource,
    verb: str,
    path: str,
    subresource: Subresource | None = None,
) -> Operation:
    """One verb of a resource, or of a subresource of it."""
    says = _OF_COLLECTION.get(verb) or _OF_ITEM[verb]
    kind = place.version.with_kind(resource.kind)
    about = subresource.kind or kind if subresource is not None else kind
    scope = "Namespaced" if resource.namespaced else ""
    collection = "Collection" if verb == "deletecollection" else ""
    suffix = _title(subresource.name) if subresource is not None else ""
    options = [GroupVersionKind(META, "v1", name) for name in says.options]
    query = {one.name: one for name in options for one in _options(place.type_of, name)}
    if verb == "deletecollection":  # is never watched
        query.pop("watch", None)
        query.pop("allowWatchBookmarks", None)
    return Operation(
        path=path,
        method=says.method,
        action=says.action,
        id=f"{says.word}{place.name}{collection}{scope}{resource.kind}{suffix}",
        tag=place.tag,
        description=says.says.format(
            kind=resource.kind,
            a=article(resource.kind),
            of=f"{subresource.name} of " if subresource is not None else "",
        ),
        kind=about,
        body=_body(verb, about),
        needs_body=verb in ("create", "update", "patch"),
        answer=_answer(resource, verb, about),
        codes=says.codes,
        parameters=_sorted((*_of_path(path, resource.kind), *query.values(), _PRETTY)),
        consumes=_patch_types(place, kind) if verb == "patch" else ANYTHING,
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


def _answer(resource: Resource, verb: str, kind: GroupVersionKind) -> GroupVersionKind:
    if verb == "list":
        return kind._replace(kind=resource.list_kind_name)
    if verb == "deletecollection" or (verb == "delete" and not resource.returns_deleted_object):
        return GroupVersionKind(META, "v1", "Status")
    return kind


def _patch_types(place: _Place, kind: GroupVersionKind) -> tuple[str, ...]:
    if place.type_of(kind).wire:
        return PATCH_TYPES
    return tuple(name for name in PATCH_TYPES if name != _STRATEGIC)  # custom kinds have no keys


def _watches(place: _Place, resource: Resource) -> Iterator[Operation]:
    """The paths below `/watch/`, which nobody should use and everybody may."""
    root = f"{place.root}/watch"
    kind = resource.kind
    scope = "Namespaced" if resource.namespaced else ""
    lists, one = f"changes to a list of {kind}{_WATCHED}", f"changes to an object of kind {kind}"
    collection = _collection(root, resource)
    found = [
        (collection, f"watch{place.name}{scope}{kind}List", "watchlist", f"watch {lists}"),
        (
            f"{collection}/{{name}}",
            f"watch{place.name}{scope}{kind}",
            "watch",
            f"watch {one}{_WATCHED} and a 'fieldSelector'",
        ),
    ]
    if resource.namespaced:
        id_ = f"watch{place.name}{kind}ListForAllNamespaces"
        found.append((f"{root}/{resource.name}", id_, "watchlist", f"watch {lists}"))
    for path, id_, action, description in found:
        query = _options(place.type_of, GroupVersionKind(META, "v1", "ListOptions"))
        yield Operation(
            path=path,
            method="get",
            action=action,
            id=id_,
            tag=place.tag,
            description=description,
            kind=place.version.with_kind(kind),
            answer=WATCH_EVENT,
            parameters=_sorted((*_of_path(path, kind), *query, _PRETTY)),
            produces=STREAMS,
        )


def _connections(
    place: _Place, resource: Resource, subresource: Subresource
) -> Iterator[Operation]:
    """Connections to a pod, a node or a service: every method that the path takes."""
    assert subresource.kind is not None
    path = f"{_collection(place.root, resource)}/{{name}}/{subresource.name}"
    scope = "Namespaced" if resource.namespaced else ""
    query = _options(place.type_of, subresource.kind)
    proxy = subresource.name == "proxy"
    for verb in subresource.verbs:
        for method in _CONNECT_METHODS[verb] if proxy else _CONNECT_METHODS[verb][:1]:
            word = f"connect{place.name}{_title(method)}{scope}{resource.kind}"
            made = Operation(
                path=path,
                method=method,
                action="connect",
                id=word + _title(subresource.name),
                tag=place.tag,
                description=f"connect {method.upper()} requests to {subresource.name} of "
                f"{resource.kind}",
                kind=subresource.kind,
                answer=STRING,
                parameters=_sorted((*_of_path(path, resource.kind), *query)),
                produces=ANYTHING,
            )
            yield made
            if proxy:
                below = Parameter("path", "path", "string", PARAMETERS["path"])
                yield replace(
                    made,
                    path=f"{path}/{{path}}",
                    id=f"{made.id}WithPath",
                    parameters=_sorted((*made.parameters, below)),
                )


def _of_path(path: str, kind: str) -> Iterator[Parameter]:
    if "{name}" in path:
        yield Parameter("name", "path", "string", f"Name of the {kind}.")
    if "{namespace}" in path:
        yield Parameter("namespace", "path", "string", PARAMETERS["namespace"])


def _options(type_of: TypeOf, kind: GroupVersionKind) -> list[Parameter]:
    """The query parameters that the fields of an option kind are."""
    type_ = type_of(kind)
    found = []
    for field in type_.fields():
        shape = field.shape.item if isinstance(field.shape, ListOf) else field.shape
        if field.number is None or not isinstance(shape, Scalar):
            continue
        # A list is repeated; the documents show one of it.
        shown = "string" if isinstance(field.shape, ListOf) else _TYPES[shape.name]
        text = field.options.doc or PARAMETERS.get(field.name, "")
        found.append(Parameter(field.name, "query", shown, text))
    return found


def _sorted(parameters: Iterable[Parameter]) -> tuple[Parameter, ...]:
    return tuple(sorted(parameters, key=lambda one: (one.name, one.where)))


def _without(parameters: tuple[Parameter, ...], name: str) -> tuple[Parameter, ...]:
    return tuple(one for one in parameters if one.name != name)


_PRETTY = Parameter("pretty", "query", "string", PARAMETERS["pretty"])
