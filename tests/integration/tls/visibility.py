"""What counters and log say about TLS."""
import json
import re
import ssl

from harness import Exchange, expect, expect_in, run, test, until
from probes import REFUSED_CIPHER
from sessions import full, is_resumed


POST_QUANTUM = ssl.OPENSSL_VERSION_INFO >= (3, 5)
GROUP = "X25519MLKEM768" if POST_QUANTUM else "x25519"  # that clients choose by default


def tls_counters(server):
    metrics = server.status()["metrics"]
    return {name[4:]: value for name, value in metrics.items() if name.startswith("tls_") and value > 0}


@test
def handshakes_are_counted_by_result(bench):
    path = bench.path("counted")
    with bench.start(connections__header_timeout="1h") as server:
        expect(tls_counters(server), {}, "counters before")
        stream = server.connect()
        Exchange(stream).get("small.txt")
        full(server, "-tls1_3", path)
        expect(is_resumed(server, "-tls1_3", path), True, "resumed")
        server.probe("-tls1_1", "-cipher", "DEFAULT@SECLEVEL=0")
        server.probe(*REFUSED_CIPHER.split())
        server.probe("-tls1_3", "-groups", "secp521r1")
        raw = server.raw()
        raw.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        head, _, body = raw.makefile("rb").read().partition(b"\r\n\r\n")
        expect((head[:12], len(body)), (b"HTTP/1.1 400", int(re.search(rb"Content-Length: (\d+)", head).group(1))), "a request without TLS")
        raw = server.raw()
        raw.sendall(b"\x16\x03\x01")
        raw.close()
        raw = server.raw()
        raw.sendall(bytes(100))
        server.probe("-verify_return_error")  # the client sends the alert "unknown CA"
        wanted = {"handshakes": 3, "resumed": 1, f"group_{GROUP.lower()}": 3, "failed_version": 1, "failed_cipher": 2, "failed_http": 1,
                  "failed_client": 2, "failed_other": 1, "open": 1}
        until(lambda: tls_counters(server) == wanted, f"{wanted}, not {tls_counters(server)}")
        figures = server.status()["figures"]
        expect((figures["tls_failed"], round(figures["tls_resumed_ratio"], 3)), (7, 0.333), "figures")
        expect(figures["tls_post_quantum_ratio"], int(POST_QUANTUM), "the share of X25519MLKEM768")
        until(lambda: "TLS handshakes failed: no common version: 1" in server.output(), "a line in the error log")
        stream.close()
        until(lambda: "open" not in tls_counters(server), "the end of the open connection")
    with bench.start(connections__header_timeout="3s") as server:
        raw = server.raw()
        raw.sendall(b"\x16\x03\x01")
        expect(raw.recv(1), b"", "a stalled handshake")
        until(lambda: tls_counters(server) == {"failed_timeout": 1}, "its counter")


@test
def json_log_names_version_and_cipher(bench):
    path = bench.path("logged")
    with bench.start("ec", "rsa", log__format="json") as server:
        log = server.directory / "access.log"

        def last():
            """The TLS members of the last line, after the next request."""
            count = log.read_text().count("\n") if log.exists() else 0
            yield
            until(lambda: log.exists() and log.read_text().count("\n") > count, "a line of the log")
            line = json.loads(log.read_text().splitlines()[-1])
            yield line.get("tls"), line.get("cipher"), line.get("tls_group"), line.get("resumed")

        def logged(request):
            step = last()
            next(step)
            request()
            return next(step)

        for ciphers, name in (("ECDHE-ECDSA-AES128-GCM-SHA256", "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"),
                              ("ECDHE-RSA-AES128-GCM-SHA256", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"),
                              ("ECDHE-ECDSA-AES256-GCM-SHA384", "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"),
                              ("ECDHE-RSA-AES256-GCM-SHA384", "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"),
                              ("ECDHE-ECDSA-CHACHA20-POLY1305", "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256"),
                              ("ECDHE-RSA-CHACHA20-POLY1305", "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256")):
            stream = server.connect(version=ssl.TLSVersion.TLSv1_2, ciphers=ciphers)
            expect(logged(lambda s=stream: Exchange(s).get("small.txt")), ("1.2", name, "x25519", False), ciphers)
        expect(logged(lambda: full(server, "-tls1_3", path)), ("1.3", "TLS_AES_256_GCM_SHA384", GROUP, False), "TLS 1.3")
        expect(logged(lambda: is_resumed(server, "-tls1_3", path)), ("1.3", "TLS_AES_256_GCM_SHA384", GROUP, True), "resumed")
        expect(logged(lambda: Exchange(server.raw(server.plain_port)).get("small.txt")), (None,) * 4, "no TLS")


@test
def each_group_is_negotiated_and_counted(bench):
    """By default the server requests a share of X25519MLKEM768 from a client that supports it and sends another one."""
    cases = [("x25519", "X25519", ""), ("secp256r1", "P-256", ""), ("secp384r1", "P-384", "")]
    cases += [("x25519mlkem768", "X25519:X25519MLKEM768", "-tls1_3"), ("x25519", "X25519:P-256", "-tls1_3")] if POST_QUANTUM else []
    with bench.start("ec", "rsa") as server:
        wanted = {}
        for name, offered, version in cases:
            for used in [version] if version else ["-tls1_2", "-tls1_3"]:
                server.probe(used, "-groups", offered)
                wanted[f"group_{name}"] = wanted.get(f"group_{name}", 0) + 1
                until(lambda w=wanted: {k: v for k, v in tls_counters(server).items() if k.startswith("group_")} == w,
                      f"{offered}, {used}: {wanted}")


@test
def aes128_is_preferred_on_request(bench):
    """Not to ChaCha20 if the client prefers that: it has no instructions for AES."""
    def cipher(server, offered):
        return re.search(r"Cipher is (\S+)", server.probe("-tls1_3", "-ciphersuites", ":".join(offered))).group(1)

    aes128, aes256, chacha = "TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"
    for setting, wanted in (("off", aes256), ("on", aes128)):
        with bench.start(tls__prefer_aes128=setting) as server:
            expect(cipher(server, [aes256, chacha, aes128]), wanted, f"prefer_aes128 = {setting}")
            expect(cipher(server, [chacha, aes256, aes128]), chacha, "a client that prefers ChaCha20")
            said = server.probe("-tls1_2", "-cipher", "ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-ECDSA-AES128-GCM-SHA256")
            expect_in(f"Cipher is ECDHE-ECDSA-AES{wanted[8:11]}-GCM", said, "TLS 1.2")


@test
def json_log_names_the_protocol(bench):
    with bench.start(log__format="json") as server:
        log = server.directory / "access.log"
        Exchange(server.connect()).get("small.txt")
        run("nghttp", "-n", f"https://127.0.0.1:{server.port}/page.txt")
        until(lambda: log.exists() and log.read_text().count("\n") == 2, "two lines of the log")
        lines = {line["request"]: line for line in map(json.loads, log.read_text().splitlines())}
        got = [(text, line.get("protocol"), line.get("streams"), line.get("tls")) for text, line in sorted(lines.items())]
        expect(got, [("GET /page.txt HTTP/2.0", "HTTP/2.0", 1, "1.3"), ("GET /small.txt HTTP/1.1", "HTTP/1.1", None, "1.3")],
               "requests, protocols, streams and versions of TLS")
