"""`kapiserver new`: writes a small project from the templates in `extension/project/`.

A template has the path of its file with the suffix `.tmpl`. In paths and texts, `@kind@` stands for
the kind, `@singular@` and `@plural@` for its names, and `@group@` for the group.
"""

from __future__ import annotations

import keyword
from collections.abc import Iterator, Mapping
from pathlib import Path

from kapiserver.api.names import dns1123_subdomain

_TEMPLATES = Path(__file__).parent / "project"
_SUFFIX = ".tmpl"


def write_project(folder: Path, *, group: str, kind: str, plural: str = "") -> list[Path]:
    """Write a project into a new or empty folder, and return the paths of its files below it. The
    plural name is the kind with an `s` if it is "". Raises ValueError for a name that cannot be
    one and for a folder with files, OSError."""
    singular = kind.lower()
    plural = plural or f"{singular}s"
    _check(group, kind, plural)
    if folder.exists() and any(folder.iterdir()):
        raise ValueError(f"{folder} is not empty")
    names = {"kind": kind, "singular": singular, "plural": plural, "group": group}
    written = []
    for template in _templates():
        path = Path(_fill(template.relative_to(_TEMPLATES).as_posix().removesuffix(_SUFFIX), names))
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(_fill(template.read_text(), names))
        written.append(path)
    return written


def _check(group: str, kind: str, plural: str) -> None:
    errors = dns1123_subdomain(group)
    if errors or "." not in group:
        raise ValueError(f"{group!r} is not a name of an API group, such as example.com")
    if not _is_identifier(kind, kind.lower()) or not kind[0].isupper():
        raise ValueError(f"{kind!r} is not a name of a kind, such as Widget")
    if not _is_identifier(plural) or not plural.islower() or plural == kind.lower():
        raise ValueError(f"{plural!r} is not a plural name of {kind}, such as widgets")


def _is_identifier(*names: str) -> bool:
    """Report whether Python and Kubernetes accept names that have letters and digits."""
    return all(
        name.isascii() and name.isalnum() and name.isidentifier() and len(name) <= 40
        and not keyword.iskeyword(name)
        for name in names
    )  # fmt: skip


def _templates() -> Iterator[Path]:
    return (path for path in sorted(_TEMPLATES.rglob("*")) if path.suffix == _SUFFIX)


def _fill(text: str, names: Mapping[str, str]) -> str:
    for name, value in names.items():
        text = text.replace(f"@{name}@", value)
    return text
