"""Resource claims (dynamic resource allocation) over HTTP."""

CLAIM = {
    "metadata": {"name": "c"},
    "spec": {
        "devices": {
            "requests": [{"name": "r", "exactly": {"deviceClassName": "g", "adminAccess": True}}]
        }
    },
}
LABEL = "resource.kubernetes.io/admin-access"
REFUSED = (
    f"Forbidden: admin access to devices requires the `{LABEL}: true` label on the containing "
    "namespace"
)


def test_admin_access(api, namespace):
    """A claim with adminAccess is allowed only in a namespace with the admin access label."""
    resource = f"/apis/resource.k8s.io/v1/namespaces/{namespace}"
    response = api("POST", f"{resource}/resourceclaims", CLAIM)
    assert (response.status, response.message) == (
        422,
        'ResourceClaim.resource.k8s.io "c" is invalid: '
        f"spec.devices.requests[0].adminAccess: {REFUSED}",
    )
    template = {"metadata": {"name": "t"}, "spec": {"spec": CLAIM["spec"]}}
    response = api("POST", f"{resource}/resourceclaimtemplates", template)
    assert response.message.endswith(REFUSED)

    plain = {
        "metadata": {"name": "p"},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "g"}}]}},
    }
    assert api("POST", f"{resource}/resourceclaims", plain).status == 201
    claim = api("GET", f"{resource}/resourceclaims/p").json
    device = {"request": "r", "driver": "d", "pool": "p", "device": "x", "adminAccess": True}
    claim["status"] = {"allocation": {"devices": {"results": [device]}}}
    response = api("PUT", f"{resource}/resourceclaims/p/status", claim)
    assert response.message.endswith(f"status.allocation.devices.results[0].adminAccess: {REFUSED}")

    label = {"metadata": {"labels": {LABEL: "true"}}}
    merge = "application/merge-patch+json"
    assert api("PATCH", f"/api/v1/namespaces/{namespace}", label, type=merge).status == 200
    assert api("POST", f"{resource}/resourceclaims", CLAIM).status == 201
    assert api("POST", f"{resource}/resourceclaimtemplates", template).status == 201
    assert api("PUT", f"{resource}/resourceclaims/p/status", claim).status == 200
