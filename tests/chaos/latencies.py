#!/usr/bin/env python3
"""A client in a process of its own, which times the answers of honest workers; injected.py starts it.

    latencies.py PORT SLOT      SLOT: the worker whose answers do not count

Each line of the standard input names what happens from then on. At the end it prints, as JSON, the times in seconds by name.
"""

import collections
import contextlib
import json
import os
import select
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from connections import Broken, Http1  # noqa: E402

CONNECTIONS = 8
PACE_S = 0.004  # between two requests


def ask(connection, slot):
    """Seconds of an answer. Broken, if that worker has answered, or the connection ends."""
    began = time.monotonic()
    status, body, stays = connection.get("/whoami")
    took = time.monotonic() - began
    if status != 200 or not stays or int(body.split()[0]) == slot:
        raise Broken
    return took


def main():
    address, slot = ("127.0.0.1", int(sys.argv[1])), int(sys.argv[2])
    times, name, connections = collections.defaultdict(list), "", [None] * CONNECTIONS
    number = 0
    while True:
        ready, _, _ = select.select([sys.stdin], [], [], PACE_S)
        if ready:
            name = sys.stdin.readline().strip()
            if not name:
                break
        number = (number + 1) % CONNECTIONS
        try:
            if connections[number] is None:
                connections[number] = Http1(address, tls=False)
                ask(connections[number], slot)  # the first one of a connection does not count
            else:
                times[name].append(ask(connections[number], slot))
        except (Broken, OSError, ValueError):
            with contextlib.suppress(AttributeError, OSError):
                connections[number].close()
            connections[number] = None
    print(json.dumps(times))


if __name__ == "__main__":
    main()
