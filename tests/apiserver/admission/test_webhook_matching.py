"""Which requests webhooks are asked about, and in which version."""

import threading
from typing import Any

import pytest

from kapiserver.apiserver.serving.tls.credentials import Credentials
from tests.apiserver.admission.hookkit import (
    Hook,
    add,
    deny,
    hook_credentials,
    patch,
    rule,
    running_hook,
)
from tests.apiserver.conftest import Api
from tests.apiserver.customresources.conversion_webhook import FREE, Webhook
from tests.apiserver.customresources.customkit import (
    definition,
    establish,
    path_of,
    version,
    widget,
)

credentials = pytest.fixture(scope="module")(hook_credentials)
hook = pytest.fixture(running_hook)


def autoscaler(name: str) -> Any:
    target = {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"}
    return {
        "metadata": {"name": name},
        "spec": {"scaleTargetRef": target, "maxReplicas": 3, "targetCPUUtilizationPercentage": 50},
    }


def test_equivalent_version(api: Api, namespace: str, hook: Hook) -> None:
    """With matchPolicy Equivalent a webhook gets the object in the version of its rule, and its
    patch is for that version."""
    v2_rule = rule("horizontalpodautoscalers", apiGroups=["autoscaling"], apiVersions=["v2"])
    hook.configure(api, v2_rule, namespace=namespace, mutating=True)
    hook.behave = patch(add("/spec/metrics/0/resource/target/averageUtilization", 70))
    path = f"/apis/autoscaling/v1/namespaces/{namespace}/horizontalpodautoscalers"
    created = api.post(path, autoscaler("a"))
    assert created.status == 201, created.body
    assert created.json["apiVersion"] == "autoscaling/v1"
    assert created.json["spec"]["targetCPUUtilizationPercentage"] == 70
    (request,) = hook.requests
    assert request["kind"]["version"] == request["resource"]["version"] == "v2"
    assert request["requestKind"]["version"] == request["requestResource"]["version"] == "v1"
    assert request["object"]["apiVersion"] == "autoscaling/v2"
    assert request["object"]["spec"]["metrics"][0]["resource"]["name"] == "cpu"


def test_exact_version(api: Api, namespace: str, hook: Hook) -> None:
    """With matchPolicy Exact a webhook is asked about the versions of its rules alone."""
    v2_rule = rule("horizontalpodautoscalers", apiGroups=["autoscaling"], apiVersions=["v2"])
    hook.configure(api, v2_rule, namespace=namespace, matchPolicy="Exact")
    path = f"/apis/autoscaling/v1/namespaces/{namespace}/horizontalpodautoscalers"
    assert api.post(path, autoscaler("a")).status == 201
    assert hook.requests == []


def test_reviews_are_exempt(api: Api, namespace: str, hook: Hook) -> None:
    """No webhook is asked about reviews of access, which the cluster itself needs."""
    everything = rule("*", apiGroups=["*"], apiVersions=["*"])
    hook.configure(api, everything, namespace=namespace)
    hook.behave = deny()
    spec = {"user": "jane", "resourceAttributes": {"namespace": namespace}}
    group = f"/apis/authorization.k8s.io/v1/namespaces/{namespace}"
    review = {"metadata": {"namespace": namespace}, "spec": spec}
    assert api.post(f"{group}/localsubjectaccessreviews", review).status == 201
    # Controllers may write to the new namespace meanwhile.
    groups = {request["resource"]["group"] for request in hook.requests}
    assert "authorization.k8s.io" not in groups


def test_equivalent_group(api: Api, namespace: str, hook: Hook) -> None:
    """A rule for the events of events.k8s.io is one for core events, too."""
    events_rule = rule("events", apiGroups=["events.k8s.io"], apiVersions=["v1"])
    hook.configure(api, events_rule, namespace=namespace)
    event = {
        "metadata": {"name": "e"},
        "involvedObject": {"namespace": namespace, "kind": "Pod", "name": "p"},
        "reason": "Tested",
        "message": "why",
    }
    assert api.post(f"/api/v1/namespaces/{namespace}/events", event).status == 201
    (request,) = hook.requests
    assert request["object"]["apiVersion"] == "events.k8s.io/v1"
    assert request["object"]["note"] == "why"
    assert request["object"]["regarding"]["name"] == "p"


def test_converted_custom_objects(api: Api, hook: Hook, credentials: Credentials) -> None:
    """Custom objects are converted by the webhook of their definition, once for each version, and
    the patched object is converted back."""
    conversion = Webhook(credentials)
    crd = definition(
        version("v1", FREE),
        version("v1beta1", FREE, storage=False),
        conversion=conversion.conversion(),
    )
    establish(api, crd)
    group = crd["spec"]["group"]
    v1_rule = rule("*", apiGroups=[group], apiVersions=["v1"])
    hook.configure(api, v1_rule, mutating=True)
    hook.configure(api, v1_rule)
    hook.behave = lambda request: (
        patch(add("/spec/last", "King"))(request) if request["object"]["spec"]["last"] != "King"
        else {"allowed": True}
    )  # fmt: skip
    body = widget(crd, "ada", "v1beta1", spec={"name": "Ada Lovelace"})
    created = api.post(path_of(crd, "v1beta1"), body)
    conversion.end()
    assert created.status == 201, created.body
    assert created.json["spec"] == {"name": "Ada King"}
    assert [request["object"]["spec"]["last"] for request in hook.requests] == ["Lovelace", "King"]


def test_selectors(api: Api, core: str, namespace: str, hook: Hook) -> None:
    """An objectSelector selects by the labels of the new or of the old object."""
    selector = {"matchLabels": {"hook": "yes"}}
    hook.configure(api, rule("configmaps"), namespace=namespace, objectSelector=selector)
    path = f"{core}/configmaps"
    api.post(path, {"metadata": {"name": "a"}})
    assert len(hook.requests) == 0
    api.post(path, {"metadata": {"name": "b", "labels": {"hook": "yes"}}})
    assert len(hook.requests) == 1
    api.patch(f"{path}/b", {"metadata": {"labels": None}})
    assert len(hook.requests) == 2
    api.delete(f"{path}/b")
    assert len(hook.requests) == 2


def test_namespaces(api: Api, namespace: str, hook: Hook) -> None:
    """A namespaceSelector is applied to the labels of a namespace that is written itself; a
    cluster-scoped object is always selected."""
    selector = {"matchLabels": {"hook": namespace}}
    resources = rule("namespaces", "ingressclasses")
    hook.configure(api, resources, namespaceSelector=selector)
    api.post("/api/v1/namespaces", {"metadata": {"name": f"{namespace}-a"}})
    assert hook.requests == []
    labels = {"hook": namespace}
    api.post("/api/v1/namespaces", {"metadata": {"name": f"{namespace}-b", "labels": labels}})
    assert [request["namespace"] for request in hook.requests] == [f"{namespace}-b"]
    path = "/apis/networking.k8s.io/v1/ingressclasses"
    api.post(path, {"metadata": {"name": namespace}, "spec": {"controller": "a.example.com/b"}})
    assert len(hook.requests) == 2


def test_scale(api: Api, deployment: str, namespace: str, hook: Hook) -> None:
    """A webhook for `*/scale` gets a Scale, and its patch changes the replicas."""
    hook.configure(api, rule("*/scale"), namespace=namespace, mutating=True)
    hook.behave = patch(add("/spec/replicas", 2))
    body = {"spec": {"replicas": 5}}
    assert api.patch(f"{deployment}/scale", body).json["spec"]["replicas"] == 2
    (request,) = hook.requests
    assert request["subResource"] == request["requestSubResource"] == "scale"
    assert request["kind"] == {"group": "autoscaling", "version": "v1", "kind": "Scale"}
    assert request["resource"]["resource"] == "deployments"
    assert request["object"]["kind"] == "Scale"
    assert (request["oldObject"]["spec"], request["object"]["spec"]) == (
        {"replicas": 1},
        {"replicas": 5},
    )
    assert api.get(deployment).json["spec"]["replicas"] == 2


def pod(name: str) -> Any:
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}}


def test_virtual_subresources(api: Api, core: str, namespace: str, hook: Hook) -> None:
    """Webhooks are asked about bindings, evictions and tokens."""
    api.post("/api/v1/nodes", {"metadata": {"name": namespace}})
    resources = rule("pods/binding", "pods/eviction", "serviceaccounts/token")
    hook.configure(api, resources, namespace=namespace)
    api.post(f"{core}/pods", pod("p"))
    api.post(f"{core}/pods/p/binding", {"metadata": {"name": "p"}, "target": {"name": namespace}})
    api.post(f"{core}/serviceaccounts/default/token", {"spec": {}})
    hook.behave = deny("stays")
    response = api.post(f"{core}/pods/p/eviction", {"metadata": {"name": "p"}})
    assert response.message == 'admission webhook "hook.example.com" denied the request: stays'
    seen = [
        (request["subResource"], request["operation"], request["kind"]["kind"])
        for request in hook.requests
    ]
    assert seen == [
        ("binding", "CREATE", "Binding"),
        ("token", "CREATE", "TokenRequest"),
        ("eviction", "CREATE", "Eviction"),
    ]


def test_connect(api: Api, core: str, namespace: str, hook: Hook) -> None:
    """Webhooks are asked about CONNECT requests, with their options, before anything connects."""
    resources = rule("pods/exec", "pods/attach", "pods/portforward", "pods/proxy", "services/proxy")
    hook.configure(api, {**resources, "operations": ["CONNECT"]}, namespace=namespace)
    hook.behave = deny("closed", code=403)
    for path in ("pods/p/exec?command=ls&command=-l&container=c", "pods/p/attach",
                 "pods/p/portforward", "pods/p/proxy/a/b", "services/s/proxy"):  # fmt: skip
        response = api.post(f"{core}/{path}", None)
        assert (response.status, response.message) == (
            403,
            'admission webhook "hook.example.com" denied the request: closed',
        )
    kinds = [request["kind"]["kind"] for request in hook.requests]
    assert kinds == ["PodExecOptions", "PodAttachOptions", "PodPortForwardOptions",
                     "PodProxyOptions", "ServiceProxyOptions"]  # fmt: skip
    request = hook.requests[0]
    assert (request["operation"], request["name"], request["options"]) == ("CONNECT", "p", None)
    assert request["object"]["command"] == ["ls", "-l"]
    assert request["object"]["container"] == "c"
    assert request["object"]["apiVersion"] == "v1"
    assert request["oldObject"] is None


def test_deletecollection(api: Api, core: str, namespace: str, hook: Hook) -> None:
    """A webhook is asked once about each object of a collection that is deleted; the name in the
    request is empty, as it is in the URL."""
    hook.configure(api, rule("configmaps", operations=["DELETE"]), namespace=namespace)
    for name in ("a", "b"):
        api.post(f"{core}/configmaps", {"metadata": {"name": name}})
    api.delete(f"{core}/configmaps")
    deleted = {request["oldObject"]["metadata"]["name"] for request in hook.requests}
    assert {"a", "b"} <= deleted
    assert all("name" not in request for request in hook.requests)


def condition(expression: str, name: str = "c") -> Any:
    return {"name": name, "expression": expression}


@pytest.mark.parametrize(
    ("expressions", "is_asked"),
    [
        (["object.metadata.name == 'm'"], True),
        (["object.metadata.name != 'm'"], False),
        (["true", "request.operation == 'UPDATE'"], False),
        (["oldObject == null && request.resource.resource == 'configmaps'"], True),
        (["authorizer.group('').resource('secrets').check('get').allowed()"], True),
        (["authorizer.requestResource.check('create').allowed()"], True),
        (["object.data.none == 'x'", "false"], False),
    ],
)  # fmt: skip
def test_match_conditions(
    api: Api, core: str, namespace: str, hook: Hook, expressions: list[str], is_asked: bool
) -> None:
    """A webhook is asked if all match conditions are true; a false one excludes the request even if
    another fails."""
    conditions = [condition(text, f"c{index}") for index, text in enumerate(expressions)]
    hook.configure(api, rule("configmaps"), namespace=namespace, matchConditions=conditions)
    assert api.post(f"{core}/configmaps", {"metadata": {"name": "m"}}).status == 201
    assert bool(hook.requests) is is_asked


def test_failing_match_condition(api: Api, core: str, namespace: str, hook: Hook) -> None:
    """A match condition that fails refuses the request, or excludes it with failurePolicy
    Ignore."""
    fields: Any = {"matchConditions": [condition("object.data.none == 'x'")]}
    path = hook.configure(api, rule("configmaps"), namespace=namespace, **fields)
    response = api.post(f"{core}/configmaps", {"metadata": {"name": "m"}, "data": {"a": "b"}})
    assert (response.status, response.json["reason"]) == (403, "Forbidden")
    assert response.message == (
        "configmaps \"m\" is forbidden: expression 'object.data.none == 'x'' resulted in error: "
        "no such key: none"
    )
    api.delete(path)
    hook.configure(api, rule("configmaps"), namespace=namespace, failurePolicy="Ignore", **fields)
    response = api.post(f"{core}/configmaps", {"metadata": {"name": "m"}, "data": {"a": "b"}})
    assert response.status == 201
    assert hook.requests == []


def test_expensive_match_condition(api: Api, core: str, namespace: str, hook: Hook) -> None:
    """The cost of match conditions is limited."""
    loop = "[1,2,3,4,5,6,7,8,9,10]"
    expression = f"{loop}.all(a, {loop}.all(b, {loop}.all(c, {loop}.all(d, {loop}.all(e, {loop}"
    expression += ".all(f, a + b + c + d + e + f > 0))))))"
    fields: Any = {"matchConditions": [condition(expression)]}
    hook.configure(api, rule("configmaps"), namespace=namespace, **fields)
    response = api.post(f"{core}/configmaps", {"metadata": {"name": "m"}})
    assert response.status == 403
    assert "cost" in response.message


def test_live_configuration(api: Api, core: str, namespace: str, hook: Hook) -> None:
    """A changed or deleted configuration is in force with the response to its write."""
    path = hook.configure(api, rule("configmaps"), namespace=namespace)
    hook.behave = deny()
    create = {"metadata": {"name": "m"}}
    assert api.post(f"{core}/configmaps", create).status == 400
    changed = [{"op": "replace", "path": "/webhooks/0/rules/0/operations", "value": ["DELETE"]}]
    assert api.patch(path, changed, "json").status == 200
    assert api.post(f"{core}/configmaps", create).status == 201
    assert api.delete(f"{core}/configmaps/m").status == 400
    api.delete(path)
    assert api.delete(f"{core}/configmaps/m").status == 200


def test_validating_at_the_same_time(
    api: Api, core: str, namespace: str, hook: Hook, credentials: Credentials
) -> None:
    """Validating webhooks are asked at the same time, and the first in order decides the error."""
    barrier = threading.Barrier(2, timeout=20)
    other = Hook(credentials)
    for each, name in ((hook, "first.example.com"), (other, "second.example.com")):
        each.behave = lambda _request: {"allowed": barrier.wait() < 0}
        each.configure(api, rule("configmaps"), namespace=namespace, name=name)
    response = api.post(f"{core}/configmaps", {"metadata": {"name": "m"}})
    other.end()
    assert response.message.startswith('admission webhook "first.example.com" denied the request')


def test_added_version(api: Api, namespace: str, hook: Hook) -> None:
    """A version that is added to a definition is equivalent to the others at once."""
    crd = definition(version("v1", FREE))
    path = establish(api, crd)
    v1beta1_rule = rule("*", apiGroups=[crd["spec"]["group"]], apiVersions=["v1beta1"])
    hook.configure(api, v1beta1_rule)
    assert api.post(path, widget(crd, "a")).status == 201
    assert hook.requests == []
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    added = [add("/spec/versions/-", version("v1beta1", FREE, storage=False))]
    assert api.patch(f"{definitions}/{crd['metadata']['name']}", added, "json").status == 200
    while api.get(path_of(crd, "v1beta1")).status == 404:
        pass  # the server has not seen the change of the definition yet
    assert api.post(path, widget(crd, "b")).status == 201
    (request,) = hook.requests
    assert request["object"]["apiVersion"].endswith("/v1beta1")
    assert request["requestResource"]["version"] == "v1"
