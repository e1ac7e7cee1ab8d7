"""The metrics of simulated nodes and pods, and of whatever else a test wants to have metrics."""
