"""Runs wrk, or h2load for HTTP/2, and measures the CPU time of the server."""
import http.client
import json
import os
import re
import ssl
import statistics
import subprocess
import threading
import time

from servers import LOAD_CORE

HERE = os.path.dirname(os.path.abspath(__file__))
SETTLE = 0.15  # seconds for the loggers to write their last lines


def http2_answer_is_right(server, scenario):
    out = subprocess.run(["curl", "-s", "-m20", "-o", "/dev/null", "--http2-prior-knowledge",
                          "-w", "%{http_version} %{http_code} %{size_download}",
                          f"http://127.0.0.1:{server.http2_port}{scenario.path}"], capture_output=True, text=True)
    wanted = f"2 {scenario.status} {scenario.body}"
    return None if out.stdout == wanted else f"'{out.stdout}' instead of '{wanted}' (version, status, bytes)"


def answer_is_right(server, scenario):
    """Sends one request. Returns None or what is wrong with the answer: only equal work is compared."""
    if scenario.streams:
        return http2_answer_is_right(server, scenario)
    path = "/f/7.html" if scenario.script == "files.lua" else scenario.path
    if scenario.tls and server.tls_port is None:
        return "no TLS"
    if scenario.tls:
        context = ssl._create_unverified_context()  # pylint: disable=protected-access
        connection = http.client.HTTPSConnection("127.0.0.1", server.tls_port, timeout=20, context=context)
    else:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
    try:
        connection.request("GET", path, headers=dict(line.split(": ", 1) for line in scenario.headers))
        answer = connection.getresponse()
        body = answer.read()
    except (OSError, http.client.HTTPException) as error:
        return f"no answer ({error})"
    finally:
        connection.close()
    if answer.status != scenario.status:
        return f"status {answer.status} instead of {scenario.status}"
    if (answer.getheader("Content-Encoding") or "") != scenario.encoding:
        return f"Content-Encoding is {answer.getheader('Content-Encoding')}"
    if scenario.status == 200 and scenario.body and len(body) != scenario.body:
        return f"{len(body)} bytes instead of {scenario.body}"
    return None


def wrk(server, scenario, seconds, core=LOAD_CORE):
    command = ["taskset", "-c", core, "wrk", "-t1", f"-c{scenario.connections}", f"-d{seconds}s",
               "--latency", "-s", scenario.script]
    for header in scenario.headers:
        command += ["-H", header]
    url = f"https://127.0.0.1:{server.tls_port}" if scenario.tls else f"http://127.0.0.1:{server.port}"
    out = subprocess.run(command + [url + scenario.path], cwd=HERE,
                         capture_output=True, text=True, check=True).stdout
    lines = out.strip().splitlines()
    return json.loads(lines[-1]) if lines else {"requests": 0, "bytes": 0}


def h2load(server, scenario, seconds, core=LOAD_CORE):
    """It reports no percentiles."""
    command = ["taskset", "-c", core, "h2load", f"-c{scenario.connections}", f"-m{scenario.streams}", f"-D{seconds}"]
    for header in scenario.headers:
        command += ["-H", header]
    out = subprocess.run(command + [f"http://127.0.0.1:{server.http2_port}{scenario.path}"],
                         capture_output=True, text=True, check=True).stdout
    requests = re.search(r"(\d+) succeeded, (\d+) failed", out)
    return {"requests": int(requests.group(1)), "failed": int(requests.group(2)), "seconds": seconds,
            "bytes": int(re.search(r"\((\d+)\) data", out).group(1)), "p50_us": None, "p99_us": None}


def measured(server, scenario, seconds, core):
    """The results of the load generator, and the CPU time of the server in nanoseconds."""
    server.forget_log()
    before = server.cpu_ns()
    seen = (h2load if scenario.streams else wrk)(server, scenario, seconds, core)
    time.sleep(SETTLE)
    return seen, server.cpu_ns() - before


def round_of(server, scenario, seconds, core=LOAD_CORE):
    """One round. Large files count by bytes, so that an incomplete answer counts in part."""
    for _ in range(3):  # on a busy machine a short round may end before the first answer
        seen, used = measured(server, scenario, seconds, core)
        requests = seen["bytes"] / scenario.body if scenario.body >= 1024 * 1024 else seen["requests"]
        if requests > 0:
            return {"cpu_us": used / requests / 1000, "rate": requests / seen["seconds"],
                    "p50_us": seen["p50_us"], "p99_us": seen["p99_us"], "failed": seen["failed"]}
        seconds *= 2
    raise RuntimeError(f"{server.name} answered no request in '{scenario.title}': {seen}")


def warm(server, scenario, seconds):
    """A warm-up round. Returns the PSS of the server half-way through, in KiB."""
    seen = []
    timer = threading.Timer(seconds / 2, lambda: seen.append(server.pss_kib()))
    timer.start()
    round_of(server, scenario, seconds)
    timer.join()
    return seen[0]


def compare(servers, scenario, rounds, seconds):
    """Interleaved rounds, each in another order. Returns rounds and memory by server."""
    figures = {server.name: {"pss_kib": warm(server, scenario, max(1, seconds // 2)), "rounds": []}
               for server in servers}
    for turn in range(rounds):
        at = turn % len(servers)
        for server in servers[at:] + servers[:at]:
            figures[server.name]["rounds"].append(round_of(server, scenario, seconds))
    return figures


def median_of(figures, what):
    values = [one[what] for one in figures["rounds"]]
    return None if None in values else statistics.median(values)
