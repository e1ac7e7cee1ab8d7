"""Which differences of end states count."""

from __future__ import annotations

from kapiserver.exploring.history import OTHER_ANNOTATION, History, ObjectRef
from kapiserver.exploring.judging.states import learn_expectation
from tests.exploring.histories import Builder, Tree, ref


def config_map(name: str, data: Tree, **metadata: object) -> Tree:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default", **metadata},
        "data": data,
    }


def history(*objects: Tree) -> History:
    run = Builder()
    for obj in objects:
        run.operator("create", ref("configmaps", obj["metadata"]["name"]), obj)
    return run.build()


def lines(plain: list[History], run: History) -> list[str]:
    return [str(item) for item in learn_expectation(plain).differences(run.final)]


def test_what_differs_between_plain_runs() -> None:
    """A field that differs between plain runs is not compared; others are."""
    plain = [history(config_map("a", {"key": "1", "port": str(number)})) for number in range(3)]
    assert lines(plain, history(config_map("a", {"key": "1", "port": "77"}))) == []
    changed = lines(plain, history(config_map("a", {"key": "2", "port": "77"})))
    assert changed == ['configmaps default/a: differs\n    data.key: "1" -> "2"']


def test_counters_and_versions() -> None:
    """Generations, versions and counters of restarts differ without being a fault."""
    plain = [history(config_map("a", {"retries": "1"}, generation=1, resourceVersion="5"))] * 3
    other = history(config_map("a", {"retries": "4"}, generation=3, resourceVersion="9"))
    assert lines(plain, other) == []


def test_addresses_of_pods() -> None:
    """Which address was free is no fault, also if it was the same in all plain runs."""

    def pod(address: str) -> History:
        status = {"podIP": address, "podIPs": [{"ip": address}]}
        return history(config_map("a", {}) | {"status": status})

    assert lines([pod("10.128.0.2")] * 3, pod("10.128.0.7")) == []


def test_generated_names() -> None:
    """Names that differ between plain runs are one pattern; two objects instead of one differ."""
    plain = [history(config_map(f"a-{number}", {})) for number in range(3)]
    assert lines(plain, history(config_map("a-x", {}))) == []
    twice = history(config_map("a-x", {}), config_map("a-y", {}))
    assert lines(plain, twice) == ["configmaps default/a-*#2: is unexpected"]


def test_uids_in_names() -> None:
    """A uid is one part of a name: volumes of provisioners have names such as pvc-UID."""
    uids = [f"{number}f2c3a4b-0000-4000-8000-{number:012}" for number in range(4)]
    plain = [history(config_map(f"pvc-{uid}", {})) for uid in uids[:3]]
    assert lines(plain, history(config_map(f"pvc-{uids[3]}", {}))) == []
    assert lines(plain, history()) == ["configmaps default/pvc-*: is missing"]


def test_records_of_what_an_operator_saw() -> None:
    """A field that holds the annotation of another writer is no difference."""
    plain = [history(config_map("a", {"seen": "{}"}))] * 3
    assert lines(plain, history(config_map("a", {"seen": f'{{"{OTHER_ANNOTATION}":"yes"}}'}))) == []


def test_missing_and_unexpected_objects() -> None:
    """Objects that are there in one run only differ, unless the plain runs differ in them."""
    first, second = config_map("a", {}), config_map("b", {})
    assert lines([history(first)] * 3, history(second)) == [
        "configmaps default/a: is missing",
        "configmaps default/b: is unexpected",
    ]


def test_names_in_texts() -> None:
    """A generated name inside another object is not compared."""
    plain = [
        history(config_map(f"a-{number}", {}), config_map("b", {"of": f"a-{number}"}))
        for number in range(3)
    ]
    assert lines(plain, history(config_map("a-x", {}), config_map("b", {"of": "a-x"}))) == []
    assert ObjectRef("configmaps", "default", "a-*") in learn_expectation(plain).names.patterns
