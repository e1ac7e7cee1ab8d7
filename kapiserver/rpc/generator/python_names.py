"""Names of Python code for names of protobuf files."""

from __future__ import annotations

import keyword
import re

from google.protobuf.descriptor import Descriptor, EnumDescriptor

_WORDS = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z0-9]+|[A-Z]+[0-9]*")


def snake_case(name: str) -> str:
    """Return a CamelCase name in snake_case: GetURLPath is get_url_path. A keyword of Python gets
    an underscore."""
    snake = "_".join(_WORDS.findall(name)).lower()
    return f"{snake}_" if keyword.iskeyword(snake) else snake


def class_path(descriptor: Descriptor | EnumDescriptor) -> str:
    """Return the name of a message or enum within its file, such as `Outer.Inner`."""
    parent: Descriptor | None = descriptor.containing_type
    name: str = descriptor.name
    return name if parent is None else f"{class_path(parent)}.{name}"


def function_name(descriptor: Descriptor) -> str:
    """Return the part of a function's name that names a message, such as `Outer_Inner`."""
    return class_path(descriptor).replace(".", "_")
