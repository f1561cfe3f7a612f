"""A server with [acme] and its authority, for the tests."""
import contextlib
import pathlib
import subprocess

import harness
import x509
from authority import Authority
from harness import open_files, run, until

NAME = "www.test-site.org"
UNUSED_PORT = 1


class Bench:
    """The directory of all tests."""

    def __init__(self, programs, directory):
        self.programs = pathlib.Path(programs).resolve()
        self.directory = pathlib.Path(directory)
        self.site = self.directory / "www"
        self.site.mkdir()
        (self.site / "small.txt").write_bytes(b"hello\n")
        self.servers = 0
        self.state_dirs = 0

    def start(self, authority, names=(NAME,), under=(), http_port=None, tls_port=None, **settings):
        """
        A server that obtains certificates for NAMES. The authority checks names at its ports, or at HTTP_PORT and TLS_PORT. It has
        one worker, because each one costs CPU time, except in the tests of what clients get.
        """
        self.state_dirs += 1
        keys = {"acme.enabled": "on", "acme.agree_to_terms": "yes", "acme.directory": f"{authority.base}/directory",
                "acme.ca_file": authority.ca_file, "acme.hosts": " ".join(names), "acme.retry": "1s",
                "acme.state_dir": self.directory / f"state{self.state_dirs}", "workers.processes": 1}
        authority.http_port = None  # not that of a former server
        server = Server(self, keys, settings, under)
        authority.tls_port, authority.http_port = tls_port or server.port, http_port or server.plain_port
        return server

    def own_certificate(self):
        """Settings of [tls] for a certificate that no authority has signed."""
        files = self.directory / "own.key", self.directory / "own.pem"
        if not files[0].exists():
            run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj",
                "/CN=own", "-keyout", files[0], "-out", files[1])
        return {"tls__certificate": files[1], "tls__key": files[0]}

    def authority(self):
        self.state_dirs += 1
        return Authority(self.directory / f"authority{self.state_dirs}")


class Server(harness.Server):
    """Methods to look at its certificates."""

    @property
    def state(self):
        return pathlib.Path(self.settings["acme.state_dir"])

    def events(self):
        return [line for line in self.output().splitlines() if " ACME: " in line or "certificate" in line]

    def certificate(self, name=NAME):
        """Issuer and serial number of the certificate that a client gets."""
        with self.connect(name) as stream:
            certificate = x509.parse(stream.getpeercert(True))
        names = [name.removeprefix("DNS:") for name in certificate.alternative_names()]
        return certificate.issuer, certificate.serial.hex(), names

    def stored(self, name=NAME):
        """The certificate in the state directory, or None."""
        with contextlib.suppress(OSError, IndexError, ValueError):
            with open(f"{self.settings['acme.state_dir']}/{name}.pem", encoding="ascii") as file:
                return x509.parse_pem(file.read())
        return None

    def stored_serial(self, name=NAME):
        """"": there is no certificate."""
        certificate = self.stored(name)
        return certificate.serial.hex() if certificate else ""

    def shown(self, name=NAME):
        """What wsctl certificates shows of the certificate in use; {}: nothing, or the master just starts."""
        with contextlib.suppress(OSError, ValueError):
            return next((entry for entry in self.query("certificates")["certificates"] if entry["names"] == [name]), {})
        return {}

    def may_serve_another_than(self, serial, name=NAME):
        """False if no client can get another certificate yet. It costs less than a handshake."""
        stored = self.stored(name)
        return stored is not None and stored.serial.hex() != serial and self.shown(name).get("not_after") == stored.not_after

    def await_certificate(self, name=NAME, issuer="Test authority", other_than=None):
        """Waits until clients get a certificate of ISSUER with another serial number. Returns the number."""
        def find():
            if not self.may_serve_another_than(other_than, name):
                return None
            got = self.certificate(name)
            return got[1] if got[0] == issuer and got[1] != other_than and got[2] == [name] else None

        return until(find, f"a certificate of {issuer}\n{self.output()}")

    def await_event(self, text, count=1):
        until(lambda: self.output().count(text) >= count, f"{count} x {text!r}\n{self.output()}")

    def ask(self, *words):
        """A process of wsctl, whose answer is on its stdout."""
        return subprocess.Popen([self.bench.programs / "wsctl", "-s", self.directory / f"{self.name}.sock", *words],
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def request_renewal(self):
        return self.ask("acme", "renew", NAME)

    def worker_pids(self):
        return [worker["pid"] for worker in self.status()["workers"]["list"]]

    def acme_pid(self):
        """Of the ACME process, which has locked a file of the state directory. 0: none."""
        with contextlib.suppress(FileNotFoundError):
            lock = self.state / "lock"
            inode = f":{lock.stat().st_ino}"
            for words in map(str.split, pathlib.Path("/proc/locks").read_text().splitlines()):
                with contextlib.suppress(OSError):
                    if words[1] == "FLOCK" and words[5].endswith(inode) and str(lock) in open_files(words[4]):
                        return int(words[4])
        return 0
