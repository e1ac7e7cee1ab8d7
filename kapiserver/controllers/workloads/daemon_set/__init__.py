"""DaemonSets: one pod on each eligible node."""
