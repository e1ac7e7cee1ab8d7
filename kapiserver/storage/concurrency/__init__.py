"""Tasks, timers, time slices and queues of threads. Knows no key and no object."""
