"""The core group: pods, services, nodes, namespaces, configuration."""
