"""The soak: what it counts as lost, when it fails, and a short run."""

import asyncio
from pathlib import Path

import pytest

from tests.soak.__main__ import Soak
from tests.soak.clients import MIX
from tests.soak.ledger import Ledger
from tests.soak.report import MIB, WIDTH, Report, Sample, percentile, plot


def test_ledger() -> None:
    """A stored value must be that of the last acknowledged write, or of a later one whose outcome
    is unknown."""
    ledger = Ledger()
    for name in ("kept", "changed", "unknown", "deleted", "maybe deleted"):
        ledger.begin(name, "1")
        ledger.acknowledge(name, "1")
    ledger.begin("changed", "2")
    ledger.acknowledge("changed", "2")
    ledger.begin("unknown", "2")
    ledger.begin("deleted", None)
    ledger.acknowledge("deleted", None)
    ledger.begin("maybe deleted", None)
    ledger.begin("never acknowledged", "1")
    assert ledger.acknowledged == 7
    stored = {"kept": "1", "changed": "2", "unknown": "1", "maybe deleted": "1"}
    assert ledger.lost(stored) == []
    assert ledger.lost({"kept": "1", "changed": "2", "unknown": "2"}) == []
    assert ledger.lost(stored | {"changed": "1"}) == ["changed: 1 is stored, not 2"]
    assert ledger.lost(stored | {"deleted": "1"}) == ["deleted: 1 is stored, not None"]
    assert ledger.lost(stored | {"other": "1"}) == ["other: nobody wrote it"]
    del stored["unknown"]
    assert ledger.lost(stored) == ["unknown: None is stored, not 1 or 2"]


def _report(*memory: int) -> Report:
    """A report of a soak of as many seconds as there are sizes, in MiB."""
    report = Report(float(len(memory)), acknowledged=1, filled=0.0)
    for at, size in enumerate(memory):
        report.samples.append(Sample(at, size * MIB, descriptors=20 + at, wal=1 << 20))
    return report


def test_verdict() -> None:
    """Memory may grow by 10 % from a third of the time on; any fault fails the soak."""
    warming_up = (10, 50, 90)
    assert _report(*warming_up, *[100] * 5, 110, 110).verdict() == []
    rose = ["memory rose from 100 to 111 MiB"]
    assert _report(*warming_up, *[100] * 5, 111, 111).verdict() == rose
    faulty = _report(*[100] * 10)
    faulty.faults.append("GET /: 500")
    assert faulty.verdict() == ["GET /: 500"]
    assert Report(10, filled=3.0).verdict() == ["no write was acknowledged"]
    late = "the caches were filled after 4 s only"
    assert Report(10, filled=4.0, acknowledged=1).verdict() == [late]


def test_verdict_of_an_hour() -> None:
    """The memory of an hour is judged from minute 15 on."""
    report = Report(3600.0, acknowledged=1, filled=600.0)
    for at in range(0, 3600, 10):
        size = 80 if at < 900 else 100 if at < 1260 else 111
        report.samples.append(Sample(at, size * MIB, descriptors=20, wal=0))
    assert report.verdict() == ["memory rose from 100 to 111 MiB"]


def test_text() -> None:
    """The report shows requests, statuses, percentiles, the curve of memory, and the reasons of a
    failure, of which it shows twenty."""
    report = _report(*[100] * 10)
    report.latencies["get"] = [number / 1000 for number in range(1, 101)]
    report.statuses.update({200: 99, 404: 1})
    report.kills = 3
    text = report.text()
    assert text.startswith("10 s, 3 kills, 100 requests, 1 acknowledged writes, 99 x 200, 1 x 404")
    assert "get                            100      51.0     100.0" in text
    assert "descriptors: 20 to 29, 29 at the end" in text
    assert text.endswith("passed")
    report.faults += [f"fault {number}" for number in range(25)]
    assert report.text().endswith("FAILED: fault 19\nand 5 more")
    assert "not measured" in Report(1).text()


def test_plot() -> None:
    """Each column has the height of its greatest value."""
    lines = plot([(0, 1.0), (0.1, 12.0), (50, 6.0), (100, 12.0)], "MiB")
    assert lines[0] == "MiB"
    assert lines[1] == f"{'12 |':>10}#{' ' * (WIDTH - 2)}#"
    assert lines[7] == f"{'6 |':>10}#{' ' * (WIDTH // 2 - 1)}#{' ' * (WIDTH // 2 - 2)}#"
    assert lines[-1].split() == ["0", "s", "100", "s"]


def test_percentile() -> None:
    """The value that a fraction does not exceed."""
    assert percentile([3.0, 1.0, 2.0], 0.5) == 2.0
    assert percentile([1.0], 0.99) == 1.0


def test_thirty_clients() -> None:
    """The mix has 30 clients."""
    assert sum(count for _, count in MIX) == 30


@pytest.mark.slow
def test_short_soak(tmp_path: Path) -> None:
    """A few seconds with one kill lose no write and show no fault."""
    report = asyncio.run(Soak(tmp_path, seconds=8, kills=1).run())
    assert report.faults == [], report.text()
    assert report.kills == 2
    assert report.acknowledged > 0, report.text()
    assert report.samples
