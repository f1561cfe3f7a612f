"""The load scenarios and the site that the servers serve."""
import os
import subprocess
from dataclasses import dataclass, field

BROWSER = (
    "User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0",
    "Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
    "Accept-Language: en-GB,en;q=0.7,de;q=0.3",
    "Accept-Encoding: gzip, deflate, br",
    "DNT: 1",
    "Upgrade-Insecure-Requests: 1",
    "Sec-Fetch-Dest: document",
    "Sec-Fetch-Mode: navigate",
    "Sec-Fetch-Site: none",
    "Cookie: session=8c1f0d6a5b3e4f7d9a2b; theme=dark",
)
KIB, MIB = 1024, 1024 * 1024
FILES = 5000
MODIFIED = 1750000000  # mtime of all files: 2025-06-15
MODIFIED_SINCE = "If-Modified-Since: Sun, 15 Jun 2025 15:06:40 GMT"


@dataclass(frozen=True)
class Scenario:
    key: str
    title: str
    path: str = "/1k.html"
    connections: int = 100
    headers: tuple = ()
    body: int = KIB  # bytes of an answer's body
    status: int = 200
    depth: int = 1  # requests in one write
    streams: int = 0  # HTTP/2: requests at a time on each connection; 0: HTTP/1.1
    script: str = "report.lua"
    encoding: str = ""  # Content-Encoding of the answer
    tls: bool = False
    short: bool = False  # part of the short run

    @property
    def closes(self):
        return "Connection: close" in self.headers


SCENARIOS = [
    Scenario("small", "small file, c=100", short=True),
    Scenario("small-10", "small file, c=10", connections=10),
    Scenario("small-1000", "small file, c=1,000", connections=1000),
    Scenario("small-5000", "small file, c=5,000", connections=5000),
    Scenario("browser", "browser-like headers, c=100", headers=BROWSER, short=True),
    Scenario("close", "connection per request, c=100", headers=("Connection: close",), short=True),
    Scenario("10k", "10 KiB, c=100", "/10k.bin", body=10 * KIB),
    Scenario("100k", "100 KiB, c=100", "/large/100k.bin", body=100 * KIB, short=True),
    Scenario("1m", "1 MiB, c=20", "/large/1m.bin", 20, body=MIB),
    Scenario("64m", "64 MiB, c=4", "/large/64m.bin", 4, body=64 * MIB),
    Scenario("files", "5,000 files, c=100", script="files.lua"),
    Scenario("304", "304, c=100", headers=(MODIFIED_SINCE,), status=304, body=0),
    Scenario("404", "404, c=100", "/missing", status=404, short=True),
    Scenario("pipeline", "16-deep pipelining, c=100", depth=16, script="pipeline.lua"),
    Scenario("gzip", "gzip, c=100", "/gz/page.html", headers=("Accept-Encoding: gzip",), body=0,
             encoding="gzip"),
    Scenario("tls-small", "TLS, small file, c=100", tls=True),
    Scenario("tls-1m", "TLS, 1 MiB, c=20", "/large/1m.bin", 20, body=MIB, tls=True),
    Scenario("h2-small", "HTTP/2, small file, c=100, m=32", streams=32, short=True),
    Scenario("h2-c10", "HTTP/2, small file, c=10, m=100", connections=10, streams=100),
    Scenario("h2-1m", "HTTP/2, 1 MiB, c=10, m=10", "/large/1m.bin", 10, body=MIB, streams=10),
]


def certificate(site):
    """The paths of the certificate and the key that all servers use: outside the site. The first call makes both."""
    path, key = site + ".pem", site + ".key"
    if not os.path.exists(path):
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "30",
                        "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", key, "-out", path],
                       check=True, capture_output=True)
    return path, key


def words(count):
    """Text that compresses like prose."""
    vocabulary = "the of connection request thread serves answer and cache to file with in bytes".split()
    state, text = 1, []
    for _ in range(count):
        state = state * 1103515245 + 12345 & 0x7FFFFFFF
        text.append(vocabulary[(state >> 16) % len(vocabulary)])
    return " ".join(text).encode()


def write_site(directory):
    def put(name, content):
        path = os.path.join(directory, name)
        with open(path, "wb") as file:
            file.write(content)
        os.utime(path, (MODIFIED, MODIFIED))

    for name in ("large", "f", "gz"):
        os.mkdir(os.path.join(directory, name))
    for name, size in (("1k.html", KIB), ("10k.bin", 10 * KIB), ("large/100k.bin", 100 * KIB), ("large/1m.bin", MIB)):
        put(name, os.urandom(size))
    put("large/64m.bin", os.urandom(MIB) * 64)
    for number in range(FILES):
        put(f"f/{number}.html", os.urandom(KIB))
    put("gz/page.html", b"<!DOCTYPE html>\n<title>prose</title>\n<p>" + words(1500) + b"</p>\n")
