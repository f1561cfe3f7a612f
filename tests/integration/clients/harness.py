"""Shared parts of the client tests: the server, its site, and running a program."""
import hashlib
import json
import os
import pathlib
import shutil
import socket
import subprocess
import time

CLIENTS = {}
PATIENCE_S = 120


class Skipped(Exception):
    """The program of a client is not installed."""


def client(name):
    """Decorator: registers a client test, which is called with the running Server."""
    def add(function):
        CLIENTS[name] = function
        return function
    return add


def need(program):
    if shutil.which(program) is None:
        raise Skipped(f"no {program}")
    return program


def expect(got, wanted, what):
    if got != wanted:
        raise AssertionError(f"{what}: {got!r}, not {wanted!r}")


def run(*words, stdin=None, cwd=None, env=None):
    """Runs a program, which must succeed. Returns its standard output as bytes."""
    done = subprocess.run(words, input=stdin, cwd=cwd, env=env, timeout=PATIENCE_S,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, words))}: exit status {done.returncode}\n"
                             + done.stderr.decode(errors="replace"))
    return done.stdout


class Server:
    """A webserverd on a free port, with its own directory below DIRECTORY."""

    def __init__(self, programs, directory, name="clients", *keys):
        self.programs = pathlib.Path(programs).resolve()
        self.directory = pathlib.Path(directory)
        self.site = self.directory / "www"
        self.name = f"{name}-{os.getpid()}"
        self.site.mkdir()
        self.make_site()
        self.log = open(self.directory / "said", "wb")
        self.process = subprocess.Popen(
            [self.programs / "webserverd", *self.options(
                f"server.name={self.name}", "server.listen=127.0.0.1:0",
                f"server.root={self.site}", f"server.run_dir={self.directory}",
                f"log.access={self.directory}/access.log", "log.wait_timeout=1h", *keys,
                *os.environ.get("TEST_SERVER_OPTIONS", "").split())],
            stdout=self.log, stderr=self.log)
        self.port = self.wait_for_port()
        self.url = f"http://127.0.0.1:{self.port}"

    @staticmethod
    def options(*keys):
        return [word for key in keys for word in ("-o", key)]

    def make_site(self):
        (self.site / "hello.txt").write_text("hello\n")
        (self.site / "index.html").write_text("<!DOCTYPE html><title>t</title><p>index\n")
        (self.site / "large.bin").write_bytes(hashlib.shake_128(b"large.bin").digest(8 * 1024 * 1024 + 13))
        (self.site / "prose.txt").write_text("".join(f"line {i} of many\n" for i in range(5000)))

    def control(self, *words):
        return run(self.programs / "wsctl", "-s", self.directory / f"{self.name}.sock", *words)

    def query(self, *words):
        """The answer to a command on the control socket, without the start of wsctl."""
        with socket.socket(socket.AF_UNIX) as stream:
            stream.settimeout(PATIENCE_S)
            stream.connect(str(self.directory / f"{self.name}.sock"))
            stream.sendall(" ".join(words).encode() + b"\n")
            answer = json.loads(stream.makefile("rb").readline())
        expect(answer.get("ok"), True, f"answer to {' '.join(words)}: {answer}")
        return answer

    def wait_for_log_lines(self, words, wanted):
        """Waits until the access log has as many lines with WORDS, and no more."""
        log, give_up, pause_s = self.directory / "access.log", time.monotonic() + PATIENCE_S, 0.02
        while log.read_bytes().count(words) < wanted and time.monotonic() < give_up:
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, 0.5)
        expect(log.read_bytes().count(words), wanted, f"lines of the access log with {words!r}")

    def wait_for_port(self):
        give_up = time.monotonic() + PATIENCE_S
        marker = b" on 127.0.0.1:"
        while time.monotonic() < give_up:
            said = (self.directory / "said").read_bytes()
            if self.process.poll() is not None:
                raise AssertionError("webserverd ended:\n" + said.decode(errors="replace"))
            if marker in said:
                return int(said.split(marker, 1)[1].split(b":", 1)[0])
            time.sleep(0.02)
        raise AssertionError("webserverd does not say where it listens")

    def stop(self):
        self.process.terminate()
        expect(self.process.wait(PATIENCE_S), 0, "webserverd's exit status")
        self.log.close()
