"""Runs the checks, and makes the report."""

from __future__ import annotations

import contextlib
import http.client
import ssl
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import structs

from kapiserver.apiserver.config import Config
from kapiserver.apiserver.configuration_files import BadConfiguration
from kapiserver.apiserver.webhooks.http_client import WebhookFailed
from kapiserver.doctor.checks import CONNECTION, GROWTH, INSTALLATION_CHECKS, SERVER_CHECKS
from kapiserver.doctor.finding import (
    ERROR,
    INFO,
    SEVERITIES,
    WARNING,
    Check,
    Finding,
    Problem,
    Report,
)
from kapiserver.doctor.installation import Installation
from kapiserver.doctor.remote_server import RemoteServer, RequestRefused
from kapiserver.doctor.server_health import growth, object_figures
from kapiserver.doctor.stores.etcd import etcd_figures
from kapiserver.doctor.stores.postgresql_tables import table_figures
from kapiserver.doctor.stores.sqlite import store_figures
from kapiserver.storage.concurrency.clock import Clock
from kapiserver.storage.errors import StorageError

_FAILURES = (
    OSError,
    http.client.HTTPException,
    WebhookFailed,
    RequestRefused,
    StorageError,
    ValueError,
)
"""The errors after which an examination goes on with the next check."""
_FORBIDDEN = (401, 403)


class Examination:
    """Collects the findings and figures of checks.

    clock       the time of this machine
    previous    the figures of an earlier report; {} if there is none
    """

    def __init__(self, clock: Clock, previous: Mapping[str, float]) -> None:
        self._clock = clock
        self._previous = dict(previous)
        self._findings: list[Finding] = []
        self._checks: list[str] = []
        self._figures: dict[str, float] = {}

    def examine_installation(self, config: Config, data_dir: Path) -> None:
        """Examine the server of this machine, and the one that runs if its kubeconfig leads to
        it."""
        server = self._own_server(config)
        installation = Installation(
            config=config, data_dir=data_dir, clock=self._clock, is_running=server is not None
        )
        self._run(INSTALLATION_CHECKS, installation)
        with contextlib.suppress(*_FAILURES):  # a check has reported it
            for figures in (store_figures, etcd_figures, table_figures):
                self._figures |= figures(installation)
        if server is not None:
            self._examine(server)
        else:
            self._add(
                CONNECTION,
                Problem(
                    severity=INFO, about="kapiserver serve",
                    message="no server of these flags runs: only its files were examined",
                ),
            )  # fmt: skip

    def _own_server(self, config: Config) -> RemoteServer | None:
        kubeconfig = config.serving.kubeconfig_out
        if kubeconfig is None or not kubeconfig.exists():
            return None
        try:
            server = RemoteServer(kubeconfig, self._clock, self._previous)
            server.ask("/version")
        except (BadConfiguration, *_FAILURES):
            return None
        return server

    def examine_server(self, kubeconfig: str) -> None:
        """Examine the server of a kubeconfig. Raises BadConfiguration."""
        server = RemoteServer(kubeconfig, self._clock, self._previous)
        try:
            server.ask("/version")
        except _FAILURES as error:
            self._add(CONNECTION, _connection_problem(server, error))
        else:
            self._examine(server)

    def _examine(self, server: RemoteServer) -> None:
        self._run(SERVER_CHECKS, server)
        with contextlib.suppress(*_FAILURES):  # a check has reported it
            self._figures |= object_figures(server)

    def _run(self, checks: Sequence[Check], subject: Any) -> None:
        for check in checks:
            self._checks.append(check.name)
            try:
                for problem in check.run(subject):
                    self._add(check.name, problem)
            except Exception as error:  # an object of another server may have any form
                self._add(check.name, _failure(check, error))

    def _add(self, name: str, problem: Problem) -> None:
        self._findings.append(Finding(check=name, **structs.asdict(problem)))

    def report(self) -> Report:
        """Return the report, with what has grown since the earlier one."""
        if self._previous:
            self._checks.append(GROWTH)
            for problem in growth(self._figures, self._previous):
                self._add(GROWTH, problem)
        self._findings.sort(key=_badness)
        return Report(findings=self._findings, checks=self._checks, figures=self._figures)


def _badness(finding: Finding) -> int:
    return SEVERITIES.index(finding.severity)


def _failure(check: Check, error: Exception) -> Problem:
    """Return the problem of a check that could not run."""
    if isinstance(error, RequestRefused) and error.status in _FORBIDDEN:
        return Problem(
            severity=INFO, about=check.text, message=f"was not examined: {error}",
            remedy="run the doctor as an administrator",
        )  # fmt: skip
    if isinstance(error, RequestRefused) and error.status == http.client.NOT_FOUND:
        return Problem(
            severity=INFO, about=check.text, message=f"was not examined: {error}",
        )  # fmt: skip
    return Problem(severity=WARNING, about=check.text, message=f"could not be examined: {error!r}")


def _connection_problem(server: RemoteServer, error: Exception) -> Problem:
    remedy = "start the server, or compare the address in the kubeconfig with it"
    if isinstance(error, ssl.SSLCertVerificationError):
        remedy = (
            "use a kubeconfig with the server's CA and with a name of its certificate, and compare "
            "the clocks"
        )
    return Problem(
        severity=ERROR, about=server.url, message=f"the server does not answer: {error}",
        remedy=remedy,
    )  # fmt: skip
