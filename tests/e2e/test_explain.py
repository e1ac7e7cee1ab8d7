"""kubectl explains every kind, out of the OpenAPI documents of both versions."""

import pytest

from tests.e2e.programs import Kubectl


def _resources(kubectl: Kubectl) -> list[tuple[str, str]]:
    """Names of resources and their group-versions."""
    found = []
    for line in kubectl("api-resources", "--no-headers").splitlines():
        words = line.split()
        at = next(i for i, word in enumerate(words) if word in ("true", "false"))
        found.append((words[0], words[at - 1]))
    return found


@pytest.mark.slow
def test_every_kind(kubectl: Kubectl) -> None:
    """Each resource of the server is explained with all its fields, each kind with a sentence."""
    found = _resources(kubectl)
    assert len(found) > 60
    for name, version in found:
        told = kubectl("explain", name, "--api-version", version, "--recursive")
        assert "KIND:" in told, name
        assert "FIELDS:" in told, name
        description = told.partition("DESCRIPTION:")[2].partition("FIELDS:")[0].strip()
        assert description not in ("", "<empty>"), name


FIELDS = [
    "pod.spec.containers.ports.containerPort",
    "deployment.spec.template.spec.volumes",
    "service.spec.ports.targetPort",
    "configmap.data",
]


@pytest.mark.parametrize("path", FIELDS)
def test_fields(kubectl: Kubectl, path: str) -> None:
    """A field says what it is for."""
    _check(kubectl("explain", path), path)


@pytest.mark.parametrize("path", FIELDS)
def test_fields_of_version_two(newest: Kubectl, path: str) -> None:
    """The older document says the same."""
    _check(newest("explain", path, "--output", "plaintext-openapiv2"), path)


def _check(told: str, path: str) -> None:
    assert path.rpartition(".")[2] in told
    text = told.partition("DESCRIPTION:")[2].strip()
    assert text
    assert not text.startswith("<empty>"), told
