"""The order of the house: every module stands above all that it imports, late imports included."""

from __future__ import annotations

import graphlib

import grimp


def test_no_modules_import_each_other_in_a_circle() -> None:
    """There is an order of all modules in which each comes after what it imports."""
    graph = grimp.build_graph("kapiserver", cache_dir=None)
    imports = {name: graph.find_modules_directly_imported_by(name) for name in graph.modules}
    graphlib.TopologicalSorter(imports).prepare()
