"""How the tables of RBAC's bootstrap policy write a rule.

A rule is written as its verbs, API groups and resources, separated by spaces; `core` is the group
"". Lists are sorted, as kube-apiserver sorts them.
"""

from __future__ import annotations

from kapiserver.api.types import Tree

GROUP = "rbac.authorization.k8s.io"

READ = "get list watch"
WRITE = "create update patch delete deletecollection"
READ_WRITE = f"{READ} {WRITE}"


def rule(verbs: str, groups: str, resources: str, names: str = "") -> Tree:
    """Return a PolicyRule for resources, or for objects of these names."""
    tree: Tree = {
        "verbs": sorted(verbs.split()),
        "apiGroups": sorted("" if group == "core" else group for group in groups.split()),
        "resources": sorted(resources.split()),
    }
    if names:
        tree["resourceNames"] = sorted(names.split())
    return tree


def path_rule(verbs: str, paths: str) -> Tree:
    """Return a PolicyRule for paths that name no resource."""
    return {"verbs": verbs.split(), "nonResourceURLs": sorted(paths.split())}


EVENTS = rule("create update patch", "core events.k8s.io", "events")
TOKEN_REVIEWS = rule("create", "authentication.k8s.io", "tokenreviews")
ACCESS_REVIEWS = rule("create", "authorization.k8s.io", "subjectaccessreviews")
