"""Controllers that fetch the documents of extension API servers for this server."""
