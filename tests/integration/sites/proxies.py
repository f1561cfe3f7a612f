"""[proxy]: the addresses of clients behind proxies, by the PROXY protocol and by fields of requests."""
import contextlib
import ipaddress
import os
import shutil
import signal
import socket
import subprocess
import threading

from harness import Exchange, client_context
from site_server import PATIENCE_S, VERSIONS, SiteServer, expect, expect_in, has_ended, run, test, until

SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"
ORDINARY, PROXIED, OVER_TLS = range(3)  # the addresses of a server, in this order
LISTEN = "127.0.0.1:0 127.0.0.2:0 https://127.0.0.3:0"
NAMES = "127.0.0.2:0 127.0.0.3:0"


def line(client, version="TCP4", server="10.0.0.1"):
    """A header of version 1."""
    return f"PROXY {version} {client} {server} 40000 443\r\n".encode()


def block(client, command=1, more=b""):
    """A header of version 2. MORE: type-length-values."""
    address = ipaddress.ip_address(client)
    addresses = address.packed + bytes(len(address.packed)) + b"\x9c\x40\x01\xbb" + more
    family = 0x11 if address.version == 4 else 0x21
    return SIGNATURE + bytes((0x20 | command, family)) + len(addresses).to_bytes(2, "big") + addresses


def proxied_server(bench, text="", trusted="127.0.0.0/8", names=NAMES):
    return SiteServer(bench, f"[tls]\ncertificate = {bench.path('ec.pem')}\nkey = {bench.path('ec.key')}\n"
                      f"[proxy]\nlisten = {names}\ntrusted = {trusted}\n{text}", LISTEN)


def connect(server, address=PROXIED, source="127.0.0.1"):
    return socket.create_connection((f"127.0.0.{address + 1}", server.ports["all"][address]), PATIENCE_S, (source, 0))


def begin(server, header, address=PROXIED, split=False, source="127.0.0.1"):
    """A connection that has sent HEADER, byte by byte if SPLIT, and finished its TLS handshake."""
    stream = connect(server, address, source)
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for part in [header[at:at + 1] for at in range(len(header))] if split else [header]:
        stream.sendall(part)
    if address == OVER_TLS:
        stream = client_context(None, None, None).wrap_socket(stream, server_hostname="localhost", suppress_ragged_eofs=False)
    return stream


def status(server, header, target, **more):
    with begin(server, header, **more) as stream:
        return Exchange(stream).get(target)[0]


def answers(server, header, target, **more):
    """True if the request is answered 200, false if the connection is closed."""
    try:
        return status(server, header, target, **more) == 200
    except (AssertionError, OSError):
        return False


def is_closed(stream):
    """Waits for the end of the connection. True if it brought no byte."""
    try:
        return stream.recv(1000) == b""
    except ConnectionResetError:
        return True


def total(server, name):
    return server.status()["metrics"][name]


def expect_logged(server, target, client):
    until(lambda: any(client == entry.split()[0] for entry in server.log().splitlines() if target in entry),
          f"{target} logged for {client}")


class Relay:
    """A proxy: connections to its port reach PORT at 127.0.0.HOST, after HEADER."""

    def __init__(self, host, port, header):
        self.to, self.header = (f"127.0.0.{host}", port), header
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]

    def __enter__(self):
        threading.Thread(target=self.accept, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                client = self.listener.accept()[0]
                server = socket.create_connection(self.to)
                server.sendall(self.header)
                for one, other in ((client, server), (server, client)):
                    threading.Thread(target=self.copy, args=(one, other), daemon=True).start()

    @staticmethod
    def copy(one, other):
        with contextlib.suppress(OSError):
            while data := one.recv(65536):
                other.sendall(data)
            other.shutdown(socket.SHUT_WR)


@test
def proxy_header_names_the_client(bench):
    rules = "[access /p]\nallow = 192.0.2.7 2001:db8::/32\n"
    headers = {"192.0.2.7": (line("192.0.2.7"), block("192.0.2.7"), block("192.0.2.7", more=b"\x04\0\x04pad!" * 300),
                             line("::ffff:192.0.2.7", "TCP6", "::1")),
               "2001:db8::9": (line("2001:db8::9", "TCP6", "::1"), block("2001:db8::9")),
               "192.0.2.8": (line("192.0.2.8"), block("192.0.2.8")),
               "127.0.0.1": (b"PROXY UNKNOWN\r\n", block("192.0.2.7", command=0))}
    number = 0
    for dispatch in ("kernel", "master"):
        server = proxied_server(bench, f"[workers]\ndispatch = {dispatch}\n{rules}")
        server.put("www/p/f", "file")
        with server:
            for client, forms in headers.items():
                for header in forms:
                    for more in ({}, {"split": len(header) < 200}, {"address": OVER_TLS}):
                        number += 1
                        allowed = client in ("192.0.2.7", "2001:db8::9")
                        expect(status(server, header, f"p/f?{number}", **more), 200 if allowed else 403,
                               f"{header[:60]!r} {more}")
                        expect_logged(server, f"/p/f?{number} ", client)
            expect(total(server, "proxy_headers"), 3 * sum(map(len, headers.values())), "counter of headers")
            expect(server.get("/").status, 200, "the address without headers")
            expect_in("listen = ", run(*server.command("-T")).split("[proxy]")[1], "-T")


@test
def proxy_header_comes_before_http2(bench):
    server = proxied_server(bench, "[access /]\nallow = 192.0.2.7\n")
    server.put("www/f", "file")
    with server:
        for address, scheme, version in ((PROXIED, "http", "--http2-prior-knowledge"), (PROXIED, "http", "--http1.1"),
                                         (OVER_TLS, "https", "--http2"), (OVER_TLS, "https", "--http1.1")):
            with Relay(address + 1, server.ports["all"][address], block("192.0.2.7")) as relay:
                got = run("curl", "-sSk", version, "--max-time", str(PATIENCE_S), "-w", " %{http_version} %{http_code}",
                          f"{scheme}://127.0.0.1:{relay.port}/f?{scheme}{version}")
            expect(got, f"file {'1.1' if version == '--http1.1' else '2'} 200", f"{scheme} {version}")
            expect_logged(server, f"/f?{scheme}{version} ", "192.0.2.7")


@test
def proxy_header_of_others_is_refused(bench):
    with proxied_server(bench, trusted="127.0.0.9 ::/0") as server:
        for address in (PROXIED, OVER_TLS):
            with connect(server, address) as stream:
                with contextlib.suppress(OSError):
                    stream.sendall(line("192.0.2.7"))
                expect(is_closed(stream), True, "closed")
        until(lambda: total(server, "proxy_failed_untrusted") == 2, "counter of untrusted peers")
        until(lambda: "closed: peer not in proxy.trusted: " in server.output(), "line in the error log")
        expect(status(server, line("192.0.2.7"), "", source="127.0.0.9"), 200, "of the trusted peer")


@test
def wrong_proxy_header_closes_the_connection(bench):
    wrong = [b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\x16\x03\x01\x02\0", b"PROXY TCP4 x y 1 2\r\n", b"PROXY TCP6 :: ::1 1 2\r\n",
             b"PROXY UNKNOWN " + 100 * b"x", SIGNATURE + b"\x11", SIGNATURE + b"\x21\x11\0\x04\1\1\1\1",
             SIGNATURE + b"\x21\x11\xff\xff"]
    with proxied_server(bench) as server:
        for count, header in enumerate(wrong, 1):
            with begin(server, header) as stream:
                expect(is_closed(stream), True, repr(header))
            until(lambda count=count: total(server, "proxy_failed_invalid") == count, "counter of invalid headers")
        for header in (line("192.0.2.7"), block("192.0.2.7")):
            with begin(server, header[:-1]) as stream:  # incomplete
                stream.shutdown(socket.SHUT_WR)
                expect(is_closed(stream), True, "closed")
        until(lambda: total(server, "proxy_failed_invalid") == len(wrong) + 2, "counter of invalid headers")
        connect(server).close()  # a check whether the port is open
        expect(status(server, line("192.0.2.7"), ""), 200, "the next one")
        expect(total(server, "proxy_failed_invalid"), len(wrong) + 2, "invalid headers after the check")
        until(lambda: "no valid PROXY header: " in server.output(), "line in the error log")


@test
def late_proxy_header_is_timed_out(bench):
    with proxied_server(bench, "[connections]\nheader_timeout = 3s\n") as server:
        with begin(server, line("192.0.2.7")[:-5]) as stream:
            expect(is_closed(stream), True, "closed")
        until(lambda: total(server, "proxy_failed_timeout") == 1, "counter of timeouts")


@test
def limits_count_the_named_client(bench):
    with proxied_server(bench, "[connections]\nmax_per_ip = 1\n[workers]\nprocesses = 1\n") as server:
        with begin(server, line("192.0.2.7")) as first, begin(server, line("192.0.2.8")) as second:
            expect([Exchange(stream).get("")[0] for stream in (first, second)], [200, 200], "one of each client")
            expect(status(server, line("192.0.2.7"), ""), 503, "a second one")
            with begin(server, b"PROXY UNKNOWN\r\n") as third, begin(server, b"PROXY UNKNOWN\r\n") as fourth:
                expect([Exchange(stream).get("")[0] for stream in (third, fourth)], [200, 200], "the proxy itself")
        until(lambda: answers(server, line("192.0.2.7"), ""), "after the close")
    with proxied_server(bench, "[ratelimit]\nenabled = on\nrequests_per_second = 1\nburst = 3\nexempt = 192.0.2.9\n") as server:
        for client, limited in (("192.0.2.7", True), ("192.0.2.8", True), ("192.0.2.9", False)):
            got = [status(server, block(client), "") for _ in range(40)]
            expect(got[:3], [200, 200, 200], client)
            expect(429 in got, limited, f"limit of {client}")


@test
def named_client_stays_when_the_connection_moves(bench):
    for dispatch in ("kernel", "master"):
        server = proxied_server(bench, f"[workers]\nprocesses = 2\nthreads = 2\ndispatch = {dispatch}\n"
                                       "[connections]\nheader_timeout = 1h\n[access /p]\nallow = 192.0.2.0/24\n")
        server.put("www/p/f", "file")
        with server:
            streams = [begin(server, line(f"192.0.2.{client}")) for client in range(1, 9)]
            exchanges = [Exchange(stream) for stream in streams]
            begun = begin(server, line("192.0.2.99")[:20])  # its header is not complete yet
            for step in ("no change", "threads 1", "threads 3", "workers 1", "workers 2", "reload"):
                if step != "no change":
                    server.control(*step.split())
                for client, exchange in enumerate(exchanges, 1):
                    target = f"p/f?{step.replace(' ', '-')}-{client}"
                    expect(exchange.get(target)[0], 200, f"{step}, client {client}")
                    expect_logged(server, f"/{target} ", f"192.0.2.{client}")
            expect(total(server, "connections_adopted") > 0, True, "some connections have moved")
            begun.sendall(line("192.0.2.99")[20:])
            expect(Exchange(begun).get("p/f?begun")[0], 200, "the header in two parts")
            expect_logged(server, "/p/f?begun ", "192.0.2.99")
            for stream in (*streams, begun):
                stream.close()


@test
def reload_changes_proxies(bench):
    server = proxied_server(bench, trusted="127.0.0.9")
    with server:
        tls = f"[tls]\ncertificate = {bench.path('ec.pem')}\nkey = {bench.path('ec.key')}\n"
        ordinary, proxied = server.ports["text"].split()[:2]
        with connect(server) as stream:
            expect(is_closed(stream), True, "untrusted")
        server.reload(f"{tls}[proxy]\nlisten = {proxied}\ntrusted = 127.0.0.1\n")
        until(lambda: answers(server, line("192.0.2.7"), "?trusted"), "trust")
        expect_logged(server, "/?trusted ", "192.0.2.7")
        server.reload(f"{tls}[proxy]\nlisten = {ordinary}\ntrusted = 127.0.0.1\n")
        until(lambda: answers(server, b"", ""), "an ordinary address")
        until(lambda: answers(server, line("192.0.2.8"), "?other", address=ORDINARY), "the other address")
        expect_logged(server, "/?other ", "192.0.2.8")
        expect_in("no proxy is trusted", server.reload(f"{tls}[proxy]\nlisten = {ordinary}\n"), "a reload with an error")


@test
def upgrade_keeps_proxied_addresses(bench):
    with proxied_server(bench) as server:
        old = server.status()["pid"]
        os.kill(old, signal.SIGUSR2)
        file = server.directory / f"{server.name}.pid"
        new = until(lambda: int(file.read_text() or "0") not in (0, old) and int(file.read_text()), "the new master")
        expect(server.process.wait(PATIENCE_S), 0, "exit status of the old master")
        for address in (PROXIED, OVER_TLS):
            expect(status(server, block("192.0.2.7"), f"?upgraded-{address}", address=address), 200, "after the upgrade")
            expect_logged(server, f"/?upgraded-{address} ", "192.0.2.7")
        expect(server.get("/").status, 200, "the ordinary address")
        os.kill(new, signal.SIGTERM)
        until(lambda: has_ended(new), "the end of the new master")


@test
def activated_sockets_named_proxy_expect_headers(bench):
    server = proxied_server(bench, names="")
    with contextlib.ExitStack() as stack:
        listeners = [stack.enter_context(socket.create_server((f"127.0.0.{host}", 0))) for host in (1, 2, 3)]
        numbers = [os.dup(listener.fileno()) for listener in listeners]
        script = (" ".join(["exec", *(f"{3 + at}<&{number}" for at, number in enumerate(numbers))]) +
                  "; LISTEN_PID=$$ LISTEN_FDS=3 LISTEN_FDNAMES=http:proxy:proxy-https exec \"$@\"")
        command = ["/bin/bash", "-c", script, "sh", *map(str, server.command())]
        process = subprocess.Popen(command, pass_fds=numbers, stdout=subprocess.PIPE)
        try:
            process.stdout.readline()  # it serves
            server.ports = {"all": [listener.getsockname()[1] for listener in listeners]}
            expect(status(server, b"", "", address=ORDINARY), 200, "the ordinary socket")
            for address in (PROXIED, OVER_TLS):
                expect(status(server, line("192.0.2.7"), f"?activated-{address}", address=address), 200, "with a header")
                expect_logged(server, f"/?activated-{address} ", "192.0.2.7")
        finally:
            process.terminate()
        expect(process.wait(PATIENCE_S), 0, "exit status")
        process.stdout.close()
        refused = subprocess.run([*command, "-o", "proxy.trusted="], pass_fds=numbers, stdout=subprocess.PIPE,
                                 stderr=subprocess.STDOUT, timeout=PATIENCE_S, check=False)
        expect_in("a socket is named proxy, but [proxy] trusted names no proxy", refused.stdout.decode(), "without trust")
        expect(refused.returncode != 0, True, "exit status")
        for number in numbers:
            os.close(number)


@test
def peers_of_a_unix_socket_can_be_trusted(bench):
    for trusted, expected in (("unix:", True), ("0.0.0.0/0 ::/0", False)):
        path = f"{bench.directory}/proxied.sock"
        server = SiteServer(bench, f"[proxy]\nlisten = unix:{path}\ntrusted = {trusted}\n", f"127.0.0.1:0 unix:{path}")
        with server, socket.socket(socket.AF_UNIX) as stream:
            stream.settimeout(PATIENCE_S)
            stream.connect(path)
            with contextlib.suppress(BrokenPipeError):
                stream.sendall(line("192.0.2.7"))
            if expected:
                expect(Exchange(stream).get("?unix")[0], 200, "trusted")
                expect_logged(server, "/?unix ", "192.0.2.7")
            else:
                expect(is_closed(stream), True, "closed")


@test
def reload_refuses_to_change_a_unix_socket(bench):
    path = f"{bench.directory}/changed.sock"
    listen, other = f"127.0.0.1:0 unix:{path}", f"{bench.directory}/other.sock"
    tls = f"[tls]\ncertificate = {bench.path('ec.pem')}\nkey = {bench.path('ec.key')}\n"
    proxies = "[proxy]\nlisten = unix:{}\ntrusted = unix:\n"
    words = f"a reload cannot change https:// or proxy.listen of unix:{path}: use another path, or restart the server"

    def serves(unix, header=b""):
        with socket.socket(socket.AF_UNIX) as stream:
            stream.settimeout(PATIENCE_S)
            stream.connect(unix)
            stream.sendall(header)
            return Exchange(stream).get("")[0] == 200

    with SiteServer(bench, "", listen) as server:
        expect_in(words, server.reload(proxies.format(path)), "a header from now on")
        expect(serves(path), True, "the socket, as before")
        text = server.ports["text"]
        server.ports["text"] = text.replace("unix:", "https://unix:")
        expect_in(words, server.reload(tls), "TLS from now on")
        expect(serves(path), True, "the socket, as before")
        server.ports["text"] = text.replace(path, other)
        expect_in("reloaded", server.reload(proxies.format(other)), "another path")
        expect(serves(other, line("192.0.2.7")), True, "the other socket")
        server.ports["text"] = text
        expect_in("reloaded", server.reload(""), "the first path again")
        expect(serves(path), True, "the first socket")


@test
def field_of_trusted_proxy_names_the_client_of_each_request(bench):
    text = "[proxy]\ntrusted = 127.0.0.1 10.0.0.0/8\nfield = {}\n[access /p]\nallow = 192.0.2.7 2001:db8::7\n"
    for field, values in (
            ("X-Forwarded-For", {"192.0.2.7": "192.0.2.7", "192.0.2.8": "192.0.2.7, 192.0.2.8", "2001:db8::7": "2001:db8::7, 10.2.3.4",
                                 "127.0.0.1": "192.0.2.7, unknown"}),
            ("Forwarded", {"192.0.2.7": "for=192.0.2.7;proto=https", "192.0.2.8": "for=192.0.2.7, for=192.0.2.8",
                           "2001:db8::7": 'for="[2001:db8::7]:80", for=10.2.3.4', "127.0.0.1": "for=unknown"})):
        server = SiteServer(bench, text.format(field))
        server.put("www/p/f", "file")
        with server:
            for version in VERSIONS:
                for client, value in values.items():
                    for _ in range(2):  # from the file, then from the cache
                        target = f"/p/f?{client}{version}"
                        got = server.get(target, f"{field}: {value}", version=version).status
                        expect(got, 200 if client in ("192.0.2.7", "2001:db8::7") else 403, f"{target} {value}")
                    expect_logged(server, f"{target} ", client)
                expect(server.get("/p/f", version=version).status, 403, "without the field")
                got = server.get(f"/p/f?other{version}", f"{field}: {values['192.0.2.7']}", source="127.0.0.2", version=version)
                expect(got.status, 403, "of an untrusted peer")
                expect_logged(server, f"/p/f?other{version} ", "127.0.0.2")


@test
def requests_of_one_connection_have_their_own_clients(bench):
    server = SiteServer(bench, "[proxy]\ntrusted = 127.0.0.1\nfield = X-Forwarded-For\n[connections]\nmax_per_ip = 1\n"
                               "[ratelimit]\nenabled = on\nrequests_per_second = 1\nburst = 2\nexempt = 192.0.2.9\n")
    with server, connect(server, ORDINARY) as stream, connect(server, ORDINARY) as other:
        exchange = Exchange(stream)
        expect(Exchange(other).get("", X_Forwarded_For="192.0.2.1")[0], 200, "a second connection of the proxy")
        for number in range(2, 8):
            exchange.send(f"?{number}", X_Forwarded_For=f"192.0.2.{number}")  # at once
        expect([exchange.receive()[0] for _ in range(2, 8)], 6 * [200], "each client once")
        for number in range(2, 8):
            expect_logged(server, f"/?{number} ", f"192.0.2.{number}")
        got = {client: [exchange.get("", X_Forwarded_For=client)[0] for _ in range(40)] for client in ("192.0.2.8", "192.0.2.9")}
        expect([429 in statuses for statuses in got.values()], [True, False], "limited")


@test
def failed_logins_count_for_the_client_that_the_request_names(bench):
    if shutil.which("htpasswd") is None:
        return
    server = SiteServer(bench, "[proxy]\ntrusted = 127.0.0.1\nfield = X-Forwarded-For\n[limits]\nfailed_logins = 3\n"
                               "[workers]\nprocesses = 1\n[access /p]\nusers = @/staff\n")
    run("htpasswd", "-cbB", "-C", "4", server.directory / "staff", "ann", "right")
    (server.directory / "staff").chmod(0o600)
    server.put("www/p/f", "file")
    with server:
        for version in VERSIONS:
            client = f"192.0.2.{VERSIONS.index(version) + 1}"
            got = [server.get("/p/f", f"X-Forwarded-For: {client}", login=("ann", f"wrong{number}"), version=version).status
                   for number in range(12)]
            expect(got[:3], [401, 401, 401], "wrong passwords")
            expect(429 in got, True, f"limit of {client}")
            expect(server.get("/p/f", "X-Forwarded-For: 192.0.2.99", login=("ann", "right"), version=version).status, 200,
                   "another client")


@test
def faults_of_proxies_are_reported(bench):
    for text, words in (("listen = 127.0.0.1:1\ntrusted = ::1\n", "[server] listen has no address '127.0.0.1:1'"),
                        ("listen = https://127.0.0.2:0\ntrusted = ::1\n", "[server] listen has no address 'https://127.0.0.2:0'"),
                        ("listen = 127.0.0.2:0\n", "no proxy is trusted"), ("trusted = 10.0.0.1/8\n", "10.0.0.1/8"),
                        ("trusted = haproxy\n", "'haproxy'"),
                        ("field = Forwarded\n", "no proxy is trusted"), ("field = X-Real-IP\ntrusted = ::1\n", "X-Forwarded-For"),
                        ("set_real_ip_from = ::1\n", "trusted")):
        expect_in(words, SiteServer(bench, f"[proxy]\n{text}", "127.0.0.1:0 127.0.0.2:0").check(), text)
