"""`kapiserver rpc generate` and `release`: which files they write, output and exit codes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kapiserver.cli import main
from kapiserver.commands.rpc import OUTDATED
from kapiserver.rpc.generator.files import generate
from kapiserver.rpc.generator.python_names import snake_case
from kapiserver.rpc.generator.python_source import MARK, bracketed, docstring
from tests.rpc.dummy import CONVERSION, FUNCTIONS, TYPES, V1
from tests.rpc.rpckit import Project

ROOT = Path(__file__).parent.parent.parent


def test_running_twice_changes_nothing(dummy: Project) -> None:
    """The second run writes no file, and the first wrote them all."""
    before = {path: path.stat().st_mtime_ns for path in dummy.root.rglob("*.*")}
    assert dummy.generate() == []
    assert {path: path.stat().st_mtime_ns for path in dummy.root.rglob("*.*")} == before


def test_hand_written_files_are_never_overwritten(dummy: Project) -> None:
    """They are kept as they are, `__init__.py` included."""
    text = "# by hand\n"
    for path in ("__init__.py", "dummy/__init__.py", "dummy/v1/__init__.py"):
        dummy.write(path, text)
    dummy.write("dummy/v1/notes_generated.py", text)
    dummy.proto("v2", V1, group="dummy")
    dummy.generate()
    files = dummy.files()
    assert files["__init__.py"] == files["dummy/v1/notes_generated.py"] == text
    assert files["dummy/types.py"] == TYPES
    assert files["dummy/v1alpha1/conversion.py"] == CONVERSION


def test_a_hand_written_file_with_the_name_of_a_generated_one(dummy: Project) -> None:
    """It is neither overwritten nor removed; the command fails."""
    path = dummy.write("dummy/v1/conversion_generated.py", "# by hand\n")
    (problem,) = dummy.problems()
    assert problem == (
        "dummy/v1/conversion_generated.py:1: this file is not generated; rename it, or remove it "
        "to have conversion_generated.py generated"
    )
    assert path.read_text() == "# by hand\n"


def test_an_edited_generated_file_is_generated_again(dummy: Project) -> None:
    """Its first line marks it as generated."""
    path = dummy.root / "dummy/v1/conversion_generated.py"
    text = path.read_text()
    path.write_text(f"{text}\nedited = True\n")
    assert dummy.generate() == ["dummy/v1/conversion_generated.py"]
    assert path.read_text() == text


def test_check_writes_nothing(dummy: Project) -> None:
    """`--check` returns the files that a run would change."""
    dummy.proto("v2", V1, group="dummy")
    before = dummy.files()
    changed = dummy.generate(write=False)
    assert {"dummy/v2/api_pb2.py", "dummy/registration_generated.py"} <= set(changed)
    assert dummy.files() == before


def test_files_that_hand_written_code_needs_come_first(project: Project) -> None:
    """protoc's modules and the skeleton of the server are written while conversions are missing."""
    project.proto("v1", V1, group="dummy")
    project.proto("v1alpha1", V1.replace("input", "other"), group="dummy")
    project.write("dummy/types.py", TYPES)
    assert len(project.problems()) == 1  # conversion.py
    assert {"dummy/v1/api_pb2.py", "dummy/v1alpha1/api_pb2.pyi", "dummy/server.py"} <= set(
        project.files()
    )
    assert "dummy/registration_generated.py" not in project.files()


def test_another_version_of_protoc_changes_nothing(dummy: Project) -> None:
    """An upgrade of grpcio-tools alone does not make files out of date."""
    path = dummy.root / "dummy/v1/api_pb2.py"
    lines = path.read_text().splitlines(keepends=True)
    start = next(n for n, line in enumerate(lines) if "ValidateProtobufRuntimeVersion" in line)
    end = lines.index(")\n", start)
    head = [line for line in lines[:start] if "Protobuf Python Version" not in line]
    path.write_text("".join([*head, "_runtime_version.ValidateProtobufRuntimeVersion(\n    1\n)\n",
                             *lines[end + 1 :]]))  # fmt: skip
    assert dummy.generate() == ["dummy/v1/api_pb2.py"]  # its comment is missing
    path.write_text(
        "".join(lines).replace("Protobuf Python Version: ", "Protobuf Python Version: 1")
    )
    assert dummy.generate() == []


def test_removed_generated_file_is_written_again(dummy: Project) -> None:
    """A file that is missing is out of date."""
    (dummy.root / "dummy/client_generated.py").unlink()
    assert dummy.generate() == ["dummy/client_generated.py"]


def test_internal_types_may_inherit_and_quote(dummy: Project) -> None:
    """Annotations are compared by meaning: quotes, Optional and modules of typing make no
    difference, class variables are no fields, and base classes have fields too."""
    dummy.write(
        "dummy/types.py",
        """
import typing
from dataclasses import dataclass


@dataclass
class Base:
    LIMIT: typing.ClassVar[int] = 3
    input: "int" = 0


@dataclass
class ComputeDoubleRequest(Base):
    pass


@dataclass
class ComputeDoubleResponse:
    response: typing.Optional[int] = None
    overflow: "None | bool" = None
""",
    )
    assert dummy.problems() == []


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (TYPES.replace("input: int = 0", "input: int"),
         "7: the field input of ComputeDoubleRequest must have a default"),
        ("class A\n", "1: expected ':'"),
    ],
)  # fmt: skip
def test_errors_in_types(dummy: Project, text: str, problem: str) -> None:
    """A syntax error and a field without a default have their line."""
    dummy.write("dummy/types.py", text)
    assert f"dummy/types.py:{problem}" in dummy.problems()


def test_other_classes_in_types(dummy: Project) -> None:
    """A class that is no message may be as it likes."""
    dummy.write("dummy/types.py", f"{TYPES}\n\n@dataclass\nclass Other:\n    size: int\n")
    assert dummy.problems() == []


def test_hand_written_code_in_other_modules(dummy: Project) -> None:
    """Functions and the server may be imported, and the server may have base classes."""
    dummy.write("dummy/v1alpha1/functions.py", CONVERSION)
    names = ", ".join(name.rstrip("(") for name in FUNCTIONS)
    dummy.write("dummy/v1alpha1/conversion.py", f"from .functions import {names}\n")
    dummy.write("dummy/server.py", "from .other import Base\n\n\nclass Server(Base):\n    pass\n")
    assert dummy.problems() == []
    dummy.write("dummy/server.py", "from .other import Server\n")
    assert dummy.problems() == []
    dummy.write("dummy/server.py", "")
    assert dummy.problems() == [
        "dummy/server.py:1: write the class Server, which implements the calls"
    ]


def test_comments_in_new_types(project: Project) -> None:
    """A new `types.py` has the comments of the protobuf file."""
    body = V1.replace("message ComputeDoubleReq", "// Has a number.\nmessage ComputeDoubleReq")
    project.proto("v1", body, group="dummy")
    project.generate()
    text = project.files()["dummy/types.py"]
    assert '    """Has a number."""\n\n    # we changed in favor of an int64 field here\n' in text


@pytest.mark.parametrize("name", ["Project", "my_project", "a--b", "-a", 'a"b', "a/b", ""])
def test_names_of_projects(dummy: Project, name: str) -> None:
    """A project has a name for sockets."""
    with pytest.raises(ValueError, match="must be lower-case letters, digits and hyphens"):
        generate(dummy.root, name, dummy.today, write=False)


def test_lock_that_is_damaged(dummy: Project) -> None:
    """A file that is no lock is a problem, not an exception."""
    dummy.release("1.0")
    text = (dummy.root / "rpc.lock").read_text()
    for damaged in ("{", "[]", "{}", text.replace('"1.0"\n    }', '"2.0"\n    }'),
                    text.replace('"2026-01-31"', '"January"')):  # fmt: skip
        assert damaged != text
        dummy.write("rpc.lock", damaged)
        (problem,) = dummy.problems()
        assert problem.startswith("rpc.lock:1: the file is not a lock: ")


def test_release(dummy: Project) -> None:
    """A name is used once, and generated files must be up to date."""
    dummy.release("1.0")
    with pytest.raises(ValueError, match=r"release 1\.0 exists already"):
        dummy.release("1.0")
    dummy.proto("v2", V1, group="dummy")
    with pytest.raises(ValueError, match="is out of date; run kapiserver rpc generate"):
        dummy.release("1.1")


def test_a_removed_version_cannot_return_with_another_content(dummy: Project) -> None:
    """The lock knows versions that were removed."""
    dummy.release("1.0")
    text = (dummy.root / "dummy/v1alpha1/api.proto").read_text()
    (dummy.root / "dummy/v1alpha1/api.proto").unlink()
    dummy.generate()
    dummy.release("1.1")
    assert '"removed": "1.1"' in dummy.files()["rpc.lock"]
    assert dummy.generate() == []
    dummy.write("dummy/v1alpha1/api.proto", text.replace("= 1", "= 9"))
    assert "is immutable" in dummy.problems()[0]
    dummy.write("dummy/v1alpha1/api.proto", text)
    assert dummy.problems() == []
    dummy.release("1.2")
    assert '"removed"' not in dummy.files()["rpc.lock"]


def test_deprecation_that_is_taken_back(dummy: Project) -> None:
    """A deprecation counts from its last announcement."""
    path = dummy.root / "dummy/v1/api.proto"
    text = path.read_text()
    path.write_text(text.replace("package", "option deprecated = true;\npackage"))
    dummy.generate()
    dummy.release("1.0")
    assert '"deprecated": "1.0"' in dummy.files()["rpc.lock"]
    path.write_text(text)
    dummy.generate()
    dummy.release("1.1")
    assert '"deprecated"' not in dummy.files()["rpc.lock"]


def test_command(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    """The command prints what it writes; `--check` has an exit code of its own."""
    project.proto("v1", V1, group="dummy")
    arguments = ["rpc", "generate", str(project.root)]
    assert main([*arguments, "--check"]) == OUTDATED
    assert f"{project.root}/dummy/types.py\n" in capsys.readouterr().out
    assert main(arguments) == 0
    assert f"{project.root}/dummy/types.py\n" in capsys.readouterr().out
    assert main([*arguments, "--check"]) == main(arguments) == 0
    assert capsys.readouterr().out == ""
    assert main(["rpc", "release", str(project.root), "1.0"]) == 0
    assert main([*arguments, "--project", "other-name"]) == 1
    assert "the package must be dummy.v1, v1 or other_name.dummy.v1" in capsys.readouterr().err


def test_command_prints_problems(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    """Each problem is on a line that begins with its path and line."""
    path = project.proto("v1", V1.replace("service Dummy", "service Dumb"), group="dummy")
    assert main(["rpc", "generate", str(project.root)]) == 1
    assert capsys.readouterr().err == (
        f"{path}:4: the service must be named as the group in CamelCase, Dummy, not Dumb\n"
    )
    assert main(["rpc", "generate", str(project.root / "missing")]) == 1
    assert capsys.readouterr().err == f"kapiserver: {project.root}/missing is not a directory\n"


def test_without_grpcio(tmp_path: Path) -> None:
    """The error names the extra, and no other command needs it."""
    script = (
        "import sys\n"
        "sys.modules['grpc'] = sys.modules['grpc_tools'] = None\n"
        "from kapiserver.cli import main\n"
        "assert main(['recode', '--to', 'json']) == 0\n"
        f"sys.exit(main(['rpc', 'generate', {str(tmp_path)!r}]))\n"
    )
    completed = subprocess.run(
        [sys.executable, "-c", script],
        input='{"apiVersion":"v1","kind":"ConfigMap"}', capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert completed.returncode == 1
    assert completed.stderr.endswith("pip install 'kapiserver[rpc]'\n")


@pytest.mark.slow
def test_generated_code_is_clean(project: Project) -> None:
    """mypy and ruff find nothing in generated code with a field of each kind, and ruff would not
    format it otherwise."""
    mypy = pytest.importorskip("mypy.api")  # of the extra lint
    text = (Path(__file__).parent / "every_field.proto").read_text()
    text = text.replace("project.things", f"{project.name}.things")
    project.write("things/v1/api.proto", text)
    project.generate()
    output, errors, code = mypy.run(
        ["--config-file", str(ROOT / "pyproject.toml"), "--cache-dir", str(ROOT / ".mypy_cache"),
         str(project.root)]
    )  # fmt: skip
    assert (code, errors) == (0, ""), output
    for path in project.root.rglob("*_generated.py"):
        path.write_text(path.read_text().replace(f"{MARK}# ruff: noqa\n# fmt: off\n", ""))
    for arguments in (["check", "--ignore=ARG002,N802,E501"], ["format", "--check"]):
        ruff = [sys.executable, "-m", "ruff", *arguments, "--config", str(ROOT / "pyproject.toml")]
        completed = subprocess.run(
            [*ruff, str(project.root)], capture_output=True, text=True, check=False
        )
        assert completed.returncode == 0, completed.stdout


@pytest.mark.parametrize(
    ("name", "snake"),
    [
        ("ComputeDouble", "compute_double"),
        ("GetURLPath", "get_url_path"),
        ("ListISCSITargets", "list_iscsi_targets"),
        ("GetV2", "get_v2"),
        ("Import", "import_"),
        ("GetHTTP2URL", "get_http2_url"),
    ],
)
def test_names_of_methods(name: str, snake: str) -> None:
    """A call's method has its name in snake_case."""
    assert snake_case(name) == snake


def test_brackets() -> None:
    """Arguments are broken as ruff does."""
    name = "a" * 40
    assert bracketed("f(", [name, name], ")") == f"f({name}, {name})"
    assert bracketed("    f(", [name, name], ")  # a comment") == (
        f"    f(\n        {name}, {name}\n    )  # a comment"
    )
    assert bracketed("f(", [name] * 3, ")") == f"f(\n    {name},\n    {name},\n    {name},\n)"


def test_docstrings() -> None:
    """Comments with quotes and backslashes become valid docstrings."""
    for comment in ('ends with "', 'has """', "a \\ b", "two\n\n  lines", "ends with \\"):
        source = f"def f():\n{docstring(comment, 4)}    return f.__doc__\n"
        scope: dict[str, object] = {}
        exec(source, scope)
        assert scope["f"]
    assert docstring("", 4) == ""
