"""Reads the protobuf files of groups: `GROUP/VERSION/api.proto` below a directory.

A group is a directory with versions directly below the root. A package deeper down is a group if
its `__init__.py` contains the comment `# +kapiserver-rpc`. Checks paths, and what protoc checks.
"""

from __future__ import annotations

import itertools
import keyword
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

from google.protobuf.descriptor import Descriptor, FileDescriptor, MethodDescriptor
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
    MethodDescriptorProto,
)
from google.protobuf.descriptor_pool import DescriptorPool
from grpc_tools import protoc

from kapiserver.api.group import sort_versions
from kapiserver.rpc.generator.problems import InvalidDefinitions, Problem

PROTO = "api.proto"
_MARKER = "# +kapiserver-rpc"
_GROUP = re.compile(r"[a-z][a-z0-9]*")
_VERSION = re.compile(r"v[1-9][0-9]{0,8}((alpha|beta)[1-9][0-9]{0,8})?")
_PROTOC_ERROR = re.compile(r"(?P<path>.*?):(?P<line>\d+):\d+: (?P<text>.*)")
_PACKAGE_PATH = (FileDescriptorProto.PACKAGE_FIELD_NUMBER,)


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionDefinition:
    """One version of a group.

    path          the path of the protobuf file
    source        the descriptor of the file, with comments and positions
    file          the descriptor, linked with those of the files that it imports
    python, stub  the texts of api_pb2.py and api_pb2.pyi, which protoc has made
    """

    group: str
    name: str
    path: Path
    source: FileDescriptorProto
    file: FileDescriptor
    python: str
    stub: str

    @property
    def directory(self) -> Path:
        """The directory of the version's Python package."""
        return self.path.parent

    @property
    def service(self) -> str:
        """The name of the only service, without the package."""
        return self.source.service[0].name

    @property
    def methods(self) -> Sequence[MethodDescriptor]:
        """The calls in the order of the file."""
        methods: Sequence[MethodDescriptor] = self.file.services_by_name[self.service].methods
        return methods

    def messages(self) -> Iterator[Descriptor]:
        """Yield all messages, a message before those nested in it; entries of maps left out."""
        pending = list(self.file.message_types_by_name.values())[::-1]
        while pending:
            message = pending.pop()
            if not message.GetOptions().map_entry:
                yield message
                pending += reversed(message.nested_types)

    @property
    def deprecated(self) -> bool:
        """Whether the comment on the package says `Deprecated:`, or an option of the file or the
        service."""
        return (
            self.source.options.deprecated
            or any(service.options.deprecated for service in self.source.service)
            or re.search(r"^\s*Deprecated:", self.comment(*_PACKAGE_PATH), re.M) is not None
        )

    def line(self, *path: int) -> int:
        """Return the line of the element at a path of field numbers and indices, as in
        SourceCodeInfo; 1 for elements that the file does not have."""
        for location in self.source.source_code_info.location:
            if tuple(location.path) == path:
                return location.span[0] + 1
        return 1

    def comments(self) -> dict[str, str]:
        """Return the comments of messages, fields, enums and calls, each as one paragraph, by full
        name."""
        comments = {}
        for location in self.source.source_code_info.location:
            name = _full_name(self.source, location.path) if location.leading_comments else ""
            if name:
                comments[name] = " ".join(location.leading_comments.split())
        return comments

    def comment(self, *path: int) -> str:
        """Return the comment before an element, or ""."""
        for location in self.source.source_code_info.location:
            if tuple(location.path) == path:
                return location.leading_comments
        return ""


_COMMENTED = (
    DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, MethodDescriptorProto,
)  # fmt: skip


def _full_name(file: FileDescriptorProto, path: Sequence[int]) -> str:
    """Return the full name of the element at a path of source_code_info; "" for one without."""
    names, element = [file.package], cast(Any, file)
    for number, index in zip(path[::2], path[1::2], strict=False):
        element = getattr(element, element.DESCRIPTOR.fields_by_number[number].name)[index]
        names.append(element.name)
    return ".".join(names) if len(path) % 2 == 0 and isinstance(element, _COMMENTED) else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDefinition:
    """One group; its versions by preference: v2, v1, v1beta1, v1alpha1."""

    name: str
    project: str
    directory: Path
    versions: tuple[VersionDefinition, ...]


def read_groups(root: Path, project: str) -> list[GroupDefinition]:
    """Return the groups below a directory, by name. Raises InvalidDefinitions for files in wrong
    places and for errors of protoc."""
    directories = _group_directories(root)
    problems = [*_misplaced(root, directories), *_bad_names(directories)]
    if problems:
        raise InvalidDefinitions(problems)
    versions = _compile(root, project, [path for group in directories for path in _protos(group)])
    return [_group(directory, project, versions) for directory in directories]


def visible_files(root: Path, pattern: str) -> Iterator[Path]:
    """Yield the files below a directory whose name matches; hidden directories such as `.venv`
    are left out."""
    for path in root.rglob(pattern):
        if not any(part.startswith(".") for part in path.relative_to(root).parts):
            yield path


def _group_directories(root: Path) -> list[Path]:
    marked = {path.parent for path in visible_files(root, "__init__.py") if _is_marked(path)}
    groups = {path.parent.parent for path in root.glob(f"*/*/{PROTO}")}
    return sorted(
        {*groups, *(path for path in marked if _protos(path))}, key=lambda path: path.name
    )


def _is_marked(path: Path) -> bool:
    return any(line.strip() == _MARKER for line in path.read_text(encoding="utf-8").splitlines())


def _protos(group: Path) -> list[Path]:
    return sorted(group.glob(f"*/{PROTO}"))


def _misplaced(root: Path, directories: Sequence[Path]) -> Iterator[Problem]:
    expected = {path for directory in directories for path in _protos(directory)}
    for path in {*visible_files(root, "*.proto")} - expected:
        yield Problem(path, 1, f"a protobuf file must be {root}/GROUP/VERSION/{PROTO}")


def _bad_names(directories: Sequence[Path]) -> Iterator[Problem]:
    for first, second in itertools.pairwise(directories):
        if first.name == second.name:
            yield Problem(second, 1, f"{first} is also a group named {first.name}")
    for directory in directories:
        name = directory.name
        if not _GROUP.fullmatch(name) or keyword.iskeyword(name):
            text = f"the name of the group {name} must be lower-case letters and digits, and no "
            yield Problem(directory, 1, f"{text}Python keyword")
        for path in _protos(directory):
            version = path.parent.name
            if not _VERSION.fullmatch(version):
                text = f"the version {version} must be named like v1, v1beta1 or v1alpha1"
                yield Problem(path, 1, text)


def _group(
    directory: Path, project: str, versions: dict[Path, VersionDefinition]
) -> GroupDefinition:
    group_versions = {path.parent.name: versions[path] for path in _protos(directory)}
    return GroupDefinition(
        name=directory.name,
        project=project,
        directory=directory,
        versions=tuple(group_versions[name] for name in sort_versions(group_versions)),
    )


def _compile(root: Path, project: str, paths: list[Path]) -> dict[Path, VersionDefinition]:
    """Return the versions that protoc has compiled, by path. The name of a file in the pool of
    descriptors is PROJECT/GROUP/VERSION/api.proto."""
    if not paths:
        return {}
    prefix = project.replace("-", "_")  # protoc writes no Python files with a hyphen
    names = {path: f"{prefix}/{path.relative_to(root).as_posix()}" for path in paths}
    with TemporaryDirectory() as folder:
        output = Path(folder)
        _run_protoc(root, prefix, output, list(names.values()))
        descriptors = FileDescriptorSet.FromString((output / "set").read_bytes())
        pool = DescriptorPool()
        for file in descriptors.file:
            pool.Add(file)
        sources = {file.name: file for file in descriptors.file}
        return {
            path: VersionDefinition(
                group=path.parent.parent.name,
                name=path.parent.name,
                path=path,
                source=sources[name],
                file=pool.FindFileByName(name),
                python=(output / name).with_name("api_pb2.py").read_text(encoding="utf-8"),
                stub=(output / name).with_name("api_pb2.pyi").read_text(encoding="utf-8"),
            )
            for path, name in names.items()
        }


def _run_protoc(root: Path, prefix: str, output: Path, names: list[str]) -> None:
    arguments = [
        "protoc", f"-I{prefix}={root}", f"-I{files('grpc_tools') / '_proto'}",
        f"--python_out={output}", f"--pyi_out={output}",
        f"--descriptor_set_out={output / 'set'}", "--include_imports", "--include_source_info",
        *names,
    ]  # fmt: skip
    errors = output / "errors"
    with errors.open("wb") as file, _standard_error_to(file.fileno()):
        code = protoc.main(arguments)
    if code:
        raise InvalidDefinitions(_protoc_problems(root, prefix, errors.read_text("utf-8")))


@contextmanager
def _standard_error_to(descriptor: int) -> Iterator[None]:
    """Redirect file descriptor 2, to which protoc writes in this process."""
    saved = os.dup(2)
    os.dup2(descriptor, 2)
    try:
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)


def _protoc_problems(root: Path, prefix: str, errors: str) -> Iterator[Problem]:
    for line in errors.splitlines():
        match = _PROTOC_ERROR.fullmatch(line)
        if match is None:
            yield Problem(root, 1, line)
        else:
            path = root / match["path"].removeprefix(f"{prefix}/").removeprefix(f"{root}/")
            yield Problem(path, int(match["line"]), match["text"])
