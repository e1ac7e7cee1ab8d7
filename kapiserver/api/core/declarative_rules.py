"""Declarative validation rules of the core group."""

from __future__ import annotations

from kapiserver.api import names
from kapiserver.api.declarative_validation import FieldRules, minimum, text_format

REPLICATION_CONTROLLER = FieldRules(
    fields={
        "metadata": FieldRules(
            fields={"name": FieldRules(rules=(text_format(names.dns1123_subdomain),))},
        ),
        "spec": FieldRules(
            fields={
                "replicas": FieldRules(pointer=True, rules=(minimum(0),)),
                "minReadySeconds": FieldRules(rules=(minimum(0),)),
            }
        ),
    }
)
