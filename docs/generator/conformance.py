"""The table of Kubernetes' conformance tests of sig-apps, sig-node and sig-scheduling: which test
redoes each, or why it needs a real container."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import yaml

from docs.generator.markdown import code, prose, table

FOLDER = Path(__file__).parent.parent.parent / "tests" / "conformance"


def all_specs() -> dict[str, dict[str, str | None]]:
    """Return the conformance tests by group, each with why it needs a real container."""
    found: dict[str, dict[str, str | None]] = yaml.safe_load((FOLDER / "specs.yaml").read_text())
    return found


def redone() -> dict[str, str]:
    """Return the test that redoes each conformance test."""
    return {
        name: f"{module.name}::{test}"
        for module in sorted(FOLDER.glob("test_*.py"))
        for name, test in _specs_of(ast.parse(module.read_text(encoding="utf-8")))
    }


def workload_conformance() -> str:
    """Return the table of all conformance tests of these groups."""
    tests = redone()
    rows = [
        (prose(f"[{group}] {name}"), f"passes: {code(tests[name])}" if name in tests else needs)
        for group, specs in all_specs().items()
        for name, reason in specs.items()
        for needs in [f"needs a real container: {reason}"]
    ]
    return table(("conformance test", "result"), rows)


def counts() -> str:
    """Return how many conformance tests of each group pass."""
    tests = redone()
    rows = [
        (group, str(len(specs)), str(len(specs.keys() & tests.keys())))
        for group, specs in all_specs().items()
    ]
    return table(("group", "conformance tests", "redone and passing"), rows)


def _specs_of(module: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield the names in the decorators `spec` of a module, with the function."""
    constants = {
        node.targets[0].id: node.value.value
        for node in module.body
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and isinstance(node.value, ast.Constant)
    }
    for node in module.body:
        for each in node.decorator_list if isinstance(node, ast.FunctionDef) else ():
            if isinstance(each, ast.Call) and isinstance(each.func, ast.Name):
                assert isinstance(node, ast.FunctionDef)
                if each.func.id == "spec":
                    for argument in each.args:
                        yield _text(argument, constants), node.name


def _text(node: ast.expr, constants: dict[str, object]) -> str:
    """Return the value of a text, a constant, or a sum of these."""
    if isinstance(node, ast.BinOp):
        return _text(node.left, constants) + _text(node.right, constants)
    if isinstance(node, ast.Name):
        return str(constants[node.id])
    assert isinstance(node, ast.Constant)
    return str(node.value)
