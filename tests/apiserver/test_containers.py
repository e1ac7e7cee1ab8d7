"""The compose file and the Dockerfile, checked without a container engine."""

import argparse
from pathlib import Path

import pytest
import yaml

from kapiserver.cli import parser
from kapiserver.server_config import config_of

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture
def services() -> dict:
    """The services of docker-compose.yml."""
    return yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]


def test_health_checks(services: dict) -> None:
    """kapiserver waits for a healthy etcd, and both have a health check."""
    assert set(services) == {"etcd", "kapiserver"}
    for service in services.values():
        check = service["healthcheck"]
        assert check["test"][0] == "CMD"
        assert {"interval", "timeout", "retries"} <= check.keys()
    assert services["kapiserver"]["depends_on"] == {"etcd": {"condition": "service_healthy"}}


def test_volumes_are_declared(services: dict) -> None:
    """Every named volume that a service mounts is declared."""
    whole = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
    mounted = {
        volume.split(":")[0] for service in services.values() for volume in service["volumes"]
    }
    assert mounted == set(whole["volumes"])


def test_command_lines(services: dict) -> None:
    """The command lines of the compose file and of the image parse."""
    config = config_of(_parse(services["kapiserver"]["command"]))
    assert config.store.storage == "etcd:http://etcd:2379"
    lines = (ROOT / "Dockerfile").read_text().splitlines()
    (command,) = [line.removeprefix("CMD ") for line in lines if line.startswith("CMD ")]
    assert config_of(_parse(yaml.safe_load(command))).serving.bind_address == "0.0.0.0"


def _parse(arguments: list[str]) -> argparse.Namespace:
    return parser().parse_args(arguments)


def test_copied_files_exist() -> None:
    """Each source of a COPY exists."""
    for line in (ROOT / "Dockerfile").read_text().splitlines():
        if line.startswith("COPY ") and "--from" not in line:
            for source in line.split()[1:-1]:
                assert (ROOT / source).exists(), source
