"""The documents at the root agree with the code."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "kapiserver"
ROOTS = ("api", "codecs", "storage", "apiserver")


def _modules() -> list[str]:
    return sorted(
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        if path.name != "__init__.py"
    )


def _named_paths(text: str) -> set[str]:
    """The paths of the project in backquotes."""
    texts = re.findall(r"`([^`\s]+)`", text)
    return {
        text_part.rstrip("/")
        for text_part in texts
        if re.fullmatch(r"[\w./*-]+(\.py|/)", text_part)
    }


def test_paths_in_architecture_exist() -> None:
    """Every path in ARCHITECTURE.md exists."""
    for name in _named_paths((ROOT / "ARCHITECTURE.md").read_text()):
        is_present = (ROOT / name).exists() or (PACKAGE / name).exists()
        assert is_present, f"ARCHITECTURE.md names {name}, which is not there"


def test_every_module_is_named() -> None:
    """ARCHITECTURE.md names every module, or its folder."""
    named = _named_paths((ROOT / "ARCHITECTURE.md").read_text())
    folders = [
        item
        for item in named
        if item == "controllers" or ("/" in item and not item.endswith(".py"))
    ]
    for module in _modules():
        covered = module in named or any(module.startswith(f"{folder}/") for folder in folders)
        assert covered, f"ARCHITECTURE.md does not name {module}"


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


def test_compose_file() -> None:
    """docker-compose.yml is valid YAML with both services, and each has a health check."""
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    assert set(services) == {"kapiserver", "etcd"}
    assert all("healthcheck" in service for service in services.values())
