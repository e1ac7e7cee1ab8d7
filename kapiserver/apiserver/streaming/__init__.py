"""Streams of exec, attach and port-forward on one connection: over SPDY and over WebSocket."""
