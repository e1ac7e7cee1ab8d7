"""The documents at the root agree with the code."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "kapiserver"
ROOTS = ("api", "codecs", "storage", "apiserver")


def _modules() -> list[str]:
    return sorted(
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        if path.name != "__init__.py"
    )


def _architecture() -> str:
    return (ROOT / "ARCHITECTURE.md").read_text()


def _paths(text: str) -> set[str]:
    """Return the project paths in backquotes, without the slash at the end of a folder's."""
    quoted = re.findall(r"`([^`\s]+)`", text)
    return {path.rstrip("/") for path in quoted if re.fullmatch(r"[\w./-]+(\.\w+|/)", path)}


def _tables(text: str) -> dict[str, set[str]]:
    """Return the modules that each table headed "modules of `folder/`" lists."""
    tables = re.findall(r"^\| concern \| modules of `(\S+)/` \|\n((?:\|.*\n)+)", text, re.M)
    return {
        folder: {name for row in rows.splitlines() for name in re.findall(r"`(\w+)`", row)}
        for folder, rows in tables
    }


def test_paths_in_architecture_exist() -> None:
    """Every path in ARCHITECTURE.md exists."""
    for name in _paths(_architecture()):
        assert (ROOT / name).exists() or (PACKAGE / name).exists(), name


def test_every_module_is_in_architecture() -> None:
    """Each table lists exactly the modules of its folder; every other folder is listed as a
    whole."""
    text = _architecture()
    tables, folders = _tables(text), _paths(text)
    assert tables.keys() == {"kapiserver", "api", "codecs", "storage", "apiserver"}
    for folder, names in tables.items():
        modules = (PACKAGE / folder.removeprefix("kapiserver")).glob("*.py")
        assert names == {path.stem for path in modules} - {"__init__"}, folder
    for module in _modules():
        folder, _, _ = module.rpartition("/")
        is_group = folder.startswith("api/")  # the row of `api/<group>/`
        parents = {folder, *(str(parent) for parent in Path(folder).parents)}
        assert folder in {"", *tables} or is_group or parents & (folders - tables.keys()), module


def test_architecture_is_short() -> None:
    """ARCHITECTURE.md has at most 190 lines."""
    assert _architecture().count("\n") <= 190


@pytest.mark.parametrize("name", ["api", "codecs", "storage", "apiserver"])
def test_links_at_the_root(name: str) -> None:
    """The links at the root lead to the packages of the same name."""
    assert (ROOT / name).resolve() == PACKAGE / name


def test_readme_names_the_commands() -> None:
    """The Makefile has README's targets `run` and `test`."""
    makefile = (ROOT / "Makefile").read_text()
    readme = (ROOT / "README.md").read_text()
    for target in ("run", "test"):
        assert re.search(rf"^{target}:", makefile, re.M)
        assert f"make {target}" in readme


def test_dependencies_have_lower_bounds() -> None:
    """Every run-time dependency has a lower bound."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert all(">=" in requirement for requirement in project["dependencies"])
