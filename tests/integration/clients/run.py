#!/usr/bin/env python3
"""Runs real clients against a real server, and checks what they receive.

    run.py DIRECTORY [CLIENT...]     DIRECTORY contains webserverd and wsctl

Starts one server with its own site and runs each client against it. A client that is not installed is
skipped and reported. The exit status is 0 if no client failed, 77 if all were skipped.
"""
import http.client
import os
import shutil
import subprocess
import sys
import tempfile

import downloads
import http2
import packages
import proxies
from compiled import go_client
from harness import CLIENTS, PATIENCE_S, Server, Skipped, client, expect, need, run

# --- curl ---

def curl(server, *words, stdin=None):
    """Runs curl with WORDS. Returns the status and the number of new connections of each transfer."""
    text = run(need("curl"), "-sS", "-o", "/dev/null", "--max-time", "60", "--expect100-timeout", "60",
               "-w", "%{http_code}/%{num_connects} ", *words, stdin=stdin)
    return text.decode().split()


@client("curl-bodies")
def curl_bodies(server):
    """Uploads are answered and keep their connection; an upload that is too large gets 413."""
    small, url = str(server.site / "hello.txt"), f"{server.url}/hello.txt"
    over = str(server.site / "large.bin")
    just = server.directory / "just"
    just.write_bytes(bytes(1024 * 1024))
    again = ["--next", "-sS", "-o", "/dev/null", "-w", "%{http_code}/%{num_connects} ", url]

    expect(curl(server, "-d", "a=b", url, *again), ["405/1", "200/0"], "-d")
    expect(curl(server, "-F", f"f=@{small}", url, *again), ["405/1", "200/0"], "-F")
    for upload, stdin in ((small, None), (just, None), ("-", b"x" * 300000)):
        # curl before 8.13 sends Expect: 100-continue for every -T, later ones only for large bodies: it receives the 405
        # and sends no body.
        expect(curl(server, "-H", "Expect: 100-continue", "-T", upload, url, *again, stdin=stdin), ["405/1", "200/1"],
               f"-T {upload}")
        expect(curl(server, "-H", "Expect:", "-T", upload, url, *again, stdin=stdin),
               ["405/1", "200/0"], f"-T {upload}, unasked")
        expect(curl(server, "-X", "GET", "-T", upload, url, *again, stdin=stdin),
               ["200/1", "200/0"], f"-T {upload} with GET, told to go on")
    expect(curl(server, "-T", over, url), ["413/1"], "a body of 8 MiB, asked for by Expect")
    expect(curl(server, "-T", over, "-H", "Expect:", "--limit-rate", "40M", url), ["413/1"],
           "a body of 8 MiB")


@client("curl-methods")
def curl_methods(server):
    url = f"{server.url}/hello.txt"

    expect(curl(server, "-I", url), ["200/1"], "-I")
    expect(curl(server, "-0", url), ["200/1"], "-0")
    expect(curl(server, "-X", "OPTIONS", url), ["200/1"], "OPTIONS")
    expect(curl(server, "-X", "OPTIONS", "--request-target", "*", server.url), ["200/1"],
           "OPTIONS *")
    expect(curl(server, "-X", "DELETE", url), ["405/1"], "DELETE")
    expect(curl(server, "-X", "BREW", url), ["501/1"], "BREW")
    expect(curl(server, "--proxy", server.url, "http://elsewhere.example/hello.txt"), ["200/1"],
           "absolute form")
    expect(curl(server, "-H", "Expect: miracles", url), ["417/1"], "Expect: miracles")
    expect(curl(server, "--path-as-is", f"{server.url}/../hello.txt"), ["400/1"], "above the root")


# --- Python ---

@client("python")
def python_http_client(server):
    """Bodies of all kinds, and further requests, on one connection."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE_S)
    first = None

    def ask(method, target, body=None, **more):
        nonlocal first
        connection.request(method, target, body, **more)
        answer = connection.getresponse()
        content = answer.read()
        socket = connection.sock.getsockname() if connection.sock else None
        first = first or socket
        expect(socket, first, f"the connection behind {method} {target}")
        return answer.status, content

    for _ in range(3):
        expect(ask("GET", "/hello.txt"), (200, b"hello\n"), "GET")
        expect(ask("GET", "/hello.txt", b"x" * 100000), (200, b"hello\n"), "GET with a body")
        expect(ask("POST", "/hello.txt", b"x" * 1000)[0], 405, "POST")
        expect(ask("PUT", "/hello.txt", iter([b"ab", b"c" * 70000]), encode_chunked=True)[0], 405,
               "PUT in chunks")
        expect(ask("HEAD", "/hello.txt"), (200, b""), "HEAD")
        expect(ask("OPTIONS", "*"), (200, b""), "OPTIONS")
    connection.request("POST", "/hello.txt", b"x" * 1500000)
    expect(connection.getresponse().status, 413, "a body of 1.5 MB")
    connection.close()


# --- Python's requests ---

REQUESTS_PROGRAM = r"""
import sys, requests
url = sys.argv[1]
session = requests.Session()
page = session.get(url + "/hello.txt", timeout=60)
print(page.status_code, page.text == "hello\n", page.headers["Content-Type"].split(";")[0])
print(session.get(url + "/hello.txt", headers={"If-None-Match": page.headers["ETag"]}, timeout=60).status_code)
print(session.get(url + "/hello.txt", headers={"Range": "bytes=1-2"}, timeout=60).text)
print(session.head(url + "/hello.txt", timeout=60).headers["Content-Length"])
print(session.post(url + "/hello.txt", data=iter([b"ab", b"c" * 70000]), timeout=60).status_code)
print(session.options(url + "/hello.txt", timeout=60).headers["Allow"])
print(session.get(url + "/none", timeout=60).status_code)
"""


def python_with_requests():
    find = "import importlib.util, sys; sys.exit(importlib.util.find_spec('requests') is None)"
    for program in (sys.executable, "/usr/bin/python3"):
        if shutil.which(program) is not None and subprocess.run([program, "-c", find], check=False).returncode == 0:
            return program
    raise Skipped("no Python with requests")


@client("requests")
def python_requests(server):
    """A session with a connection pool: bodies, validators, a range, a chunked upload."""
    text = run(python_with_requests(), "-c", REQUESTS_PROGRAM, server.url).decode().split("\n")
    expect(text, ["200 True text/plain", "304", "el", "6", "405", "GET, HEAD, OPTIONS", "404", ""],
           "what requests saw")


# --- Go ---

@client("go")
def go_net_http(server):
    """Known lengths, chunks with a trailer, 100-continue: only the rejected body closes a connection."""
    program = go_client(server.programs)
    if program is None:
        raise Skipped("no Go")
    said = run(program, "ask", f"{server.url}/hello.txt").decode().splitlines()
    expect(said, ["200 stays", "405 stays", "405 stays", "200 stays", "200 stays", "200 stays",
                  "405 closes", "200 stays", "some reused: true"], "what Go's client saw")


# --- Node ---

NODE_PROGRAM = """
const url = process.argv[1] + '/hello.txt';
const statuses = [];
(async () => {
    for (const [method, body] of [['GET'], ['POST', 'x'.repeat(100000)], ['PUT', 'y'], ['HEAD'],
                                  ['OPTIONS'], ['DELETE'], ['GET']]) {
        const answer = await fetch(url, {method, body});
        await answer.text();
        statuses.push(answer.status);
    }
    console.log(statuses.join(' '));
})();
"""


@client("node")
def node_fetch(server):
    expect(run(need("node"), "-e", NODE_PROGRAM, server.url).decode().split(),
           ["200", "405", "405", "200", "200", "405", "200"], "what Node's fetch saw")


# --- The run ---

def try_client(name, server):
    """Returns 'ok', 'skipped' or 'FAILED', with the reason."""
    try:
        CLIENTS[name](server)
    except Skipped as why:
        return "skipped", str(why)
    except (AssertionError, subprocess.SubprocessError, OSError, http.client.HTTPException) as why:
        return "FAILED", f"{type(why).__name__}: {why}"
    return "ok", ""


# Importing these modules registers their tests.
assert downloads and http2 and packages and proxies


def main():
    if len(sys.argv) < 2 or not set(sys.argv[2:]) <= set(CLIENTS):
        sys.exit(__doc__ + "\nClients: " + " ".join(CLIENTS))
    results = []
    with tempfile.TemporaryDirectory(prefix="webserverd-clients-") as directory:
        os.chmod(directory, 0o755)  # a worker may run as another user
        server = Server(sys.argv[1], directory)
        try:
            for name in sys.argv[2:] or CLIENTS:
                result, why = try_client(name, server)
                print(f"{result:8} {name}  {why}", flush=True)
                results.append(result)
        finally:
            server.stop()
    if "FAILED" in results:
        sys.exit(1)
    sys.exit(0 if "ok" in results else 77)


if __name__ == "__main__":
    main()
