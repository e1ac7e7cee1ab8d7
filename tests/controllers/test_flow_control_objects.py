"""Which spec and which annotation the server maintains of its flow schemas and levels."""

from __future__ import annotations

from typing import Any

import pytest

from kapiserver.apiserver.flowcontrol.bootstrap import AUTO_UPDATE
from kapiserver.controllers.defaults.flow_control import is_auto_updated, maintained

OURS, THEIRS = {"matchingPrecedence": 1}, {"matchingPrecedence": 2}

CASES = [
    # mandatory, annotation, generation: spec, annotation afterwards
    (True, "true", 3, OURS, "true"),
    (True, "false", 3, OURS, "true"),
    (True, None, 3, OURS, "true"),
    (False, "true", 3, OURS, "true"),
    (False, "1", 3, OURS, "1"),
    (False, "false", 3, THEIRS, "false"),
    (False, "F", 3, THEIRS, "F"),
    (False, None, 1, OURS, "true"),
    (False, None, 2, THEIRS, "false"),
    (False, "yes", 1, OURS, "true"),
    (False, "yes", 2, THEIRS, "false"),
]


@pytest.mark.parametrize(("mandatory", "annotation", "generation", "spec", "after"), CASES)
def test_maintained(
    mandatory: bool, annotation: str | None, generation: int, spec: Any, after: str
) -> None:
    """Mandatory specs are the server's; suggested ones are, as the annotation says, or as long as
    nobody has changed them."""
    annotations = {"other": "x"} | ({} if annotation is None else {AUTO_UPDATE: annotation})
    metadata = {"name": "a", "generation": generation, "annotations": annotations}
    obj = {"metadata": metadata, "spec": THEIRS}
    result = maintained(obj, {"spec": OURS}, is_mandatory=mandatory)
    assert result["spec"] == spec
    assert result["metadata"]["annotations"] == {"other": "x", AUTO_UPDATE: after}
    assert obj["spec"] == THEIRS
    again = {**result, "metadata": {**result["metadata"], "generation": generation + 1}}
    assert maintained(again, {"spec": OURS}, is_mandatory=mandatory) == again


def test_annotation_that_says_nothing() -> None:
    """Only booleans as Go reads them count."""
    for value in ("", "yes", "TRue"):
        assert is_auto_updated({"metadata": {"annotations": {AUTO_UPDATE: value}}}) is None
    assert is_auto_updated({"metadata": {}}) is None
