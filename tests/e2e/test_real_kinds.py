"""CustomResourceDefinitions of real projects with kubectl: Gateway API, Envoy Gateway, Calico,
volume snapshots, Dask.

All kinds are on one server, as in a cluster; each step is one call of kubectl for all of them. The
expectations are derived from the definitions and from the table `real_kinds.yaml`.
"""

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.binaries import DEFINITIONS
from tests.e2e.cluster import established
from tests.e2e.programs import TOOLS, Kubectl, Server, kubectl_of, start, stop

Tree = dict[str, Any]
FILES = [
    file for package in DEFINITIONS for file in sorted((TOOLS / "crds" / package).glob("*.yaml"))
]
TABLE = yaml.load(Path(__file__).with_name("real_kinds.yaml").read_bytes(), yaml.CSafeLoader)
LARGE_GROUPS = ("crd.projectcalico.org", "gateway.envoyproxy.io")
"""The groups of Calico and Envoy Gateway, which only the slow tests use: they have most of the
kinds, and the largest schemas."""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A server of one test, because so many kinds would slow down the others."""
    running = start(tmp_path)
    yield running
    stop(running)


@pytest.fixture
def kubectl(server: Server) -> Kubectl:
    """The newest kubectl."""
    return kubectl_of(server)


@pytest.mark.skipif(not FILES, reason="the packages with definitions were not to be had")
@pytest.mark.parametrize(
    "large_group", ["", *(pytest.param(group, marks=pytest.mark.slow) for group in LARGE_GROUPS)]
)
def test_kinds_of_real_projects(server: Server, kubectl: Kubectl, large_group: str) -> None:
    """Definitions are established, explained and listed with their columns; valid objects are
    created, defaulted and applied without a second change; invalid objects and forbidden changes
    are refused with kube-apiserver's messages; everything is deleted with the definitions."""
    files = [file for file in FILES if _large_group(file.name) == large_group]
    rows = [row for row in TABLE if _large_group(_kind(row["object"])[0]) == large_group]
    kinds = [yaml.load(file.read_bytes(), yaml.CSafeLoader) for file in files]
    objects = [_merged({"metadata": {"name": "good"}}, row["object"]) for row in rows]
    assert sorted(map(_kind, objects)) == sorted(
        (kind["spec"]["group"], kind["spec"]["names"]["kind"]) for kind in kinds
    )
    named = [f"--filename={file}" for file in files]
    kubectl("create", *named)
    established(server, *(kind["metadata"]["name"] for kind in kinds))
    _are_served(kubectl, kinds)
    assert kubectl("create", "-f", "-", stdin=_stream(objects)).count(" created\n") == len(kinds)
    _are_shown(kubectl, kinds)
    _are_explained(kubectl, kinds)
    _are_kept(kubectl, kinds, rows, objects)
    _unknown_fields_are_refused(kubectl, objects)
    _invalid_objects_are_refused(kubectl, rows, objects)
    _changes_are_refused(kubectl, rows, objects)
    kubectl("delete", *named)
    assert kubectl("get", "crd", "-o", "name") == ""


def _large_group(text: str) -> str:
    """The large group that a text names; "" if it names none."""
    return next((group for group in LARGE_GROUPS if group in text), "")


def _merged(tree: Any, patch: Any) -> Any:
    # As a JSON merge patch does it.
    if not isinstance(patch, dict):
        return patch
    merged = dict(tree) if isinstance(tree, dict) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = _merged(merged.get(name), value)
    return merged


def _stream(objects: Iterable[Tree]) -> str:
    return "\n---\n".join(map(json.dumps, objects))


def _kind(tree: Tree) -> tuple[str, str]:
    return tree["apiVersion"].split("/")[0], tree["kind"]


def _newest(definition: Tree) -> Tree:
    """The version that kubectl prefers: the first of a definition, for these."""
    served = [version for version in definition["spec"]["versions"] if version["served"]]
    stable = [item for item in served if re.fullmatch(r"v\d+", item["name"])]
    return (stable or served)[0]


def _are_served(kubectl: Kubectl, kinds: list[Tree]) -> None:
    """Check that discovery has each kind with its version, scope, short names and categories."""
    versions = {}
    for line in kubectl("api-resources", "--no-headers").splitlines():
        *names, version, is_namespaced, kind = line.split()
        versions[version, kind] = (is_namespaced == "true", ",".join(names[1:]))
    for definition in kinds:
        spec = definition["spec"]
        version = f"{spec['group']}/{_newest(definition)['name']}"
        names = ",".join(spec["names"].get("shortNames") or ())
        assert versions[version, spec["names"]["kind"]] == (spec["scope"] == "Namespaced", names)


def _are_shown(kubectl: Kubectl, kinds: list[Tree]) -> None:
    """Check the columns of lists: those of priority 0, and all of them with -o wide."""
    for wide, arguments in ((False, ()), (True, ("-o", "wide"))):
        names = ",".join(definition["metadata"]["name"] for definition in kinds)
        tables = kubectl("get", names, *arguments).strip().split("\n\n")
        for definition, table in zip(kinds, tables, strict=True):
            columns = _newest(definition).get("additionalPrinterColumns") or [{"name": "Age"}]
            heads = [
                column["name"].upper() for column in columns if wide or not column.get("priority")
            ]
            header, row = table.splitlines()
            assert re.split(" {2,}", header.rstrip()) == ["NAME", *heads]
            singular = definition["spec"]["names"]["kind"].lower()
            assert row.split()[0] == f"{singular}.{definition['spec']['group']}/good"


def _are_explained(kubectl: Kubectl, kinds: list[Tree]) -> None:
    """Check that `explain` has the definition's description of a kind of each group and of its
    spec."""
    for definition in {kind["spec"]["group"]: kind for kind in kinds}.values():
        name, schema = definition["metadata"]["name"], _newest(definition)["schema"]
        output = kubectl("explain", f"{name}.spec")
        described = schema["openAPIV3Schema"]["properties"]["spec"]
        for field, child in described["properties"].items():
            assert re.search(rf"^  {field}\t<", output, re.MULTILINE), (name, field)
            assert _words(child.get("description", ""))[:20] in _words(output)


def _words(text: str) -> str:
    return "".join(text.split())


def _are_kept(kubectl: Kubectl, kinds: list[Tree], rows: list[Tree], objects: list[Tree]) -> None:
    """Check that objects have their fields and defaults, and that server-side apply of the same
    object changes nothing but managedFields."""
    names = ",".join(definition["metadata"]["name"] for definition in kinds)
    before_apply = _by_kind(kubectl("get", names, "-o", "json"))
    for row, tree in zip(rows, objects, strict=True):
        assert _has(before_apply[_kind(tree)], tree), tree
        assert _has(before_apply[_kind(tree)], row.get("filled", {})), tree
    unapplied = {_kind(row["object"]): row["unapplied"] for row in rows if "unapplied" in row}
    config = _stream(item for item in objects if _kind(item) not in unapplied)
    # An atomic list whose items were defaulted conflicts, and is taken over by force.
    output = kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=config)
    assert output.count(" serverside-applied\n") == len(objects) - len(unapplied)
    after_apply = _by_kind(kubectl("get", names, "-o", "json", "--show-managed-fields"))
    kubectl("apply", "--server-side", "-f", "-", stdin=config)
    assert _by_kind(kubectl("get", names, "-o", "json", "--show-managed-fields")) == after_apply
    for kind, tree in after_apply.items():
        managers = [
            managed_field["manager"] for managed_field in tree["metadata"].pop("managedFields", ())
        ]
        assert managers == ([] if kind in unapplied else ["kubectl", "kubectl-create"])
        tree["metadata"]["resourceVersion"] = before_apply[kind]["metadata"]["resourceVersion"]
    assert after_apply == before_apply
    for tree in objects:
        if _kind(tree) in unapplied:
            output = kubectl("apply", "--server-side", "-f", "-", stdin=_stream([tree]), fails=True)
            assert unapplied[_kind(tree)] in output


def _by_kind(text: str) -> dict[tuple[str, str], Tree]:
    return {_kind(item): item for item in json.loads(text)["items"]}


def _has(tree: Any, part: Any) -> bool:
    if isinstance(part, dict):
        return all(name in tree and _has(tree[name], item) for name, item in part.items())
    if isinstance(part, list):
        return len(tree) == len(part) and all(map(_has, tree, part))
    return bool(tree == part)


def _unknown_fields_are_refused(kubectl: Kubectl, objects: list[Tree]) -> None:
    """Check that an unknown field is refused by name."""
    strangers = [_merged(item, {"metadata": {"name": "odd"}, "stranger": 1}) for item in objects]
    output = kubectl("create", "-f", "-", stdin=_stream(strangers), fails=True)
    for tree in objects:
        version = tree["apiVersion"].split("/")[1]
        assert (
            f'{tree["kind"]} in version "{version}" cannot be handled as a {tree["kind"]}: '
            'strict decoding error: unknown field "stranger"' in output
        )


def _invalid_objects_are_refused(kubectl: Kubectl, rows: list[Tree], objects: list[Tree]) -> None:
    """Check that each invalid object is refused with the exact message."""
    bad_objects, expected = [], []
    for row, tree in zip(rows, objects, strict=True):
        for index, case in enumerate(row["wrong"]):
            name = case["patch"].get("metadata", {}).get("name", f"wrong-{index}")
            bad_objects.append(_merged(_merged(tree, case["patch"]), {"metadata": {"name": name}}))
            group, kind = _kind(tree)
            output = ", ".join(case["says"])
            output = f"[{output}]" if len(case["says"]) > 1 else output
            expected.append(
                'Error from server (Invalid): error when creating "STDIN": '
                f'{kind}.{group} "{name}" is invalid: {output}'
            )
    output = kubectl("create", "-f", "-", stdin=_stream(bad_objects), fails=True)
    assert output.splitlines() == expected


def _changes_are_refused(kubectl: Kubectl, rows: list[Tree], objects: list[Tree]) -> None:
    """Check that rules with oldSelf refuse changes."""
    for row, tree in zip(rows, objects, strict=True):
        for case in row.get("changes", ()):
            group, kind = _kind(tree)
            patch = ("--type=merge", "-p", json.dumps(case["patch"]))
            output = kubectl("patch", f"{kind}.{group}", "good", *patch, fails=True)
            assert output == f'The {kind} "good" is invalid: {case["says"]}\n'
