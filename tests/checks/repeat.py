#!/usr/bin/env python3
"""Runs the tests of a build several times, beside load if wanted, and reports which tests failed how often.

    repeat.py --build build/release --repeat 20 --under-load [CTEST_OPTION...]

--under-load: beside the tests run four busy processes and one that writes and syncs a file, and processes of the tests,
servers, clients and test programs, are stopped (SIGSTOP) and continued at random: mostly for up to half a second,
some for up to ten. Servers of tests that stop processes themselves (label "pauses") are left alone, because a SIGCONT
would end their stop. --stops-only: without the busy processes. --delayed-calls: calls of the C library by all programs are
delayed at random (tests/checks/delayed_calls.c), which reaches in short programs what stops miss. The output of each failed test
is kept in BUILD/repeat/. Exit status 0, 1 (a test failed) or 2 (usage error).
"""

import argparse
import collections
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
import xml.etree.ElementTree

BUSY, WRITE_BYTES = 4, 16 << 20
STOPPERS, STOP_INTERVAL_S, STOP_MOST_S, LONG_STOP_MOST_S, LONG_STOPS = 3, 0.4, 0.5, 10, 0.05
SERVER = ("webserverd", "ws-")  # begin the names of its processes
DELAYS = ("10000 30", "50000 30", "3000 30 400", "3000 300 1200")  # of the rounds in turn: probability (1e-6), ms


def say(text):
    print("repeat:", text, flush=True)


def parents():
    """Pid: (parent, name, state) of all processes."""
    found = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/stat", encoding="utf-8", errors="replace") as file:
                head, _, rest = file.read().rpartition(")")
        except OSError:
            continue
        state, parent = rest.split()[:2]
        found[int(entry)] = (int(parent), head.partition("(")[2], state)
    return found


def words(pid):
    """The first words of the command line: program and script."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return [os.path.realpath(word) for word in file.read().decode(errors="replace").split("\0")[:4]]
    except OSError:
        return []


class Stopper(threading.Thread):
    """Stops and continues random processes below ctest."""

    def __init__(self, seed, pausing):
        super().__init__(daemon=True)
        self.random, self.pausing = random.Random(seed), pausing
        self.ctest, self.stops, self.ended = None, 0, threading.Event()

    def may_stop(self, pid, processes):
        """A running process below ctest; not a server whose test stops processes itself."""
        is_server = processes[pid][1].startswith(SERVER)
        if processes[pid][2] in "TtZ" or pid == self.ctest:
            return False
        while pid in processes and pid != self.ctest:
            pid = processes[pid][0]
            if is_server and pid in processes and not self.pausing.isdisjoint(words(pid)):
                return False
        return pid == self.ctest

    def length_s(self):
        return self.random.uniform(0, LONG_STOP_MOST_S if self.random.random() < LONG_STOPS else STOP_MOST_S)

    def once(self):
        processes = parents()
        able = [pid for pid in processes if self.may_stop(pid, processes)] if self.ctest in processes else []
        if not able:
            return
        pid = self.random.choice(able)
        try:
            os.kill(pid, signal.SIGSTOP)
            self.stops += 1
            self.ended.wait(self.length_s())
        except ProcessLookupError:
            return
        finally:
            try:
                os.kill(pid, signal.SIGCONT)
            except ProcessLookupError:
                pass

    def run(self):
        while not self.ended.wait(self.random.uniform(0, STOP_INTERVAL_S)):
            self.once()


def be_busy():
    while True:
        sum(range(100000))


def write_disk(path):
    text = os.urandom(WRITE_BYTES)
    while True:
        with open(path, "wb") as file:
            file.write(text)
            os.fsync(file.fileno())


class Load:
    """Everything that runs beside the tests; ends with the context."""

    def __init__(self, directory, seed, pausing, busy):
        self.path, self.pids, self.busy = directory + "/disk", [], busy
        self.stoppers = [Stopper(seed * STOPPERS + number, pausing) for number in range(STOPPERS)]

    def child(self, work):
        pid = os.fork()
        if pid == 0:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            work()
        self.pids.append(pid)

    def __enter__(self):
        for _ in range(BUSY if self.busy else 0):
            self.child(be_busy)
        if self.busy:
            self.child(lambda: write_disk(self.path))
        for stopper in self.stoppers:
            stopper.start()
        return self

    def stop_below(self, ctest):
        for stopper in self.stoppers:
            stopper.ctest = ctest

    def stops(self):
        return sum(stopper.stops for stopper in self.stoppers)

    def __exit__(self, *_):
        for stopper in self.stoppers:
            stopper.ended.set()
            stopper.join()
        for pid in self.pids:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        if os.path.exists(self.path):
            os.remove(self.path)


def delayed_calls(build):
    """Path of the module; a build with a sanitizer has none."""
    path = os.path.abspath(f"{build}/tests/checks/libdelayed_calls.so")
    if not os.path.isfile(path):
        raise SystemExit(f"repeat: --delayed-calls needs {path}: use the preset release")
    return path


def pausing_programs(build):
    """Programs of the tests with the label "pauses"."""
    listed = subprocess.run(["ctest", "--test-dir", build, "--show-only=json-v1", "-L", "^pauses$"], check=True,
                            capture_output=True, text=True).stdout
    return {os.path.realpath(word) for test in json.loads(listed)["tests"] for word in test.get("command", [])
            if os.path.isfile(word) and not os.path.basename(word).startswith("python")}


def failures_of(junit, directory, number):
    """Names of the failed tests. Keeps their output."""
    failed = []
    for case in xml.etree.ElementTree.parse(junit).getroot().iter("testcase"):
        if case.get("status") not in ("fail", "timeout") and case.find("failure") is None:
            continue
        failed.append(case.get("name"))
        with open(f"{directory}/{case.get('name')}.{number}.txt", "w", encoding="utf-8") as file:
            file.write(case.findtext("system-out") or "")
    return failed


def environment(options, number):
    """Of the tests in a round."""
    if not options.delayed_calls:
        return None
    delays = f"{options.seed + number} {DELAYS[number % len(DELAYS)]}"
    return os.environ | {"LD_PRELOAD": delayed_calls(options.build), "DELAYED_CALLS": delays}


def run_round(options, directory, number, load):
    """One run of all tests. Returns the names of those that failed."""
    junit = f"{directory}/junit.xml"
    command = ["ctest", "--test-dir", options.build, "-j", str(options.jobs), "--output-junit",
               os.path.abspath(junit), "--quiet", *options.ctest]
    start = time.monotonic()
    with subprocess.Popen(command, start_new_session=True, stdout=subprocess.DEVNULL,
                          env=environment(options, number)) as ctest:
        if load is not None:
            load.stop_below(ctest.pid)
        try:
            ctest.wait(options.limit)
        except BaseException as error:
            os.killpg(ctest.pid, signal.SIGTERM)
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
            raise SystemExit(f"round {number} took longer than {options.limit} s") from error
    if not os.path.exists(junit):
        raise SystemExit("ctest ran no test")
    failed = failures_of(junit, directory, number)
    os.remove(junit)
    say(f"round {number} of {options.repeat}: {time.monotonic() - start:.0f} s, "
        f"failed: {' '.join(failed) if failed else 'none'}")
    return failed


def end(signal_number, _frame):
    raise SystemExit(128 + signal_number)


def main():
    parser = argparse.ArgumentParser(description="Runs the tests several times, beside load if wanted.")
    parser.add_argument("--build", required=True, help="build directory")
    parser.add_argument("--repeat", type=int, default=1, help="number of rounds (default 1)")
    parser.add_argument("--under-load", action="store_true", help="run load beside the tests")
    parser.add_argument("--stops-only", action="store_true", help="only stop and continue processes of the tests")
    parser.add_argument("--delayed-calls", action="store_true", help="delay calls of the C library at random")
    parser.add_argument("--jobs", type=int, default=16, help="tests at a time (default 16)")
    parser.add_argument("--limit", type=float, default=1800, help="most seconds for a round (default 1800)")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 31), help="of the random stops and delays")
    options, options.ctest = parser.parse_known_args()
    signal.signal(signal.SIGTERM, end)

    directory = options.build + "/repeat"
    os.makedirs(directory, exist_ok=True)
    failed, stops = collections.Counter(), 0
    say(f"seed {options.seed}")
    for number in range(1, options.repeat + 1):
        if options.under_load or options.stops_only:
            with Load(directory, options.seed + number, pausing_programs(options.build), options.under_load) as load:
                failed.update(run_round(options, directory, number, load))
            stops += load.stops()
        else:
            failed.update(run_round(options, directory, number, None))
    if options.under_load or options.stops_only:
        say(f"{stops} times a process of a test was stopped and continued")
    for name, times in failed.most_common():
        say(f"FAILED in {times} of {options.repeat} rounds: {name}")
    say(f"{len(failed)} tests failed; their output is in {directory}" if failed else "no test failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
