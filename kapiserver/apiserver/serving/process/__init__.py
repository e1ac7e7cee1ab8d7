"""What concerns the process: event loop, memory, signals, logs, systemd and worker processes."""
