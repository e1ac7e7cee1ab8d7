"""kubectl with a custom kind: define it, wait for it, use its objects, delete it."""

import json
import re

from tests.e2e.cluster import established
from tests.e2e.programs import Kubectl, Server

CRONTABS = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: crontabs.stable.example.com
spec:
  group: stable.example.com
  scope: Namespaced
  names: {plural: crontabs, singular: crontab, kind: CronTab, shortNames: [ct], categories: [mine]}
  versions:
    - name: v1
      served: true
      storage: true
      additionalPrinterColumns:
        - {name: Spec, type: string, jsonPath: .spec.cronSpec}
        - {name: Replicas, type: integer, jsonPath: .spec.replicas}
        - {name: Age, type: date, jsonPath: .metadata.creationTimestamp}
        - {name: Image, type: string, priority: 1, jsonPath: .spec.image}
      subresources:
        status: {}
        scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}
      schema:
        openAPIV3Schema:
          type: object
          description: A task that comes again and again.
          properties:
            spec:
              type: object
              required: [cronSpec]
              properties:
                cronSpec: {type: string, description: When it comes.}
                image: {type: string}
                replicas: {type: integer, default: 1, maximum: 10}
            status:
              type: object
              properties: {replicas: {type: integer}}
"""
TAB = """
apiVersion: stable.example.com/v1
kind: CronTab
metadata: {name: daily}
spec: {cronSpec: "* * * * */5", image: tab}
"""


def test_custom_kind(server: Server, kubectl: Kubectl, newest: Kubectl) -> None:
    """A definition and its objects with apply, wait, get, explain, scale, patch, server-side apply,
    categories and short names, validation by client and server, delete."""
    assert kubectl("apply", "-f", "-", stdin=CRONTABS).endswith("created\n")
    established(server, "crontabs.stable.example.com")
    kubectl("wait", "--for=condition=Established", "crd/crontabs.stable.example.com")
    assert kubectl("apply", "-f", "-", stdin=TAB) == "crontab.stable.example.com/daily created\n"
    header, row = kubectl("get", "ct").splitlines()
    assert header.split() == ["NAME", "SPEC", "REPLICAS", "AGE"]
    assert row.split()[:7] == ["daily", "*", "*", "*", "*", "*/5", "1"]
    assert kubectl("get", "ct", "-o", "wide").splitlines()[0].split()[-1] == "IMAGE"
    assert "When it comes." in kubectl("explain", "crontabs.spec.cronSpec")
    explained = kubectl("explain", "crontab")
    # The text that conformance tests expect.
    assert re.search("A task that comes again and again.*APIVersion defines", explained, re.S)
    explained = kubectl("explain", "crontab.metadata")
    assert re.search(
        "Standard object's metadata.*creationTimestamp.*<string>.*CreationTimestamp is a timestamp",
        explained,
        re.S,
    )
    kubectl("scale", "--replicas=4", "crontab/daily")
    kubectl("patch", "ct", "daily", "--type=merge", "-p", '{"spec":{"image":"new"}}')
    newest("patch", "ct", "daily", "--subresource=status", "--type=merge", "-p",
           '{"status":{"replicas":2}}')  # fmt: skip
    obj = json.loads(kubectl("get", "mine", "-o", "json"))["items"][0]
    assert (obj["spec"]["replicas"], obj["spec"]["image"]) == (4, "new")
    assert obj["status"] == {"replicas": 2}
    applied = TAB.replace("image: tab", "image: mine")
    kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=applied)
    assert kubectl("get", "ct", "daily", "-o", "jsonpath={.spec.image}") == "mine"
    error = kubectl("apply", "-f", "-", stdin=TAB.replace("image", "imag"), fails=True)
    assert re.search(r'unknown field "(spec\.)?imag"', error)  # or by kubectl 1.20
    error = kubectl("patch", "ct", "daily", "--type=merge", "-p", '{"spec":{"replicas":11}}',
                    fails=True)  # fmt: skip
    assert "should be less than or equal to 10" in error
    assert "crontabs" in kubectl("api-resources", "--api-group=stable.example.com")
    kubectl("delete", "ct", "daily")
    assert kubectl("delete", "crd", "crontabs.stable.example.com").endswith("deleted\n")
    assert "could not find the requested resource" in kubectl("get", "ct", fails=True)
