"""Limits on decoded data, the same for every format.

The HTTP layer limits the size of bodies. Mirrors the limits of k8s.io/apimachinery; the depth is
lower because Python's stack is smaller.
"""

MAX_DEPTH = 250
"""The nesting depth of objects and arrays, within which recursive functions cannot overflow."""

MAX_VALUES = 300_000
"""Values in one request body. A few bytes of input can become a kilobyte of memory, and no valid
object within the body limit has nearly as many values. Stored values and the lists that clients
decode are not limited."""

UNLIMITED = (1 << 63) - 1
"""The value limit for trusted data."""

TOO_MANY_VALUES = "the data has too many values: at most {} are read"
"""The message of TooLarge; `format` takes the limit."""

MAX_STRICT_ERRORS = 100
"""The maximum number of unknown and duplicate fields reported for one body, as in Kubernetes'
strict decoder."""
