"""Resources: what an extension API server serves, declared by classes and functions.

    databases = Resource(Database, group="example.com", short_names=("db",))

    @databases.validate
    def check(new: Database, old: Database | None) -> Iterator[FieldError]:
        if old is not None and new.spec.size < old.spec.size:
            yield forbidden(Path("spec.size"), "a database does not shrink")

All functions get objects of the class that the resource is made with, whatever the version of the
request: with several versions it is the internal version, which `Version` converts to and from. A
function is called on the event loop and should return within a millisecond, or wait with `await`.
Functions that change objects are called again for the same object and must then change nothing.
Knows no HTTP.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from msgspec import Struct, field

from kapiserver.api.errors import FieldError
from kapiserver.api.types import Tree
from kapiserver.extension.call import Call
from kapiserver.extension.objects import AnyObject, Object
from kapiserver.extension.schemas import object_schema
from kapiserver.extension.sources import ObjectSource

AnyFunction = TypeVar("AnyFunction", bound=Callable[..., Any])


class Column(Struct, frozen=True, kw_only=True):
    """A column of the tables that kubectl prints, as in a CustomResourceDefinition.

    type        `integer`, `number`, `string`, `boolean` or `date`
    json_path   the field, as in `.spec.size`
    priority    above 0: shown with `-o wide` only
    """

    name: str
    json_path: str
    type: str = "string"
    description: str = ""
    format: str = ""
    priority: int = 0


class Scale(Struct, frozen=True, kw_only=True):
    """The paths of the fields that the subresource `scale` reads and writes."""

    spec_replicas: str = ".spec.replicas"
    status_replicas: str = ".status.replicas"
    label_selector: str = ""


class Version(Struct, frozen=True, kw_only=True):
    """One version of a resource.

    type        the class of its objects; None: that of the resource
    to_hub      converts an object of `type` to one of the resource's class
    from_hub    converts the other way
    columns, selectable_fields  those of this version; None: those of the resource
    deprecated  whether clients get a warning
    served      whether clients may use the version
    deprecation_warning  the text of the warning; "" for that of kube-apiserver

    The functions need not copy `metadata`: labels and annotations of the object that they return
    count if it has metadata, all else stays.
    """

    name: str
    type: type[Object] | None = None
    to_hub: Callable[[Any], Any] | None = None
    from_hub: Callable[[Any], Any] | None = None
    columns: Sequence[Column] | None = None
    selectable_fields: Sequence[str] | None = None
    deprecated: bool = False
    served: bool = True
    deprecation_warning: str = ""


class Connect(Struct, frozen=True, kw_only=True):
    """A subresource that a function serves.

    verbs       the verbs of its methods
    function    answers a request; see `Resource.connect`
    of_objects  whether the name in the path is that of an object
    """

    verbs: tuple[str, ...]
    function: Callable[[Call, Any], Awaitable[Any]]
    of_objects: bool


class Functions(Struct, kw_only=True):
    """The functions of one resource; the decorators of `Resource` set them."""

    default: Callable[[Any], None] | None = None
    prepare_for_create: Callable[[Any], None] | None = None
    prepare_for_update: Callable[[Any, Any], None] | None = None
    validate: Callable[[Any, Any], Iterable[FieldError]] | None = None
    validate_status: Callable[[Any, Any], Iterable[FieldError]] | None = None
    warn: Callable[[Any, Any], Iterable[str]] | None = None
    answer: Callable[[Call, Any], Awaitable[Any]] | None = None
    connects: dict[str, Connect] = field(default_factory=dict)


class Resource(Generic[AnyObject]):
    """One resource of an extension API server.

    type_               the class of its objects: a subclass of Object, whose name is the kind
    version             the name of the only version; `versions` lists several, preferred first
    storage_version     the version in which objects are stored; "" for the first one
    plural, singular    names; "" for the kind in lower case, with an `s`
    columns             the columns of tables, besides the name
    selectable_fields   paths of fields for field selectors, as in `.spec.engine`
    scale               the paths of the subresource scale; None: there is none
    storage             where the objects are stored, as --storage: `sqlite::memory:`, `sqlite:PATH`
                        or `etcd:URL,URL,...`; "": in the store of the server
    source              the objects of a virtual resource; None: they are stored

    The subresource `status` exists if the class has a field of that name. `resource_of` returns the
    resource of a class, and of the class of each version. Raises UnusableType for a class that no
    schema can describe, and ValueError for versions that do not fit together.
    """

    def __init__(
        self,
        type_: type[AnyObject],
        *,
        group: str,
        version: str = "v1",
        versions: Sequence[Version] = (),
        storage_version: str = "",
        plural: str = "",
        singular: str = "",
        short_names: Sequence[str] = (),
        categories: Sequence[str] = (),
        namespaced: bool = True,
        columns: Sequence[Column] = (),
        selectable_fields: Sequence[str] = (),
        scale: Scale | None = None,
        storage: str = "",
        source: ObjectSource[AnyObject] | None = None,
    ) -> None:
        self.type = type_
        self.group = group
        self.kind = type_.__name__
        self.singular = singular or self.kind.lower()
        self.plural = plural or f"{self.singular}s"
        self.versions: Mapping[str, Version] = {
            declared_version.name: declared_version
            for declared_version in versions or (Version(name=version),)
        }
        self.storage_version = storage_version or next(iter(self.versions))
        self.functions = Functions()
        self.source = source
        self.storage = storage
        self._short_names = short_names
        self._categories = categories
        self.namespaced = namespaced
        self._columns = columns
        self._selectable_fields = selectable_fields
        self._scale = scale
        self._check()
        for declared in (type_, *(version.type for version in self.versions.values())):
            if declared is not None:
                declared.__resource__ = self

    def _check(self) -> None:
        if self.storage and self.source is not None:
            raise ValueError(f"{self.name}: a virtual resource has no storage")
        if self.storage_version not in self.versions:
            raise ValueError(f"{self.name}: there is no version {self.storage_version}")
        for version in self.versions.values():
            other = version.type not in (None, self.type)
            if other != (version.to_hub is not None and version.from_hub is not None):
                raise ValueError(
                    f"{self.name} {version.name}: a version with a class of its own needs to_hub "
                    "and from_hub, and no other version has them"
                )

    @property
    def name(self) -> str:
        """The qualified name, such as `databases.example.com`."""
        return f"{self.plural}.{self.group}"

    def type_of(self, version: str) -> type[Object]:
        """Return the class of the objects of a version."""
        return self.versions[version].type or self.type

    def version_of(self, type_: type[Object]) -> str:
        """Return the first version whose objects have that class."""
        return next(name for name in self.versions if self.type_of(name) is type_)

    # Decorators, which return the function.

    def default(self, function: AnyFunction) -> AnyFunction:
        """Call `function(obj)` after the defaults of the classes, for each object that a client
        sends or that is read from the store."""
        self.functions.default = function
        return function

    def prepare_for_create(self, function: AnyFunction) -> AnyFunction:
        """Call `function(obj)` before a new object is validated. It may set the status."""
        self.functions.prepare_for_create = function
        return function

    def prepare_for_update(self, function: AnyFunction) -> AnyFunction:
        """Call `function(new, old)` before an updated object is validated."""
        self.functions.prepare_for_update = function
        return function

    def validate(self, function: AnyFunction) -> AnyFunction:
        """Call `function(new, old)` for each object that fits its schema; `old` is None on create.
        It yields the errors."""
        self.functions.validate = function
        return function

    def validate_status(self, function: AnyFunction) -> AnyFunction:
        """Call `function(new, old)` for each write of the status that fits its schema. It yields
        the errors."""
        self.functions.validate_status = function
        return function

    def warn(self, function: AnyFunction) -> AnyFunction:
        """Call `function(new, old)` for each write; `old` is None on create. It yields the texts of
        Warning headers, which kubectl prints."""
        self.functions.warn = function
        return function

    def answer(self, function: AnyFunction) -> AnyFunction:
        """Make the objects calls, as reviews are: created, answered and never stored. `await
        function(call, obj)` returns the object with its status."""
        self.functions.answer = function
        return function

    def connect(
        self, name: str, *, methods: Sequence[str] = ("POST",), of_objects: bool = True
    ) -> Callable[[AnyFunction], AnyFunction]:
        """Serve the subresource of that name: `await function(call, obj)` answers requests with
        these methods. It returns an Object or a tree (JSON), a str (text), bytes, an asynchronous
        iterator of bytes (a stream), or None (a Status of success). With `of_objects=False` the
        name in the path need not be that of an object, as `*` is in custom.metrics.k8s.io, and
        `obj` is None. Raises ValueError for the names status and scale."""
        if name in ("status", "scale"):
            raise ValueError(f"{self.name}: no function can serve {name}")

        def add(function: AnyFunction) -> AnyFunction:
            verbs = tuple(_VERBS[method] for method in methods)
            self.functions.connects[name] = Connect(
                verbs=verbs, function=function, of_objects=of_objects
            )
            return function

        return add

    # The definition.

    @functools.cached_property
    def definition(self) -> Tree:
        """The CustomResourceDefinition that describes the resource, without a status."""
        return {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": self.name},
            "spec": {
                "group": self.group,
                "names": self._names(),
                "scope": "Namespaced" if self.namespaced else "Cluster",
                "versions": [self._version(version) for version in self.versions.values()],
            },
        }

    def _names(self) -> Tree:
        names: Tree = {
            "kind": self.kind,
            "listKind": f"{self.kind}List",
            "plural": self.plural,
            "singular": self.singular,
            "shortNames": list(self._short_names),
            "categories": list(self._categories),
        }
        return {name: value for name, value in names.items() if value}

    def _version(self, version: Version) -> Tree:
        schema = object_schema(self.type_of(version.name))
        columns = self._columns if version.columns is None else version.columns
        selectable = version.selectable_fields
        if selectable is None:
            selectable = self._selectable_fields
        tree: Tree = {
            "name": version.name,
            "served": version.served,
            "storage": version.name == self.storage_version,
            "schema": {"openAPIV3Schema": schema},
            "subresources": self._subresources("status" in schema["properties"]),
            "additionalPrinterColumns": [_column(column) for column in columns],
            "selectableFields": [{"jsonPath": path} for path in selectable],
            "deprecated": version.deprecated,
            "deprecationWarning": version.deprecation_warning,
        }
        return {name: value for name, value in tree.items() if value or name in _ALWAYS}

    def _subresources(self, has_status: bool) -> Tree:
        subresources: Tree = {"status": {}} if has_status else {}
        if self._scale is not None:
            paths = {
                "specReplicasPath": self._scale.spec_replicas,
                "statusReplicasPath": self._scale.status_replicas,
                "labelSelectorPath": self._scale.label_selector,
            }
            subresources["scale"] = {name: path for name, path in paths.items() if path}
        return subresources


def resource_of(type_: type[AnyObject]) -> Resource[AnyObject]:
    """Return the resource that a class is declared by, the last one if there are several. Raises
    TypeError if there is none."""
    resource = vars(type_).get("__resource__")
    if not isinstance(resource, Resource):
        raise TypeError(f"no Resource declares the class {type_.__name__}")
    return resource


_ALWAYS = ("served", "storage")
_VERBS = {
    "DELETE": "delete",
    "GET": "get",
    "PATCH": "patch",
    "POST": "create",
    "PUT": "update",
}
"""The verb of each method of a request for a subresource."""


def _column(column: Column) -> Tree:
    tree: Tree = {
        "name": column.name,
        "type": column.type,
        "jsonPath": column.json_path,
        "description": column.description,
        "format": column.format,
        "priority": column.priority,
    }
    return {name: value for name, value in tree.items() if value}
