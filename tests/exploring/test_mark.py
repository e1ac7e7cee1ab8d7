"""The mark explores the operator of a test."""

from __future__ import annotations

import pytest

from tests.exploring.copierkit import COPIER

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
    wait = 10 if has_fault else 30
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


OTHERS = """
import asyncio
import os
import ssl
import sys

import httpx
import pytest
import yaml

PATH = "/api/v1/namespaces/default/configmaps"
CONFIG_MAP = {"metadata": {"name": "a", "labels": {"copy": "yes"}}}


def connect():
    with open(os.environ["KUBECONFIG"]) as file:
        config = yaml.safe_load(file)
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    headers = {"Authorization": f"Bearer {user['token']}"}
    return httpx.AsyncClient(base_url=cluster["server"], headers=headers, verify=False)


async def copy():
    async with connect() as client:
        while True:
            items = (await client.get(PATH, params={"labelSelector": "copy"})).json()["items"]
            for item in items:
                name = item["metadata"]["name"]
                secret = {"metadata": {"name": name}}
                response = await client.post(PATH.replace("configmaps", "secrets"), json=secret)
                if response.status_code != 409:
                    response.raise_for_status()
            await asyncio.sleep(0.1)


def check(kube_apiserver, kube_client):
    kube_client.httpx().post(PATH, json=CONFIG_MAP).raise_for_status()
    kube_apiserver.objects.wait_for("secret/a", "create", timeout=10)


@pytest.mark.kube_explore
def test_background(kube_background, kube_apiserver, kube_client):
    kube_background(copy)
    check(kube_apiserver, kube_client)


async def publish():
    path = "/apis/example.com/v1/namespaces/default/databases"
    async with connect() as client:
        while True:
            for item in (await client.get(path)).json()["items"]:
                size = item["spec"].get("size", "none").lower()
                await client.post(PATH, json={"metadata": {"name": f"size-{size}"}})
            await asyncio.sleep(0.1)


@pytest.mark.kube_explore(vary=True, plans=1)
def test_vary(kube_crds, kube_background, kube_apiserver, kube_client):
    kube_crds(CRD)
    kube_background(publish)
    database = {"apiVersion": "example.com/v1", "kind": "Database", "metadata": {"name": "db"}}
    path = "/apis/example.com/v1/namespaces/default/databases"
    kube_client.httpx().post(path, json=database | {"spec": {"size": "1Gi"}}).raise_for_status()
    kube_apiserver.objects.wait_for("configmap/size-1gi", "create", timeout=10)


@pytest.mark.kube_explore
def test_command(kube_command, kube_apiserver, kube_client):
    kube_command(sys.executable, COPIER, "forgets")
    check(kube_apiserver, kube_client)
"""


CRD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "databases.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"kind": "Database", "plural": "databases"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {"type": "object", "properties": {"size": {"type": "string"}}}
                        },
                    }
                },
            }
        ],
    },
}


@pytest.mark.slow
def test_variations(pytester: pytest.Pytester) -> None:
    """A property changes at the end of the test, and changes back."""
    pytester.makepyfile(OTHERS.replace("COPIER", repr(COPIER)).replace("CRD", repr(CRD)))
    result = pytester.runpytest_subprocess("-k", "vary")
    result.assert_outcomes(failed=1, deselected=2)
    result.stdout.fnmatch_lines(
        [
            "The operator saw the change of spec.size of databases.example.com default/db *",
            "*configmaps default/size-2gi: should not be there",
        ]
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "plan"),
    [
        ("background", "refuse@create:secrets:default:a:1=internal"),
        ("command", "crash-before@create:secrets:default:a:1"),
    ],
)
def test_other_operators(pytester: pytest.Pytester, name: str, plan: str) -> None:
    """A coroutine that an error ends, and a command that looks only at new objects. The recording
    of a plan that fails is saved."""
    pytester.makepyfile(OTHERS.replace("COPIER", repr(COPIER)))
    result = pytester.runpytest_subprocess(
        f"--kapiserver-plan={plan}", "--kapiserver-record=recordings", "-k", name
    )
    result.assert_outcomes(failed=1, deselected=2)
    result.stdout.fnmatch_lines(
        ["*has not met create*", "*kapiserver replay recordings/plan-*.json.gz"]
    )
    assert len(list((pytester.path / "recordings").glob("plan-*.json.gz"))) == 1
