"""The Scheme and its caches can be garbage-collected."""

import gc
import weakref

from kapiserver.api.group import GroupVersion, GroupVersionKind
from kapiserver.api.scheme import Scheme


def test_a_scheme_is_garbage_collected() -> None:
    """No class keeps a reference to a used Scheme: a test process creates one per server."""
    scheme = Scheme()
    pods = scheme.resource(GroupVersion("", "v1"), "pods")
    assert scheme.type_of(GroupVersionKind("", "v1", "Pod")) is not None
    scheme.default({"apiVersion": "v1", "kind": "Pod", "spec": {"containers": []}})
    scheme.strategy(pods)
    scheme.field_extractor(pods)
    scheme.columns("", "Pod")
    scheme.conversion("autoscaling")
    reference = weakref.ref(scheme)
    del scheme
    gc.collect()
    assert reference() is None
