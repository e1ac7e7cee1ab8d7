"""How long a server makes other clients wait: one small request after another, until stdin ends.

    python -m tests.bench.pings PORT TOKEN CA

A process of its own, so that the client of the load does not delay it. Prints the longest and the
99th percentile of the requests' latencies in milliseconds.
"""

import http.client
import json
import select
import ssl
import sys
import time

PAUSE_SECONDS = 0.001


def main() -> None:
    port, token, ca_file = sys.argv[1:4]
    context = ssl.create_default_context(cafile=ca_file)
    connection = http.client.HTTPSConnection("127.0.0.1", int(port), timeout=60, context=context)
    latencies = []

    def ping() -> None:
        start = time.perf_counter()
        connection.request("GET", "/livez", headers={"Authorization": f"Bearer {token}"})
        connection.getresponse().read()
        latencies.append((time.perf_counter() - start) * 1e3)

    for _ in range(20):
        ping()
    latencies.clear()
    sys.stdout.write("READY\n")
    sys.stdout.flush()
    while not select.select([sys.stdin], [], [], PAUSE_SECONDS)[0]:
        ping()
    latencies.sort()
    print(
        json.dumps({"longest ms": latencies[-1], "p99 ms": latencies[int(len(latencies) * 0.99)]})
    )


if __name__ == "__main__":
    main()
