"""The site is built without a warning and loads nothing from other hosts; its reference is
complete."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

from docs.generator import reference
from docs.generator.tables import TABLES, pages_with_tables, stale_tables, table_names
from kapiserver.apiserver.admission.plugins import PLUGINS
from kapiserver.apiserver.feature_gates import GATES
from kapiserver.cli import parser
from kapiserver.controllers.registry import REGISTRY
from tests.docs.blocks import ROOT, pages
from tests.test_flags import flags_of

_LOADED = {
    ("script", "src"),
    ("link", "href"),
    ("img", "src"),
    ("iframe", "src"),
    ("source", "src"),
}
"""Attributes whose URLs a browser loads without a click."""


class _Loads(HTMLParser):
    """Collects the URLs that a page loads."""

    def __init__(self) -> None:
        super().__init__()
        self.urls: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.urls += [value or "" for name, value in attrs if (tag, name) in _LOADED]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as `make docs` builds it; with `--quiet`, `--strict` would miss warnings."""
    folder = tmp_path_factory.mktemp("site")
    completed = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT), "NO_MKDOCS_2_WARNING": "1"},
        text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
    )  # fmt: skip
    assert completed.returncode == 0, completed.stdout
    return folder


def test_site_loads_nothing_from_other_hosts(site: Path) -> None:
    """Scripts, styles, fonts and images come with the site."""
    for page in site.rglob("*.html"):
        loads = _Loads()
        loads.feed(page.read_text())
        foreign = [url for url in loads.urls if re.match(r"(\w+:)?//", url)]
        assert not foreign, (page, foreign)
    for style in site.rglob("*.css"):
        assert not re.search(r"url\(['\"]?(https?:)?//", style.read_text()), style


def test_tables_of_the_site(site: Path) -> None:
    """A generated table in Markdown is a table on the site."""
    commands = (site / "reference" / "commands.html").read_text()
    assert re.search(r"<td><code>--etcd-compaction-interval [^|]*</td>", commands)


def test_every_table_is_on_a_page() -> None:
    """Each table is on one page, and each beginning of a table on a page has a name and an end."""
    names = [name for page in pages_with_tables() for name in table_names(page.read_text())]
    assert sorted(names) == sorted(TABLES)
    lines = [line for page in pages() for line in page.read_text().splitlines()]
    assert len([line for line in lines if line.startswith("<!-- table: ")]) == len(names)


@pytest.mark.parametrize("page", list(pages_with_tables()), ids=lambda page: page.name)
def test_tables_are_fresh(page: Path) -> None:
    """The tables on a page are those that the code makes now."""
    stale = stale_tables(page.read_text())
    assert not stale, f"{page.relative_to(ROOT)} has stale tables: {stale}. Run `make tables`."


def test_every_flag_is_in_the_reference() -> None:
    """The reference has each flag of each command, with its help text."""
    text = reference.commands()
    for flag in flags_of(parser()):
        assert f"| `{flag.name}" in text, flag.place


def test_registries_are_in_the_reference() -> None:
    """The reference has every feature gate, controller and admission plugin."""
    for names, text in (
        (GATES, reference.feature_gates()),
        ([each.name for each in REGISTRY], reference.controllers()),
        ([each.name for each in PLUGINS], reference.admission_plugins()),
    ):
        assert [name for name in names if f"| `{name}` |" not in text] == []


def test_flags_of_configuration_files_exist() -> None:
    """Each file of the reference belongs to a flag."""
    flags = {flag.name for flag in flags_of(parser())}
    assert reference.CONFIGURATION_FILES.keys() <= flags


def test_every_metric_has_a_meaning() -> None:
    """Each row of the table of metrics has a name, a type and a meaning."""
    rows = reference.metrics().splitlines()[2:]
    assert len(rows) > 30
    assert all(re.match(r"\| `\w+` \| \w+ \| .* \| .+ \|$", row) for row in rows)
