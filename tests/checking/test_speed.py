"""What a check of many objects costs."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import pytest

OBJECTS = 1000
CPU_SECONDS = 4.0
"""Twice what the check may take on a machine that does nothing else."""
MEMORY_KILOBYTES = 150_000

WORKLOAD = """\
apiVersion: apps/v1
kind: Deployment
metadata: {{name: web-{0}}}
spec:
  selector: {{matchLabels: {{app: web-{0}}}}}
  template:
    metadata: {{labels: {{app: web-{0}}}}}
    spec: {{containers: [{{name: web, image: nginx, ports: [{{name: http, containerPort: 80}}]}}]}}
---
apiVersion: v1
kind: Service
metadata: {{name: web-{0}}}
spec: {{selector: {{app: web-{0}}}, ports: [{{port: 80, targetPort: http}}]}}
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss has another unit elsewhere")
def test_thousand_objects(tmp_path: Path) -> None:
    """1,000 objects are checked in bounded time and memory, the start included."""
    for number in range(OBJECTS // 2):
        (tmp_path / f"{number}.yaml").write_text(WORKLOAD.format(number))
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "kapiserver", "check", str(tmp_path)]
    completed = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert (completed.returncode, completed.stdout) == (0, "")
    assert completed.stderr == "1000 objects: 0 errors, 0 warnings\n"
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert seconds < CPU_SECONDS
    assert after.ru_maxrss < MEMORY_KILOBYTES or before.ru_maxrss == after.ru_maxrss
