"""The import graph has no cycles, late imports and `lazy` references included."""

from __future__ import annotations

import ast
import graphlib
import tomllib
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).parent.parent


def _lazy_references() -> Iterator[tuple[str, str]]:
    """Yield each module that calls `lazy`, with the reference."""
    for path in sorted((ROOT / "kapiserver").rglob("*.py")):
        text = path.read_text()
        if "lazy(" not in text:
            continue
        parts = path.relative_to(ROOT).with_suffix("").parts
        importer = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "lazy":
                yield importer, ast.literal_eval(node.args[0])


REFERENCES = list(_lazy_references())


def _graph() -> grimp.ImportGraph:
    graph = grimp.build_graph("kapiserver", cache_dir=None)
    for importer, reference in REFERENCES:
        graph.add_import(importer=importer, imported=reference.partition(":")[0])
    return graph


def test_no_modules_import_each_other_in_a_circle() -> None:
    """The modules can be ordered so that each follows those that it imports."""
    graph = _graph()
    imports = {name: graph.find_modules_directly_imported_by(name) for name in graph.modules}
    graphlib.TopologicalSorter(imports).prepare()


@pytest.mark.parametrize("reference", sorted({reference for _, reference in REFERENCES}))
def test_lazy_references_resolve(reference: str) -> None:
    module, _, name = reference.partition(":")
    assert callable(getattr(import_module(module), name))


def test_lazy_references_keep_the_layers() -> None:
    """No reference leads from a layer to a higher one, in any contract of import-linter."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert REFERENCES
    for contract in settings["tool"]["importlinter"]["contracts"]:
        if contract["type"] == "layers":
            for importer, reference in REFERENCES:
                _check_layers(contract, importer, reference.partition(":")[0])


def _check_layers(contract: dict[str, list[str]], importer: str, imported: str) -> None:
    for container in contract.get("containers", [""]):
        names = [
            [f"{container}.{name.strip(' ()')}".lstrip(".") for name in layer.split(":")]
            for layer in contract["layers"]
        ]
        levels = [
            next((i for i, layer in enumerate(names) if _is_within(module, layer)), None)
            for module in (importer, imported)
        ]
        if None not in levels:
            assert levels[0] <= levels[1], (importer, imported)  # type: ignore[operator]


def _is_within(module: str, packages: list[str]) -> bool:
    return any(f"{module}.".startswith(f"{package}.") for package in packages)
