"""The authorizer Node, and the graph of what pods on a node name."""
