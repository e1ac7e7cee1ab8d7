"""The hooks of mkdocs: fill the generated tables in, and add the documents of the root.

A page has a table where it has the line `<!-- table: NAME -->`; TABLES has the functions.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from docs.generator import fidelity, harness, reference
from docs.generator.decisions import decision_list

ROOT = Path(__file__).parent.parent.parent
ROOT_DOCUMENTS = ("ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
"""Documents that readers of the repository expect at its root; the site shows them too."""
TABLES: dict[str, Callable[[], str]] = {
    "admission plugins": reference.admission_plugins,
    "commands": reference.commands,
    "control operations": harness.control_operations,
    "configuration files": reference.configuration_files,
    "conformance tests": fidelity.conformance,
    "controllers": reference.controllers,
    "decisions": decision_list,
    "classes of the harness": harness.classes,
    "fixtures": harness.fixtures,
    "settings of test servers": harness.settings,
    "differences": fidelity.differences,
    "kubectl": fidelity.programs,
    "feature gates": reference.feature_gates,
    "metrics": reference.metrics,
}
_MARK = re.compile(r"^<!-- table: ([a-z -]+) -->$", re.M)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the documents of the root to the files of the site."""
    for name in ROOT_DOCUMENTS:
        text = (ROOT / name).read_text(encoding="utf-8")
        files.append(File.generated(config, name, content=_with_links_of_the_site(text)))
    return files


def on_page_markdown(markdown: str, **_: object) -> str:
    """Return the text of a page with its tables. Raises KeyError for an unknown table."""
    return _MARK.sub(lambda match: TABLES[match[1]](), markdown)


def table_names(markdown: str) -> list[str]:
    """Return the names of the tables that a page asks for."""
    return _MARK.findall(markdown)


def _with_links_of_the_site(markdown: str) -> str:
    """Return a document of the root with its links relative to the folder docs."""
    return markdown.replace("](docs/", "](").replace("](README.md", "](index.md")
