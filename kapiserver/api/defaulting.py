"""Filling in what a client left out.

A type's declared defaults, and the functions that a group's `defaults.py` has for some types, are
compiled once per kind into a plan that visits only the paths on which there is something to do.
As in Go, an object comes before what lies in it: first the function of its type, then its declared
defaults, then its children. Knows no kind. Mirrors defaulter-gen of k8s.io/code-generator.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from kapiserver.api.key_order import reorder_keys
from kapiserver.api.types import Field, ListOf, MapOf, Message, Tree, Type

Defaults: TypeAlias = Callable[[Tree], None]
"""Fills in one object of the type it is for, in place."""
DefaultFunction: TypeAlias = Defaults
DefaultTable: TypeAlias = Mapping[type[Type], DefaultFunction]

_ZERO = (None, "", 0, False)


@dataclass(slots=True)
class _Plan:
    """What there is to do for one type."""

    type: type[Type]
    function: Defaults | None = None
    values: list[_Value] = field(default_factory=list)
    children: list[_Child] = field(default_factory=list)
    useful: bool = False


@dataclass(frozen=True, slots=True)
class _Value:
    """A declared default; a pointer is left alone once it is set, even to zero."""

    name: str
    pointer: bool
    value: Any


@dataclass(frozen=True, slots=True)
class _Child:
    """A field below which there may be something to do."""

    name: str
    form: Literal["inline", "struct", "pointer", "list", "map"]
    plan: _Plan


def fill_missing(obj: Tree, **values: Any) -> None:
    """Give an object those of the fields that it lacks; a zero that was given stays, as a pointer's
    does in Go. For the functions of groups, whose keys `settle` puts in order."""
    for name, value in values.items():
        if obj.get(name) is None:
            obj[name] = value


def compile_defaults(type_: type[Type], functions: DefaultTable) -> Defaults:
    """Compile what is to be done for one kind."""
    plans: dict[type[Type], _Plan] = {}
    root = _plan(type_, functions, plans)
    _prune(plans)
    if not root.useful:
        return lambda _: None
    return lambda tree: _run(root, tree)


def _plan(type_: type[Type], functions: DefaultTable, plans: dict[type[Type], _Plan]) -> _Plan:
    found = plans.get(type_)
    if found is not None:
        return found
    plan = plans[type_] = _Plan(type_, functions.get(type_))
    for own in type_.fields():
        shape = own.shape
        if isinstance(shape, ListOf):
            item: Any = shape.item
        elif isinstance(shape, MapOf):
            item = shape.value
        else:
            item = shape
        if own.options.default is not None and not _needless(own):
            plan.values.append(_Value(own.name, own.pointer, own.options.default))
        if isinstance(item, Message):
            plan.children.append(_Child(own.name, _form(own), _plan(item.type, functions, plans)))
    return plan


def _needless(own: Field) -> bool:
    # A zero default of a field that is not a pointer is what its absence says anyway.
    return not own.pointer and own.options.default in _ZERO


def _form(own: Field) -> Literal["inline", "struct", "pointer", "list", "map"]:
    if own.options.inline:
        return "inline"
    if isinstance(own.shape, ListOf):
        return "list"
    if isinstance(own.shape, MapOf):
        return "map"
    return "pointer" if own.pointer else "struct"


def _prune(plans: Mapping[type[Type], _Plan]) -> None:
    # A plan is useful when it, or one that it reaches, does something; types may be recursive.
    parents: dict[type[Type], list[_Plan]] = {}
    for plan in plans.values():
        for child in plan.children:
            parents.setdefault(child.plan.type, []).append(plan)
    waiting = [plan for plan in plans.values() if plan.function or plan.values]
    while waiting:
        plan = waiting.pop()
        if not plan.useful:
            plan.useful = True
            waiting.extend(parents.get(plan.type, ()))
    for plan in plans.values():
        plan.children = [child for child in plan.children if child.plan.useful]


def _run(plan: _Plan, tree: Tree) -> None:
    _run_open(plan, tree)
    reorder_keys(tree, plan.type)


def _run_open(plan: _Plan, tree: Tree) -> None:
    if plan.function is not None:
        plan.function(tree)
    for value in plan.values:
        current = tree.get(value.name)
        if current is None or (not value.pointer and current in _ZERO):
            tree[value.name] = copy.deepcopy(value.value)
    for child in plan.children:
        if child.form == "inline":
            _run_open(child.plan, tree)
        else:
            _run_below(child, tree)


def _run_below(child: _Child, tree: Tree) -> None:
    below = tree.get(child.name)
    if child.form in ("list", "map"):
        for item in below.values() if isinstance(below, dict) else below or ():
            if isinstance(item, dict):
                _run(child.plan, item)
    elif isinstance(below, dict):
        _run(child.plan, below)
    elif below is None and child.form == "struct":
        below = {}
        _run(child.plan, below)
        if below:
            tree[child.name] = below
