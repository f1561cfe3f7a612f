"""Shared parts of the TLS tests: certificates, a server, connections to it."""
import contextlib
import functools
import hashlib
import importlib
import json
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import traceback

import x509

PATIENCE_S = 90
SCRATCH_BYTES = 2 ** 30
TESTS = {}


def test(function):
    """Decorator: registers a test, which is called with a Bench."""
    TESTS[function.__name__] = function
    return function


def expect(got, wanted, what):
    if got != wanted:
        raise AssertionError(f"{what}: {got!r}, not {wanted!r}")


def expect_in(part, text, what):
    if part not in text:
        raise AssertionError(f"{what}: no {part!r} in {text!r}")


def until(condition, what):
    """Waits until CONDITION() is true. Returns its value. The pauses grow, as a condition may start programs."""
    start = time.monotonic()
    while (waited := time.monotonic() - start) < PATIENCE_S:
        value = condition()
        if value:
            return value
        time.sleep(min(max(0.01, waited / 8), 0.2))
    raise AssertionError(f"timeout waiting for: {what}")


def free_port():
    """A port that no other program gets by chance: below those that the kernel gives to connections."""
    while True:
        port = random.randrange(10000, 32000)
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            return port


def has_ended(pid):
    """True if the process, which need not be a child, has ended; whether its parent has noticed or not."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return True


def end_successors(output):
    """Ends the new masters that a failed test of upgrades has left. OUTPUT is that of the server."""
    for pid in map(int, re.findall(r"the new master \(pid (\d+)\) serves", output)):
        if not has_ended(pid):
            os.kill(pid, signal.SIGTERM)
            until(lambda pid=pid: has_ended(pid), "end of a new master")


def open_files(pid):
    """What the descriptors of a process lead to, as text. Leaves out what the process closes meanwhile."""
    found = []
    for entry in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            found.append(str(entry.readlink()))
    return found


def run(*words, stdin=b"", check=True):
    done = subprocess.run(words, input=stdin, timeout=PATIENCE_S, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          check=False)
    text = done.stdout.decode(errors="replace")
    if check and done.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, words))}: exit status {done.returncode}\n{text}")
    return text


def query(path, *words):
    """The answer to a command on the control socket, as wsctl --json prints it, without the start of a program."""
    with socket.socket(socket.AF_UNIX) as stream:
        stream.settimeout(PATIENCE_S)
        stream.connect(str(path))
        stream.sendall(" ".join(words).encode() + b"\n")
        answer = json.loads(stream.makefile("rb").readline())
    expect(answer.get("ok"), True, f"answer to {' '.join(words)}: {answer}")
    return answer


def serving_pids(server, count):
    """Waits until COUNT workers serve; each has then taken its identity and sandbox. Returns their pids."""
    def find():
        pids = [worker["pid"] for worker in server.status()["workers"]["list"] if worker["state"] == "serving"]
        return pids if len(pids) == count else None

    return until(find, f"{count} workers that serve")


RSA_KEY = pathlib.Path(__file__).resolve().parent / "rsa.key"


def key_words(kind, path):
    """Words of openssl req for a private key in the file PATH. A new RSA key takes a third of a second, so all tests use one."""
    if kind == "ec":
        return "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", path
    shutil.copyfile(RSA_KEY, path)
    os.chmod(path, 0o600)
    return "-key", path


CERTIFICATES = {"ec": ("ec", ("localhost",)), "rsa": ("rsa", ("localhost",)), "other": ("ec", ("other.example", "www.other.example")),
                "wild": ("ec", ("*.other.example",)), "later": ("ec", ("localhost",))}


class Bench:
    """The directory of all tests: programs, certificates, site."""

    def __init__(self, programs, directory):
        self.programs = pathlib.Path(programs).resolve()
        self.directory = pathlib.Path(directory)
        self.servers = 0
        self.made = set()  # names of certificates

    @functools.cached_property
    def files(self):
        """Of the site: names and contents, which no compression makes smaller."""
        sizes = {"page.txt": 1000, "memory.bin": 30000, "large.bin": 5 * 1024 * 1024 + 13}
        return {"small.txt": b"hello\n", **{name: hashlib.shake_128(name.encode()).digest(size) for name, size in sizes.items()}}

    @functools.cached_property
    def site(self):
        """The directory with the files."""
        site = self.directory / "www"
        site.mkdir()
        for name, content in self.files.items():
            (site / name).write_bytes(content)
        return site

    def make_certificate(self, name, kind, hosts):
        names = ",".join(f"DNS:{host}" for host in hosts)
        run("openssl", "req", "-x509", *key_words(kind, self.path(f"{name}.key")), "-days", "2", "-subj", f"/CN={name}",
            "-addext", f"subjectAltName={names}", "-out", self.path(f"{name}.pem"))

    def path(self, name):
        """Of a file in the directory. The first path of one of CERTIFICATES or of its key makes both."""
        pair, _, suffix = name.rpartition(".")
        if pair in CERTIFICATES and suffix in ("pem", "key") and pair not in self.made:
            self.made.add(pair)
            self.make_certificate(pair, *CERTIFICATES[pair])
        return str(self.directory / name)

    def pair(self, *names):
        """Settings of [tls] for certificates."""
        return {"tls.certificate": " ".join(self.path(f"{name}.pem") for name in names),
                "tls.key": " ".join(self.path(f"{name}.key") for name in names)}

    def start(self, *certificates, under=(), **settings):
        """UNDER: words of a program that runs the server."""
        return Server(self, self.pair(*(certificates or ("ec",))), settings, under)

    def command(self, *certificates, **settings):
        """Words that start a webserverd with https:// and the settings (server__listen is server.listen)."""
        keys = {"server.listen": "127.0.0.1:0 https://127.0.0.1:0", "server.root": self.site,
                **self.pair(*(certificates or ("ec",))),
                **{key.replace("__", "."): value for key, value in settings.items()}}
        return [self.programs / "webserverd", *(word for key, value in keys.items() for word in ("-o", f"{key}={value}"))]


def options_of_run():
    """TEST_SERVER_OPTIONS="workers.model=pool workers.threads=16": all tests with these settings."""
    return [word for option in os.environ.get("TEST_SERVER_OPTIONS", "").split() for word in ("-o", option)]


@functools.lru_cache
def client_context(ciphers, version, alpn):
    """It verifies nothing."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if version is not None:
        context.minimum_version = context.maximum_version = version
    if ciphers is not None:
        context.set_ciphers(ciphers)
    if alpn is not None:
        context.set_alpn_protocols(list(alpn))
    return context


class Server:
    """A running webserverd, with its configuration in a file, so that it can be reloaded."""

    def __init__(self, bench, pair, settings, under=()):
        bench.servers += 1
        self.bench, self.under = bench, under
        self.name = f"tls-{os.getpid()}-{bench.servers}"
        self.directory = bench.directory / self.name
        self.directory.mkdir()
        self.settings = {"server.listen": "127.0.0.1:0 https://127.0.0.1:0", "server.root": bench.site,
                         "log.access": "access.log", **pair}
        self.set(**settings)
        self.said = open(self.directory / "said", "ab")
        self.launch()

    def launch(self):
        """Starts the program, or starts it again after its end."""
        self.launched = len(self.output())
        self.process = subprocess.Popen(
            [*self.under, self.bench.programs / "webserverd", "-f", self.directory / "webserver.ini", "-o",
             f"server.name={self.name}", "-o", f"server.run_dir={self.directory}", *options_of_run()],
            stdout=self.said, stderr=self.said)
        self.plain_port, self.port = until(self.find_ports, "ports of the server")

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if self.under:
            os.kill(self.status()["pid"], signal.SIGTERM)
        else:
            self.process.terminate()
        status = self.process.wait(PATIENCE_S)
        self.said.close()
        if kind is not None:
            print(self.output())
            end_successors(self.output())
        else:
            expect(status, 0, "exit status of webserverd")

    def set(self, **settings):
        """Changes the configuration file."""
        self.settings.update({key.replace("__", "."): value for key, value in settings.items()})
        lines = []
        for key, value in sorted(self.settings.items()):
            section, name = key.rsplit(".", 1)
            if f"[{section}]" not in lines:
                lines.append(f"[{section}]")
            lines.append(f"{name} = {value}")
        (self.directory / "webserver.ini").write_text("\n".join(lines) + "\n")

    def output(self):
        return (self.directory / "said").read_text(errors="replace")

    def find_ports(self):
        if self.process.poll() is not None:
            raise AssertionError("webserverd has ended:\n" + self.output())
        lines = [line for line in self.output()[self.launched:].splitlines() if line.startswith("webserverd ") and line.endswith(" per worker")]
        if not lines:
            return None
        listening = [word for word in lines[0].split(" on ")[1].split(": ")[0].split() if "unix:" not in word]
        plain = [int(word.rsplit(":", 1)[1]) for word in listening if not word.startswith("https://")]
        tls = [int(word.rsplit(":", 1)[1]) for word in listening if word.startswith("https://")]
        return (plain or [0])[0], tls[0]

    def control(self, *words, check=True):
        return run(self.bench.programs / "wsctl", "-s", self.directory / f"{self.name}.sock", *words, check=check)

    def query(self, *words):
        return query(self.directory / f"{self.name}.sock", *words)

    def status(self):
        return self.query("status")

    def metric(self, name):
        return self.status()["metrics"][name]

    def expect_metric(self, name, value):
        """Waits until the counter has VALUE."""
        until(lambda: self.metric(name) == value, f"{name} = {value}, not {self.metric(name)}")

    def raw(self, port=None):
        return socket.create_connection(("127.0.0.1", port or self.port), PATIENCE_S)

    def connect(self, host="localhost", ciphers=None, version=None, alpn=None, session=None, socket_=None):
        context = client_context(ciphers, version, alpn and tuple(alpn))
        return context.wrap_socket(socket_ or self.raw(), server_hostname=host, suppress_ragged_eofs=False,
                                   session=session)

    def certificate_name(self, host, **more):
        """The common name of the certificate that a client with this SNI gets."""
        with self.connect(host, **more) as stream:
            return x509.parse(stream.getpeercert(True)).subject

    def probe(self, *words, stdin=b""):
        """What openssl s_client prints."""
        return run("openssl", "s_client", "-connect", f"127.0.0.1:{self.port}", *words, stdin=stdin, check=False)


class Exchange:
    """Requests on one connection, and their responses."""

    def __init__(self, stream):
        self.stream = stream
        self.reader = stream.makefile("rb")

    def send(self, target, method="GET", **fields):
        lines = [f"{method} /{target} HTTP/1.1", "Host: localhost",
                 *(f"{name.replace('_', '-')}: {value}" for name, value in fields.items())]
        self.stream.sendall("\r\n".join(lines).encode() + b"\r\n\r\n")

    def receive(self, head_only=False):
        """Status, fields in lower case, body."""
        status = self.reader.readline().split()
        if len(status) < 2:
            raise AssertionError(f"no status line: {status}")
        fields = {}
        while (line := self.reader.readline().strip()) != b"":
            name, value = line.decode().split(":", 1)
            fields[name.lower()] = value.strip()
        body = b"" if head_only or status[1] == b"304" else self.reader.read(int(fields.get("content-length", "0")))
        return int(status[1]), fields, body

    def get(self, target, **fields):
        self.send(target, **fields)
        return self.receive()


def scratch_parent():
    """
    Where to make the directory of the tests: in memory if there is room, as a new file or directory on a disk may take half a
    millisecond of CPU time. None: as TMPDIR says.
    """
    if "TMPDIR" not in os.environ:
        with contextlib.suppress(OSError):
            room = os.statvfs("/dev/shm")
            if room.f_bavail * room.f_frsize >= SCRATCH_BYTES:
                return "/dev/shm"
    return None


def import_tests(*modules):
    """Imports the MODULES of tests, or those that TEST_MODULES in the environment names."""
    for module in os.environ.get("TEST_MODULES", "").split() or modules:
        importlib.import_module(module)


def run_tests(make_bench):
    """Runs the tests named on the command line, or those of TEST_PART. Returns the exit status."""
    part, parts = (int(word) for word in os.environ.get("TEST_PART", "1/1").split("/"))
    names = (sys.argv[2:] or list(TESTS))[part - 1::parts]
    failed = []
    os.environ["SSL_CERT_FILE"] = os.devnull  # no test needs the authorities of the system, which openssl would load each time
    with tempfile.TemporaryDirectory(prefix="test-", dir=scratch_parent()) as directory:
        os.chmod(directory, 0o755)  # the workers run as another user
        bench = make_bench(sys.argv[1], directory)
        for name in names:
            start = time.monotonic()
            try:
                TESTS[name](bench)
                print(f"ok      {name} ({time.monotonic() - start:.1f} s)", flush=True)
            except Exception:  # pylint: disable=broad-except
                traceback.print_exc(file=sys.stdout)
                print(f"FAILED  {name}", flush=True)
                failed.append(name)
    print(f"{len(names) - len(failed)} of {len(names)} tests passed")
    return 1 if failed else 0
