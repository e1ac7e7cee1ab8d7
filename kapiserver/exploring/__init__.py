"""Finds the faults of an operator: runs a workload under plans that crash it, lie to it and refuse
its writes, and compares what the operator leaves behind."""
