"""The front on aiohttp, for a server that uses its HTTP parser."""
