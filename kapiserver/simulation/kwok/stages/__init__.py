"""kwok's Stages: they say to which objects something happens, when, and what.

`stage` compiles a Stage, `selectors` and `expressions` decide about an object, `choice` takes one
of several stages, `steps` says what it does, and `controller` does it. All but the last are pure.
"""
