"""Records that are cut, mutated, repeated or reordered on their way: they end their own connection, and nothing else."""
import random
import socket
import ssl

from harness import PATIENCE_S, Exchange, client_context, expect, test, until

CASES = 400
REQUEST = b"GET /page.txt HTTP/1.1\r\nHost: localhost\r\n\r\n"
# The connection preface of HTTP/2, SETTINGS, and GET /small.txt as stream 1.
HTTP2 = (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes.fromhex("000000040000000000") +
         bytes.fromhex("00001b010500000001") + b"\x82\x87\x04\x0a/small.txt\x41\x09localhost")


class Client:
    """A TLS client whose records can be changed before they are sent."""

    def __init__(self, server, version, alpn):
        self.raw = server.raw()
        self.raw.settimeout(PATIENCE_S)
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = client_context(None, version, (alpn,)).wrap_bio(self.incoming, self.outgoing, server_hostname="localhost")
        self.requests = REQUEST * 3 if alpn == "http/1.1" else HTTP2

    def flights(self):
        """Yields what the client sends, one flight after the other; reads the server's answers between them."""
        try:
            while True:
                try:
                    self.tls.do_handshake()
                    break
                except ssl.SSLWantReadError:
                    yield self.outgoing.read()
                    self.receive()
            for start in range(0, len(self.requests), 50):
                self.tls.write(self.requests[start:start + 50])
            yield self.outgoing.read()
        except TimeoutError:
            raise
        except (ssl.SSLError, OSError):
            return  # the server has ended the connection, or its answer does not fit what was sent

    def receive(self):
        got = self.raw.recv(65536)
        if got == b"":
            raise OSError("closed")
        self.incoming.write(got)

    def drain(self):
        """Closes the sending side and reads up to the server's end."""
        try:
            self.raw.shutdown(socket.SHUT_WR)
            while self.raw.recv(65536) != b"":
                pass
        except TimeoutError:
            raise
        except OSError:  # the server has closed it
            pass
        self.raw.close()


def records(flight):
    found = []
    while flight:
        length = 5 + int.from_bytes(flight[3:5], "big")
        found.append(flight[:length])
        flight = flight[length:]
    return found


def flip(source, flight):
    changed = bytearray(flight)
    for _ in range(source.choice((1, 1, 1, 3, 20))):
        changed[source.randrange(len(changed))] ^= 1 << source.randrange(8)
    return bytes(changed)


def cut(source, flight):
    return flight[:source.randrange(len(flight))]


def drop(source, flight):
    start = source.randrange(len(flight))
    return flight[:start] + flight[start + source.randrange(1, 40):]


def insert(source, flight):
    start = source.randrange(len(flight))
    return flight[:start] + source.randbytes(source.randrange(1, 40)) + flight[start:]


def repeat(source, flight):
    found = records(flight)
    position = source.randrange(len(found))
    return b"".join(found[:position + 1] + found[position:])


def reorder(source, flight):
    found = records(flight)
    source.shuffle(found)
    return b"".join(found)


def relabel(source, flight):
    """Another type, version or length in the head of a record."""
    found = [bytearray(record) for record in records(flight)]
    found[source.randrange(len(found))][source.randrange(5)] = source.choice((0, 1, 3, 4, 20, 21, 22, 23, 24, 0x7f, 0xff))
    return b"".join(found)


def prepend(source, flight):
    """Empty records, alerts, a change of ciphers or application data where the client must not send them."""
    kind, content = source.choice(((22, b""), (23, b""), (21, b"\1\x5a"), (21, b"\1\0"), (21, b"\2\x28"), (20, b"\1"),
                                   (23, bytes(100)), (22, b"\1\0\0\0"), (24, b"\1\xff\xff"), (22, b"\x18\0\0\1\1")))
    return (bytes((kind, 3, 3)) + len(content).to_bytes(2, "big") + content) * source.choice((1, 1, 5, 100)) + flight


CHANGES = (flip, flip, cut, drop, insert, repeat, reorder, relabel, prepend)


def run_case(server, number):
    """A connection on which one flight is changed. In pieces, so that records end anywhere in what the server reads."""
    source = random.Random(number)
    client = Client(server, source.choice((ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)),
                    source.choice(("http/1.1", "h2")))
    change, target = source.choice(CHANGES), source.randrange(4)
    try:
        for position, flight in enumerate(client.flights()):
            if position == target and flight:
                flight = change(source, flight)
            piece = source.choice((len(flight) + 1, 1 + len(flight) // 7, 1 + len(flight) // 50))
            for start in range(0, len(flight), piece):
                client.raw.sendall(flight[start:start + piece])
            if position == target:
                break
    except ConnectionError:
        pass
    client.drain()


@test
def changed_records_end_only_their_connection(bench):
    with bench.start("ec", "rsa", workers__processes="1", workers__threads="2", connections__header_timeout="1h") as server:
        worker = server.status()["workers"]["list"][0]["pid"]
        witness = Exchange(server.connect(alpn=["http/1.1"]))
        for number in range(CASES):
            run_case(server, number)
            if number % 20 == 0:
                expect(witness.get("page.txt")[2], bench.files["page.txt"], f"another connection after case {number}")
        expect(witness.get("page.txt")[2], bench.files["page.txt"], "another connection at the end")
        expect(server.status()["workers"]["list"][0]["pid"], worker, "the worker")
        until(lambda: server.metric("connections_open") == 1, "the end of all connections but one")
        expect(server.metric("tls_open"), 1, "connections over TLS")
        failed = server.status()["figures"]["tls_failed"]
        expect(failed > CASES / 10, True, f"failed handshakes: {failed}")
