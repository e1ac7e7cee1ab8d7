"""`kapiserver new` and `kapiserver certificates`: the project passes its own tests and checks."""

from __future__ import annotations

import asyncio
import base64
import os
import re
import ssl
import subprocess
import sys
from pathlib import Path

import pytest
from cryptography import x509

from kapiserver.cli import main
from kapiserver.codecs.yaml import decode_values
from kapiserver.testing.server import TestServer
from tests.docs.session import readers_environment

PLUGINS = ("-p", "no:cacheprovider")


def _new(folder: Path, *options: str) -> Path:
    assert main(["new", str(folder), *options]) == 0
    return folder


def _run(folder: Path, *command: str) -> str:
    completed = subprocess.run(
        [sys.executable, "-m", *command], cwd=folder, env=readers_environment(), text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, timeout=120,
    )  # fmt: skip
    assert completed.returncode == 0, completed.stdout
    return completed.stdout


@pytest.mark.parametrize(
    "options",
    [
        pytest.param((), id="plain"),
        pytest.param(
            ("--group", "shop.example.org", "--kind", "SpareBox", "--plural", "spareboxes"),
            id="named",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_project(options: tuple[str, ...], tmp_path: Path) -> None:
    """The tests of a new project pass, its manifests are fine, and its definitions too."""
    project = _new(tmp_path / "project", *options)
    written = [path for path in project.rglob("*") if path.is_file()]
    for path in written:
        text = path.read_text()
        assert not re.search("@(kind|singular|plural|group)@", f"{path}{text}")
    names = {path.name for path in written}
    assert {"README.md", "pyproject.toml", "Dockerfile", "5-apiservice.yaml"} <= names
    assert "3 passed" in _run(project, "pytest", "-q", *PLUGINS)
    checked = _run(project, "kapiserver", "check", "--strict", "manifests")
    assert re.search(r"\d+ objects: 0 errors, 0 warnings", checked), checked
    (resources,) = project.glob("*/resources.py")
    (definition,) = decode_values(_run(project, "kapiserver", "crds", str(resources)).encode())
    assert definition["kind"] == "CustomResourceDefinition"
    kubectl_help = _run(project, resources.parent.name, "--help")
    assert "--tls-private-key-file" in kubectl_help


def test_lint(tmp_path: Path) -> None:
    """The code of a new project has the form that this project's has."""
    project = _new(tmp_path / "project")
    for command in (("check", "--isolated", "--select", "E,F,I,B,UP"), ("format", "--check")):
        _run(project, "ruff", *command, "--config", "line-length=100", ".")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--group", "Example"), "'Example' is not a name of an API group"),
        (("--kind", "widget"), "'widget' is not a name of a kind"),
        (("--kind", "While"), "'While' is not a name of a kind"),
        (("--kind", "../Box"), "is not a name of a kind"),
        (("--kind", "Sheep", "--plural", "sheep"), "'sheep' is not a plural name of Sheep"),
        (("--plural", "Widgets"), "'Widgets' is not a plural name"),
    ],
)
def test_bad_names(
    options: tuple[str, ...], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A bad name writes nothing."""
    folder = tmp_path / "project"
    assert main(["new", str(folder), *options]) == 1
    assert message in capsys.readouterr().err
    assert not folder.exists()


def test_folder_with_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A folder with files is left alone."""
    (tmp_path / "mine").write_text("")
    assert main(["new", str(tmp_path)]) == 1
    assert "is not empty" in capsys.readouterr().err
    assert os.listdir(tmp_path) == ["mine"]


def test_certificates(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The command writes certificates that clients accept, with the rights of the Job's role."""
    project = _new(tmp_path / "project")
    with TestServer() as server:
        command = ["certificates", "--service", "widgets/widgets", "--secret", "widgets-tls"]
        command += ["--api-service", "v1.example.com", "--kubeconfig", str(server.kubeconfig)]
        assert main(command) == 1  # no namespace yet: the Job tries again
        assert "not found" in capsys.readouterr().err

        server.run(_apply(server, project / "manifests"))
        token = server.add_token("system:serviceaccount:widgets:widgets-certificates")
        job = str(server.write_kubeconfig("widgets", token=token))
        for _ in range(2):
            assert main([*command[:-1], job]) == 0
        secret, api_service = server.run(_read(server))
        data = {name: base64.b64decode(text) for name, text in secret["data"].items()}
        assert api_service["spec"]["caBundle"] == secret["data"]["ca.crt"]
        certificate = x509.load_pem_x509_certificate(data["tls.crt"])
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        assert "widgets.widgets.svc" in names.get_values_for_type(x509.DNSName)
        certificate.verify_directly_issued_by(x509.load_pem_x509_certificate(data["ca.crt"]))
        (tmp_path / "pair").write_bytes(data["tls.crt"] + data["tls.key"])
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(tmp_path / "pair")


async def _apply(server: TestServer, folder: Path) -> None:
    client = server.internal_client()
    for path in sorted(folder.iterdir()):  # noqa: ASYNC240 - a test
        for tree in decode_values(path.read_bytes()):
            plural = {"APIService": "apiservices"}.get(tree["kind"], f"{tree['kind'].lower()}s")
            namespace = tree["metadata"].get("namespace", "")
            resource = client.resource(tree["apiVersion"], plural, namespace=namespace)
            await resource.apply(tree, manager="test")


async def _read(server: TestServer) -> tuple[dict[str, object], dict[str, object]]:
    client = server.internal_client()
    secrets = client.resource("v1", "secrets", namespace="widgets")
    api_services = client.resource("apiregistration.k8s.io/v1", "apiservices")
    return await asyncio.gather(secrets.get("widgets-tls"), api_services.get("v1.example.com"))
