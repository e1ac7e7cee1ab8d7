"""One run of a workload under a plan: the server, the operator's programs, the injections, the
record."""
