"""The logs of simulated containers, and the answers of their commands, without a server."""

from __future__ import annotations

import pytest

from kapiserver.apiserver.errors import BadRequest
from kapiserver.simulation.fate import unreadable_annotations
from kapiserver.simulation.streams.answers import Answer, answers_of, find_answer
from kapiserver.simulation.streams.container_log import (
    find_run,
    lines_of,
    run_of,
    selected,
    text_of,
    timed_line,
)
from tests.simulation.pods import START, Lived, pod_of


def lived(seconds=0.0, *containers, **options):
    life = Lived(pod_of(*containers, **options))
    life.run(seconds)
    return life.pod


def log(pod, container="app", now=START, **options):
    run = run_of(pod, container, previous=options.get("previous", False))
    return text_of(selected(lines_of(pod, container, run), options, now), options).decode()


STARTED = "simulated container app: started with image docker.io/library/nginx:latest\n"
ENDED = "simulated container app: ended with exit code {}\n"


def test_running_container():
    assert log(lived()) == STARTED
    assert log(lived(annotations={"log": "one\ntwo"})) == f"{STARTED}one\ntwo\n"
    assert log(lived(annotations={"log": "one", "log.app": "two"})) == f"{STARTED}two\n"
    assert log(lived(annotations={"log": "1TZ x\n99T"})) == f"{STARTED}1TZ x\n99T\n"


def test_ended_containers():
    pod = lived(5, policy="Never", annotations={"exit-code": "3"})
    assert log(pod) == STARTED + ENDED.format(3)
    pod = lived(2, init=["setup"], annotations={"log": "one"})
    assert "one" not in log(pod, "setup")
    assert log(pod, "setup").endswith("setup: ended with exit code 0\n")


def test_previous_run():
    pod = lived(1, annotations={"exit-code": "3", "log": timed_line(START, "early")})
    assert pod["status"]["containerStatuses"][0]["restartCount"] == 1
    assert log(pod, previous=True) == f"{STARTED}early\n" + ENDED.format(3)
    assert "early" not in log(pod)


LINES = [timed_line(START + second, f"line {second}") for second in (0, 10, 20)]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"tailLines": 2}, "line 10\nline 20\n"),
        ({"tailLines": 0}, ""),
        ({"tailLines": 9}, STARTED + "line 0\nline 10\nline 20\n"),
        ({"sinceSeconds": 15}, "line 20\n"),
        ({"sinceTime": "2023-11-14T22:13:30Z"}, "line 10\nline 20\n"),
        ({"sinceSeconds": 15, "tailLines": 3}, "line 20\n"),
        ({"tailLines": 1, "timestamps": True}, "2023-11-14T22:13:40.000000000Z line 20\n"),
        ({"stream": "Stderr"}, ""),
        ({"stream": "Stdout", "tailLines": 1}, "line 20\n"),
    ],
)
def test_options(options, expected):
    pod = lived(annotations={"log": "\n".join(LINES)})
    assert log(pod, now=START + 30, **options) == expected


@pytest.mark.parametrize(
    ("pod", "previous", "message"),
    [
        (pod_of(), False, 'container "app" in pod "web-0" is not available'),
        (lived(), True, 'previous terminated container "app" in pod "web-0" not found'),
        (
            lived(annotations={"start-seconds": "9"}),
            False,
            'container "app" in pod "web-0" is waiting to start: ContainerCreating',
        ),
        (
            lived(annotations={"image-pull-error": "no"}),
            False,
            'container "app" in pod "web-0" is waiting to start: image can\'t be pulled',
        ),
    ],
)
def test_containers_without_log(pod, previous, message):
    with pytest.raises(BadRequest) as error:
        run_of(pod, "app", previous=previous)
    assert str(error.value) == message


def test_run_that_has_ended_meanwhile():
    life = Lived(pod_of(annotations={"exit-code": "3"}))
    life.run()
    run = run_of(life.pod, "app")
    life.run(1)
    found = find_run(life.pod, "app", run.identity)
    assert (found.begin, found.exit_code) == (run.begin, 3)
    life.run(600)
    assert find_run(life.pod, "app", run.identity) is None


ANSWERS = """[{"command": ["ls"], "stdout": "a"}, {"exitCode": 9}]"""


def test_answers():
    pod = pod_of(annotations={"exec": ANSWERS, "exec.app": '[{"command": ["ls"], "stdout": "b"}]'})
    app, other = answers_of(pod, "app"), answers_of(pod, "other")
    assert find_answer(app, ["ls"]) == Answer(command=("ls",), stdout="b")
    assert find_answer(other, ["ls"]) == Answer(command=("ls",), stdout="a")
    assert find_answer(app, ["pwd"]) == Answer(exit_code=9)
    assert find_answer([], ["pwd"]) is None


@pytest.mark.parametrize("text", ["", "{}", "[1]", '[{"command": "ls"}]', '[{"exitCode": "1"}]'])
def test_unreadable_answers(text):
    pod = pod_of(annotations={"exec": text, "log": "x"})
    assert answers_of(pod, "app") == []
    assert unreadable_annotations(pod) == [f"simulation.kapiserver.dev/exec: {text!r}"]
