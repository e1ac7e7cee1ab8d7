"""The front for HTTP/1.1 on httptools: connections, their requests and responses, WebSockets."""
