"""Environments of expressions: what an environment adds to the base environment of Kubernetes.

Mirrors k8s.io/apiserver/pkg/cel/environment and mutation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from kapiserver.api.cel import cel_types as k
from kapiserver.api.cel.cel_types import CelType
from kapiserver.api.cel.functions import Overload, overload
from kapiserver.api.cel.libraries.overloads import overloads_of


def _no_struct(_name: str) -> CelType | None:
    return None


def _no_overloads(_name: str) -> tuple[Overload, ...]:
    return ()


class Extensions(Struct, frozen=True, kw_only=True):
    """Additions of an environment to the base environment.

    bindings     whether expressions may use `cel.bind`
    struct_type  returns the type of `Name{...}` for a name; None for an unknown name
    functions    returns the overloads that a function or operator has besides those of the base
                 environment; empty for none
    """

    bindings: bool = False
    struct_type: Callable[[str], CelType | None] = _no_struct
    functions: Callable[[str], Sequence[Overload]] = _no_overloads

    def overloads_of(self, name: str) -> Sequence[Overload]:
        """Return all overloads of a function; empty for an unknown function."""
        return (*overloads_of(name), *self.functions(name))


BASE = Extensions()
DEVICES = Extensions(bindings=True)
"""Selectors of dynamic resource allocation."""

_JSON_PATCH = CelType(
    "JSONPatch",
    fields={"op": k.STRING, "path": k.STRING, "from": k.STRING, "value": k.DYN},
    is_struct=True,
    is_closed=True,
)
OBJECT = CelType("Object", is_struct=True)
"""The type of an apply configuration."""
JSON_PATCHES = k.list_of(_JSON_PATCH)


def _mutation_struct(name: str) -> CelType | None:
    # The types of objects are named by the path of the field: Object.spec.template.
    if name == "JSONPatch":
        return _JSON_PATCH
    if name == "Object":
        return OBJECT
    return CelType(name, is_struct=True) if name.startswith("Object.") else None


def _escape_key(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


_JSON_PATCH_FUNCTIONS: Mapping[str, Sequence[Overload]] = {
    "jsonpatch.escapeKey": (overload(("(string) string", _escape_key)),)
}
MUTATIONS = Extensions(
    struct_type=_mutation_struct, functions=lambda name: _JSON_PATCH_FUNCTIONS.get(name, ())
)
"""Mutations of admission policies: `Object{...}`, `JSONPatch{...}` and `jsonpatch.escapeKey`."""
