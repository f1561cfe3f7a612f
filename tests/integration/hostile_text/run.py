#!/usr/bin/env python3
"""Sends hostile text along every path to a terminal, a log or a report.

    run.py BIN_DIRECTORY

Names, requests, answers and files contain control characters (C0, DEL, C1), line separators and bidirectional
controls. No output of the programs may contain one of them, and no foreign text may begin a line.
"""
import contextlib
import faulthandler
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse

PATIENCE_S = 60
STUCK_S = 240  # then say where
FORGED = "FORGED"
HOSTILE = f"\x1b[2J\x07\x08\x7f\u0085\u009b1A\u061c\u200f\u2028\u202e\u2066\r\n{FORGED}\t\u00e4"
NAME = "\u009b\u202e\u00e4.html"  # of a file; a request for one with C0 is rejected
REQUESTS = [  # bytes after the method
    b"/\x1b[2J HTTP/1.1\r\nHost: x\r\n\r\n",
    b"/%1b%5b2J%0a" + FORGED.encode() + b"%c2%9b HTTP/1.1\r\nHost: x\r\n\r\n",
    b"/\xc2\x9b\xe2\x80\xae\xff HTTP/1.1\r\nHost: x\r\n\r\n",
    b"/ HTTP/1.1\r\nHost: x\r\nUser-Agent: \xc2\x9b\xe2\x80\xae\xff\xc3\xa4\r\nReferer: \xe2\x80\xa8\"\\\r\n\r\n",
]
VIEWS = ["overview", "threads", "latency", "top", "log", "events", "cache", "config"]


def unsafe(character):
    code = ord(character)
    return (code < 0x20 or 0x7f <= code < 0xa0 or code in (0x61c, 0x200e, 0x200f)
            or 0x2028 <= code <= 0x202e or 0x2066 <= code <= 0x2069)


def has_hostile(text):
    """Escaped."""
    return any(escape in text for escape in ("\\x1b", "\\u001b", "\\xc2", "\\u00c2"))


def check(what, output, shows=False):
    """OUTPUT must be readable UTF-8. SHOWS: hostile text is in it, escaped."""
    text = output.decode()
    found = sorted({character for character in text.replace("\r\n", "\n") if unsafe(character)} - {"\n", "\t"})
    if found:
        sys.exit(f"{what}: {found} in {text!r}")
    if any(line.startswith(FORGED) for line in text.splitlines()):
        sys.exit(f"{what}: a forged line in {text!r}")
    if shows and not has_hostile(text):
        sys.exit(f"{what}: no hostile text in {text!r}")


def wait_for(condition, what):
    give_up = time.monotonic() + PATIENCE_S
    while not (result := condition()):
        if time.monotonic() > give_up:
            sys.exit(f"timeout: {what}")
        time.sleep(0.05)
    return result


class Listener(threading.Thread):
    """Answers each connection with what ANSWER returns for the first bytes. A client may close or reset its
    connection at any time."""

    def __init__(self, address, answer):
        super().__init__(daemon=True)
        family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
        self.socket = socket.socket(family)
        self.socket.bind(address)
        self.socket.listen(64)
        self.answer = answer
        self.start()

    def run(self):
        while True:
            client, _ = self.socket.accept()
            with client, contextlib.suppress(ConnectionError):
                client.sendall(self.answer(client.recv(65536)))


class Test:
    def __init__(self, programs, directory):
        self.programs, self.directory = pathlib.Path(programs), pathlib.Path(directory)

    def run(self, *words, shows=False, again=lambda: None):
        """Runs a program and checks what it prints. SHOWS: until hostile text is in it, escaped; AGAIN() sends it."""
        what = " ".join(map(str, words))

        def is_done():
            done = subprocess.run([self.programs / words[0], *words[1:]], capture_output=True, timeout=PATIENCE_S,
                                  check=False)
            check(what, done.stdout + done.stderr)
            if shows and not has_hostile((done.stdout + done.stderr).decode()):
                again()
                return False
            return True

        wait_for(is_done, f"hostile text from {what}")

    # --- wsctl and a hostile server ---

    def answers(self):
        thread = {"thread": HOSTILE, "state": HOSTILE, "work": HOSTILE, "last": [HOSTILE]}
        good = {"ok": True, "name": HOSTILE, "version": HOSTILE, "pid": HOSTILE, "listening": [HOSTILE],
                "dispatch": HOSTILE, "wanted": HOSTILE, "actual": HOSTILE, "level": HOSTILE, HOSTILE: HOSTILE,
                "commands": [{"name": HOSTILE, "arguments": HOSTILE, "help": HOSTILE}],
                "keys": [{"key": HOSTILE, "value": HOSTILE, "default": HOSTILE, "origin": HOSTILE,
                          "change": HOSTILE, "command": HOSTILE}],
                "workers": {"wanted": HOSTILE, "list": [{"slot": HOSTILE, "state": HOSTILE, "pid": HOSTILE}]},
                "changed": [HOSTILE], "generation": HOSTILE,
                "deaths": [{"time": HOSTILE, "how": HOSTILE, "threads": [thread], "offload": [thread]}]}
        bad = {"ok": False, "error": HOSTILE.replace("\n", " ")}
        for ascii_only in (False, True):
            for answer in (good, bad):
                yield json.dumps(answer, ensure_ascii=ascii_only).encode()
        yield HOSTILE.replace("\n", " ").encode() + b"\xff"

    def wsctl(self):
        path = str(self.directory / "hostile.sock")
        current = [b""]
        Listener(path, lambda _: current[0] + b"\n")
        for answer in self.answers():
            current[0] = answer
            for command in ("ping", "status", "help", "config", "reload", "threads", "log-level", "post-mortem",
                            "offload-threads", "cache-size", "ratelimit"):
                self.run("wsctl", "-s", path, command)
                self.run("wsctl", "-s", path, "--json", command)
        self.run("wsctl", "-s", HOSTILE, "ping")
        self.run("wsctl", "-n", HOSTILE, "ping")
        self.run("wsctl", "-t", HOSTILE, "ping")
        self.run("wsctl", HOSTILE)

    # --- wsload and a hostile server ---

    def wsload(self):
        bytes_of = HOSTILE.replace("\r\n", "").encode()
        responses = [
            b"HTTP/1.1 200 " + bytes_of + b"\r\nServer: " + bytes_of + b"\r\nContent-Length: 1\r\n\r\n" + b"\x1b",
            b"HTTP/1.1 503 no\r\nX-" + bytes_of + b": \xff\x9b\r\nContent-Length: 0\r\n\r\n",
            bytes_of + b"\r\n\r\n",
            b"HTTP/1.1 302 " + bytes_of + b"\r\nLocation: " + bytes_of + b"\r\n\r\n",
        ]
        current = [b""]
        listener = Listener(("127.0.0.1", 0), lambda _: current[0])
        url = f"http://127.0.0.1:{listener.socket.getsockname()[1]}/"
        for current[0] in responses:
            for engine in ("curl", "raw"):
                self.run("wsload", "--engine", engine, "-v", "-c", "1", "-n", "2", url,
                         shows=engine == "raw" or current[0] is responses[0])
                for form in ("--format=text", "--json", "--format=csv", "--format=html"):
                    self.run("wsload", "--engine", engine, "--quiet", "-c", "1", "-n", "2", form, url)
        self.run("wsload", "-q", "-n", "1", url + HOSTILE)
        self.run("wsload", "-q", "-n", "1", HOSTILE)

    # --- The daemon ---

    def start(self, name, *settings):
        self.name, self.home = name, self.directory / name
        (self.home / "www").mkdir(parents=True)
        (self.home / "www" / "index.html").write_text("served\n")
        (self.home / "www" / NAME).write_text("served\n")
        self.config = self.home / "webserver.ini"
        self.config.write_text(f"[server]\nname = {name}\nroot = {self.home}/www\nlisten = 127.0.0.1:0\n"
                               f"run_dir = {self.home}/run\n[workers]\nprocesses = 1\n"
                               f"[log]\naccess = {self.home}/access.log\nerror = {self.home}/error.log\n")
        options = [word for setting in settings for word in ("-o", setting)]
        with open(self.home / "said", "wb") as said:
            self.daemon = subprocess.Popen([self.programs / "webserverd", "-f", self.config, *options], stdout=said,
                                           stderr=said)
        status = wait_for(self.serving_status, "the server serves")
        self.port = int(status["listening"][0].rpartition(":")[2])

    def serving_status(self):
        if self.daemon.poll() is not None:
            sys.exit(f"webserverd ended:\n{(self.home / 'said').read_text()}")
        status = self.status()
        return status if status and status["workers"]["actual"] else None

    def status(self):
        """As wsctl --json status prints it; None: the server just starts."""
        try:
            return json.loads(self.answer(b"status"))
        except (FileNotFoundError, ConnectionRefusedError):
            return None

    def serving_workers(self):
        status = self.status()
        return [one["pid"] for one in status["workers"]["list"] if one["state"] == "serving"] if status else []

    def request(self, text):
        with socket.create_connection(("127.0.0.1", self.port), PATIENCE_S) as client:
            client.sendall(text)
            client.shutdown(socket.SHUT_WR)
            while client.recv(65536):
                pass

    def answer(self, line):
        """What the server answers to a command."""
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(PATIENCE_S)
            client.connect(f"{self.home}/run/{self.name}.sock")
            client.sendall(line + b"\n")
            return client.makefile("rb").readline()

    def command(self, line):
        check("answer", self.answer(line))

    def send_all(self):
        for request in REQUESTS:
            self.request(b"GET " + request)
        for path in (NAME, NAME, HOSTILE):
            self.request(f"GET /{urllib.parse.quote(path)} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        for word in (HOSTILE.replace("\r\n", ""), "\u009b", "\x1b[1A" * 20):
            self.command(f"cache-purge /{word}".encode())
            self.command(f"{word}".encode())
            self.command(f"threads {word}".encode())
        self.command(b"threads " + b"\xff\x00")

    def watch(self):
        for view in VIEWS:
            self.run("wsconsole", "-n", self.name, "--once", view)
        for view in ("log", "events", "cache"):
            self.run("wsconsole", "-n", self.name, "--csv", view, shows=True, again=self.send_all)
        self.run("wsconsole", "-n", self.name, "--json", shows=True, again=self.send_all)
        recording = self.home / "recording"
        self.run("wsconsole", "-n", self.name, "--record", recording, "--once", "log")
        self.run("wsconsole", "--replay", recording, "--json")
        self.run("wsconsole", "-n", self.name, "--filter", HOSTILE, "--once", "log")
        self.run("wsconsole", "--list")

    def reject_config(self):
        good = self.config.read_text()
        for line in (f"root = {HOSTILE}", f"{HOSTILE} = 1", "listen = \x1b[2J", "index = \u202ea"):
            self.config.write_bytes(good.replace("[workers]", line + "\n[workers]").encode() + b"\xff\n")
            self.run("webserverd", "-t", "-f", self.config)
            self.run("wsctl", "-n", self.name, "reload")
            os.kill(self.daemon.pid, signal.SIGHUP)
        self.run("webserverd", "-t", "-o", f"server.root={HOSTILE}")
        self.config.write_text(good)

    def kill_worker(self):
        worker = wait_for(self.serving_workers, "a worker")[0]
        os.kill(worker, signal.SIGKILL)
        wait_for(lambda: set(self.serving_workers()) - {worker}, "another worker")
        self.run("wsctl", "-n", self.name, "post-mortem")
        self.run("wsctl", "-n", self.name, "--json", "post-mortem")

    def arguments(self):
        for words in (["webserverd", HOSTILE], ["webserverd", "-f", HOSTILE], ["webserverd", "-o", HOSTILE],
                      ["wsconsole", HOSTILE], ["wsconsole", "-n", HOSTILE, "--json", "--wait", "off"],
                      ["wsconsole", "--replay", HOSTILE, "--json"], ["wsconsole", "--theme", HOSTILE],
                      ["wsload", "--engine", HOSTILE], ["wsload", "-f", HOSTILE], ["wsload", "-o", f"/{HOSTILE}/x"],
                      ["wsload", "--compare", HOSTILE, HOSTILE], ["wsload", "lab", HOSTILE],
                      ["wsload", "sweep", "-c", HOSTILE]):
            self.run(*words)

    def serve(self, form):
        self.start(f"hostile-{form}-{os.getpid()}", f"log.format={form}")
        try:
            self.send_all()
            if form == "combined":
                self.watch()
            self.reject_config()
            self.kill_worker()
        finally:
            self.daemon.terminate()
        status = self.daemon.wait(PATIENCE_S)
        if status != 0:
            sys.exit(f"webserverd exited with status {status}")
        check("webserverd", (self.home / "said").read_bytes())
        for log in ("access.log", "error.log"):
            check(log, (self.home / log).read_bytes(), shows=True)


def main():
    faulthandler.dump_traceback_later(STUCK_S)
    with tempfile.TemporaryDirectory(prefix="webserverd-hostile-") as directory:
        test = Test(sys.argv[1], directory)
        for part, *words in ((test.arguments,), (test.wsctl,), (test.wsload,), (test.serve, "combined"),
                             (test.serve, "json")):
            start = time.monotonic()
            part(*words)
            print(f"{part.__name__} {' '.join(words)}: {time.monotonic() - start:.1f} s", flush=True)


main()
