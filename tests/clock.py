"""A clock that a test moves: the one that the package has for its users' tests."""

from kapiserver.storage.concurrency.manual_clock import ManualClock, ManualTimer

__all__ = ["ManualClock", "ManualTimer"]
