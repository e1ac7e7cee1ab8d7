"""What simulated pods answer to logs, exec, attach and port-forward."""
