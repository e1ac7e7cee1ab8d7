"""Small valid objects for tables of test cases, and single changes to them."""

import copy
import functools

from kapiserver.api.declarative_validation import merge_errors
from kapiserver.api.scheme import Scheme

SCHEME = Scheme()

POD = {
    "kind": "Pod",
    "apiVersion": "v1",
    "metadata": {"name": "p", "namespace": "n"},
    "spec": {
        "volumes": [{"name": "v"}, {"name": "claim", "persistentVolumeClaim": {"claimName": "c"}}],
        "containers": [
            {
                "name": "c",
                "image": "nginx",
                "ports": [{"name": "http", "containerPort": 80}],
                "resources": {},
                "volumeMounts": [{"name": "v", "mountPath": "/v"}],
            }
        ],
    },
    "status": {},
}
DEPLOYMENT = {
    "kind": "Deployment",
    "apiVersion": "apps/v1",
    "metadata": {"name": "d", "namespace": "n"},
    "spec": {
        "selector": {"matchLabels": {"a": "b"}},
        "template": {
            "metadata": {"labels": {"a": "b"}},
            "spec": {"containers": [{"name": "c", "image": "nginx:1", "resources": {}}]},
        },
        "strategy": {},
    },
    "status": {},
}
SERVICE = {
    "kind": "Service",
    "apiVersion": "v1",
    "metadata": {"name": "s", "namespace": "n"},
    "spec": {"ports": [{"port": 80}], "selector": {"a": "b"}},
    "status": {"loadBalancer": {}},
}
AUTOSCALER = {
    "kind": "HorizontalPodAutoscaler",
    "apiVersion": "autoscaling/v2",
    "metadata": {"name": "h", "namespace": "n"},
    "spec": {
        "scaleTargetRef": {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"},
        "maxReplicas": 3,
    },
    "status": {"desiredReplicas": 0, "currentMetrics": None},
}
GONE = object()
"""The value of a change that removes a field."""


@functools.cache
def resource(name):
    """The resource with a plural name."""
    for group in SCHEME.groups:
        for candidate in SCHEME.resources(group.name):
            if candidate.name == name:
                return candidate
    raise KeyError(name)


def strategy(name):
    """The strategy of a resource or subresource: `pods` or `pods/status`."""
    plural, _, subresource = name.partition("/")
    return SCHEME.strategy(resource(plural), subresource)


def write_errors(name, new, old=None):
    """The errors of a create or update in order, without those of metadata."""
    kind = strategy(name)
    if old is None:
        return texts(merge_errors(kind.validate(new), list(kind.declarative_rules.errors(new))))
    all_errors = kind.validate_update(new, old)
    return texts(merge_errors(all_errors, list(kind.declarative_rules.errors(new, old))))


def defaulted(obj):
    """A copy with defaults."""
    copied = copy.deepcopy(obj)
    SCHEME.default(copied)
    return copied


def changed(obj, path="", value=GONE):
    """A copy with one value changed: `spec/containers/0/name`."""
    copied = copy.deepcopy(obj)
    parent = copied
    *steps, last = path.split("/") if path else [""]
    for step in steps:
        parent = parent[int(step)] if isinstance(parent, list) else parent.setdefault(step, {})
    if not last:
        return copied
    key = int(last) if isinstance(parent, list) else last
    if value is GONE:
        del parent[key]
    else:
        parent[key] = copy.deepcopy(value)
    return copied


def texts(errors):
    """The texts of errors."""
    return [str(error) for error in errors]
