"""batch: pods that run to an end, once or by the clock."""
