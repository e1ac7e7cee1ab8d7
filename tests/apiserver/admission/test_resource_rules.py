"""The table of rules of single resources."""

from __future__ import annotations

import pytest

from kapiserver.api.scheme import Scheme
from kapiserver.apiserver.admission import resource_rules
from kapiserver.apiserver.context import ResourceRules

TABLES = {
    "set_defaults": resource_rules.REQUEST_DEFAULTS,
    "check": resource_rules.CHECKS,
    "check_prepared": resource_rules.PREPARED_CHECKS,
}


@pytest.mark.parametrize("field", TABLES)
def test_rules(field: str) -> None:
    """Each row names a resource that exists, and a function that exists."""
    scheme = Scheme()
    names = {
        resource.qualified_name
        for group in scheme.groups
        for resource in scheme.resources(group.name)
    }
    for resource, rule in TABLES[field].items():
        assert resource.partition("/")[0] in names
        assert callable(rule())
        assert getattr(resource_rules.resource_rules(resource), field) is rule.value


def test_resource_without_rules() -> None:
    """Most resources have no rules."""
    assert resource_rules.resource_rules("configmaps") == ResourceRules()
