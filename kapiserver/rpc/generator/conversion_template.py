"""Renders `conversion_generated.py` of a version, and the signatures of functions written by hand.

For each message with an internal class it has `to_internal_<Message>` and `to_pb_<Message>`.
"""

from __future__ import annotations

from collections.abc import Collection

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from kapiserver.rpc.generator.definitions import VersionDefinition
from kapiserver.rpc.generator.fields import ValueType, map_types, value_type
from kapiserver.rpc.generator.internal_types import InternalTypes
from kapiserver.rpc.generator.python_names import class_path, function_name
from kapiserver.rpc.generator.python_source import bracketed, module


def from_pb_name(message: Descriptor) -> str:
    """Return the name of the function, written by hand, that completes an internal value."""
    return f"convert_pb_{function_name(message)}_to_internal"


def to_pb_name(message: Descriptor) -> str:
    """Return the name of the function, written by hand, that completes a message."""
    return f"convert_internal_{function_name(message)}_to_pb"


def hand_signatures(message: Descriptor, names: Collection[str]) -> str:
    """Return the functions to write for a message, of these names, without their bodies."""
    pb, internal = f"api_pb2.{class_path(message)}", f"types.{class_path(message)}"
    return "\n".join(
        bracketed(f"def {name}(", [f"source: {source}", f"target: {target}"], ") -> None:")
        for name, source, target in (
            (from_pb_name(message), pb, internal),
            (to_pb_name(message), internal, pb),
        )
        if name in names
    )


def conversion_module(
    version: VersionDefinition,
    types: InternalTypes,
    hand_functions: Collection[str],
    hand_fields: Collection[tuple[str, str]],
) -> str:
    """Return the module.

    hand_functions  names of the functions of `conversion.py`
    hand_fields     (message, field) of the fields that they convert alone
    """
    blocks = []
    for message in version.messages():
        if class_path(message) in types.classes:
            derived = [
                field
                for field in message.fields
                if (message.full_name, field.name) not in hand_fields
            ]
            blocks += [
                _to_internal(message, derived, from_pb_name(message) in hand_functions),
                _to_pb(message, derived, types, to_pb_name(message) in hand_functions),
            ]
    text = "\n".join(blocks)
    uses_rules = "rules." in text
    imports = [
        *(["from kapiserver.rpc import conversion as rules", ""] if uses_rules else []),
        "from .. import types",
        "from . import api_pb2" + ", conversion" * ("conversion.convert_" in text),
    ]
    deprecated = "\n\nDeprecated: this version will be removed.\n" if version.deprecated else ""
    title = f"Conversion of {version.group} {version.name} to internal types and back.{deprecated}"
    return module(title, imports, *blocks)


def _to_internal(message: Descriptor, derived: list[FieldDescriptor], by_hand: bool) -> str:
    pb, internal = f"api_pb2.{class_path(message)}", f"types.{class_path(message)}"
    name = "source" if derived or by_hand else "_"
    head = bracketed(
        f"def to_internal_{function_name(message)}(", [f"{name}: {pb}"], f") -> {internal}:"
    )
    arguments = [f"{field.name}={_read(field)}" for field in derived]
    if not by_hand:
        return f"{head}\n" + bracketed(f"    return {internal}(", arguments, ")")
    call = f"    conversion.{from_pb_name(message)}(source, target)\n    return target"
    return f"{head}\n" + bracketed(f"    target = {internal}(", arguments, ")") + f"\n{call}"


def _read(field: FieldDescriptor) -> str:
    """Return the expression of a field's internal value."""
    name = field.name
    types = map_types(field)
    if types is not None:
        read = types[1].read
        if read:
            return f'rules.message_map("{name}", {read}, source.{name})'
        return f"dict(source.{name})"
    value = value_type(field)
    if field.is_repeated:
        if value.read:
            return f'rules.messages("{name}", {value.read}, source.{name})'
        return f"list(source.{name})"
    if not field.has_presence:
        return f"source.{name}"
    if value.read:
        return f'rules.message("{name}", {value.read}, source)'
    return f'source.{name} if source.HasField("{name}") else None'


def _to_pb(
    message: Descriptor, derived: list[FieldDescriptor], types: InternalTypes, by_hand: bool
) -> str:
    pb, internal = f"api_pb2.{class_path(message)}", f"types.{class_path(message)}"
    name = "source" if derived or by_hand else "_"
    lines = [
        bracketed(
            f"def to_pb_{function_name(message)}(",
            [f"{name}: {internal}", f"target: {pb} | None = None"],
            f") -> {pb}:",
        ),
        "    if target is None:",
        f"        target = {pb}()",
    ]
    annotations = types.classes[class_path(message)].fields
    for oneof in message.oneofs:
        members = [
            f"{field.name}=source.{field.name}" for field in oneof.fields if field in derived
        ]
        if len(members) > 1:
            lines.append(bracketed("    rules.at_most_one(", [f'"{oneof.name}"', *members], ")"))
    for field in derived:
        lines += _write(field, annotations[field.name].endswith(" | None"))
    if by_hand:
        lines.append(f"    conversion.{to_pb_name(message)}(source, target)")
    return "\n".join([*lines, "    return target"])


def _write(field: FieldDescriptor, optional: bool) -> list[str]:
    """Return the statements that set a field."""
    name = field.name
    types = map_types(field)
    if types is not None:
        return [_write_map(name, *types)]
    value = value_type(field)
    if field.is_repeated:
        if value.is_message:
            arguments = [f'"{name}"', value.fill, f"source.{name}", f"target.{name}.add"]
            return [bracketed("    rules.fill_list(", arguments, ")")]
        checked = f'rules.values("{name}", {value.check}, source.{name})'
        values = checked if value.check else f"source.{name}"
        return [bracketed(f"    target.{name}.extend(", [values], ")")]
    if value.is_message:
        arguments = [f'"{name}"', value.fill, f"source.{name}", f"target.{name}"]
        statement = bracketed("        rules.fill(", arguments, ")")
        return [f"    if source.{name} is not None:", statement]
    checked = f'{value.check}("{name}", source.{name})' if value.check else f"source.{name}"
    if optional:
        return [f"    if source.{name} is not None:", f"        target.{name} = {checked}"]
    return [f"    target.{name} = {checked}"]


def _write_map(name: str, key: ValueType, value: ValueType) -> str:
    check_key = key.check or "rules.unchecked"
    if value.is_message:
        arguments = [f'"{name}"', check_key, value.fill, f"source.{name}", f"target.{name}"]
        return bracketed("    rules.fill_map(", arguments, ")")
    if not key.check and not value.check:
        return f"    target.{name}.update(source.{name})"
    check = value.check or "rules.unchecked"
    checked = f'rules.value_map("{name}", {check_key}, {check}, source.{name})'
    return bracketed(f"    target.{name}.update(", [checked], ")")
