"""Certificates: bad ones are refused, good ones are selected by name and replaced by a reload."""
import hashlib
import os
import pathlib
import shutil
import signal
import ssl
import threading
import time

from harness import Exchange, expect, expect_in, run, serving_pids, test, until
from sessions import resumption
from transfer import Download, SlowHandshake


def start_refused(bench, *words, **settings):
    return run(*bench.command(*words, server__name=f"bad-{os.getpid()}", server__run_dir=str(bench.directory),
                              **settings), check=False)


@test
def bad_pairs_are_refused_at_start(bench):
    pathlib.Path(bench.path("empty.pem")).write_text("")
    pathlib.Path(bench.path("cut.pem")).write_text("-----BEGIN CERTIFICATE-----\nAAAA\n")
    run("openssl", "pkey", "-in", bench.path("ec.key"), "-aes128", "-passout", "pass:x", "-out", bench.path("secret.key"))
    for certificate, key, message in (
            ("ec.pem", "other.key", "key values mismatch"), ("ec.pem", "rsa.key", "key type mismatch"),
            ("none.pem", "ec.key", "none.pem: No such file or directory"),
            ("ec.pem", "none.key", "none.key: No such file or directory"),
            ("empty.pem", "ec.key", "empty.pem: contains no certificate in PEM format"),
            ("cut.pem", "ec.key", "cut.pem: "),
            ("ec.key", "ec.key", "ec.key: contains no certificate in PEM format"),
            ("ec.pem", "ec.pem", "ec.pem: contains no private key in PEM format"),
            ("ec.pem", "secret.key", "secret.key: the private key is encrypted"),
            ("", "", "not a regular file")):
        settings = {"tls__certificate": bench.path(certificate), "tls__key": bench.path(key)}
        expect_in(message, start_refused(bench, **settings), f"{certificate} with {key}")
        expect_in(message, run(*bench.command(**settings), "-t", check=False), f"-t: {certificate} with {key}")


@test
def hsts_is_sent_over_tls_only(bench):
    value = "max-age=31536000; includeSubDomains"
    with bench.start(tls__hsts=value) as server:
        exchange, plain = Exchange(server.connect()), Exchange(server.raw(server.plain_port))
        for _ in range(2):
            tag = exchange.get("small.txt")[1]["etag"]
            for status, target, fields in ((200, "small.txt", {}), (304, "small.txt", {"If-None-Match": tag}),
                                           (206, "large.bin", {"Range": "bytes=0-9"}), (404, "nothing", {}),
                                           (200, "large.bin", {})):
                for connection, expected in ((exchange, value), (plain, None)):
                    got = connection.get(target, **fields)
                    expect((got[0], got[1].get("strict-transport-security")), (status, expected), f"{target} {fields}")
    with bench.start() as server:
        expect(Exchange(server.connect()).get("small.txt")[1].get("strict-transport-security"), None, "by default")


@test
def settings_that_do_not_fit_are_refused(bench):
    for settings, message in (
            ({"tls__certificate": "", "tls__key": ""}, "https:// needs a certificate"),
            ({"tls__key": f"{bench.path('ec.key')} {bench.path('rsa.key')}"}, "[tls] has 1 certificates and 2 keys"),
            ({"tls__hsts": "on"}, "'on' is not a value of Strict-Transport-Security"),
            ({"tls__hsts": "max-age=1, x"}, "is not a value of Strict-Transport-Security"),
            ({"tls__protocols": "old"}, "allowed: intermediate, modern"),
            ({"server__listen": "ftp://127.0.0.1:0"}, "has an unknown scheme")):
        expect_in(message, start_refused(bench, **settings), str(settings))


@test
def key_that_others_can_read_is_reported(bench):
    with bench.start() as server:
        expect("the private key" in server.output(), False, "a warning with mode 0600")
    shutil.copy(bench.path("ec.key"), bench.path("open.key"))
    os.chmod(bench.path("open.key"), 0o644)
    with bench.start(tls__key=bench.path("open.key")) as server:
        until(lambda: "open.key has mode 0644: other users may use it" in server.output(), "the warning")


@test
def certificate_of_an_authority_is_reported(bench):
    """As "openssl req -x509" makes it; that of --self-signed is none."""
    message = "localhost.pem is that of an authority (CA)"
    expect_in(message.replace("localhost", "ec"), run(*bench.command(), "-t"), "-t")
    with bench.start() as server:
        until(lambda: message.replace("localhost", "ec") in server.output(), "the warning")
    directory = bench.directory / "leaf"
    directory.mkdir()
    run(bench.programs / "webserverd", "--self-signed", directory)
    settings = {"tls__certificate": f"{directory}/localhost.pem", "tls__key": f"{directory}/localhost.key"}
    expect(message in run(*bench.command(**settings), "-t"), False, "a warning about a certificate of a server")


@test
def one_file_holds_certificate_and_key(bench):
    both = pathlib.Path(bench.path("both.pem"))
    both.touch(0o600)
    both.write_text(pathlib.Path(bench.path("ec.key")).read_text() + pathlib.Path(bench.path("ec.pem")).read_text())
    with bench.start(tls__certificate=str(both), tls__key="") as server:
        expect(server.certificate_name("localhost"), "ec", "the certificate")


@test
def self_signed_certificate_serves_localhost(bench):
    directory = bench.directory / "self"
    directory.mkdir()
    lines = run(bench.programs / "webserverd", "--self-signed", directory)
    expect(lines, f"[tls]\ncertificate = {directory}/localhost.pem\nkey = {directory}/localhost.key\n", "the output")
    expect((directory / "localhost.key").stat().st_mode & 0o7777, 0o600, "the mode of the key")
    with bench.start(tls__certificate=f"{directory}/localhost.pem", tls__key=f"{directory}/localhost.key",
                     server__listen="https://127.0.0.1:0") as server:
        for host in ("localhost", "127.0.0.1"):
            got = run("curl", "-sS", "--http1.1", "--cacert", directory / "localhost.pem",
                      "--resolve", f"localhost:{server.port}:127.0.0.1", f"https://{host}:{server.port}/small.txt")
            expect(got, "hello\n", f"curl to {host}")
    before = (directory / "localhost.key").read_bytes()
    expect_in("localhost.key: File exists", run(bench.programs / "webserverd", "-S", directory, check=False), "again")
    expect((directory / "localhost.key").read_bytes(), before, "the key after the second attempt")
    (directory / "localhost.key").unlink()
    expect_in("localhost.pem: File exists", run(bench.programs / "webserverd", "-S", directory, check=False), "half")
    expect((directory / "localhost.key").exists(), False, "a key without its certificate")
    expect_in("No such file or directory", run(bench.programs / "webserverd", "-S", bench.path("nowhere"), check=False),
              "no directory")


@test
def sni_selects_the_certificate(bench):
    with bench.start("ec", "other", "wild") as server:
        for host, name in (("localhost", "ec"), ("LOCALHOST", "ec"), ("other.example", "other"),
                           ("www.other.example", "other"), ("img.other.example", "wild"),
                           ("a.b.other.example", "ec"), ("unknown.example", "ec"), (None, "ec")):
            for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
                expect(server.certificate_name(host, version=version), name, f"the certificate for {host}")


@test
def client_gets_the_kind_of_key_that_it_verifies(bench):
    ecdsa, rsa = "ECDHE-ECDSA-AES128-GCM-SHA256", "ECDHE-RSA-AES128-GCM-SHA256"
    for order in (("ec", "rsa", "other"), ("rsa", "ec", "other")):
        with bench.start(*order) as server:
            for ciphers, name in ((ecdsa, "ec"), (rsa, "rsa")):
                expect(server.certificate_name("localhost", ciphers=ciphers, version=ssl.TLSVersion.TLSv1_2), name,
                       f"the certificate for {ciphers}")


def swap(bench, server, pair, name):
    for kind in ("pem", "key"):
        shutil.copy(bench.path(f"{pair}.{kind}"), bench.path(f"live.{kind}.new"))
        os.replace(bench.path(f"live.{kind}.new"), bench.path(f"live.{kind}"))
    server.control("reload")
    expect(server.certificate_name("localhost"), name, "the certificate after the reload")


@test
def replaced_certificate_is_used_without_a_command(bench):
    """Its key may be written later, and a bad pair is refused once."""
    for kind in ("pem", "key"):
        shutil.copy(bench.path(f"ec.{kind}"), bench.path(f"watched.{kind}"))
    with bench.start(tls__certificate=bench.path("watched.pem"), tls__key=bench.path("watched.key")) as server:
        expect(server.certificate_name("localhost"), "ec", "the certificate at first")
        shutil.copy(bench.path("later.pem"), bench.path("watched.pem"))
        until(lambda: "certificates unchanged: " in server.output(), "the refusal without the key")
        expect(server.certificate_name("localhost"), "ec", "the certificate without its key")
        shutil.copy(bench.path("later.key"), bench.path("watched.key"))
        until(lambda: "new certificates in use" in server.output(), "the event")
        expect(server.certificate_name("localhost"), "later", "the new certificate")
        os.unlink(bench.path("watched.pem"))
        server.control("restart", "all")
        expect(server.certificate_name("localhost"), "later", "the certificate without its file")
        expect(server.output().count("certificates unchanged: "), 1, "refusals")


@test
def reload_exchanges_certificates_under_load(bench):
    """Other clients get all their responses meanwhile."""
    failures, stop, done = [], threading.Event(), [0]
    for kind in ("pem", "key"):
        shutil.copy(bench.path(f"ec.{kind}"), bench.path(f"live.{kind}"))
    with bench.start(**{"tls__certificate": bench.path("live.pem"), "tls__key": bench.path("live.key"),
                        "workers__drain_timeout": "1h"}) as server:
        def load():
            try:
                exchange = Exchange(server.connect())
                while not stop.is_set():
                    status, fields, body = exchange.get("memory.bin")
                    expect((status, body == bench.files["memory.bin"]), (200, True), "a response under load")
                    done[0] += 1
                    if fields.get("connection") == "close":
                        exchange = Exchange(server.connect())
                    time.sleep(0.005)
            except Exception as error:  # pylint: disable=broad-except
                failures.append(repr(error))
        threads = [threading.Thread(target=load) for _ in range(4)]
        for thread in threads:
            thread.start()
        for pair in ("later", "ec", "later"):
            swap(bench, server, pair, pair)
        stop.set()
        for thread in threads:
            thread.join()
        expect(failures, [], "failed requests")
        expect(done[0] > 0, True, "requests")


@test
def reload_with_a_bad_pair_keeps_the_old_one(bench):
    with bench.start() as server:
        stream = Exchange(server.connect())
        server.set(tls__key=bench.path("other.key"))
        expect_in("key values mismatch", server.control("reload", check=False), "the refusal")
        before = server.output().count("configuration unchanged: [tls] certificate: ")
        os.kill(server.status()["pid"], signal.SIGHUP)
        until(lambda: server.output().count("configuration unchanged: [tls] certificate: ") > before, "the event")
        expect(server.certificate_name("localhost"), "ec", "the certificate")
        status, fields, _ = stream.get("small.txt")
        expect((status, fields.get("connection")), (200, None), "the open connection")
        server.set(**{key.replace(".", "__"): value for key, value in bench.pair("later").items()})
        server.control("reload")
        expect(server.certificate_name("localhost"), "later", "the certificate after a good reload")


@test
def reloads_during_checks_of_certificates_end(bench):
    """The master does not wait for the checks, so other reloads, renewals and commands come meanwhile."""
    shutil.copy(bench.path("ec.pem"), bench.path("renewed.pem"))
    shutil.copy(bench.path("ec.key"), bench.path("renewed.key"))
    with bench.start(tls__certificate=bench.path("renewed.pem"), tls__key=bench.path("renewed.key")) as server:
        for pair in ("later", "ec", "later"):
            for kind in ("pem", "key"):
                shutil.copy(bench.path(f"{pair}.{kind}"), bench.path(f"renewed.{kind}"))
            replies = []
            commands = [threading.Thread(target=lambda: replies.append(server.query("reload")["ok"])) for _ in range(5)]
            for command in commands:
                command.start()
            expect(server.status()["pid"], server.process.pid, "an answer meanwhile")
            for command in commands:
                command.join()
            expect(replies, [True] * 5, "replies")
            expect(server.certificate_name("localhost"), pair, "the certificate")


@test
def reload_changes_the_scheme_of_an_address(bench):
    with bench.start(server__listen="127.0.0.1:0 https://127.0.0.1:0") as server:
        port, other = server.port, server.plain_port
        server.set(server__listen=f"https://127.0.0.1:{other} http://127.0.0.1:{port}")
        server.control("reload")
        expect(Exchange(server.raw(port)).get("small.txt")[0], 200, "the port that has lost TLS")
        server.port = other
        expect(Exchange(server.connect()).get("small.txt")[0], 200, "the port that has got it")


@test
def renewal_exchanges_the_certificate_in_the_running_workers(bench):
    """New handshakes use it; connections, downloads, sessions and handshakes that have begun go on."""
    large = bench.site / "renewal.bin"
    large.write_bytes(hashlib.shake_128(b"renewal").digest(20 * 1024 * 1024))
    wanted = 0, "", hashlib.sha256(large.read_bytes()).hexdigest()
    for keys_process in ("on", "off"):
        for kind in ("pem", "key"):
            shutil.copy(bench.path(f"ec.{kind}"), bench.path(f"renewed.{kind}"))
        with bench.start(tls__certificate=bench.path("renewed.pem"), tls__key=bench.path("renewed.key"),
                         tls__keys_process=keys_process, workers__processes="2", workers__threads="2",
                         connections__header_timeout="1h", connections__send_timeout="1h") as server:
            workers = serving_pids(server, 2)
            until(lambda: server.certificate_name("localhost") == "ec", "the certificate at first")
            handshake, stream = SlowHandshake(server), Exchange(server.connect())
            resumed = resumption(server, ssl.TLSVersion.TLSv1_3)
            downloads = [Download(bench, f"https://127.0.0.1:{server.port}/renewal.bin", "-k", version)
                         for version in ("--http1.1", "--http2")]
            for count, pair in enumerate(("later", "rsa"), 1):
                for kind in ("pem", "key"):
                    shutil.copy(bench.path(f"{pair}.{kind}"), bench.path(f"renewed.{kind}"))
                until(lambda count=count: server.output().count("new certificates in use") == count, "the event")
                expect([server.certificate_name("localhost") for _ in range(8)], [pair] * 8, "certificates")
                expect(server.query("certificates")["certificates"][0]["issuer"], f"/CN={pair}", "the list of certificates")
                status, fields, _ = stream.get("small.txt")
                expect((status, fields.get("connection")), (200, None), "the open connection")
                expect(resumed(), True, "the session of before")
            for download in downloads:
                expect(download.finish(), wanted, "a download")
            expect(handshake.finish(), ("ec", b"200"), "the handshake of before")
            expect((serving_pids(server, 2), server.status()["generation"]), (workers, 1), "the workers")
            server.control("threads", "4")
            expect([server.certificate_name("localhost") for _ in range(8)], ["rsa"] * 8, "certificates of new threads")
            server.control("restart", "all")
            expect([server.certificate_name("localhost") for _ in range(8)], ["rsa"] * 8, "certificates of new workers")


@test
def worker_that_hangs_during_a_renewal_is_replaced(bench):
    for kind in ("pem", "key"):
        shutil.copy(bench.path(f"ec.{kind}"), bench.path(f"renewed.{kind}"))
    with bench.start(tls__certificate=bench.path("renewed.pem"), tls__key=bench.path("renewed.key"),
                     workers__processes="1", workers__heartbeat_timeout="4s") as server:
        pid = serving_pids(server, 1)[0]
        os.kill(pid, signal.SIGSTOP)
        for kind in ("pem", "key"):
            shutil.copy(bench.path(f"later.{kind}"), bench.path(f"renewed.{kind}"))
        until(lambda: "new certificates in use" in server.output(), "the event")
        expect(serving_pids(server, 1) != [pid], True, "another worker")
        expect(server.certificate_name("localhost"), "later", "the certificate")
