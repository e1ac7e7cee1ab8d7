"""Measures a running API server of any kind from outside, in a namespace of its own.

`session` opens the connections and owns the namespace, `measures` has the work, and `figures` what
comes out of it. `kapiserver bench` is in `kapiserver/commands/bench.py`.
"""
