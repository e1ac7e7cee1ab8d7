"""apps: deployments, replica sets, daemon sets and stateful sets."""
