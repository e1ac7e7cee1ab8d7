"""`kapiserver crds`: its arguments and output. `extension/` does the work."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    _Commands = argparse._SubParsersAction[argparse.ArgumentParser]


def add_extension_commands(commands: _Commands) -> None:
    """Add the commands and their arguments."""
    crds = commands.add_parser(
        "crds",
        help="print CustomResourceDefinitions of Python classes",
        description="Print the CustomResourceDefinitions of the resources that a Python module "
        "declares with kapiserver.extension, as YAML. Virtual resources and calls have none; they "
        "are named on standard error.",
    )
    crds.set_defaults(command=_print_definitions, verbose=0)
    crds.add_argument(
        "module", metavar="MODULE",
        help="A module, such as shop.types, or the path of its file. Required.",
    )  # fmt: skip


def _print_definitions(options: argparse.Namespace) -> int:
    from kapiserver.extension.definitions import definitions_text, needs_program, resources_of

    resources = resources_of(load_module(options.module))
    if not resources:
        raise ValueError(f"{options.module} has no resources at its top level")
    defined = []
    for resource in resources:
        reason = needs_program(resource)
        if reason:
            sys.stderr.write(f"{resource.name} has no definition: {reason}\n")
        else:
            defined.append(resource)
    sys.stdout.write(definitions_text(defined))
    return 0


def load_module(name: str) -> ModuleType:
    """Import a module by its name or by the path of its file; the folder of the file, or the
    current one, is where its imports are looked up first. Raises ImportError."""
    path = Path(name)
    if path.suffix != ".py":
        sys.path.insert(0, str(Path.cwd()))
        return importlib.import_module(name)
    sys.path.insert(0, str(path.resolve().parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise ImportError(f"{name} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module
