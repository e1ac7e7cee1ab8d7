"""Stages for tests."""

from __future__ import annotations


def stage(name="stage", kind="Pod", group="v1", selector=None, **spec):
    """A Stage that selects all objects of a kind unless it has a selector."""
    reference = {"apiGroup": group, "kind": kind}
    selected = {} if selector is None else selector
    return {
        "apiVersion": "kwok.x-k8s.io/v1alpha1",
        "kind": "Stage",
        "metadata": {"name": name},
        "spec": {
            "resourceRef": reference,
            "selector": selected,
            **spec,
        },
    }


def expressions(*requirements):
    """A selector of requirements: `(key, operator, values...)`, or the text of one in CEL."""
    return {
        "matchExpressions": [
            {"cel": {"expression": each}}
            if isinstance(each, str)
            else {"key": each[0], "operator": each[1], "values": list(each[2:])}
            for each in requirements
        ]
    }


def status_patch(template):
    """A `next` that patches the status."""
    return {"statusTemplate": template}
