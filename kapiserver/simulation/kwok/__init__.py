"""kwok's kinds, in the group kwok.x-k8s.io: what they are, and what they do to simulated objects.

kwok is the simulator of nodes and pods of sigs.k8s.io/kwok. Its objects work here unmodified.
"""
