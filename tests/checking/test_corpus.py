"""A check says of each manifest of a corpus what a server says over HTTP, and kubectl prints."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from kapiserver.checking.finding import Finding
from kapiserver.codecs import yaml as codec
from kapiserver.codecs.errors import CodecError
from kapiserver.testing import TestServer
from tests.bench.servers import peer, store
from tests.checking.checks import check_text
from tests.checking.corpus import SETTINGS, Judge, Verdict, manifest_text, path_of
from tests.e2e.programs import TOOLS

FEW, ALL = 200, 2400
"""Manifests of the corpus: in each run, and with the slow tests."""
KUBECTL_MANIFESTS = range(71, 71 + 40)
OWN_RULES = re.compile(r"missing-|selector-matches|undeclared-port|name-collision")
"""Rules of which no server says anything."""
BATCH = 40
UNDECLARED = "field not declared in schema"
MAX_ASKED = 20
"""How often a server is asked again whose errors differ from those of a check."""


@pytest.fixture(scope="module")
def server() -> Iterator[TestServer]:
    """A server whose objects never change."""
    with TestServer(**SETTINGS) as server:
        yield server


@pytest.fixture(scope="module")
def judge(server: TestServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judge]:
    """The server, or with PEER=path/to/kube-apiserver that program."""
    with ExitStack() as stack:
        judge = Judge(server.url)
        if program := os.environ.get("PEER"):
            folder = tmp_path_factory.mktemp("peer")
            below = stack.enter_context(store("etcd", folder))
            flags = [f"--service-cluster-ip-range={SETTINGS['service_cluster_ip_range']}"]
            target, _ = stack.enter_context(peer(Path(program), folder / "s", below, flags))
            judge = Judge(f"https://{target.host}:{target.port}", target.token)
        yield judge
        judge.close()


def _verdict(findings: list[Finding]) -> Verdict:
    said = [finding for finding in findings if not OWN_RULES.match(finding.rule)]
    return Verdict(
        [finding.message for finding in said if finding.severity == "error"],
        [finding.message for finding in said if finding.severity == "warning"],
    )


def _differences(judge: Judge, numbers: range) -> tuple[int, list[str]]:
    """The number of manifests that both judge, and what differs."""
    judged, differences = 0, []
    for number in numbers:
        text = manifest_text(number)
        verdict = _verdict(check_text(text))
        try:
            tree = codec.decode_value(text.encode())
        except CodecError:
            continue
        path = path_of(tree)
        if path is None:
            continue
        expected = judge.verdict(path, tree)
        judged += 1
        if any(re.match(r'namespaces "[^"]*" not found', each) for each in expected.errors):
            verdict = Verdict(verdict.errors[:1], verdict.warnings)  # the check goes on
        if not _is_same(verdict, expected) and not _is_undecided(judge, path, tree, expected):
            differences.append(f"{number}:\n  server {expected}\n  check {verdict}")
    return judged, differences


def _is_same(one: Verdict, other: Verdict) -> bool:
    return sorted(one.errors) == sorted(other.errors) and sorted(one.warnings) == sorted(
        other.warnings
    )


def _is_undecided(judge: Judge, path: str, tree: Any, first: Verdict) -> bool:
    """Whether a server judges an object differently when it is asked again. kube-apiserver walks
    the fields of an object in any order, and stops at the first one that is not declared."""
    return any(UNDECLARED in error for error in first.errors) and any(
        not _is_same(judge.verdict(path, tree), first) for _ in range(MAX_ASKED)
    )


def test_first_manifests(judge: Judge) -> None:
    """The findings are the server's words, for valid objects of each kind and some mutations."""
    judged, differences = _differences(judge, range(FEW))
    assert differences == []
    assert judged > FEW * 0.7


@pytest.mark.slow
@pytest.mark.parametrize("start", range(FEW, ALL, BATCH * 10))
def test_all_manifests(judge: Judge, start: int) -> None:
    """The findings are the server's words for the whole corpus."""
    judged, differences = _differences(judge, range(start, min(start + BATCH * 10, ALL)))
    assert differences == []
    assert judged > 100


def _one_line(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.slow
def test_kubectl_says_the_same(server: TestServer, judge: Judge, tmp_path: Path) -> None:
    """`kubectl apply --server-side --dry-run=server` prints the messages that a check finds."""
    kubectl = shutil.which("kubectl", path=str(TOOLS)) or shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("no kubectl")
    file = tmp_path / "manifest.yaml"
    compared = 0
    for number in KUBECTL_MANIFESTS:
        text = manifest_text(number)
        tree = codec.decode_value(text.encode())
        path = path_of(tree)
        if path is None:
            continue
        file.write_text(text)
        completed = subprocess.run(
            [kubectl, "--kubeconfig", str(server.kubeconfig), "apply", "--server-side",
             "--dry-run=server", "--validate=strict", "-f", str(file)],
            capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip
        errors = _verdict(check_text(text)).errors
        assert bool(completed.returncode) == bool(errors), (number, completed.stderr, errors)
        message = judge.verdict(path, tree).message
        if "Error from server" in completed.stderr:  # kubectl refuses some objects by itself
            assert _one_line(message) in _one_line(completed.stderr), number
        compared += 1
    assert compared > len(KUBECTL_MANIFESTS) * 0.6
