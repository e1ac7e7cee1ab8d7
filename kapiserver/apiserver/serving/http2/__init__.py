"""The front for HTTP/2: `protocol` is its pure core, `connection` the shell on a socket."""
