"""Clients that speak HTTP/2 with prior knowledge, and h2spec.

h2spec: go install github.com/summerwind/h2spec/cmd/h2spec@latest
"""
import os
import re
import shutil
import subprocess

from harness import PATIENCE_S, Skipped, client, expect, need, run


@client("curl-http2")
def curl_http2(server):
    """A range, a condition, an upload, a large file."""
    def curl(*words):
        return run(need("curl"), "-sS", "--http2-prior-knowledge", "--max-time", "60", *words).decode(errors="replace")

    url, form = f"{server.url}/hello.txt", "%{http_version} %{http_code} "
    expect(curl("-w", form, url), "hello\n2 200 ", "GET")
    expect(curl("-w", form, "-r", "1-2", url), "el2 206 ", "a range")
    expect(curl("-w", form, "-o", "/dev/null", "-d", "a=b", url), "2 405 ", "POST")
    tag = re.search(r"etag: (.*?)\r", curl("-I", url)).group(1)
    expect(curl("-w", form, "-H", f"If-None-Match: {tag}", url), "2 304 ", "a condition")
    into = server.directory / "got-http2"
    curl("-o", str(into), f"{server.url}/large.bin")
    expect(into.read_bytes(), (server.site / "large.bin").read_bytes(), "the large file")


@client("nghttp")
def nghttp(server):
    """Streams with dependencies and weights, which the server ignores, and a statistic."""
    said = run(need("nghttp"), "-ns", f"{server.url}/", f"{server.url}/large.bin", f"{server.url}/prose.txt").decode()
    expect(len(re.findall(r" 200 ", said)), 3, "successful streams of nghttp")


@client("h2load")
def h2load_during_changes(server):
    """No request is lost while threads come and go. A busy machine may need more rounds for the changes."""
    requests, rounds, changes = 8000, 0, 0
    while rounds < 3 or changes < 16:
        load = subprocess.Popen([need("h2load"), "-n", str(requests), "-c", "20", "-m", "20", f"{server.url}/hello.txt"],
                                stdout=subprocess.PIPE, text=True)
        rounds += 1
        while load.poll() is None:
            changes += 1
            server.query("threads", str(changes % 4 + 1))
        said = load.communicate(timeout=PATIENCE_S)[0]
        expect(re.search(r"requests: .*", said).group(0),
               f"requests: {requests} total, {requests} started, {requests} done, {requests} succeeded, 0 failed, "
               "0 errored, 0 timeout", "what h2load saw")
    print(f"{rounds * requests} requests of h2load, {changes} changes of the number of threads")
    server.wait_for_log_lines(b'"h2load', rounds * requests)
    server.query("threads", "2")


@client("h2spec")
def h2spec(server):
    """
    All cases of RFC 7540 and RFC 7541. The port also serves HTTP/1, so what is not the preface is answered as a
    request of HTTP/1, where h2spec expects the end of the connection alone.
    """
    program = shutil.which("h2spec") or os.path.expanduser("~/go/bin/h2spec")
    if not os.path.exists(program):
        raise Skipped("no h2spec")
    done = subprocess.run([program, "--strict", "-h", "127.0.0.1", "-p", str(server.port)], timeout=PATIENCE_S,
                          stdout=subprocess.PIPE, text=True, check=False)
    failures = done.stdout.partition("Failures:")[2]
    expect(re.findall(r"× (.*)", failures), ["2: Sends invalid connection preface"], "failures of h2spec")
    expect(re.search(r"(\d+) skipped", done.stdout).group(1), "0", "cases that h2spec skipped")
