#!/usr/bin/env python3
"""run.py BIN MANUAL: readers written after webserverd-shm(7), and its own example, read what wsctl status says."""
import http.client
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import urllib.request

REQUESTS = 7
HERE = pathlib.Path(__file__).parent


def output(*command):
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def check(what, got, wanted):
    if got != wanted:
        raise SystemExit(f"{what}: the reader says {got}, wsctl says {wanted}")


def run_example(name):
    program = pathlib.Path(sys.argv[2]).read_text().split(".Bd -literal -offset indent\n")[1].split(".Ed\n")[0]
    return output(sys.executable, "-c", program.replace("\\e", "\\").replace("webserverd.webserverd", f"webserverd.{name}"))


def is_complete(read):
    """Requests are counted after their responses; the master may hear later than clients that a worker serves."""
    starts = sum("serves with 2 threads" in text for text in read["events"])
    counts = read["metrics"]["requests"], sum(read["latencies"]), len(read["records"])
    return starts == 2 and min(counts) >= REQUESTS + 3


def compare(binaries, name, port):
    for _ in range(REQUESTS):
        urllib.request.urlopen(f"http://127.0.0.1:{port}/page.html").read()
    for path in ("page.html", "none", "page.html"):
        connection = http.client.HTTPConnection("127.0.0.1", port)
        connection.request("GET", f"/{path}", headers={"Host": "localhost.example"})
        connection.getresponse().read()
    while not is_complete(read := output(sys.executable, "-B", HERE / "reader.py", name)):
        pass
    status = output(binaries / "wsctl", "-n", name, "status", "--json")
    check("the manual's example", run_example(name), REQUESTS + 3)
    check("name", read["name"], name)
    check("addresses", read["listening"].split(), status["listening"])
    check("requests", read["metrics"]["requests"], REQUESTS + 3)
    for metric in ("requests", "responses_200", "workers_started", "connections_accepted", "cache_entries"):
        check(metric, read["metrics"][metric], status["metrics"][metric])
    check("pids", [worker["pid"] for worker in read["workers"]], [worker["pid"] for worker in status["workers"]["list"]])
    check("threads", sorted((t["worker"], t["thread"]) for t in read["threads"]), [(w, t) for w in range(2) for t in range(2)])
    check("latencies", sum(read["latencies"]), REQUESTS + 3)
    check("records", sorted([status, client, line] for status, _, client, line in read["records"]),
          [[status, [127, 0, 0, 1], f"GET /{path} HTTP/1.1"] for status, path in
           [(200, "page.html")] * (REQUESTS + 2) + [(404, "none")]])
    check("bytes", [size for status, size, *_ in read["records"] if status == 200], [len("page")] * (REQUESTS + 2))
    counters = ("responses_2xx", "responses_3xx", "responses_4xx", "responses_5xx", "body_bytes")
    check("hosts", read["hosts"], {host["name"]: [host[counter] for counter in counters] for host in status["hosts"]})
    check("requests of a host", read["hosts"]["localhost.example"], [2, 0, 1, 0, read["hosts"]["localhost.example"][4]])
    if not any("page.html" in thread["work"] for thread in read["threads"]):
        raise SystemExit(f"no thread shows the request: {read['threads']}")


def main():
    binaries = pathlib.Path(sys.argv[1])
    with tempfile.TemporaryDirectory() as directory:
        os.chmod(directory, 0o755)  # the workers run as another user
        pathlib.Path(directory, "page.html").write_text("page")
        pathlib.Path(directory, "webserver.ini").write_text("[host localhost.example]\n")
        name = f"test-segment-{os.getpid()}"
        server = subprocess.Popen([binaries / "webserverd", "-f", f"{directory}/webserver.ini", "-o", f"server.name={name}",
                                   "-o", f"server.root={directory}", "-o", f"server.run_dir={directory}/run", "-o", "log.level=info",
                                   "-o", "workers.processes=2", "-o", "workers.threads=2", "-o", "server.listen=127.0.0.1:0"],
                                  stdout=subprocess.PIPE, text=True)
        try:
            words = server.stdout.readline()
            compare(binaries, name, int(words.split("127.0.0.1:")[1].split(":")[0]))
        finally:
            server.send_signal(signal.SIGTERM)
        raise SystemExit(server.wait())


main()
