"""Models of pydantic as the types of fields.

    class DatabaseSpec(BaseModel):
        engine: Literal["postgres", "mysql"] = "postgres"
        size: Annotated[int, Field(ge=1, description="Its size in GiB.")] = 1

    class Database(Object):
        spec: DatabaseSpec

msgspec reads, writes and describes such values by the hooks of this module, `read_model`,
`write_model` and `model_schema`. A program that declares models has imported pydantic; this module
imports it for nobody else.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple, TypeGuard, get_args

import orjson
from msgspec import Meta, Struct, ValidationError, inspect, structs

from kapiserver.api.errors import FieldError, Path, invalid
from kapiserver.api.types import Tree

if TYPE_CHECKING:
    from pydantic import BaseModel
    from pydantic.fields import FieldInfo

_MODE: Final = "validation"
"""The mode of schemas: what a client sends."""
_PATH_OF_MODEL = re.compile(r" - at `\$\.?(.*)`$")
"""The path of a value at the end of msgspec's messages."""


class ModelField(NamedTuple):
    """One field of a model, as `msgspec.inspect.Field` describes those of structs.

    encode_name     its name in the API: the alias, if it has one
    """

    name: str
    encode_name: str
    type: inspect.Type


def is_model(type_: object) -> TypeGuard[type[BaseModel]]:
    """Report whether a type is a model of pydantic."""
    pydantic = sys.modules.get("pydantic")
    return (
        pydantic is not None and isinstance(type_, type) and issubclass(type_, pydantic.BaseModel)
    )


def read_model(type_: type, value: Any) -> Any:
    """Return the model of a tree: the `dec_hook` of msgspec. Raises ValueError for a tree that the
    model refuses, and for another type."""
    if not is_model(type_):
        raise ValueError(f"no tree is a {type_.__name__}")
    return type_.model_validate(value)


def write_model(value: Any) -> Any:
    """Return the tree of a model: the `enc_hook` of msgspec. Raises TypeError for a value of
    another type."""
    if not is_model(type(value)):
        raise TypeError(f"no tree can hold a {type(value).__name__}")
    return value.model_dump(mode="json", by_alias=True)


def field_errors(error: ValidationError) -> list[FieldError]:
    """Return what a tree that does not fit its class gets: an error for each field that a model
    refuses, or one for the object."""
    pydantic = sys.modules.get("pydantic")
    cause = error.__cause__
    if pydantic is None or not isinstance(cause, pydantic.ValidationError):
        return [invalid(Path("<nil>"), None, str(error))]
    match = _PATH_OF_MODEL.search(str(error))
    path = Path(match[1] if match is not None else "")
    # JSON, because a validator may have put any object in the place of what the client sent.
    refusals = orjson.loads(cause.json(include_url=False, include_context=False))
    return [
        invalid(_below(path, refusal["loc"]), refusal["input"], refusal["msg"])
        for refusal in refusals
    ]


def _below(path: Path, location: Iterable[str | int]) -> Path:
    for step in location:
        path = path[step] if isinstance(step, int) else path / step
    return path


def model_schema(type_: type) -> Tree:
    """Return the JSON schema of a model, with those that it refers to in `$defs`: the `schema_hook`
    of msgspec. Raises NotImplementedError for another type."""
    if not is_model(type_):
        raise NotImplementedError
    from pydantic.json_schema import models_json_schema

    models = _models_in(type_)
    references, schema = models_json_schema([(model, _MODE) for model in models])
    definitions: Tree = schema["$defs"]
    for model in models:
        definition = definitions[_name(references[model, _MODE])]
        properties = definition.get("properties", {})  # a root model has none
        for field in fields_of(model):
            if isinstance(field.type, inspect.Metadata) and field.encode_name in properties:
                properties[field.encode_name] |= field.type.extra_json_schema or {}
    return {**references[type_, _MODE], "$defs": definitions}


def _name(reference: Tree) -> str:
    """Return the name in a reference such as `#/$defs/Name`."""
    return str(reference["$ref"]).rpartition("/")[2]


def fields_of(model: type[BaseModel]) -> list[ModelField]:
    """Return the fields of a model, with the markers in their annotations."""
    return [
        ModelField(name, info.alias or name, inspect.type_info(_annotation(info)))
        for name, info in model.model_fields.items()
    ]


def _annotation(info: FieldInfo) -> Any:
    """Return the annotation of a field with what msgspec knows of it: its markers, and its
    description."""
    markers = [item for item in info.metadata if isinstance(item, Meta)]
    if info.description:
        markers.append(Meta(description=info.description))
    return Annotated[info.annotation, *markers] if markers else info.annotation


def has_models(type_: type) -> bool:
    """Report whether a class has fields that are models, at any depth."""
    return bool(_models_in(type_))


def _models_in(type_: type) -> list[type[BaseModel]]:
    """Return the models among a class and those in its fields, each once."""
    classes = {type_: None}
    waiting = [type_]
    while waiting:
        for annotation in _annotations(waiting.pop()):
            for nested_class in _classes_in(annotation):
                if nested_class not in classes:
                    classes[nested_class] = None
                    waiting.append(nested_class)
    return [class_ for class_ in classes if is_model(class_)]


def _annotations(type_: type) -> list[Any]:
    """Return the annotations of the fields of a class."""
    if is_model(type_):
        return [info.annotation for info in type_.model_fields.values()]
    is_struct = issubclass(type_, Struct)
    return [field.type for field in structs.fields(type_)] if is_struct else []


def _classes_in(annotation: Any) -> Iterator[type]:
    """Yield the classes that an annotation names."""
    if isinstance(annotation, type):
        yield annotation
    for argument in get_args(annotation):
        yield from _classes_in(argument)
