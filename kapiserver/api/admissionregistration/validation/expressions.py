"""Compilation of the CEL expressions of admission policies and match conditions, when they are
written.

The CEL modules are loaded with the first expression. Mirrors apiserver/pkg/admission/plugin/cel of
k8s.io/apiserver.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Literal, TypeAlias

from kapiserver.api.errors import FieldError, Path, invalid
from kapiserver.api.types import Value

if TYPE_CHECKING:
    from kapiserver.api.cel.cel_types import CelType
    from kapiserver.api.cel.program import Program

Purpose: TypeAlias = Literal[
    "condition", "message", "audit annotation", "apply configuration", "JSON patch", "variable"
]
"""The use of an expression's value, which determines its type."""
_TOTAL_LENGTH_MAX = 128 * 1024
"""The maximum number of characters of an object's expressions that are compiled, which takes half a
second. kube-apiserver has no such limit: it compiles until the request times out."""


def text_length(value: Value) -> int:
    """Return the number of characters of all texts in a value, most of which are expressions."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, dict):
        return sum(map(text_length, value.values()))
    return sum(map(text_length, value)) if isinstance(value, list) else 0


class Expressions:
    """The expressions of one object, and the variables that they may use.

    with_params     whether the object has a parameter kind
    with_variables  whether expressions may use the variables that are declared before them
    stored          the texts of the old object's expressions, which are not compiled again
    """

    def __init__(
        self,
        *,
        with_params: bool = False,
        with_variables: bool = False,
        stored: Collection[str] = (),
    ) -> None:
        self._with_params = with_params
        self._variables: dict[str, CelType] | None = {} if with_variables else None
        self._stored = stored
        self._length_left = _TOTAL_LENGTH_MAX

    def validate(
        self, text: str, path: Path, purpose: Purpose = "condition"
    ) -> Iterator[FieldError]:
        """Validate an expression, whose value must have a type for its purpose."""
        if text in self._stored:
            return
        try:
            self._compile(text, purpose)
        except ValueError as error:
            yield invalid(path, text, str(error))

    def declare(self, name: str, text: str, path: Path) -> Iterator[FieldError]:
        """Validate the expression of a variable, and declare the variable for later expressions."""
        from kapiserver.api.cel.cel_types import DYN

        program = None
        try:
            program = self._compile(text, "variable")
        except ValueError as error:
            if text not in self._stored:
                yield invalid(path, text, str(error))
        if self._variables is not None:
            self._variables[name] = DYN if program is None else program.cel_type

    def _compile(self, text: str, purpose: Purpose) -> Program | None:
        """Return the compiled expression, or None if the object has too many expressions. Raises
        ValueError if it is invalid."""
        from kapiserver.api.admissionregistration import expression_types as e

        self._length_left -= len(text)
        if self._length_left < 0:
            return None
        authorizer = purpose != "message"
        types = dict(e.variable_types(params=self._with_params, authorizer=authorizer))
        if self._variables is not None:
            types["variables"] = e.composition_type(self._variables)
        allowed = {
            "condition": (e.BOOL,),
            "message": (e.STRING,),
            "audit annotation": e.STRING_OR_NULL,
            "apply configuration": (e.APPLY_CONFIGURATION,),
            "JSON patch": (e.PATCHES,),
            "variable": e.ANY,
        }[purpose]
        mutation = purpose in ("apply configuration", "JSON patch")
        return e.compile_admission_expression(text, types, allowed, mutation=mutation)
