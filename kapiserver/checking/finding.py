"""What a check finds: a problem of an object, and the finding with its place in a file."""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

Severity: TypeAlias = Literal["error", "warning"]

Steps: TypeAlias = tuple[str | int, ...]
"""The way to a value of a document: keys of mappings and indexes of sequences."""

ERROR: Severity = "error"
WARNING: Severity = "warning"

RULES: dict[str, str] = {
    "unreadable-file": "A file cannot be read.",
    "link-cycle": "A link leads to a folder that contains the link.",
    "too-large": "A file, a document or the number of objects is above a limit.",
    "not-yaml": "A document is not YAML, or has more aliases than the server reads.",
    "not-an-object": "A document is not an object with a kind and an apiVersion.",
    "kustomization": "A kustomization cannot be built.",
    "duplicate-field": "A mapping has a key twice.",
    "duplicate-object": "Two documents have the same object.",
    "no-name": "An object has no name.",
    "unknown-kind": "The server does not serve the kind in this version.",
    "removed-version": "A release of Kubernetes has removed the version.",
    "namespace-not-found": "The namespace of an object does not exist.",
    "unknown-field": "A field is not in the schema of the kind.",
    "wrong-type": "A value has another type than its field.",
    "invalid-value": "A value breaks a rule of its field.",
    "immutable-field": "A field cannot be changed after the object was created.",
    "stored-version": "A definition no longer has a version in which objects are stored.",
    "lost-field": "A new definition drops a field of a stored object.",
    "apply-conflict": "Another field manager owns a field that the object sets.",
    "policy": "An admission policy refuses or warns.",
    "pod-security": "A pod violates the Pod Security Standard of its namespace.",
    "quota": "The quota of a namespace is exceeded.",
    "limit-range": "A container, a pod or a claim is outside the limits of its namespace.",
    "not-loaded": "The server refuses an object of --cluster or --against.",
    "not-allowed": "The user of --as may not apply the object.",
    "refused": "The server refuses the object for another reason.",
    "deprecated-version": "The version of the kind is deprecated.",
    "server-warning": "The server warns.",
    "missing-service-account": "A ServiceAccount is neither in the files nor in the cluster.",
    "missing-config-map": "A ConfigMap is neither in the files nor in the cluster.",
    "missing-secret": "A Secret is neither in the files nor in the cluster.",
    "missing-key": "A ConfigMap or a Secret has no such key.",
    "missing-claim": "A PersistentVolumeClaim is neither in the files nor in the cluster.",
    "missing-storage-class": "A StorageClass is neither in the files nor in the cluster.",
    "missing-scale-target": "The target of an autoscaler is neither in the files nor in the "
    "cluster.",
    "missing-service": "A Service is neither in the files nor in the cluster.",
    "missing-role": "A role of a binding is neither in the files nor in the cluster.",
    "selector-matches-nothing": "A selector matches no pod of its namespace.",
    "undeclared-port": "No container declares the named port of a Service.",
    "name-collision": "Names are equal after their truncation.",
}
"""The rules by name, each with what it means. A comment or a file silences a rule by its name."""


class Problem(Struct, frozen=True, kw_only=True):
    """What is wrong with a value of an object.

    steps   leads to the value, from the root of the object
    """

    steps: Steps = ()
    severity: Severity
    message: str
    rule: str


class Finding(Struct, frozen=True, kw_only=True):
    """A problem and its place.

    file        the path of the file; "-" is standard input, "" an object of the Python API
    line        the line of the field, from 1; 0 if there is no text
    column      the column of the field, from 1; 0 if there is no text
    severity    `error` for what the server refuses, otherwise `warning`
    message     the server's own words where the server has some
    rule        a name in RULES
    object      kind, namespace and name: `Deployment shop/web`; "" for a problem of the file
    """

    file: str = ""
    line: int = 0
    column: int = 0
    severity: Severity
    message: str
    rule: str
    object: str = ""

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}:{self.column}: " if self.file else ""
        about = f"{self.object}: " if self.object else ""
        return f"{place}{self.severity}: {about}{self.message} [{self.rule}]"
