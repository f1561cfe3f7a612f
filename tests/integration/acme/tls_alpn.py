"""tls-alpn-01 (RFC 8737): the authority checks a name by a TLS handshake."""
import os
import signal
import ssl
import threading

from acme_server import NAME, UNUSED_PORT
from authority import connect_for_validation, fault_of_certificate
from harness import PATIENCE_S, Exchange, expect, expect_in, has_ended, run, test, until

VERSIONS = (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)
REJECTED = "alert no application protocol"


def rejection(port, name, alpn=("acme-tls/1",)):
    """The alert by which the server ends the handshake, or None."""
    try:
        with connect_for_validation(port, name, alpn) as stream:
            return f"none: it selected {stream.selected_alpn_protocol()}"
    except ssl.SSLError as error:
        return REJECTED if REJECTED in str(error) else str(error)


@test
def two_names_are_certified_without_an_address_for_plain_http(bench):
    names = ("one.test-site.org", "two.test-site.org")
    for keys_process in ("on", "off"):
        authority = bench.authority()
        with bench.start(authority, names, server__listen="https://127.0.0.1:0", tls__keys_process=keys_process,
                         workers__processes="2") as server:
            for name in names:
                server.await_certificate(name)
                server.await_event(f"{name}: the authority may now check the name by tls-alpn-01")
            expect(authority.checked, ["tls-alpn-01"] * 2, "challenges")
            until(lambda: server.metric("tls_validations") == 2, "the count of validations")  # noqa: B023


@test
def two_addresses_use_http_01_unless_configured(bench):
    for challenge, kind in (("auto", "http-01"), ("http-01", "http-01"), ("tls-alpn-01", "tls-alpn-01")):
        authority = bench.authority()
        with bench.start(authority, acme__challenge=challenge, workers__processes="2") as server:
            server.await_certificate()
            expect(authority.checked, [kind], f"challenges with challenge = {challenge}")


def during_the_challenge(bench, look, **settings):
    """Calls LOOK(server, key authorization) while the challenge is pending, and returns the server after the order."""
    authority = bench.authority()
    started, errors, servers = threading.Event(), [], []

    def fault(path):
        if path.startswith("/challenge_tls") and started.wait(PATIENCE_S):
            order = authority.orders[-1]
            try:
                look(servers[0], f"{order['token']}.{next(iter(authority.accounts))}")
            except Exception as error:  # pylint: disable=broad-except
                errors.append(error)

    authority.faults.append(fault)
    with bench.start(authority, acme__challenge="tls-alpn-01", workers__processes="2", **settings) as server:
        servers.append(server)
        started.set()
        server.await_certificate()
        if errors:
            raise errors[0]
        until(lambda: rejection(server.port, NAME) == REJECTED, "the end of the challenge")


@test
def validation_gets_its_certificate_and_nothing_more(bench):
    def look(server, key_authorization):
        before = server.metric("tls_validations")
        for version in VERSIONS:
            for name in (NAME, NAME.upper()):
                with connect_for_validation(server.port, name, version=version) as stream:
                    expect(stream.selected_alpn_protocol(), "acme-tls/1", "protocol")
                    expect(fault_of_certificate(stream.getpeercert(True), NAME, key_authorization), None, f"fault, {version}")
                    expect(stream.recv(100), b"", "what follows the handshake")
        until(lambda: server.metric("tls_validations") == before + 4, "the count of validations")

    for keys_process in ("on", "off"):
        during_the_challenge(bench, look, tls__keys_process=keys_process)


@test
def other_names_and_no_name_are_rejected(bench):
    def look(server, _):
        for name in ("test-site.org", "x" + NAME, NAME + "x", "www.other.example", None):
            expect(rejection(server.port, name), REJECTED, f"alert for {name}")

    during_the_challenge(bench, look)


@test
def normal_clients_never_get_the_validation_certificate(bench):
    def look(server, key_authorization):
        for alpn in (None, ("http/1.1",), ("h2", "http/1.1"), ("acme-tls/1", "http/1.1"), ("http/1.1", "acme-tls/1")):
            for version in VERSIONS:
                with server.connect(NAME, version=version, alpn=list(alpn) if alpn else None) as stream:
                    fault = fault_of_certificate(stream.getpeercert(True), NAME, key_authorization)
                    expect_in("no acmeIdentifier", str(fault), f"certificate for {alpn}")
                    expect(stream.selected_alpn_protocol() != "acme-tls/1", True, "protocol")
                    if stream.selected_alpn_protocol() != "h2":
                        expect(Exchange(stream).get("small.txt")[0], 200, "status")
        token = key_authorization.partition(".")[0]
        expect(Exchange(server.raw(server.plain_port)).get(f".well-known/acme-challenge/{token}")[0], 404,
               "the challenge by http-01")

    during_the_challenge(bench, look)


@test
def validation_resumes_no_session(bench):
    def look(server, _):
        words = ["openssl", "s_client", "-connect", f"127.0.0.1:{server.port}", "-servername", NAME, "-tls1_2"]
        file = bench.directory / "session"
        expect_in("New, TLSv1.2", run(*words, "-sess_out", file), "a normal client")
        expect_in("Reused, TLSv1.2", run(*words, "-sess_in", file), "the same client again")
        text = run(*words, "-sess_in", file, "-alpn", "acme-tls/1")
        expect_in("New, TLSv1.2", text, "a validation with the session")
        expect_in("subject=CN=ACME challenge", text.replace(" = ", "="), "certificate")

    during_the_challenge(bench, look)


@test
def without_a_challenge_validation_is_rejected(bench):
    authority = bench.authority()
    with bench.start(authority, acme__challenge="http-01", workers__processes="2") as server:
        server.await_certificate()
        expect(rejection(server.port, NAME), REJECTED, "alert")
        expect(server.metric("tls_validations"), 0, "validations")


@test
def failed_check_is_followed_by_another_attempt(bench):
    authority = bench.authority()
    with bench.start(authority, tls_port=UNUSED_PORT, acme__challenge="tls-alpn-01", workers__processes="2") as server:
        server.await_event("the authorization is invalid: cannot connect")
        authority.tls_port = server.port
        server.await_certificate()
        expect(set(authority.checked), {"tls-alpn-01"}, "challenges")


@test
def auto_tries_the_other_challenge_after_a_failure(bench):
    authority = bench.authority()
    with bench.start(authority, http_port=UNUSED_PORT, acme__challenge="auto", workers__processes="2") as server:
        server.await_certificate()
        expect(authority.checked, ["http-01", "tls-alpn-01"], "challenges")


@test
def challenge_that_the_authority_does_not_offer_is_reported(bench):
    for challenge, offered, event in (("tls-alpn-01", ("http-01",), "the authority offers no tls-alpn-01 challenge"),
                                      ("http-01", ("tls-alpn-01",), "the authority offers no http-01 challenge"),
                                      ("auto", (), "the authority offers no http-01 and no tls-alpn-01 challenge")):
        authority = bench.authority()
        authority.offered = offered
        with bench.start(authority, acme__challenge=challenge, workers__processes="2") as server:
            server.await_event(event)
            authority.offered = ("http-01", "tls-alpn-01")
            server.await_certificate()


@test
def killed_process_leaves_no_challenge(bench):
    authority = bench.authority()
    started, killed, checked, servers, alerts = threading.Event(), [], threading.Event(), [], []

    def fault(path):
        if path.startswith("/challenge_tls") and not killed and started.wait(PATIENCE_S):
            with connect_for_validation(servers[0].port, NAME) as stream:
                alerts.append(stream.selected_alpn_protocol())
            killed.append(until(servers[0].acme_pid, "the process"))
            os.kill(killed[0], signal.SIGKILL)
        elif path.startswith("/newOrder") and killed:
            checked.wait(PATIENCE_S)  # so that the next process publishes no challenge before

    authority.faults.append(fault)
    with bench.start(authority, acme__challenge="tls-alpn-01", workers__processes="2") as server:
        servers.append(server)
        started.set()
        until(lambda: killed and has_ended(killed[0]), "the end of the process")
        server.await_event("the ACME process")
        until(lambda: rejection(server.port, NAME) == REJECTED, "the rejection of a validation")
        checked.set()
        server.await_certificate()
        expect(alerts, ["acme-tls/1"], "the protocol before")


@test
def check_prints_how_the_names_are_checked(bench):
    words = [bench.programs / "webserverd", "-t", "-o", f"server.root={bench.site}", "-o", "acme.enabled=on", "-o",
             "acme.agree_to_terms=yes", "-o", f"acme.state_dir={bench.directory}/none", "-o", f"acme.hosts={NAME}"]
    for listen, challenge, parts in (
            ("https://*:0", "auto", ("it connects to port 443:\n",)),
            ("https://*:0", "tls-alpn-01", ("it connects to port 443:\n",)),
            ("*:0 https://*:0", "tls-alpn-01", ("it connects to port 443:\n",)),
            ("*:0 https://*:0", "http-01", ("it connects to port 80:\n",)),
            ("*:0 https://*:0", "auto", ("it connects to port 80 or connects to port 443:\n",))):
        text = run(*words, "-o", f"server.listen={listen}", "-o", f"acme.challenge={challenge}")
        for part in parts:
            expect_in(part, text, f"webserverd -t with {listen} and {challenge}")
