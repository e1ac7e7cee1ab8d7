"""The file with the steps of a workload."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kapiserver.exploring.steps import (
    Advance,
    Apply,
    Delete,
    Patch,
    Scale,
    Settle,
    Target,
    Wait,
    read_workload,
)

WORKLOAD = """
namespace: data
steps:
- apply: {apiVersion: v1, kind: ConfigMap, metadata: {name: a}}
- apply: objects.yaml
- patch: {on: databases.example.com/db, with: {spec: {size: 3}}}
- scale: {on: deployment/web, replicas: 2, namespace: web}
- wait: {for: condition=Ready, on: databases.example.com/db, timeout: 5s}
- wait: {for: gone, on: pod/p}
- settle: {}
- delete: databases.example.com/db
- advance: 10m
"""
DATABASE = Target("databases.example.com", "db", "data")


def write(folder: Path, text: str) -> Path:
    path = folder / "steps.yaml"
    path.write_text(text)
    (folder / "objects.yaml").write_text("kind: Secret\nmetadata: {name: s}\n")
    return path


def test_every_step(tmp_path: Path) -> None:
    """Each step becomes a record; files are relative to the workload's."""
    steps = read_workload(write(tmp_path, WORKLOAD))
    config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
    assert steps == (
        Apply((config_map,), "data"),
        Apply(({"kind": "Secret", "metadata": {"name": "s"}},), "data"),
        Patch(DATABASE, {"spec": {"size": 3}}),
        Scale(Target("deployment", "web", "web"), 2),
        Wait(DATABASE, "condition=Ready", 5),
        Wait(Target("pod", "p", "data"), "delete", 30),
        Settle(),
        Delete(DATABASE),
        Advance(600),
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("steps: [", "steps.yaml: "),
        ("[]", "the workload must be a mapping"),
        ("step: []", "the workload must have steps"),
        ("steps: []\nname: x", "the workload has no key 'name'"),
        ("steps: []", "at least one step"),
        ("steps: [{create: x}]", "step 1: 'create' is not a step; write apply, patch"),
        ("steps: [{settle: {}, delete: a/b}]", "step 1: a step is a mapping with one key"),
        ("steps: [{settle: {}}, {delete: db}]", "step 2: 'db' is not an object: write kind/name"),
        ("steps: [{wait: {for: Ready, on: a/b}}]", "step 1: 'Ready' is not a condition"),
        ("steps: [{wait: {for: gone}}]", "step 1: wait must have on"),
        ("steps: [{patch: {on: a/b, with: 3}}]", "step 1: with must be a merge patch"),
        ("steps: [{scale: {on: a/b, replicas: -1}}]", "step 1: replicas must be a number"),
        ("steps: [{advance: soon}]", "step 1: 'soon' is not a duration"),
        ("steps: [{apply: {metadata: {}}}]", "step 1: an object: an object has no kind"),
        ("steps: [{apply: 3}]", "step 1: apply takes an object"),
        ("steps: [{settle: {timeout: 3}}]", "step 1: settle has no key 'timeout'"),
    ],
)
def test_what_is_not_a_workload(tmp_path: Path, text: str, message: str) -> None:
    """The error names the step and says what to write."""
    with pytest.raises(ValueError, match=re.escape(message)):
        read_workload(write(tmp_path, text))
