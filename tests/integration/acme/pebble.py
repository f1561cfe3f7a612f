"""Pebble, the ACME test server of Let's Encrypt, where it is installed. It rejects some good nonces by design."""
import contextlib
import json
import os
import pathlib
import shutil
import ssl
import subprocess
import tempfile

from acme_server import NAME
from authority import write_server_pair
from harness import expect, expect_in, free_port, run, test, until


def find(name):
    path = shutil.which(name) or pathlib.Path.home() / "go" / "bin" / name
    return path if pathlib.Path(path).exists() else None


class Pebble:
    """The part of an Authority that Bench.start() uses; it is started when the port of http-01 is known."""

    def __init__(self, directory, more=None):
        self.directory, self.more = pathlib.Path(directory), more or {}
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
        dns, listen, manage, self.records_port = free_port(), free_port(), free_port(), free_port()
        config = {"listenAddress": f"127.0.0.1:{listen}", "managementListenAddress": f"127.0.0.1:{manage}",
                  "certificate": str(self.ca_file), "privateKey": str(self.directory / "server.key"),
                  "httpPort": self.http_port, "tlsPort": self.tls_port, "ocspResponderURL": "", "externalAccountBindingRequired": False, **self.more}
        (self.directory / "pebble.json").write_text(json.dumps({"pebble": config}))
        self.base = f"https://localhost:{listen}"
        words = [[find("pebble-challtestsrv"), "-defaultIPv6", "", "-defaultIPv4", "127.0.0.1", "-dnsserver", f"127.0.0.1:{dns}",
                  "-http01", "", "-https01", "", "-tlsalpn01", "", "-doh", "", "-management", f"127.0.0.1:{self.records_port}"],
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
def server_with_pebble(bench, names, rejected_percent, more=None, prepare=None, **settings):
    """A server that is reloaded with [acme] when Pebble knows its port. MORE is of Pebble; PREPARE is called before the reload."""
    pebble = Pebble(bench.directory / f"pebble{bench.servers}", more)
    try:
        with bench.start(pebble, names, acme__enabled="off", server__listen="127.0.0.1:0 https://127.0.0.1:0",
                         **bench.own_certificate(), **settings) as server:
            pebble.start(rejected_percent)
            if prepare is not None:
                prepare(pebble)
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


EAB = {"externalAccountBindingRequired": True,
       "externalAccountMACKeys": {"kid-1": "zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W"}}
PROFILES = {"profiles": {"default": {"description": "usual", "validityPeriod": 90 * 86400},
                         "shortlived": {"description": "short", "validityPeriod": 6 * 86400}}}


def write_program(path, text):
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(0o755)


@test
def pebble_certifies_a_wildcard_by_a_program(bench):
    """And with it the other name of the [host], for a customer; then another program gets the certificate."""
    if find("pebble") is None or find("pebble-challtestsrv") is None:
        return
    with tempfile.TemporaryDirectory() as name:
        directory = pathlib.Path(name)
        directory.chmod(0o777)  # for the user of the programs
        dns_hook, deploy_hook = directory / "dns", directory / "deploy"

        def prepare(pebble):
            record = '{\\"host\\":\\"_acme-challenge.$CERTBOT_DOMAIN.\\",\\"value\\":\\"$CERTBOT_VALIDATION\\"}'
            write_program(dns_hook, f"""echo "$1 $CERTBOT_DOMAIN $CERTBOT_REMAINING_CHALLENGES $CERTBOT_ALL_DOMAINS \\
                          $CERTBOT_AUTH_OUTPUT $(id -u) ${{SECRET_OF_TEST:-no secret}} $HOOK_WORD" >>{directory}/calls
                          test $1 = auth && path=set-txt || path=clear-txt
                          echo id-$1; curl -s --data "{record}" http://127.0.0.1:{pebble.records_port}/$path\n""")
            write_program(deploy_hook, f'echo "$1 $RENEWED_DOMAINS $RENEWED_FILE" >{directory}/new && mv {directory}/new {directory}/deployed\n')

        os.environ.update(SECRET_OF_TEST="secret", HOOK_WORD="word", EAB_OF_TEST=EAB["externalAccountMACKeys"]["kid-1"])
        with server_with_pebble(bench, (NAME, f"*.{NAME}"), 5, EAB, prepare, acme__dns_hook=dns_hook, acme__deploy_hook=deploy_hook,
                                acme__certificate_per="host", acme__eab_kid="kid-1", acme__eab_key="${EAB_OF_TEST}",
                                **{f"host {NAME} *.{NAME}__index": "index.html"}) as server:
            until(lambda: issuer_begins(server, f"a.{NAME}") and issuer_begins(server, NAME), f"a certificate of Pebble\n{server.output()}")
            until((directory / "deployed").exists, f"the certificate in the other program\n{server.output()}")
            expect((directory / "deployed").read_text(), f"deploy {NAME} *.{NAME} {server.state}/{NAME}.pem\n", "deploy_hook")
            calls = [line.split() for line in (directory / "calls").read_text().splitlines()]
            user = "65534" if os.geteuid() == 0 else str(os.geteuid())
            expect([call[0] for call in calls], ["auth", "cleanup"], "calls, as only the wildcard needs a record")
            expect(calls[0][1:2] + calls[0][3:], [NAME, f"{NAME},*.{NAME}", user, "no", "secret", "word"], "variables of auth")
            expect(calls[1][4], "id-auth", "the output of auth for cleanup")
            expect(sorted(server.certificate(NAME)[2]), sorted([NAME, f"*.{NAME}"]), "names of the certificate")
            for text in (server.control("config", "acme"), run(bench.programs / "webserverd", "-T", "-f", server.directory / "webserver.ini"), server.output()):
                expect(EAB["externalAccountMACKeys"]["kid-1"] in text, False, "the secret is shown")


@test
def failing_programs_are_reported(bench):
    if find("pebble") is None or find("pebble-challtestsrv") is None:
        return
    with tempfile.TemporaryDirectory() as name:
        directory = pathlib.Path(name)
        directory.chmod(0o777)

        def prepare(_):
            write_program(directory / "dns", f"test -e {directory}/late && sleep 100\ntouch {directory}/late; echo no zone >&2; exit 3\n")

        with server_with_pebble(bench, (NAME,), 0, EAB, prepare, acme__challenge="dns-01", acme__dns_hook=directory / "dns",
                                acme__hook_timeout="1s") as server:
            server.await_event("set [acme] eab_kid and eab_key to what it gave you")
            server.set(acme__eab_kid="kid-1", acme__eab_key=EAB["externalAccountMACKeys"]["kid-1"])
            server.control("reload")
            server.await_event("no certificate: dns_hook auth exited with status 3: no zone")
            server.await_event("no certificate: dns_hook auth was killed after hook_timeout")


@test
def pebble_certifies_an_address_for_six_days(bench):
    if find("pebble") is None or find("pebble-challtestsrv") is None:
        return
    with server_with_pebble(bench, ("127.0.0.1",), 5, PROFILES, acme__profile="shortlivd") as server:
        server.await_event("the authority has no profile 'shortlivd' (it has: default, shortlived)")
        server.set(acme__profile="shortlived")
        server.control("reload")
        until(lambda: server.stored("127.0.0.1"), f"a certificate of Pebble\n{server.output()}")
        shown = until(lambda: next((entry for entry in server.query("certificates")["certificates"]
                                    if entry["names"] == ["127.0.0.1"] and "Pebble" in entry["issuer"]), None), "the certificate in use")
        expect(shown["not_after"] - shown["not_before"] <= 6 * 86400, True, "days of the certificate")
