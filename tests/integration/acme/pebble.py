"""Pebble, the ACME test server of Let's Encrypt, where it is installed. It rejects some good nonces by design."""
import contextlib
import json
import os
import pathlib
import shutil
import ssl
import subprocess

from acme_server import NAME
from authority import write_server_pair
from harness import expect, expect_in, free_port, test, until


def find(name):
    path = shutil.which(name) or pathlib.Path.home() / "go" / "bin" / name
    return path if pathlib.Path(path).exists() else None


class Pebble:
    """The part of an Authority that Bench.start() uses; it is started when the port of http-01 is known."""

    def __init__(self, directory):
        self.directory = pathlib.Path(directory)
        self.directory.mkdir()
        write_server_pair(self.directory)
        self.base, self.http_port, self.tls_port, self.processes = "https://localhost:1", None, None, []

    @property
    def ca_file(self):
        return self.directory / "server.pem"

    def answers(self):
        import urllib.request  # pylint: disable=import-outside-toplevel
        context = ssl.create_default_context(cafile=self.ca_file)
        try:
            with urllib.request.urlopen(f"{self.base}/dir", context=context, timeout=10) as response:
                return response.status == 200
        except OSError:
            return False

    def try_start(self, rejected_percent):
        """One attempt on ports that were free a moment ago."""
        dns, listen, manage = free_port(), free_port(), free_port()
        config = {"listenAddress": f"127.0.0.1:{listen}", "managementListenAddress": f"127.0.0.1:{manage}",
                  "certificate": str(self.ca_file), "privateKey": str(self.directory / "server.key"),
                  "httpPort": self.http_port, "tlsPort": self.tls_port, "ocspResponderURL": "", "externalAccountBindingRequired": False}
        (self.directory / "pebble.json").write_text(json.dumps({"pebble": config}))
        self.base = f"https://localhost:{listen}"
        words = [[find("pebble-challtestsrv"), "-defaultIPv6", "", "-defaultIPv4", "127.0.0.1", "-dnsserver", f"127.0.0.1:{dns}",
                  "-http01", "", "-https01", "", "-tlsalpn01", "", "-doh", "", "-management", f"127.0.0.1:{free_port()}"],
                 [find("pebble"), "-config", self.directory / "pebble.json", "-dnsserver", f"127.0.0.1:{dns}"]]
        environment = {**os.environ, "PEBBLE_WFE_NONCEREJECT": str(rejected_percent), "PEBBLE_VA_NOSLEEP": "1"}
        with open(self.directory / "said", "wb") as said:
            self.processes = [subprocess.Popen(list(map(str, word)), stdout=said, stderr=said, env=environment) for word in words]
        return until(lambda: self.answers() or any(process.poll() is not None for process in self.processes), "Pebble") and all(
            process.poll() is None for process in self.processes)

    def start(self, rejected_percent):
        for _ in range(10):
            if self.try_start(rejected_percent):
                return
            self.stop()
        raise AssertionError("Pebble does not start:\n" + (self.directory / "said").read_text())

    def stop(self):
        for process in self.processes:
            process.kill()
            process.wait()
        self.processes = []


@contextlib.contextmanager
def server_with_pebble(bench, names, rejected_percent, **settings):
    """A server that is reloaded with [acme] when Pebble knows its port."""
    pebble = Pebble(bench.directory / f"pebble{bench.servers}")
    try:
        with bench.start(pebble, names, acme__enabled="off", server__listen="127.0.0.1:0 https://127.0.0.1:0",
                         **bench.own_certificate(), **settings) as server:
            pebble.start(rejected_percent)
            server.set(acme__enabled="on", acme__directory=f"{pebble.base}/dir")
            server.control("reload")
            yield server
    finally:
        pebble.stop()


def issuer_begins(server, name):
    return server.certificate(name)[0].startswith("Pebble Intermediate")


@test
def pebble_certifies_two_names(bench):
    if find("pebble") is None or find("pebble-challtestsrv") is None:
        return
    names = (NAME, "second.test-site.org")
    with server_with_pebble(bench, names, 5) as server:
        for name in names:
            until(lambda name=name: issuer_begins(server, name), f"a certificate of Pebble for {name}\n{server.output()}")


@test
def pebble_checks_two_names_by_tls_alpn(bench):
    if find("pebble") is None or find("pebble-challtestsrv") is None:
        return
    names = (NAME, "second.test-site.org")
    with server_with_pebble(bench, names, 5, acme__challenge="tls-alpn-01") as server:
        for name in names:
            until(lambda name=name: issuer_begins(server, name), f"a certificate of Pebble for {name}\n{server.output()}")
        expect(server.metric("tls_validations") >= 2, True, "validations")
        expect("by http-01" in server.output(), False, "http-01")


@test
def pebble_rejects_half_of_the_nonces(bench):
    if find("pebble") is None or find("pebble-challtestsrv") is None:
        return
    with server_with_pebble(bench, (NAME,), 50) as server:
        until(lambda: issuer_begins(server, NAME), f"a certificate of Pebble\n{server.output()}")
        expect(server.certificate()[2], [NAME], "names of the certificate")


@test
def pebble_suggests_a_window_and_renews(bench):
    if find("pebble") is None or find("pebble-challtestsrv") is None:
        return
    with server_with_pebble(bench, (NAME,), 5) as server:
        until(lambda: issuer_begins(server, NAME), f"a certificate of Pebble\n{server.output()}")
        server.await_event("the authority suggests renewal between")
        serial = server.certificate()[1]
        expect_in("a new certificate is in use", server.control("acme", "renew", NAME), "answer")
        until(lambda: server.certificate()[1] != serial, "another serial number")  # a leaving worker may accept for a moment
        server.await_event("the authority suggests renewal between", 2)
