"""The page at /ui: its files, its sessions, and its requests of the API. Sources: `ui/`."""
