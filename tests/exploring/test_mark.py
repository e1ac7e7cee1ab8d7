"""The mark explores the kopf operator of a test."""

from __future__ import annotations

import pytest

pytest_plugins = ["pytester"]

TEST = """
import kopf
import pytest


@kopf.on.event("configmaps", annotations={"team": kopf.PRESENT})
def label(annotations, patch, type, **_):
    if type == "ADDED" or not ONLY_ADDED:
        patch.meta.labels["team"] = annotations["team"]


@pytest.mark.kube_explore(plans=1)
def test_label(kube_operator, kube_apiserver, kube_client):
    kube_operator()
    config_map = {"metadata": {"name": "x", "annotations": {"team": "blue"}}}
    path = "/api/v1/namespaces/default/configmaps"
    kube_client.httpx().post(path, json=config_map).raise_for_status()
    expected = "jsonpath={.metadata.labels.team}=blue"
    kube_apiserver.objects.wait_for("configmap/x", expected, timeout=WAIT)


def test_next(kube_apiserver):
    assert kube_apiserver.is_running
"""
PLAN = "crash-before@patch:configmaps:default:x:1"


@pytest.mark.slow
@pytest.mark.parametrize("has_fault", [False, True])
def test_a_marked_test(pytester: pytest.Pytester, has_fault: bool) -> None:
    """An operator that takes only events of new objects misses those that it finds at its start;
    the report says so. The test after it has fixtures of its own."""
    pytest.importorskip("kopf")
    wait = 3 if has_fault else 30
    pytester.makepyfile(TEST.replace("ONLY_ADDED", str(has_fault)).replace("WAIT", str(wait)))
    result = pytester.runpytest_subprocess(f"--kapiserver-plan={PLAN}")
    result.assert_outcomes(passed=1 if has_fault else 2, failed=int(has_fault))
    if has_fault:
        result.stdout.fnmatch_lines(
            [
                "The operator was killed before patch configmaps default/x, and restarted.",
                f"*--kapiserver-plan {PLAN}",
            ]
        )
