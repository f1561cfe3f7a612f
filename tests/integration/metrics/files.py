"""etc/prometheus and etc/grafana: the files use metrics that exist, in expressions that Prometheus understands."""
import json
import pathlib
import re
import shutil
import subprocess

from content import use
from metrics_server import MORE, MetricsServer, expect, test, until

ETC = pathlib.Path(__file__).resolve().parents[3] / "etc"
RULES = ETC / "prometheus" / "webserverd.rules.yml"
DASHBOARD = ETC / "grafana" / "webserverd.json"
ELSEWHERE = {"webserverd_certificate_not_after_seconds",  # with TLS: integration/acme
             "webserverd_process_open_fds"}  # as of Linux 6.2
NAME = re.compile(r"\bwebserverd_\w+")


def expressions_of(value):
    """The expressions of a dashboard, as it is in its file."""
    if isinstance(value, dict):
        found = [value[key] for key in ("expr", "query") if isinstance(value.get(key), str)]
        return found + [one for part in value.values() for one in expressions_of(part)]
    return [one for part in value for one in expressions_of(part)] if isinstance(value, list) else []


@test
def files_use_metrics_that_exist(bench):
    dashboard = expressions_of(json.loads(DASHBOARD.read_text()))
    with MetricsServer(bench, MORE + "[host a.example]\n") as server:
        use(server)
        until(lambda: server.metrics().named("webserverd_process_max_fds"), "the first second")
        exposition = server.metrics()
        known = {sample.name for sample in exposition.samples} | ELSEWHERE
        for sample in exposition.samples:
            for label in sample.labels:
                known.add((sample.name, label))
    rules = [line for line in RULES.read_text().splitlines() if not line.lstrip().startswith("#")]
    for source, texts in (("rules", rules), ("dashboard", dashboard)):
        names = {name for text in texts for name in NAME.findall(text)}
        expect(len(names) > 10, True, f"metrics of the {source}")
        expect(sorted(names - known), [], f"unknown metrics of the {source}")
        for name, labels in {pair for text in texts for pair in re.findall(r"(webserverd_\w+)\{([^}]*)\}", text)}:
            for label in re.findall(r"(\w+)=~?\"", labels):
                expect(label == "instance" or (name, label) in known, True, f"label {label} of {name}")


@test
def promtool_understands_the_files(bench):
    if shutil.which("promtool") is None:
        print("skipped: no promtool (Debian package prometheus)")
        return
    queries = [one for one in expressions_of(json.loads(DASHBOARD.read_text()))
               if NAME.search(one) and not one.startswith("label_values")]
    rules = [{"record": f"test:{number}", "expr": one.replace("$__rate_interval", "5m")}
             for number, one in enumerate(queries)]
    expect(len(rules) > 20, True, "expressions of the dashboard")
    generated = bench.directory / "dashboard.rules.yml"
    generated.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))
    for file, words in ((RULES, ("check", "rules")), (generated, ("check", "rules")),
                        (pathlib.Path(__file__).parent / "rules_test.yml", ("test", "rules"))):
        done = subprocess.run(["promtool", *words, file], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        expect(done.returncode, 0, f"promtool {' '.join(words)} {file}:\n{done.stdout.decode()}\n")
