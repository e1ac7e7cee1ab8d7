"""flowcontrol.apiserver.k8s.io: how requests are sorted into flows and share the server."""
