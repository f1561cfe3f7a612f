#!/usr/bin/env python3
"""Tests wsload against webserverd over HTTP/1.1, TLS and HTTP/2: counts on both sides, and a stopped server.

    protocols.py PROGRAMS [UNITTEST_ARGUMENT...]
"""
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import servers

PROGRAMS = None
RATE = 400
STALL_S = 0.5
INTERRUPTED = 128 + signal.SIGINT

# Engine, scheme and options of each way to send requests.
WAYS = (
    ("curl", "http", ()),
    ("raw", "http", ()),
    ("curl", "https", ()),
    ("raw", "https", ()),
    ("curl", "https", ("--http2", "--streams", "5")),
    ("raw", "https", ("--http2", "--streams", "5")),
    ("raw", "http", ("--http2", "--streams", "5")),
)

LOADS = (
    ("-c", "5", "-n", "600", "-t", "2"),
    ("-c", "3", "-r", "500", "-n", "200"),
    ("-c", "2", "-n", "500", "-m", "HEAD"),
)
LOADS_OF_HTTP_1 = (
    ("-c", "10", "-n", "100", "-t", "2", "--no-keepalive"),
    ("-c", "10", "-n", "300", "-w", "100ms"),
    ("-c", "10", "-n", "300", "-r", "1000", "--arrivals", "poisson"),
    ("-c", "10", "-n", "300", "-m", "HEAD", "--max-reqs-per-conn", "7"),
)


class Server:
    def __init__(self, directory):
        self.directory = pathlib.Path(directory)
        self.log, self.counted = None, 0
        self.port = dict(zip(("http", "https"), servers.free_ports(2)))
        (self.directory / "www").mkdir()
        (self.directory / "www" / "index.html").write_text("hello")
        subprocess.run([PROGRAMS / "webserverd", "-S", self.directory], check=True,
                       stdout=subprocess.DEVNULL)
        settings = {
            "server.name": f"wsload-protocols-{os.getpid()}",
            "server.root": self.directory / "www",
            "server.run_dir": self.directory,
            "server.listen": f"127.0.0.1:{self.port['http']} https://127.0.0.1:{self.port['https']}",
            "tls.certificate": self.directory / "localhost.pem",
            "tls.key": self.directory / "localhost.key",
            "workers.processes": 1,
            "workers.threads": 1,
            "log.access": self.directory / "access.log",
            "log.error": self.directory / "error.log",
        }
        words = [word for key, value in settings.items() for word in ("-o", f"{key}={value}")]
        self.process = subprocess.Popen([PROGRAMS / "webserverd", *words],
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        servers.wait_for(self.worker, "a worker")

    def worker(self):
        """The process ID of the worker, 0 before there is one."""
        log = self.directory / "error.log"
        words = log.read_text().split("serves with")[-1].split() if log.exists() else []
        pids = [word[:-1] for before, word in zip(words, words[1:]) if before == "(pid"]
        return int(pids[0]) if pids else 0

    def lines(self):
        """The number of lines in the access log; reads only what is new."""
        log = self.directory / "access.log"
        if self.log is None and log.exists():
            self.log = log.open("rb")
        if self.log is not None:
            self.counted += self.log.read().count(b"\n")
        return self.counted

    def url(self, scheme):
        return f"{scheme}://127.0.0.1:{self.port[scheme]}/"

    def stop(self):
        self.process.terminate()
        self.process.wait(servers.PATIENCE_S)
        if self.log is not None:
            self.log.close()


def start(way, url, *words):
    engine, _, options = way
    return subprocess.Popen([PROGRAMS / "wsload", "--json", "--quiet", "-k", "--engine", engine, *servers.PATIENT,
                             *options, *words, url], stdout=subprocess.PIPE, text=True)


def finish(process, status=0):
    text, _ = process.communicate(timeout=servers.PATIENCE_S * 4)
    if process.returncode != status:
        raise AssertionError(f"{process.args} ended with {process.returncode}\n{text}")
    return json.loads(text)


class WithServer(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="wsload-test.")
        self.addCleanup(directory.cleanup)
        self.server = Server(directory.name)
        self.addCleanup(self.server.stop)

    def test_counts(self):
        """Requests, the server's counter and lines of its log are equal in each way."""
        lines = 0
        for way in WAYS:
            for words in LOADS if way[2] else LOADS + LOADS_OF_HTTP_1:
                with self.subTest(way=way, words=words):
                    report = finish(start(way, self.server.url(way[1]), "--grace", "60s", *words))
                    requests = report["requests"]
                    lines += requests["begun"] + requests["warmup"]
                    self.assertEqual(requests["answered"], requests["begun"])
                    self.assertTrue(report["server"]["same"])
                    self.assertEqual(report["server"]["counted"], requests["begun"] + requests["warmup"])
                    servers.wait_for(lambda expected=lines: self.server.lines() >= expected, "the log")
                    self.assertEqual(self.server.lines(), lines)
                    if "--http2" in way[2]:
                        self.assertEqual({row["http"] for row in report["negotiated"]}, {"HTTP/2"})

    def test_requests_of_hostile_clients_are_no_difference(self):
        report = finish(start(WAYS[0], self.server.url(WAYS[0][1]), "-c", "2", "-n", "2000", "--reset", "5"))
        self.assertGreater(report["server"]["counted"], report["requests"]["answered"])
        self.assertNotIn("server_counted_otherwise", [note["name"] for note in report["notes"]])

    def stall(self, way):
        """Loads the server and stops it meanwhile. Returns the report and for how long it was stopped."""
        before = self.server.lines()
        begun = time.monotonic()
        load = start(way, self.server.url(way[1]), "-r", str(RATE), "-d", "300s", "-c", "10", "-t", "1",
                     "--grace", "60s")
        worker = self.server.worker()
        servers.wait_for(lambda: self.server.lines() > before, "requests")
        os.kill(worker, signal.SIGSTOP)
        try:
            servers.wait_for(lambda: pathlib.Path(f"/proc/{worker}/stat").read_text().split()[2] == "T",
                             "the stop")
            stopped = time.monotonic()
            time.sleep(STALL_S)
        finally:
            resumed = time.monotonic()
            os.kill(worker, signal.SIGCONT)
        due = before + RATE * (resumed - begun)  # and more, for wsload began later
        servers.wait_for(lambda: self.server.lines() >= due, "the requests of the stall")
        load.send_signal(signal.SIGINT)
        report = finish(load, INTERRUPTED)
        # A line that came later would look like a request of the next load.
        servers.wait_for(lambda: self.server.lines() >= before + report["requests"]["answered"], "the log")
        return report, resumed - stopped

    def test_stopped_server(self):
        """Of N requests at rate R, the 99th percentile is at least the stall less 0.01 N / R."""
        for way in WAYS:
            with self.subTest(way=way):
                begun = time.monotonic()
                report, stopped = self.stall(way)
                truth_us = (stopped - 0.01 * report["requests"]["answered"] / RATE) * 1e6
                self.assertGreaterEqual(report["latency_us"]["p99"], truth_us * 0.98)
                self.assertLessEqual(report["latency_us"]["max"], (time.monotonic() - begun) * 1e6)
                self.assertEqual(report["requests"]["failed"], 0)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    PROGRAMS = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main(verbosity=2)
