"""The plugins of kube-scheduler: filters of nodes, and scores of those that remain."""
