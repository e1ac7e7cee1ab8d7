"""Kubernetes' conformance tests of the API server, without those for every kind
(test_every_kind.py) and for pods (test_pods.py). Each test does what the conformance tests named in
its docstring do."""

import itertools
from collections.abc import Callable

import pytest

from tests.e2e.every_kind import (
    APPLY,
    JSON,
    MERGE,
    POD,
    STRATEGIC,
    Api,
    Tree,
    event_names,
    events,
    meta,
    named,
    pod,
)

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


# --- lists, watches, tables, documents


def test_chunks_of_results(api: Api, core: str) -> None:
    """API chunking should return chunks of results for list calls: one version over all pages,
    in order, with the count of what remains."""
    path = f"{core}/podtemplates"
    names = [f"template-{number:04}" for number in range(400)]
    for name in names:
        api(
            "POST",
            path,
            {**meta(name), "template": {"metadata": {"labels": {"a": "b"}}, "spec": POD}},
        )
    for limit in (399, 133):
        names_read: list[str] = []
        versions, token = set(), ""
        while True:
            page = api("GET", f"{path}?limit={limit}&continue={token}")
            names_read += [item["metadata"]["name"] for item in page["items"]]
            versions.add(page["metadata"]["resourceVersion"])
            token = page["metadata"].get("continue", "")
            assert page["metadata"].get("remainingItemCount", 0) == 400 - len(names_read)
            if not token:
                break
            assert len(page["items"]) == limit
        assert names_read == names
        assert len(versions) == 1
    assert len(api("GET", f"{path}?limit=0")["items"]) == 400
    api("DELETE", path)
    assert not api("GET", path)["items"]


def test_table_of_unsupported_resource(api: Api) -> None:
    """Table transformation should return a 406 for a backend which does not implement metadata."""
    body = {"spec": {"nonResourceAttributes": {"path": "/", "verb": "get"}}}
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    assert api("POST", path, body, accept=TABLE, status=406)["reason"] == "NotAcceptable"


def test_documents(api: Api) -> None:
    """server version should find the server version; Discovery should validate PreferredVersion
    and locate the groupVersion; AggregatedDiscovery should support the aggregated interface."""
    version = api("GET", "/version")
    assert int(version["major"]) >= 1
    assert int(version["minor"]) >= 30
    groups = api("GET", "/apis")["groups"]
    for group in groups:
        assert group["preferredVersion"] in group["versions"]
        for group_version in group["versions"]:
            listing = api("GET", f"/apis/{group_version['groupVersion']}")
            assert listing["groupVersion"] == group_version["groupVersion"]
            assert listing["resources"]
    legacy = "application/json;q=0.8"
    accept_header = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    for path in ("/api", "/apis"):
        response = api.request("GET", path, accept=f"{accept_header},{legacy}")
        assert response.headers["content-type"] == accept_header
        assert response.tree["kind"] == "APIGroupDiscoveryList"
    assert [item["metadata"]["name"] for item in response.tree["items"]] == [
        group["name"] for group in groups
    ]
    assert api("GET", "/apis", accept=legacy)["kind"] == "APIGroupList"


def test_watchers(api: Api, core: str) -> None:
    """Watchers should observe add, update, and delete; start from a specific version; restart from
    the last observed; observe a deletion when an object stops meeting the selector."""
    path = f"{core}/configmaps"
    obj = api("POST", path, meta("one", labels={"watch": "a"}))
    query = "labelSelector=watch+in+(a,b)"
    rv = obj["metadata"]["resourceVersion"]
    with api.watch(f"{path}?labelSelector=watch=a&resourceVersion={rv}") as only_a:
        with api.watch(f"{path}?{query}&resourceVersion={rv}") as stream:
            labels = ("b", "a")
            for label in labels:
                patch = {"metadata": {"labels": {"watch": label}}}
                last = api("PATCH", f"{path}/one", patch, content_type=MERGE)
            assert event_names(stream, 2) == [("MODIFIED", "one")] * 2
        api("PATCH", f"{path}/one", {"data": {"x": "1"}}, content_type=MERGE)
        api("DELETE", f"{path}/one")
        assert [type_ for type_, _ in event_names(only_a, 4)] == [
            "DELETED", "ADDED", "MODIFIED", "DELETED"
        ]  # fmt: skip
    resume_version = last["metadata"]["resourceVersion"]
    with api.watch(f"{path}?{query}&resourceVersion={resume_version}") as resumed:
        assert event_names(resumed, 2) == [("MODIFIED", "one"), ("DELETED", "one")]


def test_watches_see_the_same_order(api: Api, core: str) -> None:
    """Watchers should receive events on concurrent watches in same order."""
    path = f"{core}/configmaps"
    start_revision = api("GET", path)["metadata"]["resourceVersion"]
    for number in range(20):
        api("POST", path, meta(f"c-{number % 4}"))
        if number >= 3:
            api("DELETE", f"{path}/c-{(number - 3) % 4}")
    with api.watch(f"{path}?resourceVersion={start_revision}") as stream:
        expected = events(stream, 37)
    for index in range(0, 36, 5):
        rv = expected[index]["object"]["metadata"]["resourceVersion"]
        with api.watch(f"{path}?resourceVersion={rv}") as stream:
            assert events(stream, 36 - index) == expected[index + 1 :]


# --- strict decoding


BAD_DEPLOYMENT = b"""{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d"%s},"spec":{
"unknown1":"v","unknownDupe":"v","unknownDupe":"w","paused":true,"paused":false,
"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},
"spec":{"containers":[{"name":"c","image":"i","unknownNested":"v","unknownDupe":"v",
"unknownDupe":"w","imagePullPolicy":"Always","imagePullPolicy":"Never"}]}}}}"""
CONTAINER = "spec.template.spec.containers[0]"
WARNINGS = [
    'unknown field "spec.unknown1"', 'unknown field "spec.unknownDupe"',
    'duplicate field "spec.paused"', f'unknown field "{CONTAINER}.unknownNested"',
    f'unknown field "{CONTAINER}.unknownDupe"', f'duplicate field "{CONTAINER}.imagePullPolicy"',
]  # fmt: skip


def test_field_validation(api: Api, namespace: str) -> None:
    """FieldValidation should detect unknown and duplicate fields of a typed object, and unknown
    metadata fields of a typed object."""
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments"
    error = api("POST", f"{path}?fieldValidation=Strict", BAD_DEPLOYMENT % b"", status=400)
    assert error["message"].endswith(f"strict decoding error: {', '.join(WARNINGS)}")
    warned = api.request("POST", f"{path}?fieldValidation=Warn", BAD_DEPLOYMENT % b"")
    texts = [f'299 - "{doubt.replace(chr(34), chr(92) + chr(34))}"' for doubt in WARNINGS]
    assert (warned.status, warned.headers.get_all("warning")) == (201, texts)
    unknown_metadata = b'{"metadata":{"name":"e","unknownMeta":"x"},"spec":{}}'
    error = api("POST", f"{path}?fieldValidation=Strict", unknown_metadata, status=400)
    assert 'strict decoding error: unknown field "metadata.unknownMeta"' in error["message"]
    apply = f"{path}/d?fieldManager=me&fieldValidation=Strict"
    body = b"apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d, unknownMeta: x}\n"
    error = api("PATCH", apply, body, content_type=APPLY, status=400)
    assert ".metadata.unknownMeta: field not declared in schema" in error["message"]
    patch = {"metadata": {"unknownMeta": "x"}}
    for patch_type in (MERGE, STRATEGIC):
        error = api(
            "PATCH", f"{path}/d?fieldValidation=Strict", patch, content_type=patch_type, status=422
        )
        assert 'strict decoding error: unknown field "metadata.unknownMeta"' in error["message"]


# --- namespaces, service accounts, reviews


def test_namespaces(api: Api, core: str, namespace: str) -> None:
    """Namespaces should patch a Namespace, apply an update, changes to a status, a finalizer."""
    patched = api("PATCH", core, {"metadata": {"labels": {"l": "v"}}}, content_type=STRATEGIC)
    assert patched["metadata"]["labels"] == {"l": "v", "kubernetes.io/metadata.name": namespace}
    patched["metadata"]["labels"]["u"] = "w"
    assert api("PUT", core, patched)["metadata"]["labels"]["u"] == "w"
    condition = {"type": "StatusPatch", "status": "True", "reason": "E2E", "message": "p"}
    body = {"status": {"conditions": [condition]}}
    assert api("PATCH", f"{core}/status", body, content_type=MERGE)["status"]["phase"] == "Active"
    current = api("GET", f"{core}/status")
    current["status"]["conditions"].append({**condition, "type": "StatusUpdate"})
    assert len(api("PUT", f"{core}/status", current)["status"]["conditions"]) == 2
    current = api("GET", core)
    current["spec"]["finalizers"].append("e2e.example.com/keep")
    finalized = api("PUT", f"{core}/finalize", current)
    assert finalized["spec"]["finalizers"] == ["kubernetes", "e2e.example.com/keep"]
    finalized["spec"]["finalizers"].pop()
    assert api("PUT", f"{core}/finalize", finalized)["spec"]["finalizers"] == ["kubernetes"]


def test_automount(api: Api, core: str) -> None:
    """ServiceAccounts should allow opting out of API token automount: nine pods."""
    accounts = {"default": None, "mount": True, "nomount": False}
    for name, automount in accounts.items():
        if automount is not None:
            body = {**meta(name), "automountServiceAccountToken": automount}
            api("POST", f"{core}/serviceaccounts", body)
    for number, (name, own) in enumerate(itertools.product(accounts, (None, True, False))):
        spec = {"serviceAccountName": name, "automountServiceAccountToken": own}
        created = api("POST", f"{core}/pods", pod(f"p-{number}", **spec))
        mounts = created["spec"]["containers"][0].get("volumeMounts", [])
        expected = own if own is not None else accounts[name] is not False
        assert bool(mounts) is expected, (name, own)
        if mounts:
            assert mounts[0]["mountPath"] == "/var/run/secrets/kubernetes.io/serviceaccount"


def test_tokens(api: Api, core: str, namespace: str) -> None:
    """ServiceAccounts should create a serviceAccountToken and ensure a successful TokenReview."""
    api("POST", f"{core}/serviceaccounts", meta("robot"))
    body = {"spec": {"expirationSeconds": 600}}
    token = api("POST", f"{core}/serviceaccounts/robot/token", body)["status"]["token"]
    review = api("POST", "/apis/authentication.k8s.io/v1/tokenreviews", {"spec": {"token": token}})
    assert review["status"]["authenticated"] is True
    assert review["status"]["user"]["username"] == f"system:serviceaccount:{namespace}:robot"


def test_subject_reviews(api: Api, namespace: str) -> None:
    """SubjectReview should support SubjectReview API operations."""
    base = "/apis/authorization.k8s.io/v1"
    attributes = {"verb": "list", "resource": "configmaps", "namespace": namespace}
    spec = {"resourceAttributes": attributes, "user": "admin", "groups": ["system:masters"]}
    review = api("POST", f"{base}/subjectaccessreviews", {"spec": spec})
    assert review["status"]["allowed"] is True
    path = f"{base}/namespaces/{namespace}/localsubjectaccessreviews"
    local = {**meta("", namespace=namespace), "spec": spec}
    assert api("POST", path, local)["status"]["allowed"] is True
    spec["resourceAttributes"] = {**attributes, "namespace": "elsewhere"}
    error = api("POST", path, local, status=422)
    assert "spec.resourceAttributes.namespace" in error["message"]


# --- config maps and secrets


@pytest.mark.parametrize("resource", ["configmaps", "secrets"])
def test_keys_and_immutability(api: Api, core: str, resource: str) -> None:
    """ConfigMap and Secret should fail to create with an empty key, and be immutable if
    `immutable` is set: data and the flag are frozen, metadata is free."""
    path = f"{core}/{resource}"
    error = api("POST", path, {**meta("e"), "data": {"": "dGhlcmU="}}, status=422)
    assert "data[]" in error["message"]
    api("POST", path, {**meta("f"), "data": {"a": "YQ=="}})
    frozen = api("PATCH", f"{path}/f", {"immutable": True}, content_type=MERGE)
    for change in ({"immutable": False}, {"data": {"a": "Yg=="}}, {"data": {"b": "Yg=="}}):
        error = api("PATCH", f"{path}/f", change, content_type=MERGE, status=422)
        assert "field is immutable when `immutable` is set" in error["message"]
    frozen["metadata"]["labels"] = {"still": "free"}
    assert api("PUT", f"{path}/f", frozen)["metadata"]["labels"] == {"still": "free"}
    api("DELETE", f"{path}/f")


# --- services, addresses, scales


def test_kubernetes_service(api: Api) -> None:
    """API Server should provide secure master service, have Endpoints and EndpointSlices pointing
    to API Server; Services should find a service from listing all namespaces; ServiceCIDR."""
    discovery, networking = "/apis/discovery.k8s.io/v1", "/apis/networking.k8s.io/v1"
    _own(api, "/api/v1/services")
    everywhere = api("GET", "/api/v1/services")["items"]
    own_services = [item for item in everywhere if item["metadata"]["name"] == "kubernetes"]
    assert [item["metadata"]["namespace"] for item in own_services] == ["default"]
    endpoints = _own(api, "/api/v1/namespaces/default/endpoints")["subsets"][0]
    endpoint_slice = _own(api, f"{discovery}/namespaces/default/endpointslices")
    addresses = [address["ip"] for address in endpoints["addresses"]]
    assert [endpoint["addresses"] for endpoint in endpoint_slice["endpoints"]] == [
        [address] for address in addresses
    ]
    assert endpoint_slice["ports"][0]["port"] == endpoints["ports"][0]["port"]
    _own(api, f"{networking}/servicecidrs", lambda cidr: cidr["status"].get("conditions"))
    cidr = api("GET", f"{networking}/servicecidrs/kubernetes/status")
    assert cidr["status"]["conditions"][0]["type"] == "Ready"
    assert cidr["spec"]["cidrs"]


def _own(api: Api, collection: str, condition: Callable[[Tree], object] = bool) -> Tree:
    """Wait until the object `kubernetes` meets the condition; the server makes it after it has
    started."""
    with api.watch(f"{collection}?fieldSelector=metadata.name=kubernetes") as stream:
        while True:
            (event,) = events(stream, 1)
            if condition(event["object"]):
                return event["object"]


def test_service_status(api: Api, core: str) -> None:
    """Services should complete a service status lifecycle, and delete a collection."""
    path = f"{core}/services"
    spec = {"type": "LoadBalancer", "ports": [{"port": 80}]}
    created = api("POST", path, {**meta("s", labels={"l": "v"}), "spec": spec})
    rv = created["metadata"]["resourceVersion"]
    patch = {"metadata": {"annotations": {"a": "b"}},
             "status": {"loadBalancer": {"ingress": [{"ip": "203.0.113.1"}]}}}  # fmt: skip
    with api.watch(f"{path}?labelSelector=l=v&resourceVersion={rv}") as stream:
        patched = api("PATCH", f"{path}/s/status", patch, content_type=MERGE)
        assert patched["status"]["loadBalancer"]["ingress"][0]["ip"] == "203.0.113.1"
        condition = {"type": "StatusUpdate", "status": "True", "reason": "E2E", "message": "m",
                     "lastTransitionTime": "2026-01-01T00:00:00Z"}  # fmt: skip
        patched["status"]["conditions"] = [condition]
        assert api("PUT", f"{path}/s/status", patched)["status"]["conditions"] == [condition]
        api("DELETE", f"{path}?labelSelector=l=v")
        assert [type_ for type_, _ in event_names(stream, 3)] == ["MODIFIED", "MODIFIED", "DELETED"]


@pytest.mark.parametrize(
    ("version", "kind", "resource"),
    [
        ("v1", "ReplicationController", "replicationcontrollers"),
        ("apps/v1", "ReplicaSet", "replicasets"),
        ("apps/v1", "Deployment", "deployments"),
        ("apps/v1", "StatefulSet", "statefulsets"),
    ],
)
def test_scale(api: Api, namespace: str, version: str, kind: str, resource: str) -> None:
    """ReplicationController, ReplicaSet, Deployment and StatefulSet should have a working scale
    subresource: get, update, patch."""
    base = "/api/v1" if version == "v1" else f"/apis/{version}"
    path = f"{base}/namespaces/{namespace}/{resource}"
    obj = named(kind)
    generation = api("POST", path, obj)["metadata"]["generation"]
    scale = api("GET", f"{path}/one/scale")
    assert (scale["kind"], scale["apiVersion"]) == ("Scale", "autoscaling/v1")
    assert scale["spec"] == {"replicas": 3}
    scale["spec"]["replicas"] = 2
    scale["metadata"]["resourceVersion"] = ""
    assert api("PUT", f"{path}/one/scale", scale)["spec"]["replicas"] == 2
    patch = {"spec": {"replicas": 4}}
    assert api("PATCH", f"{path}/one/scale", patch, content_type=MERGE)["spec"]["replicas"] == 4
    scaled_object = api("GET", f"{path}/one")
    assert scaled_object["spec"]["replicas"] == 4
    assert scaled_object["metadata"]["generation"] == generation + 2


# --- other kinds


def test_priority_class(api: Api) -> None:
    """PriorityClass endpoints can be operated with different HTTP methods: the value is fixed."""
    path = "/apis/scheduling.k8s.io/v1/priorityclasses"
    created = api("POST", path, {**meta("conformance"), "value": 10})
    error = api("PUT", f"{path}/conformance", {**created, "value": 20}, status=422)
    assert error["message"].endswith("value: Forbidden: may not be changed in an update.")
    created["description"] = "changed"
    assert api("PUT", f"{path}/conformance", created)["description"] == "changed"
    api("DELETE", f"{path}/conformance")


def test_job(api: Api, namespace: str) -> None:
    """Job should manage the lifecycle of a job: suspended, labelled, annotated, found, deleted."""
    path = f"/apis/batch/v1/namespaces/{namespace}/jobs"
    template = {"spec": {**POD, "restartPolicy": "Never"}}
    created = api("POST", path, {**meta("j"), "spec": {"suspend": True, "template": template}})
    uid = created["metadata"]["uid"]
    assert created["spec"]["selector"]["matchLabels"] == {"batch.kubernetes.io/controller-uid": uid}
    label = {"metadata": {"labels": {"e2e": namespace}}}
    patched = api("PATCH", f"{path}/j", label, content_type=STRATEGIC)
    patched["metadata"]["annotations"] = {"updated": "true"}
    patched["spec"]["suspend"] = False
    api("PUT", f"{path}/j", patched)
    listing = api("GET", f"/apis/batch/v1/jobs?labelSelector=e2e={namespace}")["items"]
    assert [item["metadata"]["name"] for item in listing] == ["j"]
    api("DELETE", f"{path}?labelSelector=e2e={namespace}&propagationPolicy=Background")
    assert not api("GET", path)["items"]


def test_certificate_signing_request(api: Api) -> None:
    """Certificates API should support CSR API operations: /approval is for conditions alone."""
    path = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
    obj = named("CertificateSigningRequest")
    obj["metadata"]["name"] = "conformance"
    api("POST", path, obj)
    url = f"{path}/conformance"
    csr = api("GET", f"{url}/approval")
    condition = {"type": "Approved", "status": "True", "reason": "E2E", "message": "m"}
    csr["status"]["conditions"] = [condition]
    csr = api("PUT", f"{url}/approval", csr)
    assert csr["status"]["conditions"][0]["reason"] == "E2E"
    patch = {"metadata": {"annotations": {"a": "b"}}}
    csr = api("PATCH", f"{url}/approval", patch, content_type=MERGE)
    assert csr["metadata"]["annotations"] == {"a": "b"}
    failed = {**condition, "type": "StatusUpdate", "reason": "S"}
    csr["status"]["conditions"].append(failed)
    csr = api("PUT", f"{url}/status", csr)
    assert [url["type"] for url in csr["status"]["conditions"]] == ["Approved", "StatusUpdate"]
    api("DELETE", url)


def test_events(api: Api, namespace: str) -> None:
    """Events API should ensure that an event can be fetched, patched, deleted, and listed: a
    series is added through events.k8s.io, and core/v1 lists the same event."""
    path = f"/apis/events.k8s.io/v1/namespaces/{namespace}/events"
    event = {
        **meta("e", labels={"l": "v"}), "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "e2e.example.com/c", "reportingInstance": "i", "action": "Do",
        "reason": "Test", "type": "Normal", "regarding": {"namespace": namespace},
    }  # fmt: skip
    api("POST", path, event)
    series = {"count": 2, "lastObservedTime": "2026-01-01T00:00:01.000000Z"}
    patched = api("PATCH", f"{path}/e", {"series": series}, content_type=STRATEGIC)
    assert patched["series"] == series
    patched["series"]["count"] = 100
    assert api("PUT", f"{path}/e", patched)["series"]["count"] == 100
    core = f"/api/v1/namespaces/{namespace}/events"
    listing = api("GET", f"{core}?fieldSelector=reportingComponent=e2e.example.com/c")["items"]
    assert [item["series"]["count"] for item in listing] == [100]
    api("DELETE", f"{core}?labelSelector=l=v")
    assert not api("GET", path)["items"]


def test_node(api: Api) -> None:
    """Node Lifecycle should run through the lifecycle of a node."""
    created = api("POST", "/api/v1/nodes", {**meta("fake"), "status": {"phase": "Running"}})
    assert created["spec"]["taints"] == [
        {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
    ]
    path = "/api/v1/nodes/fake"
    api("PATCH", path, {"metadata": {"labels": {"fake": "yes"}}}, content_type=STRATEGIC)
    (listing,) = api("GET", "/api/v1/nodes?labelSelector=fake=yes")["items"]
    listing.setdefault("metadata", {})["labels"]["fake"] = "updated"
    assert api("PUT", path, listing, content_type=JSON)["metadata"]["labels"]["fake"] == "updated"
    api("DELETE", "/api/v1/nodes?labelSelector=fake=updated")
    api("GET", path, status=404)
