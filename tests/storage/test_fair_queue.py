"""Turns between users."""

from kapiserver.storage.concurrency.fair_queue import SYSTEM, FairQueue


def queue_of(**limits: int) -> FairQueue[str]:
    return FairQueue(
        limit=limits.get("limit", 100),
        limit_per_user=limits.get("limit_per_user", 100),
        running_per_user=limits.get("running_per_user", 1),
    )


def take_all(queue: FairQueue[str]) -> list[str]:
    """Run all work, one piece at a time, and return it in its order."""
    taken = []
    while (started := queue.start_next()) is not None:
        user, work = started
        taken.append(work)
        queue.finish(user)
    return taken


def test_users_take_turns() -> None:
    """Each user has one turn before any has the next; a user's own work keeps its order."""
    queue = queue_of()
    for work in ("a1", "a2", "a3", "b1", "b2", "c1"):
        assert queue.add(work[0], work)
    assert take_all(queue) == ["a1", "b1", "c1", "a2", "b2", "a3"]
    assert len(queue) == 0


def test_running_work_is_limited() -> None:
    """A user with running work waits for it; the others do not."""
    queue = queue_of()
    for work in ("a1", "a2", "b1"):
        queue.add(work[0], work)
    assert queue.start_next() == ("a", "a1")
    assert queue.start_next() == ("b", "b1")
    assert queue.start_next() is None
    queue.finish("a")
    assert queue.start_next() == ("a", "a2")


def test_limits() -> None:
    """Work beyond a limit is refused, unless it is the server's own or not limited."""
    queue = queue_of(limit=3, limit_per_user=2)
    assert [queue.add("a", str(number)) for number in range(3)] == [True, True, False]
    assert [queue.add("b", str(number)) for number in range(2)] == [True, False]
    assert queue.add(SYSTEM, "own")
    assert queue.add("b", "begun", limited=False)


def test_removed_work_never_starts() -> None:
    """Removed work gives its place to the next; removing it again changes nothing."""
    queue = queue_of()
    for work in ("a1", "a2"):
        queue.add("a", work)
    for _ in range(2):
        queue.remove("a", "a1")
    assert len(queue) == 1
    assert take_all(queue) == ["a2"]
