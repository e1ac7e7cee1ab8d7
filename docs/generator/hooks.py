"""The hook of mkdocs: adds the documents of the root to the site."""

from __future__ import annotations

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parent.parent.parent
ROOT_DOCUMENTS = ("ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
"""Documents that readers of the repository expect at its root; the site shows them too."""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the documents of the root to the files of the site."""
    for name in ROOT_DOCUMENTS:
        text = (ROOT / name).read_text(encoding="utf-8")
        files.append(File.generated(config, name, content=_with_links_of_the_site(text)))
    return files


def _with_links_of_the_site(markdown: str) -> str:
    """Return a document of the root with its links relative to the folder docs. The site has no
    README; its first page stands for it."""
    return re.sub(r"\]\(README\.md(#[\w-]+)?\)", "](index.md)", markdown.replace("](docs/", "]("))
