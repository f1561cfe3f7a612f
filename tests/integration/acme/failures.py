"""Faults of the authority and of the file system: each ends in an event, a later attempt and then a certificate."""
import json
import os
import shutil
import subprocess

from acme_server import NAME, UNUSED_PORT
from authority import Problem, openssl
from harness import expect, expect_in, run, test, until


def times(count, path, result):
    """A fault for the first COUNT requests whose path begins with PATH."""
    left = [count]

    def fault(got):
        if left[0] == 0 or not got.startswith(path):
            return None
        left[0] -= 1
        return result() if callable(result) else result

    return fault


def of_name(authority, name, path, result, count=1):
    """A fault for the first COUNT requests about an order for NAME whose path begins with PATH."""
    fault = times(count, path, result)

    def of_order(got):
        number = got.rpartition("/")[2]
        return fault(got) if number.isdigit() and authority.orders[int(number)]["name"] == name else None

    return of_order


def expect_recovery(bench, fault, *events, **settings):
    """With FAULT the first attempt fails with EVENTS, and a later one does not."""
    authority = bench.authority()
    authority.faults.append(fault)
    with bench.start(authority, **settings) as server:
        for event in events:
            server.await_event(event)
        server.await_certificate()
        expect(json.loads((server.state / f"{NAME}.json").read_text())["failures"] in (0, 1), True, "failures")
    return authority


@test
def bad_nonces_are_repeated(bench):
    authority = bench.authority()
    authority.faults.append(times(9, "/newOrder", lambda: Problem(400, "badNonce", "again")))
    with bench.start(authority) as server:
        server.await_certificate()
        expect(server.output().count("no certificate"), 0, "failures")


@test
def error_500_is_followed_by_another_attempt(bench):
    expect_recovery(bench, times(1, "/newOrder", lambda: Problem(500, "serverInternal", "out of order")),
                    "answers 500: out of order (serverInternal)")


@test
def failed_registration_is_followed_by_another(bench):
    expect_recovery(bench, times(1, "/newAccount", lambda: Problem(400, "malformed", "no account")), "answers 400: no account")
    expect_recovery(bench, times(1, "/newAccount", b"HTTP/1.1 201 -\r\nReplay-Nonce: n\r\nContent-Length: 2\r\n\r\n{}"),
                    "answers without the URL of the account")


@test
def reset_is_followed_by_another_attempt(bench):
    for path in ("/directory", "/newAccount", "/newOrder"):
        expect_recovery(bench, times(1, path, b""))  # libcurl repeats some of them itself
    authority = bench.authority()
    names = {f"{path}.test-site.org": f"/{path}" for path in ("authorization", "challenge", "finalize", "certificate")}
    authority.faults += [of_name(authority, name, path, b"") for name, path in names.items()]
    with bench.start(authority, names) as server:
        for name in names:
            server.await_certificate(name)
            until((server.state / f"{name}.json").exists, f"the plan of {name}, which is written after it")
            expect(json.loads((server.state / f"{name}.json").read_text())["failures"] in (0, 1), True, f"failures of {name}")


@test
def slow_download_lets_the_other_name_go_first(bench):
    """And then goes on with the same order."""
    authority = bench.authority()
    slow, other = NAME, "other.test-site.org"
    served = []

    def wait_for_the_other():
        until(lambda: any(order["name"] == other and order["status"] == "valid" for order in authority.orders), "the other order")
        served.append(other)

    # On a busy machine the other order may be slow, too: then the download is asked for again.
    authority.faults.append(of_name(authority, slow, "/certificate", wait_for_the_other, 99))
    with bench.start(authority, (slow, other)) as server:
        until(lambda: server.stored(slow), "the certificate of the slow download")
        server.await_event(f"{slow}: the authority has not answered within 1 s; the other certificates come first")
        expect(len(authority.orders), 2, "orders")
        expect(served[:1], [other], "what was served before the slow download")
        until((server.state / f"{slow}.json").exists, "its plan, which is written after it")
        expect(json.loads((server.state / f"{slow}.json").read_text())["failures"], 0, "failures")


@test
def malformed_answers_are_no_crash(bench):
    def body(text):
        return f"HTTP/1.1 200 OK\r\nReplay-Nonce: n\r\nContent-Length: {len(text)}\r\n\r\n{text}".encode()

    texts = ("", "{", "[]", "null", '{"status": 7, "authorizations": "x"}', '{"newNonce": {}, "newOrder": []}',
             '{"status": "ready", "authorizations": [1, null], "finalize": 9}', "-----BEGIN CERTIFICATE-----\nAAAA\n", "\x00\xff" * 40)
    for path in ("/directory", "/newOrder", "/authorization", "/certificate"):
        results = [body(text) for text in texts]
        authority = bench.authority()
        authority.faults.append(times(len(texts), path, lambda left=results: left.pop()))
        with bench.start(authority) as server:
            pid = until(server.acme_pid, "the ACME process")
            server.await_event("no certificate: ")
            authority.faults.clear()
            server.await_certificate()
            expect(server.acme_pid(), pid, "the ACME process lives")


@test
def retry_after_is_respected(bench):
    authority = bench.authority()
    authority.faults.append(times(1, "/newOrder", lambda: Problem(429, "rateLimited", "too many", **{"Retry-After": "3000"})))
    with bench.start(authority) as server:
        server.await_event("too many (rateLimited)")
        plan = until(lambda: (server.state / f"{NAME}.json").exists() and json.loads((server.state / f"{NAME}.json").read_text()),
                     "the plan")
        expect(plan["failures"], 1, "failures")
        until(lambda: server.shown().get("failures") == 1, "the failure in wsctl certificates")
        shown, = json.loads(server.control("--json", "certificates"))["certificates"]
        expect((shown["names"], shown["failures"], shown["next_attempt"]), ([NAME], 1, plan["next_attempt"]), "wsctl --json certificates")
        expect_in("1 attempt failed, the last one: ", server.control("certificates"), "wsctl certificates")
        expect_in("rateLimited", plan["error"], "error of the plan")
        expect(plan["next_attempt"] - int((server.state / f"{NAME}.json").stat().st_mtime) >= 2995, True, "delay")


@test
def rejected_authorization_is_explained(bench):
    authority = bench.authority()
    with bench.start(authority, http_port=UNUSED_PORT) as server:
        server.await_event("the authorization is invalid: cannot connect")
        authority.http_port = server.plain_port
        server.await_certificate()


@test
def expired_order_is_followed_by_another_one(bench):
    authority = bench.authority()

    def expire(path):
        if path.startswith("/finalize/0"):
            authority.orders[0]["status"] = "invalid"

    authority.faults.append(expire)
    with bench.start(authority) as server:
        server.await_event("the order is invalid")
        server.await_certificate()


@test
def unknown_account_is_registered_again(bench):
    authority = bench.authority()
    with bench.start(authority) as server:
        server.await_certificate()
        state = server.state
    authority.accounts.clear()
    (state / f"{NAME}.pem").unlink()
    (state / f"{NAME}.json").unlink()
    with bench.start(authority, acme__state_dir=state) as server:
        server.await_event("accountDoesNotExist")
        server.await_certificate()


@test
def account_belongs_to_its_authority(bench):
    """One of another authority is not tried."""
    first, second = bench.authority(), bench.authority()
    with bench.start(first) as server:
        server.await_certificate()
        state = server.state
    (state / f"{NAME}.pem").unlink()
    (state / f"{NAME}.json").unlink()
    with bench.start(second, acme__state_dir=state) as server:
        server.await_certificate()
        expect("accountDoesNotExist" in server.output(), False, "requests with the account of the first authority")


@test
def key_that_cannot_be_the_accounts_is_kept(bench):
    authority = bench.authority()
    for text in ("no key", openssl("genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048").decode()):
        state = bench.directory / "other_key"
        state.mkdir(mode=0o700, exist_ok=True)
        (state / "account.key").write_text(text)
        with bench.start(authority, acme__state_dir=state) as server:
            server.await_event("account.key is no private key of kind p256: remove it to make another account")
            expect((state / "account.key").read_text(), text, "account.key")
            expect(authority.accounts, {}, "accounts")


@test
def certificate_for_another_name_is_refused(bench):
    authority = bench.authority()
    with bench.start(authority, names=("a.test-site.org",)) as server:
        server.await_certificate("a.test-site.org")
        wrong = authority.orders[0]["chain"]
        authority.faults.append(times(1, "/certificate/1", lambda: f"HTTP/1.1 200 OK\r\nReplay-Nonce: n\r\nContent-Length: "
                                      f"{len(wrong)}\r\n\r\n{wrong}".encode()))
        server.set(acme__hosts="a.test-site.org b.test-site.org")
        server.control("reload")
        server.await_event("b.test-site.org: no certificate: the certificate cannot be used: it belongs to another key")
        server.await_certificate("b.test-site.org")


@test
def damaged_file_is_replaced(bench):
    authority = bench.authority()
    with bench.start(authority) as server:
        serial = server.await_certificate()
        state = server.state
    (state / f"{NAME}.pem").write_text("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
    with bench.start(authority, acme__state_dir=state) as server:
        server.await_event("serving a self-signed certificate")
        server.await_certificate(other_than=serial)


@test
def unknown_issuer_of_the_authority_is_refused(bench):
    authority = bench.authority()
    with bench.start(authority, acme__ca_file=authority.directory / "ca.pem") as server:
        server.await_event("no certificate: GET")
        expect(authority.requests, [], "requests")


@test
def wrong_configurations_are_explained(bench):
    good = {"server.listen": "*:0 https://*:0", "server.root": bench.site, "acme.enabled": "on", "acme.agree_to_terms": "yes",
            "acme.hosts": "a.test-site.org", "acme.state_dir": bench.directory / "none"}
    cases = (({"acme.agree_to_terms": "no"}, "https://letsencrypt.org/repository/"),
             ({"acme.hosts": "*.test-site.org"}, "no certificate for '*.test-site.org': a wildcard needs a DNS record"),
             ({"acme.hosts": "127.0.0.300"}, "it is not an IP address"), ({"acme.hosts": "localhost"}, "a name without a dot"),
             ({"acme.hosts": "a..b/c"}, "is not a host name"), ({"acme.hosts": ""}, "no name to request a certificate for"),
             ({"acme.directory": "http://a.b/"}, "is not the URL of an ACME directory"), ({"acme.email": "me"}, "is not an address"),
             ({"acme.email": "a@b,c@d"}, "is not an address"), ({"server.listen": "https://*:0", "acme.challenge": "http-01"}, "needs an address without https://"),
             ({"server.listen": "*:0"}, "needs an address with https://"), ({"acme.ca_file": "/none"}, "No such file"))
    for changes, message in cases:
        words = [word for key, value in {**good, **changes}.items() for word in ("-o", f"{key}={value}")]
        expect_in(message, run(bench.programs / "webserverd", "-t", *words, check=False), f"message for {changes}")


@test
def full_disk_makes_no_order(bench):
    """Needs the right to mount."""
    authority = bench.authority()
    small = bench.directory / "small"
    small.mkdir()
    mounted = shutil.which("mount") and os.geteuid() == 0 and subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=128k,mode=755", "tmpfs", small], check=False, capture_output=True).returncode == 0
    if not mounted:
        return
    try:
        (small / "filler").write_bytes(b"x" * 100 * 1024)
        with bench.start(authority, acme__state_dir=small / "state") as server:
            server.await_event("no space for the certificate in")
            expect(authority.orders, [], "orders")
            (small / "filler").unlink()
            server.await_certificate()
    finally:
        run("umount", small)
