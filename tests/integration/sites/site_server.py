"""A webserverd with any configuration text, and requests to it over both versions of HTTP."""
import base64
import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tls"))

from harness import (PATIENCE_S, Bench, end_successors, expect, expect_in, free_port, has_ended, open_files,  # noqa: E402,F401
                     import_tests, query, run, run_tests, serving_pids, test, until, x509)
from http_client import HTTP1, HTTP2, VERSIONS, Response, exchange  # noqa: E402,F401


class SiteServer:
    """TEXT is the configuration; "@/" in it is in the directory. The listen address comes first."""

    count = 0

    def __init__(self, bench, text, listen="127.0.0.1:0"):
        SiteServer.count += 1
        self.bench = bench
        self.name = f"sites-{os.getpid()}-{SiteServer.count}"
        self.directory = bench.directory / self.name
        self.directory.mkdir()
        self.listen = listen
        self.ports = {}
        self.sent = 0  # requests by get()
        self.put("www/index.html", "default")
        self.write(text)
        self.process = None

    def put(self, path, text):
        file = self.directory / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def write(self, text):
        listen = self.ports.get("text", self.listen)
        (self.directory / "webserver.ini").write_text(
            f"[server]\nlisten = {listen}\nroot = {self.directory}/www\n[log]\naccess = {self.directory}/access.log\n"
            + text.replace("@/", f"{self.directory}/"))

    def command(self, *words):
        return [self.bench.programs / "webserverd", "-f", self.directory / "webserver.ini", "-o",
                f"server.name={self.name}", "-o", f"server.run_dir={self.directory}", *words]

    def check(self):
        """What webserverd -t prints."""
        return run(*self.command("-t"), check=False)

    def __enter__(self):
        with open(self.directory / "said", "wb") as said:
            self.process = subprocess.Popen(self.command(), stdout=said, stderr=said)
        self.ports = until(self.find_ports, "ports of the server")
        return self

    def __exit__(self, kind, error, trace):
        self.process.terminate()
        status = self.process.wait(PATIENCE_S)
        if kind is not None:
            print(self.output())
            end_successors(self.output())
        else:
            expect(status, 0, "exit status of webserverd")

    def output(self):
        return (self.directory / "said").read_text(errors="replace")

    def find_ports(self):
        if self.process.poll() is not None:
            raise AssertionError("webserverd has ended:\n" + self.output())
        lines = [line for line in self.output().splitlines() if line.startswith("webserverd ") and line.endswith(" per worker")]
        if not lines:
            return None
        listening = lines[0].split(" on ")[1].split(": ")[0].split()
        ports = [int(word.rsplit(":", 1)[1]) for word in listening if not word.startswith("unix:")]
        return {"text": " ".join(listening), "all": ports,
                "tls": next((port for word, port in zip(listening, ports) if word.startswith("https")), 0)}

    @property
    def port(self):
        return self.ports["all"][0]

    def control(self, *words, check=True):
        return run(self.bench.programs / "wsctl", "-s", self.directory / f"{self.name}.sock", *words, check=check)

    def query(self, *words):
        return query(self.directory / f"{self.name}.sock", *words)

    def status(self):
        return self.query("status")

    def counted(self):
        """The status when all requests of get() are counted, which happens after their responses."""
        until(lambda: self.status()["metrics"]["requests"] >= self.sent, f"{self.sent} requests")
        return self.status()

    def reload(self, text):
        self.write(text)
        return self.control("reload", check=False)

    def log(self):
        return (self.directory / "access.log").read_text()

    def get(self, target, *lines, method="GET", host="localhost", version=HTTP1, port=None, source="127.0.0.1", login=None):
        """LINES are fields. LOGIN: user and password."""
        if login is not None:
            lines = (*lines, "Authorization: Basic " + base64.b64encode(":".join(login).encode()).decode())
        self.sent += 1
        return exchange(("127.0.0.1", port or self.port), source, version, method, target, host, lines)

    def expect(self, target, status, body=None, host="localhost"):
        """Over both versions of HTTP. Returns the last response."""
        for version in VERSIONS:
            response = self.get(target, host=host, version=version)
            expect(response.status, status, f"status of http://{host}{target} by HTTP/{version}")
            if body is not None:
                expect(response.body.decode(), body, f"body of http://{host}{target} by HTTP/{version}")
        return response
