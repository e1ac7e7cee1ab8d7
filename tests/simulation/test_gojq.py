"""Expressions have the results that gojq has, which evaluates them in kwok."""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson
import pytest

from kapiserver.simulation.jq.errors import JqError, JqSyntaxError
from kapiserver.simulation.jq.query import Query
from tests.simulation.jq_expressions import EXPRESSIONS
from tests.simulation.test_jq import FAILING, POD, RESULTS, UNPARSABLE

SOURCE = Path(__file__).parent / "gojq"
TOO_LONG = ("takes too long", "too long", "too large", "nested too deeply", "longer than")
"""Our own limits, which gojq does not have."""
LENIENT = ("@none", "now")
"""An unknown format, of which gojq says nothing; the time is different in each program."""


@pytest.fixture(scope="module")
def gojq(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program that evaluates expressions by gojq, in the version of kwok 0.8."""
    if shutil.which("go") is None:
        pytest.skip("go is not installed")
    program = tmp_path_factory.mktemp("gojq") / "gojq"
    command = ["go", "build", "-o", str(program), "."]
    environment = os.environ | {"GOTOOLCHAIN": "local", "GOFLAGS": "-buildvcs=false"}
    completed = subprocess.run(
        command, cwd=SOURCE, env=environment, capture_output=True, text=True, check=False
    )
    if completed.returncode != 0:
        pytest.skip(f"go cannot build gojq: {completed.stderr[-300:]}")
    return program


def evaluated(source: str) -> dict[str, Any]:
    try:
        return {"results": Query(source).evaluate(POD)}
    except JqSyntaxError:
        return {"error": "compile"}
    except JqError:
        return {"error": "evaluate"}


def answers(gojq: Path, sources: Sequence[str]) -> list[dict[str, Any]]:
    lines = b"\n".join(orjson.dumps([source, POD]) for source in sources)
    completed = subprocess.run([gojq], input=lines, capture_output=True, check=True)
    found = [json.loads(line) for line in completed.stdout.splitlines()]
    return [{key: each[key] for key in each if key != "message"} for each in found]


def comparable(value: Any) -> Any:
    """Return a value as gojq writes it in JSON: what is not a number is null."""
    if isinstance(value, dict):
        return {name: comparable(each) for name, each in value.items()}
    if isinstance(value, list):
        return [comparable(each) for each in value]
    if isinstance(value, float) and math.isnan(value):
        return None
    return math.copysign(1.7976931348623157e308, value) if value in (math.inf, -math.inf) else value


def test_same_as_gojq(gojq: Path) -> None:
    limited = [source for source in (*FAILING, *UNPARSABLE) if not is_limited(source)]
    sources = [
        source
        for source in (*EXPRESSIONS.splitlines(), *RESULTS, *limited)
        if source not in LENIENT
    ]
    assert len(sources) > 500
    different = [
        (source, expected, found)
        for source, expected in zip(sources, answers(gojq, sources), strict=True)
        if (found := comparable(evaluated(source))) != expected
    ]
    assert different == []


def is_limited(source: str) -> bool:
    message = FAILING.get(source) or UNPARSABLE.get(source) or ""
    return any(part in message for part in TOO_LONG)
