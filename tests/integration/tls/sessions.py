"""Session tickets: a client resumes its session in any worker."""
import os
import signal
import ssl

from connections import upgrade
from harness import Exchange, expect, has_ended, open_files, test, until

REQUEST = b"GET /small.txt HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
VERSIONS = ("-tls1_2", "-tls1_3")


def full(server, version, path):
    """A full handshake, whose session is stored in PATH. Returns the name of the key of its ticket."""
    said = server.probe(version, "-ign_eof", "-sess_out", path, stdin=REQUEST)
    expect(f"New, {'TLSv1.2' if version == '-tls1_2' else 'TLSv1.3'}" in said, True, f"a full handshake: {said}")
    return said.split("TLS session ticket:\n")[1].split("0000 - ")[1][:47] if "session ticket:" in said else None


def resumption(server, version):
    """A function that connects with the session of a full handshake, and returns whether the server resumes it."""
    with server.connect(version=version) as stream:
        expect((Exchange(stream).get("small.txt")[0], stream.session_reused), (200, False), "the first connection")
        session = stream.session

    def connect():
        with server.connect(version=version, session=session) as stream:
            expect(Exchange(stream).get("small.txt")[0], 200, "a response")
            return stream.session_reused

    return connect


def is_resumed(server, version, path):
    said = server.probe(version, "-ign_eof", "-sess_in", path, stdin=REQUEST)
    expect("hello\n" in said, True, f"a response: {said}")
    return "Reused, " in said


@test
def sessions_are_resumed_in_every_worker(bench):
    path = bench.path("session")
    with bench.start("ec", "other", workers__processes="3", workers__threads="1") as server:
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            connect = resumption(server, version)
            for _ in range(12):
                expect(connect(), True, f"{version}: resumed")
        for version in VERSIONS:
            full(server, version, path)
            expect(is_resumed(server, version, path), True, f"{version}: resumed")
        for words in (("restart", "all"), ("reload",)):
            server.control(*words)
            expect(is_resumed(server, "-tls1_3", path), True, f"resumed after {words}")


@test
def ticket_comes_with_the_first_response(bench):
    """In one segment. A client of TLS 1.2 gets it in the handshake."""
    with bench.start(workers__processes="1") as server:
        with server.connect() as stream:
            server.expect_metric("tls_handshakes", 1)
            stream.setblocking(False)
            try:
                raise AssertionError(f"{stream.recv(1)!r} before any request")
            except ssl.SSLWantReadError:
                expect(stream.session.has_ticket, False, "a ticket before any request")
            stream.setblocking(True)
            expect(Exchange(stream).get("small.txt")[0], 200, "a response")
            expect(stream.session.has_ticket, True, "a ticket")


@test
def sessions_are_resumed_after_binary_upgrades(bench):
    with bench.start(workers__processes="2") as server:
        connections = [resumption(server, version) for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)]
        for version in VERSIONS:
            full(server, version, bench.path(f"before{version}"))
        pid = server.process.pid
        for number in range(2):
            pid = upgrade(server, pid)
            for version, connect in zip(VERSIONS, connections):
                expect(is_resumed(server, version, bench.path(f"before{version}")), True, f"{version}: resumed after upgrade {number}")
                for _ in range(5):
                    expect(connect(), True, f"{version}: resumed after upgrade {number}")
            expect([path for path in open_files(pid) if "tickets" in path], [], "files of tickets that are left open")
        server.set(tls__session_tickets="off")
        pid = upgrade(server, pid)
        expect(is_resumed(server, "-tls1_3", bench.path("before-tls1_3")), False, "resumed without tickets")
        server.set(tls__session_tickets="on")
        pid = upgrade(server, pid)
        expect(is_resumed(server, "-tls1_3", bench.path("before-tls1_3")), True, "resumed when tickets are on again")
        os.kill(pid, signal.SIGTERM)
        until(lambda: has_ended(pid), "the end of the last master")


@test
def rotated_keys_reach_all_workers(bench):
    path = bench.path("session")
    with bench.start(workers__processes="3", workers__threads="1", tls__session_timeout="4s") as server:
        first = until(lambda: resumed_key(server, path), "a resumed session")
        until(lambda: full(server, "-tls1_3", bench.path("other-session")) != first, "another key")
        until(lambda: not is_resumed(server, "-tls1_3", path), "the end of the first ticket")

        until(lambda: is_accepted_by_all(server), "a ticket that all workers accept")


def resumed_key(server, path):
    """The name of the key of a ticket that was accepted before its end, or None."""
    name = full(server, "-tls1_3", path)
    return name if is_resumed(server, "-tls1_3", path) else None


def is_accepted_by_all(server):
    """True if each of many quick handshakes, which reach all workers, resumes one fresh session."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    session, all_resumed = None, True
    for number in range(13):
        with context.wrap_socket(server.raw(), server_hostname="localhost", session=session) as stream:
            expect(Exchange(stream).get("small.txt")[0], 200, "a request")
            all_resumed = all_resumed and (number == 0 or stream.session_reused)
            session = session or stream.session
    return all_resumed


@test
def each_connection_gets_a_ticket_for_the_next_one(bench):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with bench.start() as server:
        session, tickets = None, set()
        for number in range(5):
            with context.wrap_socket(server.raw(), server_hostname="localhost", session=session) as stream:
                expect(Exchange(stream).get("small.txt")[0], 200, "a request")
                expect(stream.session_reused, number > 0, f"connection {number}: resumed")
                session = stream.session
                tickets.add(session.id)
        expect(len(tickets), 5, "different sessions")


@test
def tickets_can_be_switched_off(bench):
    path = bench.path("none")
    with bench.start(tls__session_tickets="off") as server:
        for version in VERSIONS:
            said = server.probe(version, "-ign_eof", "-sess_out", path, stdin=REQUEST)
            expect("session ticket:" in said, False, f"a ticket with {version}: {said}")
        expect(Exchange(server.connect()).get("small.txt")[0], 200, "a request")
