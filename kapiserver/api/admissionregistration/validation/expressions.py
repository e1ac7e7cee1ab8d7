"""The expressions of policies and of match conditions: whether they compile, and to what.

What they are given is dynamic here (kube-apiserver knows the types of requests and namespaces), and
a value whose type cannot be told may be any. Not looked into: expressions that ask the authorizer,
and mutations. The language is loaded at the first expression. Mirrors
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
"""Of whatever type."""
_GIVEN = ("object", "oldObject", "request", "namespaceObject")
_AUTHORIZER = re.compile(r"\bauthorizer\b")
_LENGTHS_MAX = 128 * 1024
"""Characters of an object's expressions that are looked into: to compile them takes half a second.
kube-apiserver compiles as much as fits into a request."""
_SHOWN = {"null": "null_type"}


class Expressions:
    """The expressions of one object, and what they may name.

    with_params     the object names a kind of parameters
    with_variables  expressions may use those declared before them
    """

    def __init__(self, *, with_params: bool = False, with_variables: bool = False) -> None:
        self._names = (*_GIVEN, "params") if with_params else _GIVEN
        self._variables: dict[str, CelType] | None = {} if with_variables else None
        self._left = _LENGTHS_MAX

    def check(
        self, text: str, path: Path, wanted: tuple[str, ...] = ("bool",)
    ) -> Iterator[FieldError]:
        """What is wrong with one, which has to make a value of a type wanted."""
        try:
            kind = self._compiled(text)
        except ValueError as error:
            yield invalid(path, text, f"compilation failed: {error}")
            return
        if wanted and kind is not None and kind.name not in (*wanted, "dyn"):
            names = [_SHOWN.get(name, name) for name in wanted]
            types = names[0] if len(names) == 1 else f"one of [{' '.join(names)}]"
            got = _SHOWN.get(kind.name, kind)
            yield invalid(path, text, f"must evaluate to {types} but got {got}")

    def declare(self, name: str, text: str, path: Path) -> Iterator[FieldError]:
        """What is wrong with that of a variable, which later ones may use."""
        from kapiserver.api.cel.cel_types import DYN

        problems = list(self.check(text, path, ANY))
        yield from problems
        if self._variables is not None:
            found = None if problems else self._compiled(text)
            self._variables[name] = found or DYN

    def _compiled(self, text: str) -> CelType | None:
        """The type of its value; None where it is not looked into. Raises ValueError."""
        from kapiserver.api.cel.cel_types import DYN
        from kapiserver.api.cel.cel_types import CelType as CELKind
        from kapiserver.api.cel.program import compile_expression

        self._left -= len(text)
        if self._left < 0 or _AUTHORIZER.search(text):
            return None
        given = dict.fromkeys(self._names, DYN)
        if self._variables is not None:
            fields = dict(self._variables)
            given["variables"] = CELKind(
                "object", fields=fields, names={name: name for name in fields}
            )
        return compile_expression(text, given).kind
