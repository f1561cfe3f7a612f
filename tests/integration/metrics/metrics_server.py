"""A webserverd with [metrics] listen, and requests to it."""
import json
import pathlib
import re
import socket
import sys
from decimal import Decimal

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "sites"))

from site_server import (HTTP2, PATIENCE_S, Bench, Response, SiteServer, expect, expect_in, free_port, has_ended,  # noqa: E402,F401
                         open_files, import_tests, run, run_tests, serving_pids, test, until)

OPENMETRICS = "application/openmetrics-text;version=1.0.0;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
SAMPLE = re.compile(r'(\w+)(?:\{(.*)\})? (\S+)')
LABEL = re.compile(r'(\w+)="([^"]*)"')
MORE = "[metrics]\nlisten = 127.0.0.1:0\n[workers]\nprocesses = 2\nthreads = 2\n"


def exchange(port, request, address="127.0.0.1"):
    """Sends REQUEST; the response until the server closes."""
    with socket.create_connection((address, port), PATIENCE_S) as connection:
        connection.sendall(request)
        data = b""
        while part := connection.recv(65536):
            data += part
    head, _, body = data.partition(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 "):
        raise AssertionError(f"{request!r}: {data!r}")
    return Response(head, body)


class Sample:
    def __init__(self, line):
        found = SAMPLE.fullmatch(line)
        if found is None:
            raise AssertionError(f"not a sample: {line!r}")
        self.name = found.group(1)
        self.labels = dict(LABEL.findall(found.group(2) or ""))
        self.value = Decimal(found.group(3))


class Exposition:
    """Parsed metrics."""

    def __init__(self, text):
        self.samples = []
        self.types, self.units, self.help = {}, {}, {}
        for line in text.splitlines():
            words = line.split(" ", 3)
            if line.startswith("# TYPE "):
                expect(words[2] in self.types, False, f"second type of {words[2]}")
                self.types[words[2]] = words[3]
            elif line.startswith("# UNIT "):
                self.units[words[2]] = words[3]
            elif line.startswith("# HELP "):
                self.help[words[2]] = words[3]
            elif line != "# EOF":
                self.samples.append(Sample(line))

    def named(self, name, **labels):
        return [sample for sample in self.samples
                if sample.name == name and labels.items() <= sample.labels.items()]

    def sum(self, name, **labels):
        return sum(sample.value for sample in self.named(name, **labels))


class MetricsServer(SiteServer):
    def __init__(self, bench, text=MORE):
        super().__init__(bench, text)
        self.put("www/page.html", "page" * 100)

    def metrics_ports(self):
        """Of all addresses so far, in the order of the log."""
        return [int(port) for port in re.findall(r"metrics on http://\S+:(\d+)/metrics", self.output())]

    @property
    def metrics_port(self):
        return until(self.metrics_ports, "the event with the address")[-1]

    def request(self, path, *lines, method="GET", port=None):
        words = "".join(f"{line}\r\n" for line in lines)
        return exchange(port or self.metrics_port,
                        f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n{words}\r\n".encode())

    def read(self, path, port=None):
        response = self.request(path, port=port)
        expect(response.status, 200, f"status of {path}")
        return response.body.decode()

    def metrics(self):
        return Exposition(self.read("/metrics"))

    def status_json(self, port=None):
        return json.loads(self.read("/status.json", port))

    def children(self):
        """Processes of the master."""
        pid = self.process.pid
        return {int(child) for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()}

    def metrics_pid(self):
        """0: none."""
        return self.status()["metrics_process"]["pid"]
