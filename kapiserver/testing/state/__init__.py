"""The state of a server: manifests that it loads, dumps, snapshots, the store in memory."""
