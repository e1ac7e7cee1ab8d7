"""Types of expressions, found before anything is evaluated.

Every node gets its `kind`, every call the overloads that can fit. What is wrong is collected, in
cel-go's words, with the place in the text. Mirrors github.com/google/cel-go/checker.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from kapiserver.api.cel import cel_types as k
from kapiserver.api.cel import syntax as s
from kapiserver.api.cel.cel_types import BOOL, DYN, CelType
from kapiserver.api.cel.functions import Overload
from kapiserver.api.cel.libraries import declared
from kapiserver.api.cel.values import Failed, UInt, parse_duration, parse_time
from kapiserver.api.linear_regex import compile_pattern

_LITERALS: dict[type, CelType] = {
    bool: BOOL, int: k.INT, UInt: k.UINT, float: k.DOUBLE, type(None): k.NULL,
}  # fmt: skip
_ATTEMPTS: dict[str, Callable[[str], object]] = {
    "matches": compile_pattern,
    "duration": parse_duration,
    "timestamp": parse_time,
}
_FOLDS = {
    "all": "_&&_", "exists": "_||_", "exists_one": "_?_:_", "existsOne": "_?_:_",
    "filter": "_?_:_",
}  # fmt: skip


class Checker:
    """One check of one tree. `problems` are (position, message); `free` the variables used."""

    def __init__(self, variables: Mapping[str, CelType]) -> None:
        self.variables = variables
        self.scopes: list[dict[str, CelType]] = []
        self.problems: list[tuple[int, str]] = []
        self.free: set[str] = set()

    def check(self, node: s.Node) -> CelType:
        """The kind of a node; dynamic where something is wrong with it."""
        kind: CelType = getattr(self, f"_check_{type(node).__name__.lower()}")(node)
        node.kind = kind
        return kind

    def wrong(self, node: s.Node, message: str) -> CelType:
        """Take note of a problem."""
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
        return self.wrong(node, f"undeclared reference to '{node.name}' (in container '')")

    def _check_select(self, node: s.Select) -> CelType:
        if not node.is_test and self.names_type(node):
            return k.type_of(DYN)
        operand = self.check(node.operand)
        inner = operand.params[0] if operand.name == "optional" else operand
        found = self._field(node, inner)
        if node.is_test:
            return BOOL
        return k.optional_of(found) if node.is_optional or inner is not operand else found

    def _field(self, node: s.Select, kind: CelType) -> CelType:
        if kind.name == "object":
            if node.field in kind.fields:
                return kind.fields[node.field]
            return self.wrong(node, f"undefined field '{node.field}'")
        if kind.name == "map":
            return kind.params[1]
        if kind.name == "dyn":
            return DYN
        return self.wrong(node, f"type '{kind}' does not support field selection")

    def names_type(self, node: s.Node) -> bool:
        """Whether a chain of names is one of a type: `google.protobuf.Timestamp`."""
        name = _qualified(node)
        return name in k.TYPE_NAMES and not self._is_variable(name.partition(".")[0])

    def _is_variable(self, name: str) -> bool:
        return name in self.variables or any(name in scope for scope in self.scopes)

    def _check_call(self, node: s.Call) -> CelType:
        self._qualify(node)
        if node.function in ("_&&_", "_||_"):
            actual = [self.check(arg) for arg in node.args]
            if all(kind.name in ("bool", "dyn") for kind in actual):
                return BOOL
            return self._no_match(node, actual)
        if node.function == "_?_:_":
            return self._check_condition(node)
        overloads = declared(node.function)
        actual = [self.check(arg) for arg in node.operands]
        if not overloads:
            told = f"undeclared reference to '{node.function}' (in container '')"
            return self.wrong(node, told)
        return self._resolve(node, overloads, actual)

    def _resolve(
        self, node: s.Call, overloads: Sequence[Overload], actual: Sequence[CelType]
    ) -> CelType:
        fitting, results = [], []
        for overload in overloads:
            bound: dict[str, CelType] = {}
            if overload.is_method != (node.target is not None):
                continue
            if len(overload.args) == len(actual) and all(
                k.fits(wanted, kind, bound)
                for wanted, kind in zip(overload.args, actual, strict=True)
            ):
                fitting.append(overload)
                results.append(k.bind(overload.result, bound))
        if not fitting:
            return self._no_match(node, actual)
        node.overloads = tuple(fitting)
        self._check_literals(node)
        same = all(str(result) == str(results[0]) for result in results)
        return results[0] if same else DYN

    def _check_literals(self, node: s.Call) -> None:
        # What is written in the expression itself can be tried at once.
        attempt = _ATTEMPTS.get(node.function)
        arg = node.args[-1] if attempt is not None and node.args else None
        if attempt is None or not isinstance(arg, s.Literal) or not isinstance(arg.value, str):
            return
        try:
            attempt(arg.value)
        except (ValueError, Failed):
            self.wrong(arg, f"invalid {node.function} argument")

    def _no_match(self, node: s.Call, actual: Sequence[CelType]) -> CelType:
        shown = [str(kind) for kind in actual]
        if node.target is not None:
            told = f"{shown[0]}.({', '.join(shown[1:])})"
        else:
            told = f"({', '.join(shown)})"
        return self.wrong(
            node, f"found no matching overload for '{node.function}' applied to '{told}'"
        )

    def _qualify(self, node: s.Call) -> None:
        # `format.named(...)` is a function, not a method, unless `format` is a variable.
        if node.target is None:
            return
        name = _qualified(node.target)
        if name and not self._is_variable(name.partition(".")[0]):
            full = f"{name}.{node.function}"
            if declared(full):
                node.function, node.target = full, None

    def _check_condition(self, node: s.Call) -> CelType:
        condition, one, other = (self.check(arg) for arg in node.args)
        joined = _join(one, other)
        if condition.name not in ("bool", "dyn") or joined is None:
            return self._no_match(node, (condition, one, other))
        return joined

    def _check_listnode(self, node: s.ListNode) -> CelType:
        found = []
        for place, item in enumerate(node.items):
            kind = self.check(item)
            if place in node.optional:
                kind = self._unwrapped(item, kind)
            found.append((item, kind))
        return k.list_of(self._homogeneous(found), len(node.items))

    def _check_mapnode(self, node: s.MapNode) -> CelType:
        keys, values = [], []
        for place, (key, value) in enumerate(node.entries):
            keys.append((key, self.check(key)))
            kind = self.check(value)
            values.append((value, self._unwrapped(value, kind) if place in node.optional else kind))
        return k.map_of(self._homogeneous(keys), self._homogeneous(values), len(node.entries))

    def _unwrapped(self, node: s.Node, kind: CelType) -> CelType:
        if kind.name == "optional":
            return kind.params[0]
        if kind.name != "dyn":
            self.wrong(node, f"expected type 'optional_type({kind})' but found '{kind}'")
        return DYN

    def _homogeneous(self, found: Sequence[tuple[s.Node, CelType]]) -> CelType:
        joined: CelType | None = None
        for node, kind in found:
            wider = kind if joined is None else _join(joined, kind)
            if wider is None:
                return self.wrong(node, f"expected type '{joined}' but found '{kind}'")
            joined = wider
        return joined or DYN

    def _check_loop(self, node: s.Loop) -> CelType:
        over = self.check(node.range)
        scope = self._scope(node, over)
        self.scopes.append(scope)
        if node.filter is not None:
            self._check_bool(node, self.check(node.filter), "_?_:_")
        body = self.check(node.body)
        self.scopes.pop()
        if node.macro in _FOLDS:
            self._check_bool(node, body, _FOLDS[node.macro])
            return _filtered(over) if node.macro == "filter" else BOOL
        if node.macro in ("map", "transformList"):
            return k.list_of(body, over.size)
        if node.macro == "transformMap":
            return k.map_of(scope[node.variables[0]], body, over.size)
        if body.name not in ("map", "dyn"):
            self.wrong(node.body, f"expected type 'map' but found '{body}'")
        return CelType(body.name, body.params, over.size)

    def _scope(self, node: s.Loop, over: CelType) -> dict[str, CelType]:
        if over.name not in ("list", "map", "dyn"):
            self.wrong(
                node.range,
                f"expression of type '{over}' cannot be range of a comprehension "
                "(must be list, map, or dynamic)",
            )
        if over.name == "list":
            kinds = (k.INT, over.params[0])
        elif over.name == "map":
            kinds = (over.params[0], over.params[1])
        else:
            kinds = (DYN, DYN)
        if len(node.variables) == 2:
            return dict(zip(node.variables, kinds, strict=True))
        return {node.variables[0]: kinds[0] if over.name == "map" else kinds[1]}

    def _check_bool(self, node: s.Loop, body: CelType, function: str) -> None:
        if body.name not in ("bool", "dyn"):
            first = "bool, " if function != "_?_:_" else ""
            told = f"({first}{body})"
            self.wrong(node, f"found no matching overload for '{function}' applied to '{told}'")

    def _check_bind(self, node: s.Bind) -> CelType:
        kind = self.check(node.value)
        if node.macro != "bind":
            if kind.name not in ("optional", "dyn"):
                told = f"found no matching overload for 'hasValue' applied to '{kind}.()'"
                return self.wrong(node, told)
            kind = kind.params[0] if kind.name == "optional" else DYN
        self.scopes.append({node.variable: kind})
        body = self.check(node.body)
        self.scopes.pop()
        return k.optional_of(body) if node.macro == "optMap" else body


def _join(one: CelType, other: CelType) -> CelType | None:
    # The kind of what is one or the other; None where there is none.
    if k.fits(one, other, {}):
        return one if one.size >= other.size or one.params or one.fields else other
    return other if k.fits(other, one, {}) else None


def _filtered(over: CelType) -> CelType:
    if over.name == "map":
        return k.list_of(over.params[0], over.size)
    return over


def _qualified(node: s.Node) -> str:
    parts: list[str] = []
    while isinstance(node, s.Select) and not node.is_test and not node.is_optional:
        parts.append(node.field)
        node = node.operand
    if not isinstance(node, s.Ident):
        return ""
    return ".".join([node.name, *reversed(parts)])
