"""Jobs, daemon sets, stateful sets, endpoints and disruption budgets over HTTP."""

import pytest

POD = {
    "metadata": {"labels": {"a": "b"}},
    "spec": {"containers": [{"name": "c", "image": "busybox"}]},
}
SET = {"selector": {"matchLabels": {"a": "b"}}, "template": POD}


def test_generated_job(api, namespace):
    """The selector and labels of a job come from its generated name and its uid."""
    pod = {"spec": {**POD["spec"], "restartPolicy": "Never"}}
    path = f"/apis/batch/v1/namespaces/{namespace}/jobs"
    response = api.post(path, {"metadata": {"generateName": "j-"}, "spec": {"template": pod}})
    assert response.status == 201, response.body
    metadata, spec = response.json["metadata"], response.json["spec"]
    assert spec["selector"] == {
        "matchLabels": {"batch.kubernetes.io/controller-uid": metadata["uid"]}
    }
    labels = spec["template"]["metadata"]["labels"]
    assert labels["job-name"] == labels["batch.kubernetes.io/job-name"] == metadata["name"]
    assert metadata["labels"] == labels
    item = f"{path}/{metadata['name']}"
    assert api.get(item).body == response.body
    assert api.put(item, response.json).json["metadata"]["generation"] == 1
    other = api.patch(item, {"spec": {"template": {"spec": {"restartPolicy": "OnFailure"}}}})
    assert other.status == 422
    assert {cause["field"] for cause in other.json["details"]["causes"]} == {"spec.template"}


def test_template_generation(api, apps):
    """An annotation of a daemon set counts the changes of its template."""
    created = api.post(f"{apps}/daemonsets", {"metadata": {"name": "d"}, "spec": SET})
    assert created.status == 201, created.body
    image = {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "other"}]}}}}
    changed = api.patch(f"{apps}/daemonsets/d", image).json["metadata"]
    assert changed["generation"] == 2
    assert changed["annotations"] == {"deprecated.daemonset.template.generation": "2"}


def test_immutable_stateful_set(api, apps):
    """Changes of immutable fields of a stateful set are a 422 with one message."""
    body = {"metadata": {"name": "s"}, "spec": {**SET, "serviceName": "s"}}
    assert api.post(f"{apps}/statefulsets", body).status == 201
    response = api.patch(f"{apps}/statefulsets/s", {"spec": {"serviceName": "t"}})
    assert response.status == 422
    assert response.message == (
        'StatefulSet.apps "s" is invalid: spec.serviceName: Invalid value: "t": field is immutable'
    )


def test_endpoints_are_repacked(api, core):
    """Subsets with equal ports are merged. PUT creates missing endpoints."""
    subsets = [
        {"addresses": [{"ip": "10.0.0.2"}], "ports": [{"port": 80}]},
        {"addresses": [{"ip": "10.0.0.1"}], "ports": [{"port": 80}]},
    ]
    response = api.put(f"{core}/endpoints/e", {"metadata": {"name": "e"}, "subsets": subsets})
    assert response.status == 201, response.body
    assert response.json["subsets"] == [
        {
            "addresses": [{"ip": "10.0.0.1"}, {"ip": "10.0.0.2"}],
            "ports": [{"port": 80, "protocol": "TCP"}],
        }
    ]


def test_budget_needs_resource_version(api, namespace):
    """An update of a disruption budget needs a resourceVersion."""
    path = f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets"
    body = {"metadata": {"name": "p"}, "spec": {"minAvailable": 1}}
    assert api.post(path, body).status == 201
    response = api.put(f"{path}/p", body)
    assert response.status == 422
    assert [cause["field"] for cause in response.json["details"]["causes"]] == [
        "metadata.resourceVersion"
    ]


def test_scales(api, core, apps):
    """The scale of each controller kind changes the replicas and has the pod selector."""
    controller = {"spec": {"selector": {"a": "b"}, "template": POD}}
    for path, body in (
        (f"{core}/replicationcontrollers", controller),
        (f"{apps}/replicasets", {"spec": SET}),
        (f"{apps}/statefulsets", {"spec": SET}),
        (f"{apps}/deployments", {"spec": SET}),
    ):
        assert api.post(path, {"metadata": {"name": "x"}, **body}).status == 201
        response = api.patch(f"{path}/x/scale", {"spec": {"replicas": 3}})
        assert response.json["spec"] == {"replicas": 3}, path
        assert response.json["status"] == {"replicas": 0, "selector": "a=b"}, path
        assert api.get(f"{path}/x").json["spec"]["replicas"] == 3


@pytest.mark.parametrize("options", [None, {"propagationPolicy": "Background"}])
def test_deleted_jobs(api, namespace, options):
    """A delete of a job without a propagation policy orphans its pods."""
    pod = {"spec": {**POD["spec"], "restartPolicy": "Never"}}
    path = f"/apis/batch/v1/namespaces/{namespace}/jobs"
    job = {"metadata": {"name": "j", "finalizers": ["x.io/y"]}, "spec": {"template": pod}}
    assert api.post(path, job).status == 201
    deleted = api.delete(f"{path}/j", options)
    assert deleted.status == 200, deleted.body
    orphan = [] if options else ["orphan"]
    assert deleted.json["metadata"]["finalizers"] == ["x.io/y", *orphan]
    api.patch(f"{path}/j", {"metadata": {"finalizers": None}})


def test_claims_of_stateful_sets(api, apps):
    """Every response contains kind and apiVersion of the claim templates, even if the client omits
    them."""
    claim = {
        "metadata": {"name": "data"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
    spec = {**SET, "serviceName": "s", "volumeClaimTemplates": [claim]}
    path, names = f"{apps}/statefulsets", {"kind": "PersistentVolumeClaim", "apiVersion": "v1"}
    created = api.post(path, {"metadata": {"name": "s"}, "spec": spec})
    assert created.status == 201, created.body
    for response in (
        created.json,
        api.get(f"{path}/s").json,
        api.get(path).json["items"][0],
        api.patch(f"{path}/s", {"metadata": {"labels": {"a": "b"}}}).json,
    ):
        (template,) = response["spec"]["volumeClaimTemplates"]
        assert {name: template[name] for name in names} == names
        assert list(template)[:2] == ["kind", "apiVersion"]
    text = api.get(f"{path}/s", accept="application/yaml").body.decode()
    assert "  - apiVersion: v1\n    kind: PersistentVolumeClaim\n" in text
    spec["volumeClaimTemplates"] = [{**names, "kind": "Odd", **claim}]
    second_put = api.put(f"{path}/s", {"metadata": {"name": "s"}, "spec": spec})
    assert (second_put.status, second_put.json["metadata"]["generation"]) == (200, 1)
