"""The first minutes: a start without a configuration, and what a failed start says."""
import json
import os
import socket
import subprocess

from site_server import HTTP1, PATIENCE_S, SiteServer, expect, expect_in, run, test, until


def start(bench, directory, *words):
    directory.mkdir()
    name = f"first-{os.getpid()}-{directory.name}"
    command = [bench.programs / "webserverd", "-o", f"server.name={name}", "-o", f"server.run_dir={directory.parent}",
               *words]
    with open(directory.parent / f"{name}.said", "wb") as said:
        return subprocess.Popen(command, cwd=directory, stdout=said, stderr=said), directory.parent / f"{name}.said"


@test
def working_directory_is_served_without_a_configuration(bench):
    directory = bench.directory / "first"
    process, said = start(bench, directory, "-o", "server.listen=127.0.0.1:0")
    (directory / "hello.txt").write_text("hello")
    until(lambda: " per worker\n" in said.read_text(), "the start")
    line = next(line for line in said.read_text().splitlines() if " serves /" in line)
    expect_in(f"serves {directory} on 127.0.0.1:", line, "the announcement")
    port = line.split(" on ")[1].split(": ")[0]
    expect(run("curl", "-sS", f"http://{port}/hello.txt"), "hello", "a file")
    expect_in(">hello.txt</a>", run("curl", "-sS", f"http://{port}/"), "the list of files")
    process.terminate()
    expect(process.wait(PATIENCE_S), 0, "exit status")
    expect_in('"GET /hello.txt HTTP/1.1" 200', said.read_text(), "the access log on standard output")
    expect(os.listdir(directory), ["hello.txt"], "files in the directory")


@test
def default_configuration_is_unchanged_with_a_root(bench):
    shown = run(bench.programs / "webserverd", "-T", "-o", f"server.root={bench.site}")
    expect_in("\nautoindex = off\n", shown, "autoindex")
    expect_in("/access.log\n", shown, "the access log")
    shown = run(bench.programs / "webserverd", "-T")
    for words in ("\nautoindex = on\n", "\naccess = -\n", "\nlisten = 127.0.0.1:8080\n"):
        expect_in(words, shown, "without a file")


@test
def taken_port_is_reported_in_one_line(bench):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        process, said = start(bench, bench.directory / "taken", "-o", f"server.listen=127.0.0.1:{port}")
        expect(process.wait(PATIENCE_S), 1, "exit status")
    text = said.read_text()
    expect_in(f"127.0.0.1:{port}", text, "the address")
    expect(len(text.splitlines()), 1, f"lines of {text!r}")
    expect_in("server.listen", text, "the way out")


@test
def logs_are_sampled_json_and_a_watched_file_is_reloaded(bench):
    text = "include = more.ini\nsample = 3\nformat = json\nfields = coding request_id\nerror = @/errors\nerror_format = json\n[server]\nwatch = on\n" \
        "[host one.example]\n[host two.example *.two.example]\n"
    server = SiteServer(bench, text)
    more = server.directory / "more.ini"
    more.write_text("[workers]\nprocesses = 1\n")
    with server:
        server.put("www/page.html", "page")
        statuses = [server.get(path, version=HTTP1).status for path in ["/page.html"] * 7 + ["/none"] * 2]
        expect(statuses, [200] * 7 + [404] * 2, "statuses")
        until(lambda: server.log().count("\n") == 5, "a third of the successful requests, and all others")
        expect(sorted(json.loads(line)["status"] for line in server.log().splitlines()), [200] * 3 + [404] * 2, "lines")
        for host in ("one.example", "a.two.example", "other.example"):
            server.get("/none", host=host, version=HTTP1)
        until(lambda: server.log().count("\n") == 8, "three more")
        hosts = [(line["host"], line.get("requested_host")) for line in map(json.loads, server.log().splitlines()[5:])]
        expect(sorted(hosts, key=str), [("*", "other.example"), ("one.example", None), ("two.example", "a.two.example")], "hosts")
        server.put("www/404.html.gz", "coded")
        server.get("/404.html.gz/", "X-Request-ID: 5f0c\"1", "x-request-id: 2", version=HTTP1)
        until(lambda: server.log().count("\n") == 9, "one more")
        expect(json.loads(server.log().splitlines()[8])["request_id"], '5f0c"1', "request ID")
        more.write_text("[workers]\nprocesses = 3\n")
        until(lambda: server.status()["workers"]["wanted"] == 3, "the reload")
        errors = server.directory / "errors"
        until(lambda: "reload, as its file is another one" in errors.read_text(), "the event")
        messages = [json.loads(line) for line in errors.read_text().splitlines()]
        expect("reload, as its file is another one" in [one["message"] for one in messages], True, "the message")
        expect({(one["level"], one["process"]) for one in messages}, {("info", "master")}, "levels and processes")
