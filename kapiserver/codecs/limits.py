"""How much is taken in, the same for every format. Sizes of bodies are bounded where they arrive.

Mirrors the limits of k8s.io/apimachinery, lower where Python's own stack is the limit.
"""

MAX_DEPTH = 250
"""Levels of objects and arrays: what every walk over a tree can do without running out."""

MAX_VALUES = 300_000
"""Values in one body: a few bytes can stand for an object of a kilobyte in memory, and no object
that fits into a body has nearly as many. Nothing in the store or a client's list is counted."""

UNLIMITED = (1 << 63) - 1
"""More values than there will ever be: what is read is ours."""

TOO_MANY_VALUES = "the data has too many values: at most {} are read"
"""For TooLarge."""

MAX_STRICT_ERRORS = 100
"""Unknown and duplicate fields reported at once, as in Kubernetes' strict decoder."""
