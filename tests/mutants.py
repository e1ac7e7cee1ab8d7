"""Mutation test: removes one check of the code at a time; a test must fail each time.

    python -m tests.mutants [MODULE...]     prints each mutant that no test notices

A mutant replaces a condition by its negation, by True or by False, drops one clause of `and` or
`or`, or changes what a function returns: the negation of a truth value, the opposite of a constant.
Each runs in a forked process, in which the code objects of the functions are replaced, so that all
importers have the mutant.
"""

from __future__ import annotations

import ast
import contextlib
import copy
import importlib
import inspect
import os
import signal
import sys
import types
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

AUTHORIZATION = "kapiserver.apiserver.authorization"
RBAC_TESTS = ("test_rbac_tables", "test_rbac", "test_rbac_escalation")
"""The quick tests first: the first failure ends the run of a mutant."""
MODULES: Mapping[str, Sequence[str]] = {
    f"{AUTHORIZATION}.privileged_group": RBAC_TESTS,
    f"{AUTHORIZATION}.union": RBAC_TESTS,
    f"{AUTHORIZATION}.rbac_rules": RBAC_TESTS,
    f"{AUTHORIZATION}.rbac_index": RBAC_TESTS,
    f"{AUTHORIZATION}.rbac": RBAC_TESTS,
    "kapiserver.apiserver.admission.gc_fields": RBAC_TESTS,
    "kapiserver.apiserver.admission.role_escalation": RBAC_TESTS,
    "kapiserver.apiserver.filters.authorization": ("test_abac", "test_authorization_webhook"),
    f"{AUTHORIZATION}.abac": ("test_abac",),
    f"{AUTHORIZATION}.node": ("test_node_authorizer",),
    f"{AUTHORIZATION}.node_graph": ("test_node_authorizer",),
    f"{AUTHORIZATION}.node_identity": ("test_node_authorizer",),
}
"""The modules, and their tests in tests/apiserver."""
_ESCALATION = "rbac is None or MASTERS in user.groups or changes_only_gc_fields(new, old)"
EQUIVALENT = frozenset(
    (
        # An empty collection that stays has nothing in it.
        "if not grants:: not grants -> False",
        "if not nodes:: not nodes -> False",
        "if not owner.node:: not owner.node -> False",
        "if not self._volumes_of[secret]:: not self._volumes_of[secret] -> False",
        # The other function does the same, more slowly.
        "rules.allows_resource(request) if request is not None else rules.allows(info): "
        "request is not None -> False",
        # The caller checks it, too.
        f"{_ESCALATION}: rbac is None -> False",
        # A user with all permissions may `escalate`, and is not checked further.
        f"{_ESCALATION}: MASTERS in user.groups -> False",
        "if missing_rules(held, _EVERYTHING):: missing_rules(held, _EVERYTHING) -> True",
    )
)
"""Changes that no test can notice."""
SECONDS = 120
"""The longest run of one mutant; one that loops is noticed."""
_QUANTIFIERS = {"any": "all", "all": "any"}
OPPOSITES = {"_ALLOW": "_NO_OPINION", "_NO_OPINION": "_ALLOW"}


class Mutant(NamedTuple):
    """One change of a module, and the source that shows it."""

    module: str
    line: int
    change: str
    tree: ast.Module


def mutants(module: str) -> Iterator[Mutant]:
    """Yield every mutant of a module."""
    file = importlib.import_module(module).__file__
    assert file is not None
    tree = ast.parse(Path(file).read_text())
    for index, node in enumerate(ast.walk(tree)):
        for number in range(len(list(_replacements(node)))):
            mutated = copy.deepcopy(tree)
            target = list(ast.walk(mutated))[index]
            before = ast.unparse(target).partition("\n")[0]
            field, position, replacement = list(_replacements(target))[number]
            old = getattr(target, field)
            shown = old if position is None else old[position]
            if position is None:
                setattr(target, field, replacement)
            else:
                old[position] = replacement
            after = f"{ast.unparse(shown)} -> {ast.unparse(replacement)}"
            ast.fix_missing_locations(mutated)
            line = getattr(shown, "lineno", 0)
            yield Mutant(module, line, f"{before.strip()}: {after}", mutated)


_Replacement = tuple[str, int | None, ast.expr]


def _replacements(node: ast.AST) -> Iterator[_Replacement]:
    """Yield the field, the position in it and the new expression of each mutation of a node."""
    if isinstance(node, ast.If | ast.IfExp | ast.While):
        yield from _truths("test", None, node.test)
    elif isinstance(node, ast.comprehension):
        for position, condition in enumerate(node.ifs):
            yield from _truths("ifs", position, condition)
    elif isinstance(node, ast.Return) and node.value is not None:
        yield from _returns(node.value)
    elif isinstance(node, ast.Call) and ast.unparse(node.func) in _QUANTIFIERS:
        yield "func", None, ast.Name(_QUANTIFIERS[ast.unparse(node.func)], ast.Load())
    if isinstance(node, ast.BoolOp):
        for position, clause in enumerate(node.values):
            if not _is_default(node, position):
                neutral = isinstance(node.op, ast.And)
                yield "values", position, ast.copy_location(ast.Constant(neutral), clause)


def _is_default(node: ast.BoolOp, position: int) -> bool:
    """Whether a clause is a default such as `or ()`, or what it stands in for."""
    last = node.values[-1]
    empty = isinstance(last, ast.Tuple | ast.List | ast.Dict) and not ast.unparse(last).strip(
        "()[]{}"
    )
    return isinstance(node.op, ast.Or) and (
        empty or (isinstance(last, ast.Constant) and not last.value)
    )


def _truths(field: str, position: int | None, condition: ast.expr) -> Iterator[_Replacement]:
    yield field, position, ast.UnaryOp(ast.Not(), condition)
    yield field, position, ast.Constant(True)
    yield field, position, ast.Constant(False)


def _returns(value: ast.expr) -> Iterator[_Replacement]:
    if isinstance(value, ast.Constant) and isinstance(value.value, bool):
        yield "value", None, ast.Constant(not value.value)
    elif isinstance(value, ast.Compare | ast.BoolOp) or _is_call_of_truth(value):
        yield "value", None, ast.UnaryOp(ast.Not(), value)
        yield "value", None, ast.Constant(True)
        yield "value", None, ast.Constant(False)
    elif isinstance(value, ast.Name) and value.id in OPPOSITES:
        yield "value", None, ast.Name(OPPOSITES[value.id], ast.Load())


def _is_call_of_truth(value: ast.expr) -> bool:
    return (
        isinstance(value, ast.Call)
        and isinstance(value.func, ast.Name)
        and value.func.id in ("any", "all", "bool")
    )


def install(mutant: Mutant) -> None:
    """Replace the code of the functions of a loaded module."""
    module = sys.modules[mutant.module]
    code = compile(mutant.tree, module.__file__ or "", "exec")
    _install(code, vars(module))


def _install(code: types.CodeType, names: dict[str, object]) -> None:
    for constant in code.co_consts:
        if not isinstance(constant, types.CodeType):
            continue
        present = inspect.unwrap(found) if callable(found := names.get(constant.co_name)) else None
        if isinstance(present, types.FunctionType):
            present.__code__ = constant
        elif isinstance(present, type):
            _install(constant, _members(present))


def _members(owner: type) -> dict[str, object]:
    """The functions of a class; those of its properties by the property's name."""
    return {
        name: member.fget if isinstance(member, property) else member
        for name, member in vars(owner).items()
    }


def is_noticed(mutant: Mutant, tests: Sequence[str]) -> bool:
    """Whether a test fails with the mutant, or does not end."""
    child = os.fork()
    if child:
        _, status = os.waitpid(child, 0)
        return os.waitstatus_to_exitcode(status) != 0
    signal.alarm(SECONDS)
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 1)
        os.dup2(nowhere.fileno(), 2)
    code = 2
    with contextlib.suppress(BaseException):
        install(mutant)
        code = run_tests(tests)
    os._exit(code)


def run_tests(tests: Sequence[str]) -> int:
    """Return the exit code of pytest, which stops at the first failure."""
    return int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", *tests]))


def survivors(module: str) -> tuple[int, list[str]]:
    """Return the number of mutants of a module, and the changes that no test notices. Raises
    RuntimeError if the tests fail without a mutant."""
    tests = [f"tests/apiserver/{name}.py" for name in MODULES[module]]
    if run_tests(tests):  # loads what the tests need, so that each child starts quickly
        raise RuntimeError("the tests fail without a mutant")
    count, unnoticed = 0, []
    for mutant in mutants(module):
        count += 1
        if mutant.change not in EQUIVALENT and not is_noticed(mutant, tests):
            unnoticed.append(mutant.change)
            print(f"{module.rpartition('.')[2]}:{mutant.line}: {mutant.change}", flush=True)
    return count, unnoticed


if __name__ == "__main__":
    results = [survivors(module) for module in sys.argv[1:] or MODULES]
    total, survivors = sum(count for count, _ in results), sum(len(each) for _, each in results)
    print(f"{total} mutants, {survivors} survivors")
