"""Projects of RPC groups in temporary directories: write protobuf files, generate, import."""

from __future__ import annotations

import datetime
import importlib
import itertools
import sys
from pathlib import Path
from types import ModuleType

from kapiserver.rpc.generator.files import generate, release
from kapiserver.rpc.generator.problems import InvalidDefinitions
from kapiserver.rpc.registration import Group

TODAY = datetime.date(2026, 1, 31)
_numbers = itertools.count()


class Project:
    """A directory of groups. Its name is new, because Python's pool of descriptors has one version
    of each file."""

    def __init__(self, folder: Path) -> None:
        self.name = f"project{next(_numbers)}"
        self.root = folder / self.name
        self.root.mkdir()
        self.today = TODAY

    def write(self, path: str, text: str) -> Path:
        """Write a file below the directory."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    def proto(self, version: str, body: str, *, group: str = "things", head: str = "") -> Path:
        """Write the protobuf file of a version, without the lines for syntax and package."""
        lines = f'syntax = "proto3"; {head}\npackage {self.name}.{group}.{version};\n'
        return self.write(f"{group}/{version}/api.proto", lines + body)

    def messages(self, version: str, body: str, *, imports: str = "") -> Path:
        """Write a version of the group things, whose only call takes and returns a `Thing`."""
        return self.proto(
            version,
            f"{imports}\nservice Things {{ rpc Get(GetRequest) returns (GetResponse); }}\n"
            f"message GetRequest {{ Thing thing = 1; }}\nmessage GetResponse {{}}\n{body}",
        )

    def generate(self, *, write: bool = True) -> list[str]:
        """Generate, and return the changed paths below the directory."""
        changed = generate(self.root, self.name, self.today, write=write)
        return [path.relative_to(self.root).as_posix() for path in changed]

    def problems(self) -> list[str]:
        """Generate, and return the problems as `path:line: text`, with paths below the
        directory."""
        try:
            self.generate()
        except InvalidDefinitions as error:
            return [str(problem).removeprefix(f"{self.root}/") for problem in error.problems]
        return []

    def release(self, name: str) -> None:
        """Record a release."""
        release(self.root, self.name, name, self.today)

    def load(self, module: str) -> ModuleType:
        """Import a module, such as `things.types`."""
        if str(self.root.parent) not in sys.path:
            sys.path.append(str(self.root.parent))
        importlib.invalidate_caches()
        return importlib.import_module(f"{self.name}.{module}")

    def group(self, name: str = "things") -> Group:
        """Import a group."""
        group: Group = self.load(f"{name}.registration_generated").GROUP
        return group

    def files(self) -> dict[str, str]:
        """Return the contents of all files."""
        return {
            path.relative_to(self.root).as_posix(): path.read_text()
            for path in sorted(self.root.rglob("*.*"))
            if path.is_file() and path.suffix != ".pyc"
        }
