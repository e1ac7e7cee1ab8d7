"""Wrong and odd requests are answered as by kube-apiserver 1.37.2, whose answers are recorded."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from kapiserver.testing import TestServer
from tests.answers.asking import QUESTIONS, RECORDED, Respondent, read
from tests.bench.servers import peer, store


@pytest.fixture(scope="module")
def respondent() -> Iterator[Respondent]:
    """A server with the objects; no controller changes them."""
    with TestServer(
        controllers=["-*"],
        disable_admission_plugins=["ServiceAccount"],
        service_cluster_ip_range="10.0.0.0/24",
    ) as server:
        respondent = Respondent(server.url, server.token)
        respondent.make_objects()
        yield respondent
        respondent.close()


def test_answers(respondent: Respondent) -> None:
    """Status, headers and body are those of kube-apiserver."""
    differences = []
    for question, expected in zip(read(QUESTIONS), read(RECORDED), strict=True):
        answer = respondent.answer(question)
        if answer != expected:
            lines = (question, expected, answer)
            differences.append("\n".join(json.dumps(line, sort_keys=True) for line in lines))
    assert not differences, "\n\n".join(differences[:20])


@pytest.mark.slow
def test_recorded_answers(tmp_path: Path) -> None:
    """With PEER=path/to/kube-apiserver: what that program answers is recorded. RECORD=1 writes the
    file."""
    program = os.environ.get("PEER") or ""
    if not program:
        pytest.skip("PEER names no kube-apiserver")
    flags = ["--feature-gates=CBORServingAndStorage=true"]
    with store("etcd", tmp_path) as below, peer(Path(program), tmp_path / "s", below, flags) as run:
        target, _ = run
        respondent = Respondent(f"https://{target.host}:{target.port}", target.token)
        respondent.make_objects()
        answers = [respondent.answer(question) for question in read(QUESTIONS)]
        respondent.close()
    if os.environ.get("RECORD"):
        lines = [json.dumps(answer, sort_keys=True) + "\n" for answer in answers]
        RECORDED.write_text("".join(lines))
    assert answers == read(RECORDED)
