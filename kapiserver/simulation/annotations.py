"""The annotations that decide how pods and nodes live when they are simulated."""

PREFIX = "simulation.kapiserver.dev/"
STOPPED = f"{PREFIX}stopped"
"""The annotation of a node whose kubelet does not run, with the value `true`."""
MISSING_IMAGES = f"{PREFIX}missing-images"
"""The annotation of a node with the images that it cannot pull, separated by spaces."""
UNHEALTHY = f"{PREFIX}unhealthy-conditions"
"""The annotation of a node with the types of the conditions that its kubelet reports as unhealthy,
separated by spaces: Ready, MemoryPressure, DiskPressure, PIDPressure."""
