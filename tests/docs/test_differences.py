"""The page on fidelity is true: each difference is seen, and each conformance test exists."""

from __future__ import annotations

import pytest

from docs.generator import fidelity
from kapiserver.testing import KubeClients
from tests.bench.compare import BEHAVIOUR, behaviour
from tests.docs.blocks import ROOT
from tests.docs.differences import DIFFERENCES, Difference


@pytest.mark.parametrize("difference", DIFFERENCES, ids=lambda each: each.is_seen.__name__)
def test_difference(difference: Difference, kube_client: KubeClients) -> None:
    """The server differs from kube-apiserver as the page says."""
    assert difference.is_seen(kube_client.httpx())


def test_conformance_table() -> None:
    """The table has the redone conformance tests, and each row says what is tested."""
    rows = fidelity.conformance().splitlines()[2:]
    assert len(rows) > 30
    assert all(row.count(" | ") == 1 for row in rows)


@pytest.mark.anyio
async def test_comparison(anyio_backend: str) -> None:
    """The server shows each behaviour that the comparison lists."""
    assert await behaviour("kapiserver") == dict.fromkeys(BEHAVIOUR, True)
    page = (ROOT / "docs" / "comparison.md").read_text()
    assert [words for words in BEHAVIOUR if f"| {words} | yes |" not in page] == []


@pytest.fixture
def anyio_backend() -> str:
    """The event loop of the async test."""
    return "asyncio"
