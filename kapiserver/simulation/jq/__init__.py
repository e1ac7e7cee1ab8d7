"""Expressions of jq: paths, conditions and most functions, evaluated within limits.

Left out are definitions of functions, `reduce`, `foreach`, assignments and input from outside: no
loop but those over a value. So every expression ends. Knows no kwok. `query.py` is the way in.
"""
