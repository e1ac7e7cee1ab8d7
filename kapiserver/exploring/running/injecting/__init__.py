"""What a plan does to an operator: around its requests, to its watches, and by objects that refuse
its writes.

A new action needs a sentence in ACTIONS of `planning/plans.py`, a function of `planning/planner.py`
that chooses its points, and a case of the injector. A new object that refuses writes needs an entry
of OBSTACLES in place of a case.
"""
