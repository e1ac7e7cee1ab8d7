"""The forms in which `kapiserver doctor` writes its report."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeAlias

import msgspec

from kapiserver.doctor.finding import SEVERITIES, Report

_INDENT = 2
_WIDTH = max(map(len, SEVERITIES))

Output: TypeAlias = Callable[[Report], str]


def _text(report: Report) -> str:
    lines = []
    for finding in report.findings:
        lines.append(f"{finding.severity:{_WIDTH}}  {finding.about}  [{finding.check}]")
        lines.append(f"{'':{_WIDTH}}  {finding.message}")
        if finding.remedy:
            lines.append(f"{'':{_WIDTH}}  -> {finding.remedy}")
    return "".join(f"{line}\n" for line in lines)


def _json(report: Report) -> str:
    data = msgspec.json.format(msgspec.json.encode(report), indent=_INDENT)
    return f"{data.decode()}\n"


OUTPUTS: Mapping[str, Output] = {"text": _text, "json": _json}
"""The writers of reports, by the value of --output."""


def summary(report: Report) -> str:
    """Return the line at the end: `32 checks: 1 error, 2 warnings, 3 infos`."""
    counts = ", ".join(
        f"{report.count(severity)} {severity}{'s' * (report.count(severity) != 1)}"
        for severity in SEVERITIES
    )
    return f"{len(report.checks)} checks: {counts}"


def read_figures(file: Path) -> Mapping[str, float]:
    """Return the figures of an earlier report in JSON. Raises OSError, ValueError."""
    try:
        return msgspec.json.decode(file.read_bytes(), type=Report).figures
    except msgspec.MsgspecError as error:
        raise ValueError(f"{file} is not a report of --output json: {error}") from None
