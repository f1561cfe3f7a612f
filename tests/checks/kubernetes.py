#!/usr/bin/env python3
"""Checks the Kubernetes examples: against the schemas of the API, and whether their parts fit together.

    kubernetes.py PROGRAMS EXAMPLES

The first check needs the Python package kubernetes-validate, which contains the schemas, and is left out without it;
all need PyYAML. The configuration in the ConfigMap is checked by webserverd -t; the command of the job runs against a
real server, twice, and its reports are merged. Exit status 0 or 1; 77 without PyYAML.
"""
import contextlib
import hashlib
import importlib.util
import json
import pathlib
import random
import socket
import subprocess
import sys
import tempfile
import time

PATIENCE_S = 90
KINDS = ["ConfigMap", "Deployment", "HorizontalPodAutoscaler", "NetworkPolicy", "PodDisruptionBudget", "Service"]


def expect(condition, words):
    if not condition:
        raise SystemExit(f"kubernetes: {words}")


def find(objects, kind):
    found = [one for one in objects if one["kind"] == kind]
    expect(len(found) == 1, f"{len(found)} objects of kind {kind}, not 1")
    return found[0]


def check_schemas(objects):
    if importlib.util.find_spec("kubernetes_validate") is None:
        print("kubernetes-validate is not installed: schemas not checked")
        return
    import kubernetes_validate  # pylint: disable=import-outside-toplevel,import-error
    version = kubernetes_validate.latest_version()
    for one in objects:
        try:
            kubernetes_validate.validate(one, version, strict=True)
        except kubernetes_validate.ValidationError as error:
            expect(False, f"{one['kind']}: {error.message} at {'.'.join(map(str, error.path))}")
    print(f"{len(objects)} objects are valid in Kubernetes {version}")


def seconds(ini, key):
    """The value of KEY, such as 20s, in INI."""
    lines = [line.split("=")[1].strip() for line in ini.splitlines() if line.strip().startswith(f"{key} =")]
    expect(len(lines) == 1 and lines[0].endswith("s"), f"no {key} in seconds")
    return int(lines[0][:-1])


def check_server(objects):
    """The parts of webserverd.yaml refer to each other."""
    expect(sorted(one["kind"] for one in objects) == KINDS, "other kinds of objects than expected")
    deployment, service = find(objects, "Deployment"), find(objects, "Service")
    config, budget = find(objects, "ConfigMap"), find(objects, "PodDisruptionBudget")
    scaler = find(objects, "HorizontalPodAutoscaler")
    pod = deployment["spec"]["template"]
    container, = pod["spec"]["containers"]
    labels = pod["metadata"]["labels"]
    policy = find(objects, "NetworkPolicy")["spec"]
    for selector in (deployment["spec"]["selector"]["matchLabels"], service["spec"]["selector"],
                     budget["spec"]["selector"]["matchLabels"], policy["podSelector"]["matchLabels"]):
        expect(selector.items() <= labels.items(), f"selector {selector} does not select the pods")
    target = scaler["spec"]["scaleTargetRef"]
    expect(all(target[key] == value for key, value in (("kind", "Deployment"), ("apiVersion", deployment["apiVersion"]),
                                                       ("name", deployment["metadata"]["name"]))), "the autoscaler's target")
    expect("replicas" not in deployment["spec"], "the deployment and the autoscaler both set the replicas")
    expect(budget["spec"]["maxUnavailable"] < scaler["spec"]["minReplicas"], "the budget lets all pods go at once")

    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    ini = config["data"]["webserver.ini"]
    for name, section in (("http", "server"), ("metrics", "metrics")):
        expect(f"listen = *:{ports[name]}" in ini.split(f"[{section}]")[1].split("[")[0], f"port {name} and [{section}] differ")
    expect(service["spec"]["ports"][0]["targetPort"] == "http", "the port of the service")
    expect(pod["metadata"]["annotations"]["prometheus.io/port"] == str(ports["metrics"]), "the port of the annotation")
    expect({port["port"] for rule in policy["ingress"] for port in rule["ports"]} == set(ports), "the ports of the policy")
    checksum = hashlib.sha256(ini.encode()).hexdigest()
    expect(pod["metadata"]["annotations"]["checksum/configuration"] == checksum, f"the checksum of webserver.ini is {checksum}")
    for name in ("startupProbe", "readinessProbe", "livenessProbe"):
        path = container[name]["httpGet"]["path"]
        expect(container[name]["httpGet"]["port"] == "metrics", f"port of {name}")
        expect(path == ("/healthz" if name == "livenessProbe" else "/readyz"), f"path of {name}")
    word, pause = container["lifecycle"]["preStop"]["exec"]["command"]
    expect(word == "sleep" and int(pause) + 2 * seconds(ini, "drain_timeout") <
           pod["spec"]["terminationGracePeriodSeconds"], "the grace period is shorter than preStop and drain_timeout")
    mounts = {mount["name"] for mount in container["volumeMounts"]}
    expect(mounts == {volume["name"] for volume in pod["spec"]["volumes"]}, "volumes and their mounts differ")
    return ini


def free_port():
    """A port that no other program gets by chance: below those that the kernel gives to connections."""
    while True:
        port = random.randrange(10000, 32000)
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            return port


def check_configuration(programs, ini):
    """webserverd -t accepts it, and serves with it; only directories and ports differ. Yields the port."""
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory)
        path.chmod(0o755)
        (path / "www").mkdir()
        (path / "www/index.html").write_text("page")
        (path / "webserver.ini").write_text(ini)
        port, probes = free_port(), free_port()
        command = [programs / "webserverd", "-f", path / "webserver.ini", "-o", f"server.root={path}/www", "-o",
                   f"server.run_dir={path}/run", "-o", f"server.listen=127.0.0.1:{port}", "-o",
                   f"metrics.listen=127.0.0.1:{probes}", "-o", f"server.name=kubernetes-{port}"]
        checked = subprocess.run([*command, "-t"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        expect(checked.returncode == 0, checked.stdout.decode())
        server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            give_up = time.monotonic() + PATIENCE_S
            while socket.socket().connect_ex(("127.0.0.1", probes)) != 0:
                expect(time.monotonic() < give_up, "webserverd does not listen")
                time.sleep(0.05)
            yield port
        finally:
            server.terminate()
            expect(server.wait(PATIENCE_S) == 0, "exit status of webserverd")


def check_load(programs, objects, port):
    """Runs what two pods of the job would."""
    job = find(objects, "Job")["spec"]
    expect(job["completions"] == job["parallelism"], "the pods do not run at the same time")
    container, = job["template"]["spec"]["containers"]
    words, = container["args"]
    words = words.replace("http://webserverd/", f"http://127.0.0.1:{port}/").replace("wsload ", f"'{programs}/wsload' ")
    expect("-d 30s" in words and "/dev/termination-log" in words, "the command of the job")
    patience = f"--connect-timeout {PATIENCE_S}s --grace {PATIENCE_S}s"  # processes may be stopped
    words = words.replace("-d 30s", f"-d 1s --think 50ms {patience}")
    with tempfile.TemporaryDirectory() as directory:
        reports = [pathlib.Path(directory) / f"{number}.json" for number in range(2)]
        pods = []
        for report in reports:
            message = report.with_suffix(".message")
            with open(report, "wb") as out:
                command = words.replace("/dev/termination-log", f"'{message}'")
                pods.append((subprocess.Popen([*container["command"], command], stdout=out), message))
        for pod, message in pods:
            expect(pod.wait(PATIENCE_S) == 0, f"wsload failed: {message.read_text()}")
        merged = subprocess.run([programs / "wsload", "merge", "--json", *reports], stdout=subprocess.PIPE, check=True,
                                timeout=PATIENCE_S)
        answered = [json.loads(text)["requests"]["answered"] for text in [merged.stdout, *(one.read_text() for one in reports)]]
        expect(answered[0] == sum(answered[1:]) > 0, f"the merged report has other requests: {answered}")


def main():
    if importlib.util.find_spec("yaml") is None:
        print("PyYAML is not installed")
        return 77
    import yaml  # pylint: disable=import-outside-toplevel
    programs, examples = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2])
    server, load = (list(yaml.safe_load_all((examples / name).read_text())) for name in ("webserverd.yaml", "wsload.yaml"))
    check_schemas(server + load)
    for port in check_configuration(programs, check_server(server)):
        check_load(programs, load, port)
    print("the examples for Kubernetes are consistent")
    return 0


sys.exit(main())
