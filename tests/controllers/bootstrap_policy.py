"""The bootstrap policy of Kubernetes as lines of text, which compare easily.

A rule is one line for each resource or path, and a binding is one line. As a program, this module
writes the lines of the files of Kubernetes' own tests (`bootstrappolicy/testdata`).
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import yaml

TABLE = Path(__file__).parent / "bootstrap_policy.txt"
FILES = (
    "cluster-roles", "cluster-role-bindings", "controller-roles", "controller-role-bindings",
    "namespace-roles", "namespace-role-bindings",
)  # fmt: skip


def lines(objects: Iterable[dict[str, Any]]) -> list[str]:
    """Return the sorted lines of roles and bindings."""
    return sorted(line for each in objects for line in _lines(each))


def _lines(obj: dict[str, Any]) -> Iterator[str]:
    metadata = obj["metadata"]
    name = "/".join(filter(None, (metadata.get("namespace"), metadata["name"])))
    if "roleRef" in obj:
        subjects = ", ".join(map(_subject, obj.get("subjects") or ())) or "nobody"
        yield f"{name} binds {obj['roleRef']['name']}: {subjects}"
    elif obj.get("aggregationRule"):
        for selector in obj["aggregationRule"]["clusterRoleSelectors"]:
            yield f"{name}: aggregates {' '.join(selector['matchLabels'])}"
    else:
        verbs = defaultdict(set)
        for rule in obj.get("rules") or ():
            for subject in _subjects_of(rule):
                verbs[subject].update(rule["verbs"])
        for subject, allowed in verbs.items():
            yield f"{name}: {subject}: {' '.join(sorted(allowed))}"


def _subject(subject: dict[str, Any]) -> str:
    names = filter(None, (subject.get("namespace"), subject["name"]))
    return f"{subject['kind']} {'/'.join(names)}"


def _subjects_of(rule: dict[str, Any]) -> Iterator[str]:
    """Yield what a rule is about: resources of groups, with names, or paths."""
    yield from rule.get("nonResourceURLs") or ()
    for group in rule.get("apiGroups") or ():
        for resource in rule.get("resources") or ():
            for name in rule.get("resourceNames") or ("",):
                yield f"{resource}.{group or 'core'}{name and f' {name!r}'}"


def main() -> None:
    objects = [
        each
        for file in FILES
        for each in yaml.safe_load((Path(sys.argv[1]) / f"{file}.yaml").read_text())["items"]
    ]
    TABLE.write_text("\n".join(lines(objects)) + "\n")


if __name__ == "__main__":
    main()
