"""Which pod templates are equal."""

from __future__ import annotations

import pytest

from kapiserver.controllers.workloads.template_hash import same_template


def template(labels=None, **spec):
    return {"metadata": {"labels": labels or {"app": "web"}}, "spec": spec}


def container(**fields):
    return template(containers=[{"name": "app"} | fields])


def resources(cpu, memory):
    return container(resources={"limits": {"memory": memory}, "requests": {"cpu": cpu}})


def size(limit):
    return template(volumes=[{"name": "v", "emptyDir": {"sizeLimit": limit}}])


CASES = {
    "the same": (container(image="a"), container(image="a"), True),
    "another image": (container(image="a"), container(image="b"), False),
    "the hash": (template(), template({"app": "web", "pod-template-hash": "x"}), True),
    "another label": (template({"app": "a"}), template({"app": "b"}), False),
    "millicores": (resources("1", "1Gi"), resources("1000m", "1Gi"), True),
    "bytes": (resources("1", "1Gi"), resources("1", "1073741824"), True),
    "more memory": (resources("1", "1Gi"), resources("1", "1G"), False),
    "size": (size("1Gi"), size("1024Mi"), True),
    "overhead": (template(overhead={"cpu": "1"}), template(overhead={"cpu": "1000m"}), True),
    "label that looks like a quantity": (
        template(nodeSelector={"sizeLimit": "1Gi"}), template(nodeSelector={"sizeLimit": "1024Mi"}),
        False,
    ),
    "no quantity": (size("many"), size("few"), False),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_same_template(name):
    one, other, expected = CASES[name]
    assert same_template(one, other) is expected
    assert same_template(other, one) is expected
