"""The type checker of CEL expressions.

Sets `cel_type` of every node and the matching overloads of every call. Problems are collected,
worded as cel-go words them, with their position. Mirrors github.com/google/cel-go/checker.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from kapiserver.api.cel import cel_types as k
from kapiserver.api.cel import syntax as s
from kapiserver.api.cel.cel_types import BOOL, DYN, CelType
from kapiserver.api.cel.extensions import BASE, Extensions
from kapiserver.api.cel.functions import Overload
from kapiserver.api.cel.lexer import KEYWORDS
from kapiserver.api.cel.libraries.lists import COMPARABLE
from kapiserver.api.cel.values import EvaluationError, UInt, parse_duration, parse_time
from kapiserver.api.linear_regex import compile_pattern

_LITERALS: dict[type, CelType] = {
    bool: BOOL, int: k.INT, UInt: k.UINT, float: k.DOUBLE, type(None): k.NULL,
}  # fmt: skip
_LITERAL_PARSERS: dict[str, Callable[[str], object]] = {
    "matches": compile_pattern,
    "duration": parse_duration,
    "timestamp": parse_time,
}
_FOLDS = {
    "all": "_&&_", "exists": "_||_", "exists_one": "_?_:_", "existsOne": "_?_:_",
    "filter": "_?_:_",
}  # fmt: skip


class Checker:
    """One check of one tree. `problems` are (position, message); `free` are the variables used."""

    def __init__(self, variables: Mapping[str, CelType], extensions: Extensions = BASE) -> None:
        self.variables = variables
        self.extensions = extensions
        self.scopes: list[dict[str, CelType]] = []
        self.problems: list[tuple[int, str]] = []
        self.free: set[str] = set()

    def check(self, node: s.Node) -> CelType:
        """Set and return the type of a node; DYN if it has a problem."""
        cel_type: CelType = getattr(self, f"_check_{type(node).__name__.lower()}")(node)
        node.cel_type = cel_type
        return cel_type

    def add_problem(self, node: s.Node, message: str) -> CelType:
        """Record a problem."""
        self.problems.append((node.position, message))
        return DYN

    def _check_literal(self, node: s.Literal) -> CelType:
        if isinstance(node.value, str):
            return CelType("string", size=len(node.value))
        if isinstance(node.value, bytes):
            return CelType("bytes", size=len(node.value))
        return _LITERALS[type(node.value)]

    def _check_ident(self, node: s.Ident) -> CelType:
        for scope in reversed(self.scopes):
            if node.name in scope:
                return scope[node.name]
        if node.name in self.variables:
            self.free.add(node.name)
            return self.variables[node.name]
        if node.name in k.TYPE_NAMES:
            return k.type_of(DYN)
        return self._undeclared(node, node.name)

    def _check_select(self, node: s.Select) -> CelType:
        name = "" if node.is_test else s.qualified_name(node)
        if name in self.variables and not self._is_local(name):
            node.variable = name
            self.free.add(name)
            return self.variables[name]
        if not node.is_test and self.is_type_name(node):
            return k.type_of(DYN)
        operand = self.check(node.operand)
        inner = operand.params[0] if operand.name == "optional" else operand
        field_type = self._field(node, inner)
        if node.is_test:
            return BOOL
        return k.optional_of(field_type) if node.is_optional or inner is not operand else field_type

    def _field(self, node: s.Select, cel_type: CelType) -> CelType:
        if cel_type.is_struct and (node.field in cel_type.fields or not cel_type.is_closed):
            return cel_type.fields.get(node.field, DYN)
        if cel_type.name == "object" or cel_type.is_struct:
            field_type = cel_type.fields.get(node.field)
            if field_type is None and node.field in KEYWORDS:
                field_type = cel_type.fields.get(f"__{node.field}__")
            if field_type is not None:
                return field_type
            return self.add_problem(node, f"undefined field '{node.field}'")
        if cel_type.name == "map":
            return cel_type.params[1]
        if cel_type.name == "dyn":
            return DYN
        return self.add_problem(node, f"type '{cel_type}' does not support field selection")

    def is_type_name(self, node: s.Node) -> bool:
        """Report whether a chain of names is the name of a type: `google.protobuf.Timestamp`."""
        name = s.qualified_name(node)
        return name in k.TYPE_NAMES and not self._is_variable(name.partition(".")[0])

    def _is_variable(self, name: str) -> bool:
        return name in self.variables or self._is_local(name)

    def _is_local(self, name: str) -> bool:
        first = name.partition(".")[0]
        return any(first in scope for scope in self.scopes)

    def _check_call(self, node: s.Call) -> CelType:
        self._qualify(node)
        if node.function in ("_&&_", "_||_"):
            actual = [self.check(arg) for arg in node.args]
            if all(cel_type.name in ("bool", "dyn") for cel_type in actual):
                return BOOL
            return self._no_match(node, actual)
        if node.function == "_?_:_":
            return self._check_condition(node)
        overloads = self.extensions.overloads_of(node.function)
        if not overloads:
            if node.target is not None:
                self.check(node.target)
            return self._undeclared(node, node.function)
        return self._resolve(node, overloads, [self.check(arg) for arg in node.operands])

    def _undeclared(self, node: s.Node, name: str) -> CelType:
        return self.add_problem(node, f"undeclared reference to '{name}' (in container '')")

    def _resolve(
        self, node: s.Call, overloads: Sequence[Overload], actual: Sequence[CelType]
    ) -> CelType:
        matching, results = [], []
        for overload in overloads:
            bindings: dict[str, CelType] = {}
            if overload.is_method != (node.target is not None):
                continue
            if len(overload.args) == len(actual) and all(
                k.is_assignable(expected, cel_type, bindings)
                for expected, cel_type in zip(overload.args, actual, strict=True)
            ):
                matching.append(overload)
                results.append(k.substitute(overload.result, bindings))
        if not matching:
            return self._no_match(node, actual)
        node.overloads = tuple(matching)
        self._check_literals(node)
        all_equal = all(str(result) == str(results[0]) for result in results)
        return results[0] if all_equal else DYN

    def _check_literals(self, node: s.Call) -> None:
        # Literal arguments can be parsed at compile time.
        attempt = _LITERAL_PARSERS.get(node.function)
        arg = node.args[-1] if attempt is not None and node.args else None
        if attempt is None or not isinstance(arg, s.Literal) or not isinstance(arg.value, str):
            return
        try:
            attempt(arg.value)
        except (ValueError, EvaluationError):
            self.add_problem(arg, f"invalid {node.function} argument")

    def _no_match(self, node: s.Call, actual: Sequence[CelType]) -> CelType:
        names = [str(cel_type) for cel_type in actual]
        if node.target is not None:
            signature = f"{names[0]}.({', '.join(names[1:])})"
        else:
            signature = f"({', '.join(names)})"
        return self.add_problem(
            node, f"found no matching overload for '{node.function}' applied to '{signature}'"
        )

    def _qualify(self, node: s.Call) -> None:
        # `format.named(...)` is a function, not a method, unless `format` is a variable.
        if node.target is None:
            return
        name = s.qualified_name(node.target)
        if name and not self._is_variable(name.partition(".")[0]):
            full = f"{name}.{node.function}"
            if self.extensions.overloads_of(full):
                node.function, node.target = full, None

    def _check_condition(self, node: s.Call) -> CelType:
        condition, when_true, when_false = (self.check(arg) for arg in node.args)
        joined = _common_type(when_true, when_false)
        if condition.name not in ("bool", "dyn") or joined is None:
            return self._no_match(node, (condition, when_true, when_false))
        return joined

    def _check_listnode(self, node: s.ListNode) -> CelType:
        item_types = []
        for index, item in enumerate(node.items):
            cel_type = self.check(item)
            if index in node.optional:
                cel_type = self._unwrap_optional(item, cel_type)
            item_types.append((item, cel_type))
        return k.list_of(self._common_element_type(item_types), len(node.items))

    def _check_struct(self, node: s.Struct) -> CelType:
        struct = self.extensions.struct_type(node.name)
        if struct is None:
            return self._undeclared(node, node.name)
        for index, (name, value) in enumerate(node.fields):
            cel_type = self.check(value)
            if index in node.optional:
                cel_type = self._unwrap_optional(value, cel_type)
            expected = struct.fields.get(name, DYN)
            if struct.is_closed and name not in struct.fields:
                self.add_problem(value, f"undefined field '{name}'")
            elif not k.is_assignable(expected, cel_type, {}):
                self.add_problem(
                    value,
                    f"expected type of field '{name}' is '{expected}' but provided type is "
                    f"'{cel_type}'",
                )
        return struct

    def _check_mapnode(self, node: s.MapNode) -> CelType:
        keys, values = [], []
        for index, (key, value) in enumerate(node.entries):
            keys.append((key, self.check(key)))
            cel_type = self.check(value)
            values.append(
                (
                    value,
                    self._unwrap_optional(value, cel_type) if index in node.optional else cel_type,
                )
            )
        return k.map_of(
            self._common_element_type(keys), self._common_element_type(values), len(node.entries)
        )

    def _unwrap_optional(self, node: s.Node, cel_type: CelType) -> CelType:
        if cel_type.name == "optional":
            return cel_type.params[0]
        if cel_type.name != "dyn":
            self.add_problem(
                node, f"expected type 'optional_type({cel_type})' but found '{cel_type}'"
            )
        return DYN

    def _common_element_type(self, typed_nodes: Sequence[tuple[s.Node, CelType]]) -> CelType:
        joined: CelType | None = None
        for node, cel_type in typed_nodes:
            common = cel_type if joined is None else _common_type(joined, cel_type)
            if common is None:
                return self.add_problem(node, f"expected type '{joined}' but found '{cel_type}'")
            joined = common
        return joined or DYN

    def _check_loop(self, node: s.Loop) -> CelType:
        range_type = self.check(node.range)
        scope = self._scope(node, range_type)
        self.scopes.append(scope)
        if node.filter is not None:
            self._check_bool(node, self.check(node.filter), "_?_:_")
        body = self.check(node.body)
        self.scopes.pop()
        if node.macro in _FOLDS:
            self._check_bool(node, body, _FOLDS[node.macro])
            return _filter_type(range_type) if node.macro == "filter" else BOOL
        if node.macro in ("map", "transformList"):
            return k.list_of(body, range_type.size)
        if node.macro == "transformMap":
            return k.map_of(scope[node.variables[0]], body, range_type.size)
        if node.macro == "sortBy":
            if body.name not in (*COMPARABLE, "dyn"):
                signature = f"{range_type}.(list({body}))"
                self.add_problem(
                    node,
                    "found no matching overload for '@sortByAssociatedKeys' applied to "
                    f"'{signature}'",
                )
            return range_type
        if body.name not in ("map", "dyn"):
            self.add_problem(node.body, f"expected type 'map' but found '{body}'")
        return CelType(body.name, body.params, range_type.size)

    def _scope(self, node: s.Loop, range_type: CelType) -> dict[str, CelType]:
        if range_type.name not in ("list", "map", "dyn"):
            self.add_problem(
                node.range,
                f"expression of type '{range_type}' cannot be range of a comprehension "
                "(must be list, map, or dynamic)",
            )
        if range_type.name == "list":
            types = (k.INT, range_type.params[0])
        elif range_type.name == "map":
            types = (range_type.params[0], range_type.params[1])
        else:
            types = (DYN, DYN)
        if len(node.variables) == 2:
            return dict(zip(node.variables, types, strict=True))
        return {node.variables[0]: types[0] if range_type.name == "map" else types[1]}

    def _check_bool(self, node: s.Loop, body: CelType, function: str) -> None:
        if body.name not in ("bool", "dyn"):
            first = "bool, " if function != "_?_:_" else ""
            signature = f"({first}{body})"
            self.add_problem(
                node, f"found no matching overload for '{function}' applied to '{signature}'"
            )

    def _check_bind(self, node: s.Bind) -> CelType:
        cel_type = self.check(node.value)
        if node.macro != "bind":
            if cel_type.name not in ("optional", "dyn"):
                message = f"found no matching overload for 'hasValue' applied to '{cel_type}.()'"
                return self.add_problem(node, message)
            cel_type = cel_type.params[0] if cel_type.name == "optional" else DYN
        self.scopes.append({node.variable: cel_type})
        body = self.check(node.body)
        self.scopes.pop()
        return k.optional_of(body) if node.macro == "optMap" else body


def _common_type(left: CelType, right: CelType) -> CelType | None:
    # The type of a value that has one of two types; None if there is none. An empty list or map
    # fits any other.
    if left.params and not left.size and k.is_assignable(left, right, {}):
        return right
    if k.is_assignable(left, right, {}):
        return left if left.size >= right.size or left.params or left.fields else right
    return right if k.is_assignable(right, left, {}) else None


def _filter_type(range_type: CelType) -> CelType:
    if range_type.name == "map":
        return k.list_of(range_type.params[0], range_type.size)
    return range_type
