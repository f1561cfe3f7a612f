"""What /metrics and /status.json contain."""
import shutil
import subprocess
from decimal import Decimal

from metrics_server import MORE, OPENMETRICS, Exposition, MetricsServer, expect, expect_in, test, until

NANOSECONDS = ("response_time", "last_reload_success_time", "offload_wait", "cpu_time", "queue_wait", "queue_oldest", "queue_wait_p99",
               "lock_wait")
BYTES = ("bytes_received", "bytes_sent", "bytes_saved", "thread_cache_bytes", "cache_bytes", "cache_limit", "log_bytes")


def name_of(metric):
    """The family of a metric of wsctl status."""
    if metric in NANOSECONDS:
        return f"webserverd_{metric}_seconds"
    if metric in BYTES:
        return "webserverd_" + metric.removeprefix("bytes_").removesuffix("_bytes") + "_bytes"
    return f"webserverd_{metric}"


def value_of(exposition, metric):
    """The sum over all blocks, and whether it is a counter."""
    if metric.startswith("responses_") and metric != "responses_cut_short":
        return exposition.sum("webserverd_responses_total", code=metric.removeprefix("responses_")), True
    family = name_of(metric)
    counter = f"{family}_total" in exposition.types
    samples = exposition.named(f"{family}_total" if counter else family)
    if not samples:
        raise AssertionError(f"no samples of {metric}")
    value = sum(sample.value for sample in samples)
    return value * (10**9 if metric in NANOSECONDS else 1), counter


def use(server):
    for _ in range(5):
        server.expect("/page.html", 200)
        server.expect("/no-such-file", 404)
    server.counted()


@test
def numbers_are_those_of_status(bench):
    with MetricsServer(bench) as server:
        use(server)
        before = server.status()["metrics"]
        exposition = server.metrics()
        after = server.status()["metrics"]
        for metric, low in before.items():
            value, counter = value_of(exposition, metric)
            high = after[metric]
            if (counter or low == high) and not low <= value <= high:
                raise AssertionError(f"{metric}: {value} is not between {low} and {high}")
        expect(before["requests"], 20, "requests")
        for metric in ("requests", "bytes_sent", "response_time", "responses_404", "cache_hits", "workers_started"):
            expect(value_of(exposition, metric)[0], before[metric], metric)
        expect(exposition.sum("webserverd_threads"), 2, "threads")
        expect(exposition.sum("webserverd_workers_serving"), 2, "workers")
        expect(exposition.named("webserverd_build_info")[0].labels["name"], server.name, "name")


@test
def labels_are_worker_and_thread(bench):
    with MetricsServer(bench) as server:
        use(server)
        exposition = server.metrics()
        threads = {(sample.labels["worker"], sample.labels["thread"])
                   for sample in exposition.named("webserverd_requests_total")}
        expect(threads, {("0", "0"), ("0", "1"), ("1", "0"), ("1", "1")}, "threads")
        expect({sample.labels["worker"] for sample in exposition.named("webserverd_cache_entries")}, {"0", "1"}, "workers")
        expect([sample.labels for sample in exposition.named("webserverd_workers_started_total")], [{}], "the master")


@test
def histograms_are_cumulative_and_count_all_requests(bench):
    with MetricsServer(bench) as server:
        use(server)
        exposition = server.metrics()
        family = "webserverd_request_duration_seconds"
        series = {}
        for sample in exposition.named(f"{family}_bucket"):
            bound = Decimal("Infinity") if sample.labels["le"] == "+Inf" else Decimal(sample.labels["le"])
            labels = tuple(sample.labels[name] for name in ("worker", "thread", "outcome"))
            series.setdefault(labels, []).append((bound, sample.value))
        counts = exposition.named(f"{family}_count")
        expect(len(series), len(counts), "series")
        for sample in counts:
            buckets = series[tuple(sample.labels[name] for name in ("worker", "thread", "outcome"))]
            expect(buckets, sorted(buckets), "order of the bounds")
            expect([value for _, value in buckets], sorted(value for _, value in buckets), "growing counts")
            expect(buckets[-1], (Decimal("Infinity"), sample.value), "the last bucket")
        status = server.status()
        expect(exposition.sum(f"{family}_count"), status["metrics"]["requests"], "requests")
        expect(exposition.sum(f"{family}_sum") * 10**9, status["metrics"]["response_time"], "response time")
        expect(exposition.sum(f"{family}_count", outcome="error"), 10, "errors")
        longest = Decimal(status["latency_ns"]["max"]) / 10**9
        for buckets in series.values():
            for bound, value in buckets:
                if bound >= longest * 65 / 64:
                    expect(value, buckets[-1][1], f"count below {bound}, of at most {longest}")
        for pairs in zip(*series.values()):
            if pairs[0][0] < longest:
                expect(sum(value for _, value in pairs) < status["metrics"]["requests"], True, f"count below {pairs[0][0]} lacks the longest")


@test
def openmetrics_by_negotiation(bench):
    with MetricsServer(bench) as server:
        use(server)
        response = server.request("/metrics", f"Accept: {OPENMETRICS}")
        expect_in("application/openmetrics-text; version=1.0.0", response["content-type"], "type")
        text = response.body.decode()
        expect(text.endswith("\n# EOF\n"), True, "end")
        open_metrics, plain = Exposition(text), server.metrics()
        for family, kind in open_metrics.types.items():
            suffix = {"counter": "_total", "info": "_info"}.get(kind, "")
            expect(plain.types.get(family + suffix), {"info": "gauge"}.get(kind, kind), f"type of {family}")
            expect(plain.help[family + suffix], open_metrics.help[family], f"help of {family}")
        for family, unit in open_metrics.units.items():
            expect(family.endswith(f"_{unit}"), True, f"unit of {family}")
        expect(open_metrics.units["webserverd_sent_bytes"], "bytes", "unit")
        for accept in ("text/plain", "*/*", "text/plain, application/openmetrics-text;q=0", "application/json"):
            expect_in("text/plain; version=0.0.4", server.request("/metrics", f"Accept: {accept}")["content-type"], accept)


@test
def status_json_is_that_of_wsctl(bench):
    members = ("name", "version", "pid", "uptime_s", "generation", "listening", "dispatch", "logger", "workers",
               "threads", "latency_ns")
    with MetricsServer(bench) as server:
        use(server)
        unchanged = False
        while not unchanged:  # meanwhile: times in seconds, and threads that wake up
            before, got, after = server.status(), server.status_json(), server.status()
            expect(list(got), list(before), "members")
            unchanged = (all(before[member] == after[member] for member in members)
                         and before["metrics"]["wakeups"] == after["metrics"]["wakeups"])
        for member in members:
            expect(got[member], before[member], member)
        expect(server.read("/status.json")[-2:], "}\n", "end of the text")


@test
def promtool_has_no_complaint(bench):
    if shutil.which("promtool") is None:
        print("skipped: no promtool (Debian package prometheus)")
        return
    with MetricsServer(bench) as server:
        use(server)
        done = subprocess.run(["promtool", "check", "metrics"], input=server.read("/metrics").encode(),
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        expect((done.returncode, done.stdout.decode()), (0, ""), "promtool check metrics")


@test
def processes_and_refused_reloads_are_metrics(bench):
    with MetricsServer(bench) as server:
        def memory():
            return server.metrics().named("webserverd_process_resident_memory_bytes", process="worker 1")

        expect(until(memory, "a sample")[0].value > 100000, True, "memory")
        metrics = server.metrics()
        expect({sample.labels["process"] for sample in metrics.named("webserverd_process_max_fds")},
               {"master", "logger", "metrics", "worker 0", "worker 1"}, "processes")
        for sample in metrics.named("webserverd_process_open_fds"):
            expect(3 <= sample.value < metrics.sum("webserverd_process_max_fds", process=sample.labels["process"]), True, "descriptors")
        expect(metrics.sum("webserverd_last_reload_successful"), 1, "start")
        started = metrics.sum("webserverd_last_reload_success_time_seconds")
        server.reload("nonsense\n")
        metrics = server.metrics()
        expect(metrics.sum("webserverd_last_reload_successful"), 0, "refused reload")
        expect(metrics.sum("webserverd_last_reload_success_time_seconds"), started, "time")

        def is_later():
            server.reload(MORE)
            return server.metrics().sum("webserverd_last_reload_success_time_seconds") > started

        until(is_later, "the time of a reload")
        expect(server.metrics().sum("webserverd_last_reload_successful"), 1, "reload")
