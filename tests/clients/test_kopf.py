"""A real operator: kopf, unmodified."""

import contextlib
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.programs import Kubectl, Server, kubectls, run, start, stop

OPERATOR = Path(__file__).parent / "python" / "operator_program.py"
DEFINITION = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: memcacheds.example.dev}
spec:
  group: example.dev
  scope: Namespaced
  names: {kind: Memcached, plural: memcacheds, singular: memcached, shortNames: [mc]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    additionalPrinterColumns:
    - {name: Size, type: integer, jsonPath: .spec.size}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            required: [size]
            properties:
              size: {type: integer, minimum: 1, maximum: 9}
          status: {type: object, x-kubernetes-preserve-unknown-fields: true}
"""
MEMCACHED = """
apiVersion: example.dev/v1
kind: Memcached
metadata: {name: cache}
spec: {size: 2}
"""


@pytest.fixture
def kopf(server: Server, namespace: str) -> Iterator[Callable[[str], None]]:
    """An operator of a namespace; a function that waits for a line in its log."""
    with running_operator(server, namespace) as wait_for_line:
        yield wait_for_line


@contextlib.contextmanager
def running_operator(server: Server, namespace: str) -> Iterator[Callable[[str], None]]:
    """An operator that runs until the block ends; a function that waits for a line in its log."""
    command = [sys.executable, "-m", "kopf", "run", "--verbose", "-n", namespace, str(OPERATOR)]
    operator = subprocess.Popen(
        command,
        env={**os.environ, "KUBECONFIG": str(server.kubeconfig)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )

    def wait_for_line(pattern: str) -> None:
        messages = []
        assert operator.stdout is not None
        for line in operator.stdout:
            if re.search(pattern, line):
                return
            messages.append(line)
        raise AssertionError("".join(messages))

    try:
        yield wait_for_line
    finally:
        operator.terminate()
        print(operator.communicate(timeout=60)[0])  # shown when the test fails


def test_kopf(newest: Kubectl, kopf: Callable[[str], None]) -> None:
    """A kopf operator creates, scales and, through owner references, deletes a Deployment."""
    newest("apply", "-f", "-", stdin=DEFINITION)
    kopf("Starting the watch-stream for memcacheds.v1.example.dev")
    newest("apply", "-f", "-", stdin=MEMCACHED)
    newest("wait", "mc/cache", "--for=jsonpath={.status.create.deployment}=cache", "--timeout=60s")
    assert "cache" in newest("get", "deployment", "cache")
    newest("patch", "mc", "cache", "--type=merge", "-p", '{"spec":{"size":3}}')
    newest("wait", "deployment/cache", "--for=jsonpath={.spec.replicas}=3", "--timeout=60s")
    error = newest("patch", "mc", "cache", "--type=merge", "-p", '{"spec":{"size":99}}', fails=True)
    assert "spec.size in body should be less than or equal to 9" in error
    newest("delete", "mc", "cache", "--timeout=60s")
    newest("wait", "deployment/cache", "--for=delete", "--timeout=60s")


def test_deployment_becomes_available(tmp_path: Path) -> None:
    """A kopf operator reports how many pods of its Deployment are available; the pods are
    simulated."""
    server = start(tmp_path, "--simulate", "--simulate-nodes=1")
    try:
        with running_operator(server, "default") as wait_for_line:

            def kubectl(*arguments: str, stdin: str = "") -> str:
                return run(kubectls()[0], server, *arguments, stdin=stdin)

            kubectl("apply", "-f", "-", stdin=DEFINITION)
            wait_for_line("Starting the watch-stream for memcacheds.v1.example.dev")
            kubectl("apply", "-f", "-", stdin=MEMCACHED)
            kubectl("wait", "mc/cache", "--for=jsonpath={.status.available}=2", "--timeout=60s")
            kubectl("patch", "mc", "cache", "--type=merge", "-p", '{"spec":{"size":3}}')
            kubectl("wait", "mc/cache", "--for=jsonpath={.status.available}=3", "--timeout=60s")
    finally:
        stop(server)
