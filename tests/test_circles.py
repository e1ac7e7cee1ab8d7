"""The import graph has no cycles, late imports included."""

from __future__ import annotations

import graphlib

import grimp


def test_no_modules_import_each_other_in_a_circle() -> None:
    """The modules can be ordered so that each follows those that it imports."""
    graph = grimp.build_graph("kapiserver", cache_dir=None)
    imports = {name: graph.find_modules_directly_imported_by(name) for name in graph.modules}
    graphlib.TopologicalSorter(imports).prepare()
