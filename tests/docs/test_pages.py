"""Every code block of README and of the site runs, or says why it does not."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import pytest

from tests.docs.blocks import ROOT, blocks, pages
from tests.docs.session import Session, matches
from tests.e2e.programs import TOOLS

OTHER_TESTS = {
    "CONTRIBUTING.md": "tests/docs/test_contributing.py",
    "docs/extending.md": "tests/test_extending.py",
    "docs/rpc.md": "tests/rpc/test_tutorial.py",
}
"""Pages whose blocks a test of their own runs."""
NOT_RUN = {
    "CONTRIBUTING.md": 2,
    "README.md": 1,
    "docs/how-to/aggregation.md": 1,
    "docs/how-to/extension-server.md": 1,
    "docs/how-to/any-language.md": 4,
    "docs/how-to/authentication.md": 1,
    "docs/how-to/debugging.md": 1,
    "docs/how-to/docker.md": 3,
    "docs/how-to/encryption.md": 1,
    "docs/how-to/envtest.md": 7,
    "docs/how-to/failing-tests.md": 1,
    "docs/how-to/helm.md": 1,
    "docs/how-to/install.md": 3,
    "docs/how-to/page.md": 1,
    "docs/how-to/proxy.md": 2,
    "docs/how-to/several-servers.md": 2,
    "docs/how-to/shutdown.md": 3,
    "docs/how-to/postgresql.md": 2,
    "docs/how-to/storage.md": 2,
    "docs/how-to/systemd.md": 1,
    "docs/how-to/tls.md": 1,
    "docs/tutorials/explore.md": 1,
    "docs/how-to/tracing.md": 1,
    "docs/how-to/workers.md": 2,
    "docs/tutorials/operator.md": 2,
}
"""How many blocks of a page no test runs, each for the reason above it."""


SLOW = ("docs/how-to/", "docs/reference/", "docs/tutorials/explore.md")
"""Pages, or folders of them, whose blocks run under `make test-all` only: each page starts servers,
and other tests use the same flags."""


def _name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


PAGES = [
    pytest.param(name, marks=pytest.mark.slow) if name.startswith(SLOW) else name
    for name in map(_name, filter(blocks, pages()))
    if name not in OTHER_TESTS
]


@pytest.mark.skipif(shutil.which("bash") is None, reason="the pages are written for a POSIX shell")
@pytest.mark.parametrize("name", PAGES)
def test_blocks_of_a_page(name: str, tmp_path: Path) -> None:
    """The files and commands of a page work in their order, in an empty directory."""
    if not (TOOLS / "kubectl").exists() and shutil.which("kubectl") is None:
        pytest.skip("no kubectl")
    session = Session(tmp_path)
    try:
        for block in blocks(ROOT / name):
            if not block.reason:
                session.run(block)
    finally:
        session.close()


def test_blocks_that_are_not_run() -> None:
    """The number of blocks without a test is known; a new one needs a reason and a number."""
    not_run = Counter(_name(page) for page in pages() for block in blocks(page) if block.reason)
    assert not_run == NOT_RUN


def test_other_tests_exist() -> None:
    """A page that is run by another test is named there."""
    for page, test in OTHER_TESTS.items():
        assert Path(page).name in (ROOT / test).read_text()


@pytest.mark.parametrize(
    ("expected", "printed", "is_same"),
    [
        ("a b", "a    b\n", True),
        ("a ... c", "a b c", True),
        ('"items": [ ... ]', '"items": [\n {"a": 1}\n]', True),
        ('resourceVersion": "24"', 'resourceVersion": "531"', True),
        ("1 passed in 0.52s", "1 passed in 61.03s (0:01:01)", True),
        ("cm 3s", "cm 2m", True),
        ("created", "created\nError", False),
        ("a ... c", "a b d", False),
    ],
)
def test_loose_comparison(expected: str, printed: str, is_same: bool) -> None:
    """`...` stands for any text, other text counts."""
    assert matches(expected, printed) is is_same
