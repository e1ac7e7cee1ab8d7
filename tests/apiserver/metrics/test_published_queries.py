"""The published dashboard, recording rules and alerts for the API server show data of a server."""

from __future__ import annotations

import ssl
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from kapiserver.testing.server import TestServer
from tests.apiserver.metrics.published_queries import NO_DATA, QUERIES, Query

Samples = dict[str, list[dict[str, str]]]
MAPS = "/api/v1/namespaces/default/configmaps"
SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
LEVELS = "/apis/flowcontrol.apiserver.k8s.io/v1"


@pytest.fixture(scope="module")
def samples() -> Samples:
    """The labels of the series by name, of a server that has had requests of all kinds."""
    with TestServer() as server:
        _use(server)
        text = _ask(server, "GET", "/metrics").decode()
    samples: Samples = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            samples.setdefault(sample.name, []).append(sample.labels)
    return samples


def _ask(server: TestServer, method: str, path: str, body: str = "", token: str = "") -> bytes:
    """Send a request with the client certificate of the administrator, or a token."""
    request = urllib.request.Request(server.url + path, data=body.encode() or None, method=method)
    if body:
        is_apply = method == "PATCH"
        request.add_header("Content-Type", f"application/{'apply-patch+' * is_apply}yaml")
    context = server.ca_context
    assert context is not None
    credentials = server.running.credentials
    if token:
        context = ssl.create_default_context(cafile=server.ca)
        request.add_header("Authorization", f"Bearer {token}")
    elif credentials is not None:
        context = ssl.create_default_context(cafile=server.ca)
        context.load_cert_chain(credentials.admin.certificate, credentials.admin.key)
    with urllib.request.urlopen(request, context=context, timeout=60) as response:
        data: bytes = response.read()
    return data


def _wait_for(server: TestServer, path: str, text: bytes) -> None:
    while text not in _ask(server, "GET", path):
        pass


def _use(server: TestServer) -> None:
    """Read and write, let an APIService be down, and let requests be refused with 429."""
    _ask(server, "POST", MAPS, "metadata: {name: a}")
    for path in (f"{MAPS}/a", MAPS, "/api/v1/namespaces"):
        _ask(server, "GET", path)
    # An APIService counts as lost if it was available before, as one without a Service is.
    spec = "{group: ext.example.com, version: v1, groupPriorityMinimum: 10, versionPriority: 10}"
    _ask(server, "POST", SERVICES, f"metadata: {{name: v1.ext.example.com}}\nspec: {spec}")
    path = f"{SERVICES}/v1.ext.example.com"
    _wait_for(server, path, b'"Available","status":"True"')
    service = "{insecureSkipTLSVerify: true, service: {name: missing, namespace: default}}"
    _ask(server, "PATCH", f"{path}?fieldManager=t&force=true", (
        "apiVersion: apiregistration.k8s.io/v1\nkind: APIService\n"
        f"metadata: {{name: v1.ext.example.com}}\nspec: {service}"
    ))  # fmt: skip
    _wait_for(server, path, b"ServiceNotFound")
    limited = "{nominalConcurrencyShares: 0, limitResponse: {type: Reject}}"
    _ask(
        server, "POST", f"{LEVELS}/prioritylevelconfigurations",
        f"metadata: {{name: none}}\nspec: {{type: Limited, limited: {limited}}}",
    )  # fmt: skip
    subjects = "[{kind: User, user: {name: refused}}]"
    resources = "[{verbs: ['*'], apiGroups: ['*'], resources: ['*'], clusterScope: true}]"
    rules = f"[{{subjects: {subjects}, resourceRules: {resources}}}]"
    _ask(
        server, "POST", f"{LEVELS}/flowschemas",
        "metadata: {name: none}\nspec: {priorityLevelConfiguration: {name: none}, "
        f"matchingPrecedence: 2, rules: {rules}}}",
    )  # fmt: skip
    token = server.add_token("refused")
    status = 0
    while status != 429:
        try:
            _ask(server, "GET", "/api/v1/nodes", token=token)
        except urllib.error.HTTPError as error:
            status = error.code
            error.close()


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: f"{query.metric}-{query.used_by[:20]}")
def test_query_has_data(samples: Samples, query: Query) -> None:
    """A series has the labels of the query, with its values."""

    def matches(labels: dict[str, str]) -> bool:
        return all(
            name in labels and (not value or _equal(name, labels[name], value))
            for name, value in query.labels.items()
        )

    assert any(matches(labels) for labels in samples.get(query.metric, ()))


def _equal(name: str, text: str, value: str) -> bool:
    """Compare values of a label; bounds are written `1` or `1.0`, and the rules take both."""
    return float(text) == float(value) if name == "le" else text == value


def test_bounds_match_the_rules(samples: Samples) -> None:
    """The bounds of the SLI are written so that the rules' expressions match them."""
    bounds = {labels["le"] for labels in samples["apiserver_request_sli_duration_seconds_bucket"]}
    for bound in ("1", "5", "30"):
        assert bounds & {bound, f"{bound}.0"}


def test_metrics_without_data(samples: Samples) -> None:
    """The metrics that the page names as missing are missing."""
    page = (Path(__file__).parent.parent.parent.parent / "docs/how-to/metrics.md").read_text()
    for name, reason in NO_DATA.items():
        assert name not in samples
        assert f"| `{name}` | {reason} |" in page


def test_page_names_every_metric() -> None:
    """The page lists what the published queries read."""
    page = (Path(__file__).parent.parent.parent.parent / "docs/how-to/metrics.md").read_text()
    for query in QUERIES:
        name: Any = query.metric.removesuffix("_bucket").removesuffix("_count")
        assert f"`{name}`" in page
