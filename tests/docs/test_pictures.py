"""The pictures of docs/performance.md are those of the data beside them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench.report import DATA, IMAGES, Ratio, Report, Sample, pictures, read
from tests.docs.blocks import ROOT

REPORTS = sorted(DATA.glob("*.json"))


@pytest.mark.parametrize("path", REPORTS, ids=lambda path: path.stem)
def test_pictures_are_those_of_the_data(path: Path) -> None:
    """`python -m tests.bench.report` would change no picture."""
    for name, picture in pictures(read(path)).items():
        assert (IMAGES / name).read_text() == picture, name


def test_every_picture_is_shown() -> None:
    """The page shows every picture, and no picture is left of an earlier run."""
    page = (ROOT / "docs" / "performance.md").read_text()
    drawn = {name for path in REPORTS for name in pictures(read(path))}
    assert drawn == {path.name for path in IMAGES.glob("bench-*")}
    assert all(f"(images/{name})" in page for name in drawn)


def test_figures_and_pictures(tmp_path: Path) -> None:
    """A report keeps medians and the spread of the ratios, and draws what it has data for."""
    report = Report(date="2026-01-02", machine="2 cores", peer="A peer 1.0", rows=[], samples={})
    assert pictures(report) == {}
    row = report.add("get <b>", "server us", [(10, 20), (12, 20), (30, 20)])
    assert row == Ratio(
        work="get <b>", figure="server us", peer=20, kapiserver=12, ratios=(0.5, 0.6, 1.5)
    )
    report.samples = {"kapiserver": [Sample(1, 50, 0.5), Sample(2, 60, 0.7)]}
    report.write(tmp_path / "data", tmp_path / "images")
    names = {path.name for path in (tmp_path / "images").iterdir()}
    assert names == {f"bench-a-peer-1.0-{name}.svg" for name in ("ratios", "memory", "files")}
    assert "get &lt;b&gt;" in (tmp_path / "images" / "bench-a-peer-1.0-ratios.svg").read_text()
    assert read(tmp_path / "data" / "a-peer-1.0.json") == report
