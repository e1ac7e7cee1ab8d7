"""What the doctor finds, and the report of an examination."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, TypeAlias

from msgspec import Struct

Severity: TypeAlias = Literal["error", "warning", "info"]
ERROR: Severity = "error"
WARNING: Severity = "warning"
INFO: Severity = "info"
SEVERITIES = (ERROR, WARNING, INFO)
"""The severities, the worst first.

    error    the server does not start, requests fail, or data or access are at risk now
    warning  it will become an error, or something works badly
    info     worth knowing: nothing has to be done
"""


class Problem(Struct, frozen=True, kw_only=True):
    """What a check has found.

    about   the file, setting or object: "/etc/kapiserver/tls.key", "APIService v1.example.com"
    message what is wrong
    remedy  what to do; "" for an info that needs nothing
    """

    severity: Severity
    about: str
    message: str
    remedy: str = ""


class Finding(Problem, frozen=True, kw_only=True):
    """A problem, and the name of the check that found it."""

    check: str


class Check(Struct, frozen=True, kw_only=True):
    """A check.

    name    of its findings
    text    what it looks at: the end of the sentence "The doctor looks at ..."
    run     yields problems of an Installation, or of a RemoteServer
    """

    name: str
    text: str
    run: Callable[[Any], Iterator[Problem]]


class Report(Struct, frozen=True, kw_only=True):
    """The result of an examination.

    findings    the worst first
    checks      the names of the checks that ran
    figures     sizes at this moment, by name: a later examination compares them
    """

    findings: Sequence[Finding]
    checks: Sequence[str]
    figures: Mapping[str, float]

    def count(self, severity: Severity) -> int:
        """Return the number of findings of a severity."""
        return sum(finding.severity == severity for finding in self.findings)
