"""Reviews: objects that are created for their response and not stored."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.apiserver.conftest import Server

ACCESS = "/apis/authorization.k8s.io/v1"
IDENTITY = "/apis/authentication.k8s.io/v1"
PODS = {"verb": "get", "resource": "pods"}


def post_review(
    api, kind: str, spec: Any, *, namespace: str = "", metadata: Any = None, **options: Any
):
    """Create a review of a kind."""
    group = IDENTITY if kind in ("TokenReview", "SelfSubjectReview") else ACCESS
    below = f"/namespaces/{namespace}" if namespace else ""
    question = {"kind": kind, "apiVersion": group.removeprefix("/apis/"), "spec": spec}
    if metadata is not None:
        question["metadata"] = metadata
    return api.post(f"{group}{below}/{kind.lower()}s", question, **options)


def test_access(make_server) -> None:
    """Access reviews return the authorizer's decision and the spec of the request."""
    api = make_server(authorization_mode=("AlwaysAllow",)).api
    spec = {"resourceAttributes": PODS, "user": "jane", "groups": ["system:authenticated"]}
    response = post_review(api, "SubjectAccessReview", spec)
    assert response.status == 201
    assert response.json["status"] == {"allowed": True}
    assert response.json["spec"] == spec
    path = {"nonResourceAttributes": {"path": "/metrics", "verb": "get"}}
    anonymous = {**path, "user": "system:anonymous", "groups": ["system:unauthenticated"]}
    assert post_review(api, "SubjectAccessReview", anonymous).json["status"] == {"allowed": False}
    assert post_review(api, "SelfSubjectAccessReview", path).json["status"] == {"allowed": True}
    local = {**spec, "resourceAttributes": {**PODS, "namespace": "default"}}
    response = post_review(api, "LocalSubjectAccessReview", local, namespace="default")
    assert response.json["status"] == {"allowed": True}


BOTH = {"resourceAttributes": PODS, "nonResourceAttributes": {"path": "/x", "verb": "get"}}
REFUSED = [
    ("SelfSubjectAccessReview", {}, {}, "spec: Invalid value: null: exactly one of "
     "nonResourceAttributes or resourceAttributes must be specified"),
    ("SelfSubjectAccessReview", BOTH, {}, 'spec: Invalid value: {"Path":"/x","Verb":"get"}: '
     "exactly one of nonResourceAttributes or resourceAttributes must be specified"),
    ("SubjectAccessReview", {"resourceAttributes": PODS}, {},
     'spec.user: Invalid value: "": at least one of user or group must be specified'),
    ("SubjectAccessReview", {"resourceAttributes": PODS, "user": "u"}, {"name": "x"},
     'metadata: Invalid value: {"name":"x"}: must be empty'),
    ("SelfSubjectAccessReview",
     {"resourceAttributes": {**PODS, "labelSelector": {}}}, {},
     "spec.resourceAttributes.labelSelector.requirements: Required value: when "
     "spec.resourceAttributes.labelSelector is specified, requirements or rawSelector is required"),
    ("SelfSubjectAccessReview",
     {"resourceAttributes": {
         **PODS, "fieldSelector": {"requirements": [{"key": "", "operator": "In"}]}}}, {},
     "[spec.resourceAttributes.fieldSelector.requirements[0].values: Required value: must be "
     "specified when `operator` is 'In' or 'NotIn', spec.resourceAttributes.fieldSelector."
     "requirements[0].key: Required value: must be specified]"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "spec", "metadata", "words"), REFUSED)
def test_access_refused(api, kind: str, spec: Any, metadata: Any, words: str) -> None:
    """An invalid access review is a 422 with kube-apiserver's message, without a kind."""
    response = post_review(api, kind, spec, metadata=metadata)
    assert response.status == 422
    text = re.sub(r',"managedFields":\[.*\](?=\}: must be empty)', "", response.message)
    assert text == f'.authorization.k8s.io "" is invalid: {words}'


def test_local_access_refused(api) -> None:
    """The namespace of a LocalSubjectAccessReview must match its path."""
    spec = {"resourceAttributes": {**PODS, "namespace": "other"}, "user": "u"}
    response = post_review(api, "LocalSubjectAccessReview", spec, namespace="default")
    assert response.message.endswith(
        'spec.resourceAttributes.namespace: Invalid value: "other": must match metadata.namespace'
    )
    assert api.post(f"{ACCESS}/localsubjectaccessreviews", {}).status == 404


def test_rules(api) -> None:
    """SelfSubjectRulesReview returns the authorizer's rules and needs a namespace."""
    response = post_review(api, "SelfSubjectRulesReview", {"namespace": "default"})
    assert response.status == 201
    assert response.json["spec"] == {}
    assert response.json["status"]["incomplete"] is False
    rule = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
    assert rule in response.json["status"]["resourceRules"]
    response = post_review(api, "SelfSubjectRulesReview", {})
    assert (response.status, response.message) == (400, "no namespace on request")


def test_token(tmp_path) -> None:
    """A TokenReview returns the user of a token of the file, and an error for other tokens."""
    tokens = tmp_path / "tokens.csv"
    tokens.write_text('secret,jane,7,"a,b"\n')
    server = Server(token_auth_file=tokens)
    try:
        _check_tokens(server.api)
    finally:
        server.end()


def _check_tokens(api) -> None:
    response = post_review(api, "TokenReview", {"token": "secret"})
    assert response.status == 201
    assert response.json["status"] == {
        "authenticated": True,
        "user": {"username": "jane", "uid": "7", "groups": ["a", "b", "system:authenticated"]},
        "audiences": ["https://kubernetes.default.svc.cluster.local"],
    }
    for spec in ({"token": "guess"}, {"token": "secret", "audiences": ["elsewhere"]}):
        status = post_review(api, "TokenReview", spec).json["status"]
        assert status == {"user": {}, "error": "invalid bearer token"}
    response = post_review(api, "TokenReview", {})
    assert response.status == 400
    assert response.message == "token is required for TokenReview in authentication"


def test_managed_fields_of_reviews(api) -> None:
    """Access reviews record managedFields as other objects do. SelfSubjectRulesReview has no
    metadata."""
    response = post_review(api, "SelfSubjectAccessReview", {"resourceAttributes": {"verb": "get"}})
    (entry,) = response.json["metadata"]["managedFields"]
    assert entry["operation"] == "Update"
    attributes = {".": {}, "f:verb": {}}
    assert entry["fieldsV1"] == {"f:spec": {"f:resourceAttributes": attributes}}
    rules = post_review(api, "SelfSubjectRulesReview", {"namespace": "default"})
    assert rules.json["metadata"] == {}


def test_who_am_i(api) -> None:
    """SelfSubjectReview returns the user of the request."""
    response = post_review(api, "SelfSubjectReview", {})
    assert response.status == 201
    assert response.json["status"]["userInfo"]["username"] == "system:unsecured"
    assert list(response.json["metadata"]) == ["creationTimestamp"]


TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


@pytest.mark.parametrize("kind", ["SelfSubjectAccessReview", "TokenReview"])
def test_no_table(api, kind: str) -> None:
    """A review as a Table is a 406."""
    response = post_review(api, kind, {"resourceAttributes": PODS}, accept=TABLE)
    assert response.status == 406
    assert response.json["reason"] == "NotAcceptable"


def test_create_only(api) -> None:
    """Reviews support create only."""
    assert api.get(f"{ACCESS}/selfsubjectaccessreviews").status == 405
    assert api.get(f"{ACCESS}/selfsubjectaccessreviews/x").status == 404


def test_component_statuses(api) -> None:
    """The store is the only component."""
    response = api.get("/api/v1/componentstatuses")
    assert response.json["kind"] == "ComponentStatusList"
    (item,) = response.json["items"]
    assert item["metadata"]["name"] == "etcd-0"
    assert item["conditions"] == [{"type": "Healthy", "status": "True", "message": "ok"}]
    assert api.get("/api/v1/componentstatuses/etcd-0").json["conditions"] == item["conditions"]
    empty = api.get("/api/v1/componentstatuses?fieldSelector=metadata.name%3Dx").json
    assert empty["items"] == []
    (row,) = api.get("/api/v1/componentstatuses", accept=TABLE).json["rows"]
    assert row["cells"] == ["etcd-0", "Healthy", "ok", ""]
    response = api.get("/api/v1/componentstatuses/x")
    assert (response.status, response.message) == (404, 'componentstatus "x" not found')
