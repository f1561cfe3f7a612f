"""Hosts: each name gets its own root and values; caches keep them apart; misdirected requests get 421."""
import os
import pathlib
import socket

from harness import client_context
from site_server import PATIENCE_S, Response, SiteServer, expect, expect_in, run, test, until, x509

TWO = """
[host one.example www.one.example]
root = @/one
index = start.html
hsts = max-age=60
[host two.example *.two.example]
root = @/two
fallback = /index.html
error_pages = /oops
autoindex = on
[host deep.two.example]
root = @/deep
[headers]
X-For = all
X-Kept = yes
[headers *.txt]
X-Text = general
[headers host one.example]
X-For = one
X-Text = of one
[headers host two.example /sub]
X-Sub = two
"""


def two_sites(bench, more="", **settings):
    server = SiteServer(bench, TWO + more, **settings)
    for name in ("one", "two", "deep"):
        server.put(f"{name}/same.txt", name)
    server.put("www/same.txt", "default")
    server.put("one/start.html", "start of one")
    server.put("two/index.html", "app of two")
    server.put("two/oops/404.html", "two has no such file")
    server.put("two/sub/file", "sub")
    server.put("two/list/a", "")
    return server


@test
def names_select_root_and_values(bench):
    with two_sites(bench) as server:
        for host, body in (("one.example", "one"), ("WWW.One.Example", "one"), ("one.example:8080", "one"),
                           ("one.example.", "one"), ("two.example", "two"), ("a.two.example", "two"),
                           ("a.b.two.example", "two"), ("deep.two.example", "deep"), ("x.deep.two.example", "two"),
                           ("xtwo.example", "default"), (".two.example", "default"), ("one.example.org", "default"),
                           ("other.example", "default"), ("127.0.0.1", "default"), ("[::1]:80", "default"),
                           ("a" * 300 + ".two.example", "default")):
            for _ in range(2):  # from the file, then from the caches
                server.expect("/same.txt", 200, body, host=host)
        server.expect("/", 200, "start of one", host="one.example")
        server.expect("/route/of/app", 200, "app of two", host="two.example")
        server.expect("/no.file", 404, "two has no such file", host="two.example")
        server.expect("/route/of/app", 404, host="one.example")
        expect_in(">a</a>", server.get("/list/", host="two.example").body.decode(), "listing")
        expect(server.get("/sub/", host="www.one.example").status, 404, "a directory of another host")


@test
def header_lines_of_a_host_come_first(bench):
    with two_sites(bench) as server:
        response = server.expect("/same.txt", 200, host="one.example")
        expect((response["x-for"], response["x-kept"], response["x-text"]), ("one", "yes", "of one"), "of one.example")
        response = server.expect("/same.txt", 200, host="two.example")
        expect((response["x-for"], response["x-kept"], response["x-text"]), ("all", "yes", "general"), "of two.example")
        expect(server.expect("/sub/file", 200, host="two.example")["x-sub"], "two", "below /sub")
        expect(server.expect("/sub/file", 404, host="one.example")["x-sub"], None, "of the other host")


@test
def connection_carries_requests_for_all_hosts(bench):
    with two_sites(bench) as server, socket.create_connection(("127.0.0.1", server.port), PATIENCE_S) as stream:
        reader = stream.makefile("rb")
        for _ in range(3):
            for host, body in (("one.example", b"one"), ("two.example", b"two"), ("no.example", b"default")):
                stream.sendall(f"GET /same.txt HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
                head = b""
                while not head.endswith(b"\r\n\r\n"):
                    head += reader.readline()
                response = Response(head[:-4], b"")
                expect(reader.read(int(response["content-length"])), body, host)
        stream.sendall(b"GET http://two.example/same.txt HTTP/1.1\r\nHost: one.example\r\nConnection: close\r\n\r\n")
        expect(reader.read().endswith(b"\r\n\r\ntwo"), True, "the absolute form replaces Host")
        with socket.create_connection(("127.0.0.1", server.port), PATIENCE_S) as old:
            old.sendall(b"GET /same.txt HTTP/1.0\r\nConnection: keep-alive\r\n\r\nGET /same.txt HTTP/1.0\r\n\r\n")
            expect(old.makefile("rb").read().count(b"\r\n\r\ndefault"), 2, "requests without Host")


@test
def missing_file_of_one_host_is_not_missing_in_another(bench):
    with two_sites(bench) as server:
        server.put("one/only.txt", "only one has it")
        for _ in range(3):
            server.expect("/only.txt", 404, host="deep.two.example")
            server.expect("/only.txt", 200, "only one has it", host="one.example")


@test
def reload_adds_and_removes_hosts(bench):
    with two_sites(bench) as server:
        server.put("three/same.txt", "three")
        server.expect("/same.txt", 200, "default", host="three.example")
        expect_in("reloaded", server.reload(TWO + "[host three.example]\nroot = @/three\n"), "reload")
        server.expect("/same.txt", 200, "three", host="three.example")
        server.reload("[host three.example]\nroot = @/three\n")
        server.expect("/same.txt", 200, "three", host="three.example")
        server.expect("/same.txt", 200, "default", host="one.example")


@test
def default_host_answers_unknown_names(bench):
    server = two_sites(bench, "[server]\ndefault_host = two.example\n")
    with server:
        server.expect("/same.txt", 200, "two", host="other.example")
        server.expect("/same.txt", 200, "one", host="one.example")
        server.expect("/app", 200, "app of two", host="127.0.0.1")


@test
def faults_of_hosts_are_reported(bench):
    for text, words in (("[host]\nroot = @/www\n", "the host has no name"),
                        ("[host a..b]\n", "the section does not take this argument"),
                        ("[host *.*.example]\n", "the section does not take this argument"),
                        ("[host a.example:80]\n", "the section does not take this argument"),
                        ("[host a.example]\nrot = @/www\n", "did you mean 'root'?"),
                        ("[host a.example]\nlisten = *:80\n", "valid keys: root index"),
                        ("[host a.example]\nroot = @/www\nroot = @/www\n", "'root' is already set on line"),
                        ("[host a.example]\nroot = @/nothing\n", "/nothing: No such file or directory"),
                        ("[host a.example]\nindex = a/b\n", "'a/b' is not a file name"),
                        ("[host a.example]\nfallback = x\n", "'x' is not a path of requests"),
                        ("[host a.example b.example]\n[host c.example b.example]\n", "two hosts have the name 'b.example'"),
                        ("[host a.example]\nkey = @/k\n", "[host] has 0 certificates and 1 keys"),
                        ("[host www.example.org]\n[headers host ww.example.org]\nX = 1\n", "did you mean 'www.example.org'?"),
                        ("[server]\ndefault_host = b.example\n[host a.example]\n", "there is no [host b.example]"),
                        ("[hosts a.example]\n", "did you mean [host]?")):
        expect_in(words, SiteServer(bench, text).check(), text)
    server = SiteServer(bench, "[host a.example b.example]\nindex = x.html\n"
                        "[headers host a.example /p]\nX-A = 1\n")
    expect_in("is valid", server.check(), "valid hosts")
    dumped = run(*server.command("-T"))
    file = f"{server.directory}/webserver.ini"
    for words in (f"[host a.example b.example]\n# {file}:7\nindex = x.html\n",
                  f"[headers host a.example /p]\n# {file}:9\nX-A = 1\n"):
        expect_in(words, dumped, "-T")


@test
def reload_reads_included_files_and_the_first_environment(bench):
    os.environ["SITE_OF_TEST"] = "one"
    server = SiteServer(bench, "include = conf.d/*.ini\n[workers]\nprocesses = 1\n")
    for name in ("one", "two"):
        server.put(f"{name}/file", name)
    server.put("conf.d/a.ini", "[host ${SITE_OF_TEST}.example]\nroot = ../${SITE_OF_TEST}\n")
    with server:
        os.environ["SITE_OF_TEST"] = "two"
        server.expect("/file", 200, "one", host="one.example")
        server.put("conf.d/b.ini", "[host b.${SITE_OF_TEST}.example]\nroot = ../two\n")
        server.control("reload")
        server.expect("/file", 200, "two", host="b.one.example")
        server.expect("/file", 200, "one", host="one.example")
        server.put("conf.d/c.ini", "[host c.example]\nroot = none\n")
        expect_in("conf.d/c.ini:2", server.control("reload", check=False), "a bad included file")
        expect(run(*server.command("-t"), check=False).count("conf.d/c.ini:2:8: error: "), 1, "the same of -t")
        server.expect("/file", 200, "two", host="b.one.example")


@test
def container_needs_only_its_environment(bench):
    file = pathlib.Path(__file__).resolve().parents[3] / "etc/container.ini"
    environment = {"PORT": "8123", "WEB_ROOT": str(bench.site), "LOG_FORMAT": "json"}
    shown = run("env", "-i", *(f"{name}={value}" for name, value in environment.items()), bench.programs / "webserverd",
                "-f", file, "-T")
    for words in ("\nlisten = *:8123\n", f"\nroot = {bench.site}\n", "\nformat = json\n", "\nlevel = info\n"):
        expect_in(words, shown, "-T")


def tls_get(server, sni, host):
    with socket.create_connection(("127.0.0.1", server.ports["tls"]), PATIENCE_S) as plain, \
            client_context(None, None, None).wrap_socket(plain, server_hostname=sni) as stream:
        subject = common_name(stream)
        stream.sendall(f"GET /same.txt HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
        head, _, body = stream.makefile("rb").read().partition(b"\r\n\r\n")
        return subject, Response(head, body)


def common_name(stream):
    return x509.parse(stream.getpeercert(True)).subject


@test
def certificate_of_a_host_is_its_own_and_421_marks_others(bench):
    for name, names in (("one", ("one.example", "www.one.example")), ("two", ("two.example", "*.two.example"))):
        bench.make_certificate(name, "ec", names)
    text = "[tls]\ncertificate = {0}\nkey = {1}\n[host one.example]\ncertificate = {2}\nkey = {3}\n" \
           "[host two.example]\ncertificate = {4}\nkey = {5}\n".format(
               *(bench.path(f"{name}.{end}") for name in ("ec", "one", "two") for end in ("pem", "key")))
    with two_sites(bench, text, listen="127.0.0.1:0 https://127.0.0.1:0") as server:
        for sni, host, certificate, status in (
                ("one.example", "one.example", "one", 200), ("www.one.example", "one.example", "one", 200),
                ("a.two.example", "two.example", "two", 200), ("a.two.example", "b.two.example:443", "two", 200),
                ("one.example", "two.example", "one", 421), ("two.example", "one.example", "two", 421),
                ("one.example", "other.example", "one", 421), ("other.example", "other.example", "ec", 200),
                (None, "one.example", "ec", 200), ("other.example", "one.example", "ec", 421)):
            subject, response = tls_get(server, sni, host)
            expect((subject, response.status), (certificate, status), f"SNI {sni}, Host {host}")
        expect(tls_get(server, "one.example", "one.example")[1]["strict-transport-security"], "max-age=60", "hsts")
        expect(tls_get(server, "two.example", "two.example")[1]["strict-transport-security"], None, "no hsts")
        port = server.ports["tls"]
        for host, status in (("two.example", "200"), ("one.example", "421")):
            got = run("curl", "-sk", "--http2", "-o", "/dev/null", "-w", "%{http_code} %{http_version}", "--resolve",
                      f"two.example:{port}:127.0.0.1", "-H", f"Host: {host}", f"https://two.example:{port}/same.txt")
            expect(got, f"{status} 2", f"HTTP/2, {host}")


@test
def thousand_hosts_are_served(bench):
    text = "".join(f"[host h{i}.example *.h{i}.example]\nroot = @/h/{i}\n" for i in range(1000))
    server = SiteServer(bench, text)
    asked = (0, 1, 499, 999)
    for i in range(1000):
        (server.directory / "h" / str(i)).mkdir(parents=i == 0)
    for i in asked:
        server.put(f"h/{i}/same.txt", f"host {i}")
    with server:
        for i in asked:
            server.expect("/same.txt", 200, f"host {i}", host=f"h{i}.example")
            server.expect("/same.txt", 200, f"host {i}", host=f"x.h{i}.example")
        server.expect("/", 200, "default", host="h1000.example")


@test
def root_that_workers_may_not_enter_is_warned_of(bench):
    """Only root starts a server whose workers have less rights than itself."""
    if os.geteuid() != 0:
        return
    server = SiteServer(bench, "[host one.example]\nroot = @/one\n[host two.example]\nroot = @/two\n")
    server.put("one/page.txt", "one")
    server.put("two/page.txt", "two")
    (server.directory / "two").chmod(0o700)
    with server:
        until(lambda: "may not enter" in server.output(), "the warning")
        warning = next(line for line in server.output().splitlines() if "may not enter" in line)
        expect_in(f"may not enter {server.directory}/two: its files are answered 403", warning, "warning")
        expect(server.output().count("may not enter"), 1, "warnings")
        server.expect("/page.txt", 200, "one", host="one.example")
        server.expect("/page.txt", 403, host="two.example")
