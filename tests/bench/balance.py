"""How even the requests of threads are while connections are balanced and while they are not."""
import contextlib
import json
import os
import statistics
import subprocess
import time

import load
import report
from scenarios import SCENARIOS
from servers import LOAD_CORE, SERVER_CORE

SMALL = next(scenario for scenario in SCENARIOS if scenario.key == "small")
CORES = f"{SERVER_CORE},{LOAD_CORE}"
GROW_LOW, GROW_HIGH, SPREAD_BAR = 0.40, 0.60, 1.3


class Threads:
    """The serving threads of a running server, over its control socket and its console."""

    def __init__(self, directory, server):
        self.directory, self.server = directory, server

    def control(self, *words):
        command = [os.path.join(self.directory, "wsctl"), "-s", self.server.socket, *words]
        subprocess.run(command, check=True, capture_output=True)

    def requests(self):
        """Requests of each thread so far."""
        command = [os.path.join(self.directory, "wsconsole"), "-n", self.server.instance,
                   "-s", self.server.socket, "--json", "threads"]
        seen = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        return [thread["metrics"]["requests"] for worker in seen["threads"]["workers"] for thread in worker["serving"]]

    def requests_in(self, seconds):
        before = self.requests()
        time.sleep(seconds)
        return [after - first for after, first in zip(self.requests(), before)]


@contextlib.contextmanager
def background_load(server):
    running = subprocess.Popen(["taskset", "-c", CORES, "wrk", "-t1", f"-c{SMALL.connections}", "-d1m",
                                f"http://127.0.0.1:{server.port}{SMALL.path}"], stdout=subprocess.DEVNULL)
    try:
        yield
    finally:
        running.terminate()
        running.wait()


def share_of_new_thread(threads):
    """Its share of all requests in the second after the first second."""
    threads.control("threads", "1")
    with background_load(threads.server):
        time.sleep(1.5)
        threads.control("threads", "2")
        time.sleep(1)
        seen = threads.requests_in(1)
    return seen[1] / sum(seen)


def spread_of_threads(threads):
    """Requests of the busiest of four threads relative to the idlest, after three seconds of load."""
    threads.control("threads", "4")
    with background_load(threads.server):
        time.sleep(3)
        seen = threads.requests_in(2)
    return max(seen) / max(1, min(seen))


def in_turns(ours, site, work, rounds, measure):
    """MEASURE with balancing on and off, in turns: {"on": [...], "off": [...]}."""
    server = ours.start(site, work, True, cores=CORES)
    threads, found = Threads(ours.directory, server), {"on": [], "off": []}
    try:
        load.warm(server, SMALL, 2)
        for turn in range(rounds):
            for switch in (("on", "off") if turn % 2 else ("off", "on")):
                threads.control("balance", switch)
                found[switch].append(measure(threads))
    finally:
        server.stop()
    return found


def line(what, values, met):
    return (f"  {what:44}{statistics.median(values):8.2f}  ({min(values):.2f} .. {max(values):.2f})"
            f"  {'met' if met else 'NOT MET'}")


def grow(ours, site, work, rounds):
    """The share of a thread that is added under load."""
    found = in_turns(ours, site, work, rounds, share_of_new_thread)
    median = statistics.median(found["on"])
    print("\nshare of requests of an added second thread, 1 s to 2 s later, c=100")
    print(line("balancing on", found["on"], GROW_LOW <= median <= GROW_HIGH))
    print(f"  {'balancing off':44}{statistics.median(found['off']):8.2f}")
    return found


def spread(ours, site, work, rounds):
    """How even four threads are."""
    found = in_turns(ours, site, work, rounds, spread_of_threads)
    print("\nrequests of the busiest of four threads relative to the idlest, after 3 s, c=100")
    print(line("balancing on", found["on"], statistics.median(found["on"]) <= SPREAD_BAR))
    print(f"  {'balancing off':44}{statistics.median(found['off']):8.2f}"
          f"  ratio on to off {report.ratio_of(found['on'], found['off'])[0]:.2f}")
    return found
