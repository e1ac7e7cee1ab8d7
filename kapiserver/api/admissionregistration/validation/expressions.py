"""Compilation of the CEL expressions of admission policies and match conditions.

Variables are dynamically typed here, while kube-apiserver knows the types of requests and
namespaces; a value of unknown type is accepted as any type. Not compiled: expressions with the
authorizer, and mutations. The CEL modules are loaded with the first expression. Mirrors
apiserver/pkg/admission/plugin/cel of k8s.io/apiserver.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kapiserver.api.errors import FieldError, Path, invalid

if TYPE_CHECKING:
    from kapiserver.api.cel.cel_types import CelType

ANY = ()
"""No restriction of the type."""
_VARIABLES = ("object", "oldObject", "request", "namespaceObject")
_AUTHORIZER = re.compile(r"\bauthorizer\b")
_TOTAL_LENGTH_MAX = 128 * 1024
"""The maximum number of characters of an object's expressions that are compiled, which takes half a
second. kube-apiserver has no such limit: it compiles until the request times out."""
_TYPE_NAMES = {"null": "null_type"}


class Expressions:
    """The expressions of one object, and the variables that they may use.

    with_params     the object has a parameter kind
    with_variables  expressions may use variables declared before them
    """

    def __init__(self, *, with_params: bool = False, with_variables: bool = False) -> None:
        self._names = (*_VARIABLES, "params") if with_params else _VARIABLES
        self._variables: dict[str, CelType] | None = {} if with_variables else None
        self._length_left = _TOTAL_LENGTH_MAX

    def validate(
        self, text: str, path: Path, allowed: tuple[str, ...] = ("bool",)
    ) -> Iterator[FieldError]:
        """Validate an expression, whose value must have one of the types `allowed`."""
        try:
            kind = self._compile(text)
        except ValueError as error:
            yield invalid(path, text, f"compilation failed: {error}")
            return
        if allowed and kind is not None and kind.name not in (*allowed, "dyn"):
            names = [_TYPE_NAMES.get(name, name) for name in allowed]
            types = names[0] if len(names) == 1 else f"one of [{' '.join(names)}]"
            type_name = _TYPE_NAMES.get(kind.name, kind)
            yield invalid(path, text, f"must evaluate to {types} but got {type_name}")

    def declare(self, name: str, text: str, path: Path) -> Iterator[FieldError]:
        """Validate the expression of a variable, and declare the variable for later expressions."""
        from kapiserver.api.cel.cel_types import DYN

        errors = list(self.validate(text, path, ANY))
        yield from errors
        if self._variables is not None:
            cel_type = None if errors else self._compile(text)
            self._variables[name] = cel_type or DYN

    def _compile(self, text: str) -> CelType | None:
        """Return the type of an expression's value, or None if the expression is not compiled.
        Raises ValueError if it is invalid."""
        from kapiserver.api.cel.cel_types import DYN
        from kapiserver.api.cel.cel_types import CelType as CELKind
        from kapiserver.api.cel.program import compile_expression

        self._length_left -= len(text)
        if self._length_left < 0 or _AUTHORIZER.search(text):
            return None
        variables = dict.fromkeys(self._names, DYN)
        if self._variables is not None:
            fields = dict(self._variables)
            variables["variables"] = CELKind(
                "object", fields=fields, names={name: name for name in fields}
            )
        return compile_expression(text, variables).cel_type
