"""The matching that webhooks and policies share: rules, names, scope, equivalent resources."""

from dataclasses import dataclass

import pytest

from kapiserver.api.group import GroupVersion, GroupVersionKind, GroupVersionResource
from kapiserver.api.scheme import Scheme
from kapiserver.apiserver.admission.matching.criteria import (
    match_resources_criteria,
    webhook_criteria,
)
from kapiserver.apiserver.admission.matching.equivalent_resources import equivalent_resources
from kapiserver.apiserver.admission.matching.rules import (
    RequestedResource,
    ResourceVariant,
    match_for_name,
)

PODS = ResourceVariant(GroupVersionResource("", "v1", "pods"), GroupVersionKind("", "v1", "Pod"))


def rule(**fields):
    return {
        "operations": ["*"],
        "apiGroups": ["*"],
        "apiVersions": ["*"],
        "resources": ["*"],
        "scope": "*",
    } | fields


def request(operation="CREATE", variant=PODS, subresource="", *, namespaced=True):
    return RequestedResource(operation, variant, subresource, namespaced)


@pytest.mark.parametrize(
    ("fields", "requested", "expected"),
    [
        ({}, request(), True),
        ({"operations": ["CREATE"]}, request(), True),
        ({"operations": ["UPDATE", "DELETE"]}, request(), False),
        ({"apiGroups": ["apps"]}, request(), False),
        ({"apiGroups": [""]}, request(), True),
        ({"apiVersions": ["v2"]}, request(), False),
        ({"resources": ["pods"]}, request(), True),
        ({"resources": ["*"]}, request(subresource="status"), False),
        ({"resources": ["pods"]}, request(subresource="status"), False),
        ({"resources": ["pods/status"]}, request(subresource="status"), True),
        ({"resources": ["pods/status"]}, request(), False),
        ({"resources": ["pods/*"]}, request(subresource="exec"), True),
        ({"resources": ["pods/*"]}, request(), True),  # as kube-apiserver
        ({"resources": ["*/scale"]}, request(subresource="scale"), True),
        ({"resources": ["*/scale"]}, request(subresource="status"), False),
        ({"resources": ["*/*"]}, request(subresource="status"), True),
        ({"resources": ["*/*"]}, request(), True),
        ({"scope": "Cluster"}, request(), False),
        ({"scope": "Cluster"}, request(namespaced=False), True),
        ({"scope": "Namespaced"}, request(), True),
        ({"scope": "Namespaced"}, request(namespaced=False), False),
        ({"operations": ["CONNECT"], "resources": ["pods/exec"]},
         request("CONNECT", subresource="exec"), True),
    ],
)  # fmt: skip
def test_rules(fields, requested, expected):
    """A rule matches by operation, group, version, resource with subresource, and scope."""
    matches = webhook_criteria({"rules": [rule(**fields)]}).match_rules(requested, ())
    assert (matches is not None) is expected


def test_webhook_without_rules():
    """A webhook without rules matches nothing; match resources without rules match everything."""
    assert webhook_criteria({}).match_rules(request(), ()) is None
    matches = match_resources_criteria(None).match_rules(request(), ())
    assert match_for_name(matches.included, "any") == PODS


def test_resource_names():
    """Names in rules restrict the match, and names in excluded rules the exclusion."""
    named = rule(resourceNames=["a", "b"])
    criteria = match_resources_criteria(
        {"resourceRules": [named], "excludeResourceRules": [rule(resourceNames=["b"])]}
    )
    matches = criteria.match_rules(request(), ())
    assert match_for_name(matches.included, "a") == PODS
    assert match_for_name(matches.included, "c") is None
    assert match_for_name(matches.excluded, "b") == PODS
    all_excluded = match_resources_criteria(
        {"resourceRules": [named], "excludeResourceRules": [named, rule()]}
    )
    assert all_excluded.match_rules(request(), ()) is None


@dataclass
class Requested:
    """The part of a Target that decides which resources are equivalent."""

    resource: object
    version: GroupVersion
    subresource: str = ""


def requested(scheme, version, name, subresource=""):
    group_version = GroupVersion.parse(version)
    return Requested(scheme.resource(group_version, name), group_version, subresource)


def names(variants):
    return [f"{v.resource.group}/{v.resource.version}/{v.resource.resource}" for v in variants]


def test_equivalent_resources():
    """All versions, and groups that share the stored objects, are equivalent."""
    scheme = Scheme()
    autoscalers = requested(scheme, "autoscaling/v1", "horizontalpodautoscalers")
    assert names(equivalent_resources(scheme, autoscalers)) == [
        "autoscaling/v2/horizontalpodautoscalers"
    ]
    events = requested(scheme, "v1", "events")
    assert names(equivalent_resources(scheme, events)) == ["events.k8s.io/v1/events"]
    deployments = requested(scheme, "apps/v1", "deployments", "scale")
    assert names(equivalent_resources(scheme, deployments)) == []


def test_match_policy():
    """With Equivalent, a rule for another version matches, as that version; with Exact it does not,
    and a rule for the version of the request comes first."""
    scheme = Scheme()
    target = requested(scheme, "autoscaling/v1", "horizontalpodautoscalers")
    equivalents = equivalent_resources(scheme, target)
    kind = GroupVersionKind("autoscaling", "v1", "HorizontalPodAutoscaler")
    resource = GroupVersionResource("autoscaling", "v1", "horizontalpodautoscalers")
    variant_request = request(variant=ResourceVariant(resource, kind))
    newer = {"rules": [rule(apiVersions=["v2"])]}
    matches = webhook_criteria(newer).match_rules(variant_request, equivalents)
    assert match_for_name(matches.included, "") == ResourceVariant(
        resource._replace(version="v2"), kind._replace(version="v2")
    )
    assert (
        webhook_criteria({**newer, "matchPolicy": "Exact"}).match_rules(
            variant_request, equivalents
        )
        is None
    )
    both = {"rules": [rule(apiVersions=["v2"]), rule(apiVersions=["v1"])]}
    matches = webhook_criteria(both).match_rules(variant_request, equivalents)
    assert match_for_name(matches.included, "").resource.version == "v1"
