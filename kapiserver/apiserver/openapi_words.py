"""What OpenAPI says in words: of parameters, of an object's kind and version, the article before a
kind."""

from __future__ import annotations

TYPE_META: dict[str, str] = {
    "kind": "Which kind of object this is. Set by the server from the path; cannot be changed.",
    "apiVersion": "The version of the schema in which the object is written.",
}
PARAMETERS: dict[str, str] = {
    "allowWatchBookmarks": "Send BOOKMARK events now and then.",
    "command": "The command to run, one argument after another; nothing expands it.",
    "container": "Which container of the pod; the only one where there is one.",
    "continue": "Where a list that came in pages goes on.",
    "dryRun": "All: go through every step and persist nothing.",
    "fieldManager": "Who makes the change: at most 128 printable characters.",
    "fieldSelector": "Only objects with these field values.",
    "fieldValidation": "What to do about unknown and duplicate fields: Ignore, Warn or Strict.",
    "follow": "Go on as the container writes.",
    "force": "Take fields over from other managers; for apply only.",
    "gracePeriodSeconds": "Seconds until the object goes; 0: at once.",
    "ignoreStoreReadErrorWithClusterBreakingPotential": (
        "Delete an object that cannot be read from the store, without finalizers and preconditions."
    ),
    "insecureSkipTLSVerifyBackend": "Do not verify the certificate of the kubelet.",
    "labelSelector": "Only objects with these labels.",
    "limit": "At most that many items in a page.",
    "limitBytes": "At most that many bytes.",
    "namespace": "The namespace of the object.",
    "orphanDependents": "Deprecated: use propagationPolicy.",
    "path": "The path to ask for.",
    "ports": "Ports to forward.",
    "pretty": "true: indent the answer.",
    "previous": "Of the container that ran before this one.",
    "propagationPolicy": "Orphan, Background or Foreground: what becomes of dependents.",
    "resourceVersion": "From, or at, or not before, this version.",
    "resourceVersionMatch": "How resourceVersion is meant: Exact or NotOlderThan.",
    "sendInitialEvents": "Begin a watch with the objects that are there.",
    "shardSelector": "Only one part of the objects, of as many as there are shards.",
    "sinceSeconds": "Only what was written in the last seconds.",
    "stderr": "Connect the standard error stream.",
    "stdin": "Connect the standard input stream.",
    "stdout": "Connect the standard output stream.",
    "stream": "All, Stdout or Stderr.",
    "tailLines": "Only that many of the last lines.",
    "timeoutSeconds": "How long a list or watch may last.",
    "timestamps": "Begin each line with the time at which it was written.",
    "tty": "Give the process a terminal.",
    "watch": "Tell of changes instead of listing.",
}
"""By the name of the parameter."""


def article(kind: str) -> str:
    """The kind with `a` or `an` before it."""
    return f"{'an' if kind[:1] in 'AEIOU' else 'a'} {kind}"
