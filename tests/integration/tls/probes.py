"""What the server negotiates: tables of probes, with openssl s_client and, for what it cannot offer, by hand."""
import struct

from harness import Exchange, expect, expect_in, test

REFUSED_CIPHER = "-tls1_2 -cipher AES128-SHA"

# words of s_client, what it must print
INTERMEDIATE = (
    ("-tls1_3", "Protocol  : TLSv1.3|New, TLSv1.3, Cipher is TLS_AES_256_GCM_SHA384"),
    ("-tls1_3 -ciphersuites TLS_CHACHA20_POLY1305_SHA256", "Cipher is TLS_CHACHA20_POLY1305_SHA256"),
    ("-tls1_3 -ciphersuites TLS_AES_128_GCM_SHA256", "Cipher is TLS_AES_128_GCM_SHA256"),
    ("-tls1_2", "Protocol  : TLSv1.2"),
    ("-tls1_2 -cipher ECDHE-ECDSA-AES128-GCM-SHA256", "Cipher is ECDHE-ECDSA-AES128-GCM-SHA256"),
    ("-tls1_2 -cipher ECDHE-RSA-AES256-GCM-SHA384", "Cipher is ECDHE-RSA-AES256-GCM-SHA384"),
    ("-tls1_2 -cipher ECDHE-RSA-CHACHA20-POLY1305", "Cipher is ECDHE-RSA-CHACHA20-POLY1305"),
    # the client's order decides
    ("-tls1_2 -cipher ECDHE-RSA-CHACHA20-POLY1305:ECDHE-RSA-AES128-GCM-SHA256",
     "Cipher is ECDHE-RSA-CHACHA20-POLY1305"),
    ("-tls1_1 -cipher DEFAULT@SECLEVEL=0", "alert protocol version"),
    ("-tls1 -cipher DEFAULT@SECLEVEL=0", "alert protocol version"),
    (REFUSED_CIPHER, "alert handshake failure"),
    ("-tls1_2 -cipher AES128-GCM-SHA256", "alert handshake failure"),
    ("-tls1_2 -cipher ECDHE-RSA-AES128-SHA256", "alert handshake failure"),
    ("-tls1_2 -cipher DHE-RSA-AES128-GCM-SHA256", "alert handshake failure"),
    ("-tls1_2 -cipher eNULL:aNULL@SECLEVEL=0", "alert handshake failure"),
    ("-tls1_3 -groups secp521r1", "alert handshake failure"),
    ("-tls1_3 -groups X25519", " Temp Key: X25519"),
    ("-tls1_3 -groups P-256", " Temp Key: ECDH, prime256v1, 256 bits"),
    ("-tls1_2", "Secure Renegotiation IS supported"),
    ("-tls1_2 -fallback_scsv", "alert inappropriate fallback"),
    ("-tls1_3 -fallback_scsv", "Cipher is TLS_AES_256_GCM_SHA384"),
    ("-tls1_3", "Max Early Data: 0|Early data was not sent"),
    ("-tls1_3 -alpn http/1.1", "ALPN protocol: http/1.1"),
    ("-tls1_3 -alpn http/1.1,h2", "ALPN protocol: h2"),
    ("-tls1_2 -alpn spdy/3,http/1.1", "ALPN protocol: http/1.1"),
    ("-tls1_3 -alpn imap", "alert no application protocol"),
    ("-tls1_3", "No ALPN negotiated"),
    ("-tls1_2 -sigalgs RSA+SHA1:ECDSA+SHA1 -cipher DEFAULT@SECLEVEL=0", "alert handshake failure"),
)
MODERN = (
    ("-tls1_3", "Cipher is TLS_AES_256_GCM_SHA384"),
    ("-tls1_2", "alert protocol version"),
    ("-tls1_1 -cipher DEFAULT@SECLEVEL=0", "alert protocol version"),
)


# A ClientHello by hand: OpenSSL is built without what is obsolete.
SSL3, TLS10, TLS11, TLS12 = 0x0300, 0x0301, 0x0302, 0x0303
GOOD = (0xc02b, 0xc02f)  # ECDHE with AES-128-GCM, for ECDSA and RSA
WEAK = {
    "no encryption": (0x0001, 0x0002, 0x003b, 0xc006, 0xc010), "RC4": (0x0004, 0x0005, 0xc007, 0xc011),
    "export keys": (0x0003, 0x0006, 0x0008, 0x000b, 0x000e, 0x0011, 0x0014), "DES": (0x0009, 0x000c, 0x0012, 0x0015),
    "3DES": (0x000a, 0x0013, 0x0016, 0xc008, 0xc012), "IDEA and SEED": (0x0007, 0x0096, 0x009a),
    "no authentication": (0x0018, 0x001b, 0x0034, 0x003a, 0x006c, 0x00a6, 0x00a7, 0xc018, 0xc019),
    "RSA key exchange": (0x002f, 0x0035, 0x003c, 0x003d, 0x009c, 0x009d, 0xc09c, 0xc0a0),
    "DHE": (0x0033, 0x0039, 0x0067, 0x006b, 0x009e, 0x009f, 0xccaa), "CAMELLIA and ARIA": (0x0041, 0x0084, 0xc076, 0xc060),
    "static ECDH": (0xc004, 0xc005, 0xc02d, 0xc031), "a shared secret": (0x008c, 0x00a8, 0xc035, 0xccac),
    "ECDHE with CBC": (0xc009, 0xc00a, 0xc013, 0xc014, 0xc023, 0xc024, 0xc027, 0xc028)}


def client_hello(version=TLS12, suites=GOOD, compressions=b"\0", groups=(29, 23, 24), signatures=(0x0403, 0x0804, 0x0401)):
    def numbers(values):
        return struct.pack(f"!H{len(values)}H", 2 * len(values), *values)

    extensions = b"".join(struct.pack("!HH", kind, len(content)) + content for kind, content in (
        (10, numbers(groups)), (11, b"\1\0"), (13, numbers(signatures)), (0xff01, b"\0")))
    body = (struct.pack("!H", version) + bytes(32) + b"\0" + numbers(suites) + bytes((len(compressions),)) + compressions +
            struct.pack("!H", len(extensions)) + extensions)
    message = b"\1" + struct.pack("!I", len(body))[1:] + body
    return struct.pack("!BHH", 22, min(version, TLS10), len(message)) + message


def answer(server, hello):
    """("alert", its number), or ("hello", version, suite, compression)."""
    with server.raw() as raw:
        raw.sendall(hello)
        reader = raw.makefile("rb")
        kind, _, length = struct.unpack("!BHH", reader.read(5))
        content = reader.read(length)
    if kind == 21:
        return "alert", content[1]
    version, session = struct.unpack("!H", content[4:6])[0], content[38]
    return ("hello", version, *struct.unpack("!HB", content[39 + session:42 + session]))


PROTOCOL_VERSION, HANDSHAKE_FAILURE, DECODE_ERROR, ILLEGAL_PARAMETER = 70, 40, 50, 47
BY_HAND = (
    ({}, ("hello", TLS12, 0xc02b, 0)),
    ({"suites": (0xc02f,)}, ("hello", TLS12, 0xc02f, 0)),
    ({"version": SSL3}, ("alert", HANDSHAKE_FAILURE)), ({"version": TLS10}, ("alert", PROTOCOL_VERSION)),
    ({"version": TLS11}, ("alert", PROTOCOL_VERSION)),
    ({"compressions": b"\1\0"}, ("hello", TLS12, 0xc02b, 0)),  # DEFLATE
    ({"compressions": b"\1"}, ("alert", DECODE_ERROR), ("alert", ILLEGAL_PARAMETER)),  # OpenSSL 3.0; 3.5
    ({"groups": (19, 21)}, ("alert", HANDSHAKE_FAILURE)),  # of 192 and 224 bits
    ({"signatures": (0x0201, 0x0203, 0x0101)}, ("alert", HANDSHAKE_FAILURE)),  # SHA-1 and MD5
    *(({"suites": suites}, ("alert", HANDSHAKE_FAILURE)) for suites in WEAK.values()),
    *(({"suites": suites + GOOD[:1]}, ("hello", TLS12, GOOD[0], 0)) for suites in WEAK.values()),
    ({"suites": sum(WEAK.values(), ())}, ("alert", HANDSHAKE_FAILURE)))


@test
def obsolete_versions_suites_and_compression_are_refused(bench):
    with bench.start("ec", "rsa") as server:
        for words, *wanted in BY_HAND:
            got = answer(server, client_hello(**words))
            expect(got in wanted, True, f"the answer to {words}: {got} is one of {wanted}")
        with server.raw() as raw:  # SSL 2: 2 bytes of length, then the type and the version
            raw.sendall(bytes.fromhex("802e0100020015000000100700c0050080030080010080080080060040") + bytes(19))
            expect(raw.recv(100)[:1] in (b"", b"\x15"), True, "no handshake with SSL 2")


@test
def modern_refuses_tls_1_2_by_hand(bench):
    with bench.start("ec", "rsa", tls__protocols="modern") as server:
        expect(answer(server, client_hello()), ("alert", PROTOCOL_VERSION), "TLS 1.2")


def probe_all(server, table):
    for words, wanted in table:
        said = server.probe(*words.split())
        if not any(one in said for one in wanted.split("|")):
            raise AssertionError(f"s_client {words}: no {wanted!r} in:\n{said}")


@test
def intermediate_negotiates_what_mozilla_recommends(bench):
    with bench.start("ec", "rsa") as server:
        probe_all(server, INTERMEDIATE)


@test
def modern_negotiates_only_tls_1_3(bench):
    with bench.start("ec", "rsa", tls__protocols="modern") as server:
        probe_all(server, MODERN)


@test
def renegotiation_is_refused(bench):
    """The line "R" makes s_client renegotiate."""
    with bench.start() as server:
        said = server.probe("-tls1_2", stdin=b"R\n")
        expect_in("no renegotiation", said, "s_client")
        expect(Exchange(server.connect()).get("small.txt")[0], 200, "the next client")


@test
def plain_http_on_the_tls_port_gets_400(bench):
    with bench.start() as server:
        for cookie in (b"", b"Cookie: " + b"x" * 100000 + b"\r\n"):
            raw = server.raw()
            raw.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n" + cookie + b"\r\n")
            said = raw.makefile("rb").read()
            expect_in(b"HTTP/1.1 400 ", said, "the answer")
