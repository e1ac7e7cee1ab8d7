"""Expressions of jq as gojq evaluates them, within limits.

`lexer` and `parser` make filters of a source (`filters`, `control`, `assignments`, and functions by
their kinds); `prelude` has the functions that are written in jq. Left out are modules, input from
outside, streams, local time and rare functions of numbers. Each evaluation has a limited number of
steps, so that every expression ends. Knows no kwok. `query.py` is the way in.
"""
