"""How much is taken in, the same for every format. Sizes of bodies are bounded where they arrive.

Mirrors the limits of k8s.io/apimachinery, lower where Python's own stack is the limit.
"""

MAX_DEPTH = 250
"""Levels of objects and arrays: what every walk over a tree can do without running out."""

MAX_REPORTED = 100
"""Unknown and duplicate fields reported at once, as in Kubernetes' strict decoder."""
