"""kubectl explain for every kind, with OpenAPI v2 and v3."""

import pytest

from tests.e2e.programs import Kubectl


def _resources(kubectl: Kubectl) -> list[tuple[str, str]]:
    """The names of resources and their group-versions, without the custom resources that other
    tests have left on the server."""
    resources = []
    custom = set(kubectl("get", "crd", "--output=name").split())
    for line in kubectl("api-resources", "--no-headers").splitlines():
        columns = line.split()
        at = next(i for i, word in enumerate(columns) if word in ("true", "false"))
        name, version = columns[0], columns[at - 1]
        crd = f"{name}.{version.partition('/')[0]}"
        if f"customresourcedefinition.apiextensions.k8s.io/{crd}" not in custom:
            resources.append((name, version))
    return resources


@pytest.mark.slow
def test_every_kind(kubectl: Kubectl) -> None:
    """Each resource is explained with all its fields, and each kind has a description."""
    resources = _resources(kubectl)
    assert len(resources) > 60
    for name, version in resources:
        output = kubectl("explain", name, "--api-version", version, "--recursive")
        assert "KIND:" in output, name
        assert "FIELDS:" in output, name
        description = output.partition("DESCRIPTION:")[2].partition("FIELDS:")[0].strip()
        assert description not in ("", "<empty>"), name


FIELDS = [
    "pod.spec.containers.ports.containerPort",
    "deployment.spec.template.spec.volumes",
    "service.spec.ports.targetPort",
    "configmap.data",
]


@pytest.mark.parametrize("path", FIELDS)
def test_fields(kubectl: Kubectl, path: str) -> None:
    """A field has a description."""
    _check(kubectl("explain", path), path)


@pytest.mark.parametrize("path", FIELDS)
def test_fields_of_version_two(newest: Kubectl, path: str) -> None:
    """OpenAPI v2 has the same description."""
    _check(newest("explain", path, "--output", "plaintext-openapiv2"), path)


def _check(output: str, path: str) -> None:
    assert path.rpartition(".")[2] in output
    text = output.partition("DESCRIPTION:")[2].strip()
    assert text
    assert not text.startswith("<empty>"), output
