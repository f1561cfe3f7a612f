"""A certificate is obtained, used and renewed."""
import concurrent.futures
import json
import os
import pathlib
import stat
import time

from acme_server import NAME
from harness import Exchange, expect, expect_in, run, test, until


@test
def first_certificate_replaces_the_self_signed_one(bench):
    authority = bench.authority()
    hold = [True]
    authority.faults.append(lambda path: b"" if hold[0] else None)
    with bench.start(authority, acme__email="admin@test-site.org", workers__processes="2") as server:
        expect(server.certificate()[::2], (NAME, [NAME]), "issuer and names of the self-signed certificate")
        status, _, body = Exchange(server.raw(server.plain_port)).get("small.txt")
        expect((status, body), (200, b"hello\n"), "a request without TLS meanwhile")
        hold[0] = False
        server.await_certificate()
        expect(authority.contact, ["mailto:admin@test-site.org"], "contact of the account")
        with server.connect(NAME) as stream:
            expect(Exchange(stream).get("small.txt")[0], 200, "status over TLS")
        server.await_event("new certificates in use")
        server.await_event("certificate obtained, valid until")
        text = server.control("certificates")
        for part in (f"{NAME}\n  valid until 2", "  issuer /CN=Test authority\n", "  next attempt 2"):
            expect_in(part, text, "wsctl certificates")


@test
def each_name_gets_its_certificate(bench):
    authority = bench.authority()
    names = ("one.test-site.org", "two.test-site.org")
    with bench.start(authority, names, workers__processes="2") as server:
        serials = {server.await_certificate(name) for name in names}
        expect(len(serials), 2, "serial numbers")
        expect(len(authority.accounts), 1, "accounts")


@test
def hosts_of_the_configuration_are_the_default(bench):
    authority = bench.authority()
    with bench.start(authority, names=(), **{"host shop.test-site.org *.test-site.org intranet__root": bench.site}) as server:
        server.await_certificate("shop.test-site.org")
        until(lambda: len(authority.orders) > 0, "an order")
        expect({order["name"] for order in authority.orders}, {"shop.test-site.org"}, "names of the orders")


@test
def files_are_readable_by_the_owner_only(bench):
    authority = bench.authority()
    with bench.start(authority) as server:
        server.await_certificate()
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in server.state.iterdir() if path.is_file()}
        expect(set(modes.values()), {0o600}, f"modes of {modes}")
        expect(set(modes) >= {"account.key", "account.json", f"{NAME}.pem", f"{NAME}.json", "lock"}, True, f"files: {modes}")
        expect(stat.S_IMODE(server.state.stat().st_mode), 0o700, "mode of the directory")


@test
def key_of_kind_rsa2048_is_made(bench):
    authority = bench.authority()
    with bench.start(authority, acme__key="rsa2048") as server:
        server.await_certificate()
        text = run("openssl", "pkey", "-in", server.state / f"{NAME}.pem", "-noout", "-text")
        expect_in("Private-Key: (2048 bit", text, "the key")


@test
def restart_uses_the_files_and_requests_nothing(bench):
    authority = bench.authority()
    with bench.start(authority, workers__processes="2") as server:
        serial = server.await_certificate()
        state = server.state
        until(lambda: json.loads((state / f"{NAME}.json").read_text())["failures"] == 0, "the plan")
    orders = len(authority.orders)
    with bench.start(authority, acme__state_dir=state, workers__processes="2") as server:
        expect(server.certificate()[1], serial, "serial number after the restart")
        until(server.acme_pid, "the ACME process")
        expect(len(authority.orders), orders, "orders")


@test
def certificate_is_renewed_without_a_lost_request(bench):
    authority = bench.authority()
    authority.life_s = 12
    with bench.start(authority, workers__processes="2") as server:
        serial = server.await_certificate()
        done = []

        def load():
            count = 0
            while not done:
                with server.connect(NAME) as stream:
                    exchange = Exchange(stream)
                    for _ in range(20):
                        status, fields, _ = exchange.get("small.txt")
                        expect(status, 200, "status")
                        count += 1
                        time.sleep(0.05 if server.stored_serial() == serial else 0.002)  # often while workers come and go
                        if fields.get("connection") == "close":
                            break
            return count

        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            runs = [pool.submit(load) for _ in range(4)]
            try:
                server.await_certificate(other_than=serial)
            finally:
                done.append(True)
            expect(min(run_.result() for run_ in runs) > 0, True, "requests of each client")


@test
def challenge_comes_before_hosts_access_and_redirects(bench):
    authority = bench.authority()
    with bench.start(authority, workers__processes="2", **{"redirect__/*": "403", "access /__deny": "0.0.0.0/0", "ratelimit__enabled": "on",
                                   "ratelimit__requests_per_second": 1, "ratelimit__burst": 1,
                                   "host other.test-site.org__root": bench.site}) as server:
        server.await_certificate()
        status, _, _ = Exchange(server.raw(server.plain_port)).get("small.txt")
        expect(status in (403, 429), True, f"status of another path: {status}")


@test
def only_the_pending_token_is_answered(bench):
    authority = bench.authority()
    answers = []

    def look(path):
        if path.startswith("/challenge/"):
            order = authority.orders[-1]
            for token in (order["token"], order["token"] + "x", order["token"][:-1], "", "../small.txt"):
                exchange = Exchange(server.raw(server.plain_port))
                answers.append(exchange.get(f".well-known/acme-challenge/{token}")[0])
            answers.append(Exchange(server.raw(server.plain_port)).get("small.txt")[0])

    authority.faults.append(look)
    with bench.start(authority, workers__processes="2") as server:
        server.await_certificate()
        expect(answers[0], 200, "status of the pending token")
        expect(set(answers[1:5]) <= {400, 403, 404}, True, f"statuses of other tokens: {answers[1:5]}")
        expect(answers[5], 200, "status of a file meanwhile")
        token = authority.orders[-1]["token"]
        expect(Exchange(server.raw(server.plain_port)).get(f".well-known/acme-challenge/{token}")[0], 404,
               "status of the token after the order")


@test
def reload_with_other_names_requests_those(bench):
    authority = bench.authority()
    with bench.start(authority, workers__processes="2") as server:
        server.await_certificate()
        server.set(acme__hosts=f"{NAME} more.test-site.org")
        server.control("reload")
        server.await_certificate("more.test-site.org")
        server.set(acme__enabled="off", **bench.own_certificate())
        server.control("reload")
        until(lambda: server.acme_pid() == 0, "the end of the ACME process")


@test
def renewal_keeps_the_configuration_in_force(bench):
    """The file may be half edited when a certificate comes."""
    authority = bench.authority()
    authority.life_s = 12
    with bench.start(authority, workers__processes="2") as server:
        serial = server.await_certificate()
        path = pathlib.Path(server.directory / "webserver.ini")
        path.write_text(path.read_text() + "\n[nonsense\n")
        server.control("threads", "3")
        server.await_certificate(other_than=serial)
        expect(server.status()["threads"]["wanted"], 3, "threads")


@test
def check_prints_what_would_be_requested(bench):
    words = [bench.programs / "webserverd", "-t", "-o", "server.listen=*:0 https://*:0", "-o", f"server.root={bench.site}",
             "-o", "acme.enabled=on", "-o", "acme.agree_to_terms=yes", "-o", f"acme.state_dir={bench.directory}/none",
             "-o", "host www.test-site.org *.test-site.org intranet.index=a.html"]
    text = run(*words)
    for part in ("https://acme-v02.api.letsencrypt.org/directory", "  www.test-site.org: one certificate with a key of kind p256",
                 "  *.test-site.org: none: a wildcard needs a DNS record", "  intranet: none: a name without a dot"):
        expect_in(part, text, "webserverd -t")
    expect(os.path.exists(bench.directory / "none"), False, "-t makes no directory")


@test
def end_of_a_certificate_is_reported(bench):
    authority = bench.authority()
    authority.age_s, authority.life_s = 80 * 86400, 10 * 86400
    with bench.start(authority, acme__retry="1h") as server:
        server.await_event(f"the certificate for {NAME} ends in less than 14 days")
        expect(len(authority.orders), 1, "orders, although two thirds of the life are over")
