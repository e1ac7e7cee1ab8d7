"""Defaulting: setting the fields that a client omitted.

A type's declared defaults and the functions of a group's `defaults.py` are compiled once per kind
into a plan that visits only the fields that need it. As in Go, an object is defaulted before the
objects nested in it: first the function of its type, then its declared defaults, then its children.
Knows no kind. Mirrors defaulter-gen of k8s.io/code-generator.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias

from msgspec import Struct, field

from kapiserver.api.key_order import reorder_keys
from kapiserver.api.types import Field, ListOf, MapOf, Message, Tree, Type

Defaults: TypeAlias = Callable[[Tree], None]
"""Defaults one object of its type, in place."""
DefaultFunction: TypeAlias = Defaults
DefaultTable: TypeAlias = Mapping[type[Type], DefaultFunction]

_ZERO = (None, "", 0, False)


class _Plan(Struct):
    """The defaulting of one type."""

    type: type[Type]
    function: Defaults | None = None
    values: list[_Value] = field(default_factory=list)
    children: list[_Child] = field(default_factory=list)
    useful: bool = False


class _Value(Struct, frozen=True):
    """A declared default; a pointer that is set, even to zero, keeps its value."""

    name: str
    pointer: bool
    value: Any


class _Child(Struct, frozen=True):
    """A field whose nested objects may need defaulting."""

    name: str
    form: Literal["inline", "struct", "pointer", "list", "map"]
    plan: _Plan


def fill_missing(obj: Tree, **values: Any) -> None:
    """Set the given fields where they are None; a zero value stays, as for a pointer in Go.

    For the functions of groups; the caller orders the keys (`reorder_keys`).
    """
    for name, value in values.items():
        if obj.get(name) is None:
            obj[name] = value


def compile_defaults(type_: type[Type], functions: DefaultTable) -> Defaults:
    """Return the function that defaults objects of a kind."""
    plans: dict[type[Type], _Plan] = {}
    root = _plan(type_, functions, plans)
    _prune(plans)
    if not root.useful:
        return lambda _: None
    return lambda tree: _run(root, tree)


def _plan(type_: type[Type], functions: DefaultTable, plans: dict[type[Type], _Plan]) -> _Plan:
    cached = plans.get(type_)
    if cached is not None:
        return cached
    plan = plans[type_] = _Plan(type_, functions.get(type_))
    for declared in type_.fields():
        shape = declared.shape
        if isinstance(shape, ListOf):
            item: Any = shape.item
        elif isinstance(shape, MapOf):
            item = shape.value
        else:
            item = shape
        if declared.options.default is not None and not _is_redundant(declared):
            plan.values.append(_Value(declared.name, declared.pointer, declared.options.default))
        if isinstance(item, Message):
            plan.children.append(
                _Child(declared.name, _form(declared), _plan(item.type, functions, plans))
            )
    return plan


def _is_redundant(declared: Field) -> bool:
    # An absent field that is not a pointer is zero already.
    return not declared.pointer and declared.options.default in _ZERO


def _form(declared: Field) -> Literal["inline", "struct", "pointer", "list", "map"]:
    if declared.options.inline:
        return "inline"
    if isinstance(declared.shape, ListOf):
        return "list"
    if isinstance(declared.shape, MapOf):
        return "map"
    return "pointer" if declared.pointer else "struct"


def _prune(plans: Mapping[type[Type], _Plan]) -> None:
    # A plan is useful if it, or a plan that it reaches, sets a value; types may be recursive.
    parents: dict[type[Type], list[_Plan]] = {}
    for plan in plans.values():
        for child in plan.children:
            parents.setdefault(child.plan.type, []).append(plan)
    pending = [plan for plan in plans.values() if plan.function or plan.values]
    while pending:
        plan = pending.pop()
        if not plan.useful:
            plan.useful = True
            pending.extend(parents.get(plan.type, ()))
    for plan in plans.values():
        plan.children = [child for child in plan.children if child.plan.useful]


def _run(plan: _Plan, tree: Tree) -> None:
    _run_fields(plan, tree)
    reorder_keys(tree, plan.type)


def _run_fields(plan: _Plan, tree: Tree) -> None:
    if plan.function is not None:
        plan.function(tree)
    for declared in plan.values:
        current = tree.get(declared.name)
        if current is None or (not declared.pointer and current in _ZERO):
            tree[declared.name] = copy.deepcopy(declared.value)
    for child in plan.children:
        form = child.form
        if form == "inline":
            _run_fields(child.plan, tree)
            continue
        value = tree.get(child.name)
        if value is not None or form == "struct":
            _run_child(child, tree, value)


def _run_child(child: _Child, tree: Tree, value: Any) -> None:
    if child.form in ("list", "map"):
        for item in value.values() if isinstance(value, dict) else value or ():
            if isinstance(item, dict):
                _run(child.plan, item)
    elif isinstance(value, dict):
        _run(child.plan, value)
    elif value is None and child.form == "struct":
        value = {}
        _run(child.plan, value)
        if value:
            tree[child.name] = value
