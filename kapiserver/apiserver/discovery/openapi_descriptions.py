"""Descriptions in the OpenAPI documents: of query parameters, and of `kind` and `apiVersion`."""

from __future__ import annotations

TYPE_META: dict[str, str] = {
    "kind": (
        "Kind is a string value that names the REST resource of this object, in CamelCase. The "
        "server infers it from the endpoint of the request; it cannot be updated."
    ),
    "apiVersion": (
        "APIVersion defines the versioned schema of this object, as <group>/<version> or, for the "
        "core group, <version>. Servers reject versions that they do not serve."
    ),
}
PARAMETERS: dict[str, str] = {
    "allowWatchBookmarks": (
        "Ask for BOOKMARK events, which carry the latest resourceVersion at intervals that the "
        "server chooses. Applies to a watch only."
    ),
    "command": "The command and its arguments, one per repeated parameter; no shell expands them.",
    "container": "Name of the container; may be omitted if the pod has only one container.",
    "continue": (
        "Token from the metadata.continue of the previous page; the other parameters must be those "
        "of the first page. An expired token is answered with 410 Gone."
    ),
    "dryRun": (
        "Run all stages of the request but persist nothing. The only allowed value is All; by "
        "default changes are persisted."
    ),
    "fieldManager": (
        "Name of the manager that owns the changed fields in metadata.managedFields: at most 128 "
        "printable characters. Required for apply; defaults to the start of the User-Agent."
    ),
    "fieldSelector": (
        "Return only objects whose fields match, as in metadata.name=a,status.phase!=Failed. By "
        "default all objects are returned."
    ),
    "fieldValidation": (
        "What to do with unknown and duplicate fields in the body: Ignore drops them, Warn adds a "
        "warning to the response (the default), Strict rejects the request."
    ),
    "follow": "Keep the stream open and send log lines as the container writes them.",
    "force": (
        "Take over fields that conflict with other field managers. Allowed for server-side apply "
        "only; without it conflicts are answered with 409."
    ),
    "gracePeriodSeconds": (
        "Seconds the object may take to shut down before it is removed; 0 deletes at once. "
        "Defaults to the value of the object's kind."
    ),
    "ignoreStoreReadErrorWithClusterBreakingPotential": (
        "Delete an object that cannot be decoded from the store, without finalizers and "
        "preconditions. May break the cluster; off by default."
    ),
    "insecureSkipTLSVerifyBackend": (
        "Do not verify the serving certificate of the kubelet that the logs come from."
    ),
    "labelSelector": (
        "Return only objects whose labels match, as in app=web,tier in (a,b). By default all "
        "objects are returned."
    ),
    "limit": (
        "Return at most this many items per page; the rest follow with the continue token. 0 "
        "returns all items."
    ),
    "limitBytes": "Return at most this many bytes of the log; must be positive.",
    "namespace": "Name of the namespace that the object is in.",
    "orphanDependents": (
        "Deprecated: use propagationPolicy. True removes this owner from its dependents instead "
        "of deleting them."
    ),
    "path": "Path of the proxied request, below the proxy subresource.",
    "ports": "Ports of the pod to forward; required over WebSocket.",
    "pretty": "Indent the JSON response if true.",
    "previous": "Return the log of the previous, terminated instance of the container.",
    "propagationPolicy": (
        "What happens to dependents: Orphan keeps them, Background deletes them afterwards, "
        "Foreground deletes them first. Defaults to the policy of the kind."
    ),
    "resourceVersion": (
        "Version to read at, or to watch from; resourceVersionMatch says how to apply it to a "
        "list. Empty reads the newest state, 0 any cached state."
    ),
    "resourceVersionMatch": (
        "How resourceVersion applies to a list: Exact, or NotOlderThan for that version or a later "
        "one. Needs resourceVersion."
    ),
    "sendInitialEvents": (
        "Begin a watch with an ADDED event for each existing object, followed by a BOOKMARK. Needs "
        "resourceVersionMatch NotOlderThan."
    ),
    "shardSelector": (
        "Return only the objects of one shard, selected by a range of hashes of a field. By "
        "default all shards are returned."
    ),
    "sinceSeconds": (
        "Return only log lines written within this many seconds before now. Excludes sinceTime."
    ),
    "stderr": "Connect the standard error stream of the process; defaults to true.",
    "stdin": "Connect the standard input stream of the process; defaults to false.",
    "stdout": "Connect the standard output stream of the process; defaults to true.",
    "stream": "Which log stream to return: All, Stdout or Stderr; defaults to All.",
    "tailLines": "Return only this many lines from the end of the log.",
    "timeoutSeconds": "Seconds after which the server ends a list or a watch, active or not.",
    "timestamps": "Begin each log line with the time it was written, as RFC 3339 text.",
    "tty": "Allocate a terminal for the process; defaults to false.",
    "watch": (
        "Stream changes as watch events instead of returning a list. Set resourceVersion to resume "
        "after a known state."
    ),
}
"""The description of each parameter, by its name."""


def article(kind: str) -> str:
    """Return the kind with its indefinite article: `a Pod`, `an Ingress`."""
    return f"{'an' if kind[:1] in 'AEIOU' else 'a'} {kind}"
