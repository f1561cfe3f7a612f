"""Document roots that are removed, moved or replaced: the server serves the directory that has the path by now."""
import os
import shutil
import signal

from harness import serving_pids
from site_server import SiteServer, expect, test, until

SITES = """
[workers]
processes = 2
[host one.example]
root = @/current
"""


def site(bench):
    server = SiteServer(bench, SITES)
    write_release(server, "www", "1")
    write_release(server, "release-1", "1")
    os.symlink(server.directory / "release-1", server.directory / "current")
    return server


def write_release(server, directory, text):
    for name in ("index.html", "errors/404.html", "page.css", "page.css.gz"):
        server.put(f"{directory}/{name}", f"{text} {name}")


def expect_release(server, host, text):
    """Waits for the release, which all workers then serve: requests in a row reach both."""
    until(lambda: server.get("/", host=host).body == f"{text} index.html".encode(), f"release {text} of {host}")
    for _ in range(4):
        server.expect("/", 200, f"{text} index.html", host=host)
        server.expect("/nothing", 404, f"{text} errors/404.html", host=host)
    coded = server.get("/page.css", "Accept-Encoding: gzip", host=host)
    expect((coded["content-encoding"], coded.body), ("gzip", f"{text} page.css.gz".encode()), "the precompressed file")


@test
def replaced_root_is_served(bench):
    """However it was replaced, and the counters stay."""
    with site(bench) as server:
        root, link, aside = (server.directory / name for name in ("www", "current", "aside"))

        def remove(text):
            shutil.rmtree(root)
            write_release(server, "www", text)

        def move(text):
            write_release(server, "next", text)
            root.rename(aside / text)
            (server.directory / "next").rename(root)

        def swap(text):
            write_release(server, f"release-{text}", text)
            os.symlink(server.directory / f"release-{text}", server.directory / "link")
            (server.directory / "link").rename(link)

        aside.mkdir()
        expect_release(server, "localhost", "1")
        for number, (host, replace) in enumerate((("localhost", remove), ("localhost", move), ("one.example", swap)), 2):
            replace(str(number))
            expect_release(server, host, str(number))
            replaced = link if host == "one.example" else root
            until(lambda line=f"document root {replaced} replaced, generation {number}": line in server.output(), "the event")
        expect(server.counted()["metrics"]["requests"] >= server.sent, True, "requests of all generations")
        server.control("restart", "all")
        expect_release(server, "localhost", "3")


@test
def removed_root_is_503_until_there_is_another(bench):
    with site(bench) as server:
        expect_release(server, "one.example", "1")
        shutil.rmtree(server.directory / "www")
        for target in ("/new", "/new/", "/page.css/x"):
            response = server.get(target)
            expect((response.status, response["retry-after"] is not None), (503, True), f"{target} without a root")
        until(lambda: server.get("/").status == 503, "the cached index to expire")
        until(lambda: f"document root {server.directory}/www is missing: No such file or directory" in server.output(), "the event")
        expect_release(server, "one.example", "1")
        server.put("www/index.html", "2")
        until(lambda: server.get("/").body == b"2", "the new root")
        server.expect("/new", 404)


@test
def worker_that_replaces_a_dead_one_serves_the_tree_of_its_siblings(bench):
    with site(bench) as server:
        root, aside = server.directory / "www", server.directory / "aside"
        root.rename(aside)
        until(lambda: "the directory that had this name is served" in server.output(), "the event")
        for _ in range(2):
            pids = serving_pids(server, 2)
            os.kill(pids[0], signal.SIGKILL)
            until(lambda dead=pids[0]: dead not in serving_pids(server, 2), "another worker")
        expect_release(server, "localhost", "1")
        aside.rename(root)
        until(lambda: f"document root {root} is back" in server.output(), "the event")
        expect(server.query("status")["generation"], 1, "the generation")
