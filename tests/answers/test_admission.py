"""Webhooks and policies answer, and write audit annotations, as those of kube-apiserver 1.37.2."""

from __future__ import annotations

import base64
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kapiserver.apiserver.config import Config
from kapiserver.apiserver.serving.tls.credentials import ensure_certificates
from kapiserver.testing import TestServer
from tests.answers.admission import LAST, objects, question, questions, respond
from tests.answers.asking import FOLDER, Answer, Respondent, read
from tests.apiserver.aggregation.aggregationkit import Authority
from tests.apiserver.proxy.https_server import HttpsServer
from tests.bench.servers import peer, store

RECORDED = FOLDER / "admission.jsonl"
SECONDS = 60
_FOREIGN = ("authorization.k8s.io/", "apiserver.latency.k8s.io/")
"""Annotations that admission does not make."""
_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Request", "verbs": ["create"]}],
}


class Hooks:
    """The server of the webhooks, and the bundles of its CA and of another one."""

    def __init__(self, folder: Path) -> None:
        credentials = ensure_certificates(Config(), folder)
        other = Authority(folder)  # of another name, or else Go says more
        authorities = (credentials.ca.read_text(), other.pem)
        self.ca, self.other_ca = (base64.b64encode(pem.encode()).decode() for pem in authorities)
        self.server = HttpsServer(credentials, respond)


@pytest.fixture(scope="module")
def hooks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hooks]:
    hooks = Hooks(tmp_path_factory.mktemp("hooks"))
    yield hooks
    hooks.server.end()


def ask(respondent: Respondent, hooks: Hooks, log: Path) -> list[Answer]:
    """Return the answers to all questions, with the annotations of their audit events."""
    respondent.make(objects(hooks.server.url, hooks.ca, hooks.other_ca))
    for name in LAST:
        _wait_until_denied(respondent, name)
    asked = questions()
    answers = [respondent.answer(request) for request in asked]
    annotations = _annotations(log, {request["headers"]["User-Agent"] for request in asked})
    for request, answer in zip(asked, answers, strict=True):
        name = request["headers"]["User-Agent"]
        answer |= {"question": name, "audit": annotations[name]}
    text = json.dumps(answers).replace(f"127.0.0.1:{hooks.server.port}", "127.0.0.1:PORT")
    named: list[Answer] = json.loads(text)
    return named


def _wait_until_denied(respondent: Respondent, name: str) -> None:
    deadline = time.monotonic() + SECONDS
    while respondent.answer(question(name))["status"] == 201:
        assert time.monotonic() < deadline, name
        time.sleep(0.1)


def _annotations(log: Path, names: set[str]) -> dict[str, dict[str, str]]:
    """Return the annotations of the requests with these user agents, when all are in the log."""
    deadline = time.monotonic() + SECONDS
    while True:
        events = [json.loads(line) for line in log.read_text().splitlines()]
        annotations = {event.get("userAgent"): event.get("annotations") or {} for event in events}
        if names <= annotations.keys():
            break
        assert time.monotonic() < deadline, names - annotations.keys()
        time.sleep(0.1)
    return {
        agent: {key: value for key, value in notes.items() if not key.startswith(_FOREIGN)}
        for agent, notes in annotations.items()
    }


def _audit_flags(folder: Path) -> dict[str, Any]:
    (folder / "policy.json").write_text(json.dumps(_POLICY))
    (folder / "audit.log").touch()
    return {
        "audit_policy_file": folder / "policy.json",
        "audit_log_path": str(folder / "audit.log"),
    }


def test_answers(hooks: Hooks, tmp_path: Path) -> None:
    """Status, headers, body and audit annotations are those of kube-apiserver."""
    with TestServer(
        controllers=["-*"], disable_admission_plugins=["ServiceAccount"], **_audit_flags(tmp_path)
    ) as server:
        respondent = Respondent(server.url, server.token)
        answers = ask(respondent, hooks, tmp_path / "audit.log")
        respondent.close()
    differences = [
        "\n".join(json.dumps(line, sort_keys=True) for line in (expected, answer))
        for expected, answer in zip(read(RECORDED), answers, strict=True)
        if answer != expected
    ]
    assert not differences, "\n\n".join(differences[:20])


@pytest.mark.slow
def test_recorded_answers(hooks: Hooks, tmp_path: Path) -> None:
    """With PEER=path/to/kube-apiserver: what that program answers is recorded. RECORD=1 writes the
    file."""
    program = os.environ.get("PEER") or ""
    if not program:
        pytest.skip("PEER names no kube-apiserver")
    flags = [
        f"--{name.replace('_', '-')}={value}" for name, value in _audit_flags(tmp_path).items()
    ]
    with store("etcd", tmp_path) as below, peer(Path(program), tmp_path / "s", below, flags) as run:
        target, _ = run
        respondent = Respondent(f"https://{target.host}:{target.port}", target.token)
        answers = ask(respondent, hooks, tmp_path / "audit.log")
        respondent.close()
    if os.environ.get("RECORD"):
        lines = [json.dumps(answer, sort_keys=True) + "\n" for answer in answers]
        RECORDED.write_text("".join(lines))
    assert answers == read(RECORDED)
