"""An ACME authority (RFC 8555) for tests, with faults on demand."""
import base64
import functools
import hashlib
import json
import pathlib
import socket
import socketserver
import ssl
import subprocess
import tempfile
import threading
import time

import x509
from credentials import SEQUENCE, Request, certify, der, integer, is_signed
from harness import PATIENCE_S, client_context, until


def openssl(*words, stdin=b""):
    done = subprocess.run(["openssl", *map(str, words)], input=stdin, timeout=PATIENCE_S, capture_output=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"openssl {words[0]}: {done.stderr.decode()}")
    return done.stdout


def decode(text):
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def encode(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def as_pem(label, data):
    return f"-----BEGIN {label}-----\n{base64.encodebytes(data).decode()}-----END {label}-----\n"


def public_key(jwk):
    """The DER of a JSON Web Key of P-256: a fixed head, and the point."""
    head = bytes.fromhex("3059301306072a8648ce3d020106082a8648ce3d030107034200")
    return head + b"\x04" + decode(jwk["x"]) + decode(jwk["y"])


def thumbprint_of(jwk):
    return encode(hashlib.sha256(json.dumps(jwk, sort_keys=True, separators=(",", ":")).encode()).digest())


@functools.lru_cache
def make_pair(*words):
    """The PEM of a key and of a self-signed certificate, which all authorities of a run share."""
    with tempfile.TemporaryDirectory() as directory:
        files = [pathlib.Path(directory) / name for name in ("key", "certificate")]
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "30", *words,
                "-keyout", files[0], "-out", files[1])
        return [file.read_text() for file in files]


def write_server_pair(directory):
    """The key and the certificate of an authority's HTTPS server."""
    write_pair(directory, "server", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1")


def write_pair(directory, name, *words):
    for suffix, text in zip(("key", "pem"), make_pair(*words)):
        (directory / f"{name}.{suffix}").write_text(text)


def connect_for_validation(port, name, alpn=("acme-tls/1",), version=None):
    """As an authority connects for tls-alpn-01 (RFC 8737 section 3)."""
    return client_context(None, version, tuple(alpn)).wrap_socket(socket.create_connection(("127.0.0.1", port), PATIENCE_S), server_hostname=name)


def fault_of_certificate(der, name, key_authorization):
    """None if it proves control of NAME: an extension acmeIdentifier, critical, with the digest; and no other name."""
    digest = hashlib.sha256(key_authorization.encode()).digest()
    extension = bytes.fromhex("06082b0601050507011f" "0101ff" "04220420") + digest
    names = x509.parse(der).alternative_names()
    if der.count(extension) != 1:
        return "the certificate has no acmeIdentifier of this challenge"
    return None if names == [f"DNS:{name}"] else f"the certificate is for {names!r}"


def fault_of_validation(port, name, key_authorization):
    with connect_for_validation(port, name) as stream:
        if stream.selected_alpn_protocol() != "acme-tls/1":
            return f"the server selected {stream.selected_alpn_protocol()}"
        fault = fault_of_certificate(stream.getpeercert(True), name, key_authorization)
        return fault or (None if stream.recv(1) == b"" else "the server goes on after the handshake")


class Problem(Exception):
    """An answer that is an error."""

    def __init__(self, status, kind, detail, **fields):
        super().__init__(detail)
        self.status, self.kind, self.detail, self.fields = status, kind, detail, fields


class Authority:
    """Runs in a thread. Set FAULTS, a list of functions: each is called with the path of a request, and may return
    a Problem, bytes (sent as they are, then the connection ends) or None. LATE_FAULTS are called after the request is
    processed: bytes mean that there is no answer. Certificates begin AGE_S ago and end in LIFE_S."""

    def __init__(self, directory, http_port=None):
        self.directory = pathlib.Path(directory)
        self.directory.mkdir()
        self.http_port, self.tls_port = http_port, None
        self.offered = ("http-01", "tls-alpn-01")
        self.checked = []  # kinds of challenges, as the server chose them
        self.age_s, self.life_s = 1, 90 * 86400
        self.windows = None  # of RFC 9773 by identifier, by name, or by ""; each two times from now
        self.check_after_s = 3600
        self.faults, self.late_faults = [], []
        self.changes_keys = True
        self.nonces, self.accounts, self.orders, self.requests = set(), {}, [], []
        self.lock = threading.Lock()
        self.serial = 0x9000 - 1
        self.make_files()
        self.server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), self.handler())
        self.server.daemon_threads = True
        self.server.handle_error = lambda *_: None  # clients that are killed, or do not trust it
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.directory / "server.pem", self.directory / "server.key")
        self.context = context
        self.port = self.server.server_address[1]
        self.base = f"https://localhost:{self.port}"
        threading.Thread(target=self.server.serve_forever, args=(PATIENCE_S,), daemon=True).start()

    # Files

    def make_files(self):
        directory = self.directory
        write_pair(directory, "ca", "-subj", "/CN=Test authority")
        write_server_pair(directory)

    @property
    def ca_file(self):
        return self.directory / "server.pem"

    def sign(self, csr):
        """The chain for a request in DER."""
        with self.lock:
            self.serial += 1
            serial = self.serial
        issuer, now = (self.directory / "ca.pem").read_text(), time.time()
        certificate = certify(Request(csr), serial, now - self.age_s, now + self.life_s, issuer, (self.directory / "ca.key").read_bytes())
        return as_pem("CERTIFICATE", certificate) + issuer

    # Requests

    def handler(authority):  # pylint: disable=no-self-argument
        class Handler(socketserver.StreamRequestHandler):
            """HTTP/1.1, without the parser of http.server, which takes more time than all else."""

            def setup(self):
                self.request.settimeout(PATIENCE_S)
                self.request = authority.context.wrap_socket(self.request, server_side=True)
                super().setup()

            def finish(self):  # also after an exception: the server closes only the socket below TLS
                super().finish()
                self.request.close()

            def handle(self):
                self.close_connection = False
                while not self.close_connection and (line := self.rfile.readline()):
                    self.command, self.path, _ = line.decode().split()
                    length = 0
                    while (line := self.rfile.readline()).strip():
                        name, _, value = line.decode().partition(":")
                        length = int(value) if name.lower() == "content-length" else length
                    authority.answer(self, self.rfile.read(length))

            def respond(self, status, fields, data):
                head = "".join(f"{name}: {value}\r\n" for name, value in {"Content-Length": len(data), **fields}.items())
                self.wfile.write(f"HTTP/1.1 {status} -\r\n{head}\r\n".encode() + (b"" if self.command == "HEAD" else data))

        return Handler

    def answer(self, handler, body):
        with self.lock:
            self.requests.append(handler.path)
        status, headers, content = 200, {}, {}
        try:
            for fault in list(self.faults):
                result = fault(handler.path)
                if isinstance(result, bytes):
                    handler.wfile.write(result)
                    handler.close_connection = True
                    return
                if isinstance(result, Problem):
                    raise result
            status, headers, content = self.process(handler.command, handler.path, body)
            for fault in list(self.late_faults):
                if isinstance(fault(handler.path), bytes):
                    handler.close_connection = True
                    return
        except Problem as problem:
            status, headers = problem.status, problem.fields
            content = {"type": f"urn:ietf:params:acme:error:{problem.kind}", "detail": problem.detail}
        data = content.encode() if isinstance(content, str) else json.dumps(content).encode()
        handler.respond(status, {"Replay-Nonce": self.new_nonce(), **headers}, data)

    def new_nonce(self):
        with self.lock:
            nonce = f"nonce{len(self.nonces)}-{time.monotonic_ns()}"
            self.nonces.add(nonce)
            return nonce

    def process(self, method, path, body):
        """Returns status, fields and content."""
        if path == "/directory":
            names = ("newNonce", "newAccount", "newOrder") + (("keyChange",) if self.changes_keys else ()) + (
                ("renewalInfo",) if self.windows is not None else ())
            return 200, {}, {name: f"{self.base}/{name}" for name in names}
        if path == "/newNonce":
            return 200, {}, ""
        if path.startswith("/renewalInfo/") and method == "GET":
            return self.renewal_info(path.rpartition("/")[2])
        if method != "POST":
            raise Problem(405, "malformed", "only POST")
        jwk, kid, payload = self.verify(path, body)
        kind, _, number = path.strip("/").partition("/")
        if kind == "newAccount":
            return self.register(jwk, payload)
        if kind == "keyChange":
            return self.change_key(kid, payload)
        if kind == "newOrder":
            return self.new_order(payload)
        return getattr(self, f"on_{kind}")(self.orders[int(number)], payload)

    def verify(self, path, body):
        """Checks the signature. Returns the key, the URL of its account, and the payload (None: POST-as-GET)."""
        message = json.loads(body)
        protected = json.loads(decode(message["protected"]))
        if protected["alg"] != "ES256" or protected["url"] != self.base + path:
            raise Problem(400, "malformed", f"protected header {protected}")
        with self.lock:
            if protected["nonce"] not in self.nonces:
                raise Problem(400, "badNonce", "this nonce is not known")
            self.nonces.discard(protected["nonce"])
        if ("jwk" in protected) != (path == "/newAccount"):
            raise Problem(400, "malformed", "jwk only for newAccount, else kid")
        jwk = protected["jwk"] if "jwk" in protected else self.accounts.get(protected["kid"].rsplit("/", 1)[1])
        if jwk is None:
            raise Problem(400, "accountDoesNotExist", "no account with this URL")
        self.check_signature(message, jwk)
        payload = decode(message["payload"])
        return jwk, protected.get("kid"), json.loads(payload) if payload else None

    @staticmethod
    def check_signature(message, jwk):
        raw = decode(message["signature"])
        first, second = integer(raw[:32]), integer(raw[32:])
        if not is_signed(public_key(jwk), der(SEQUENCE, first, second), f"{message['protected']}.{message['payload']}".encode()):
            raise RuntimeError("the signature is wrong")

    # Resources

    def register(self, jwk, payload):
        """The name of an account is the thumbprint of its first key."""
        found = [name for name, key in self.accounts.items() if key == jwk]
        if found:
            return 200, {"Location": f"{self.base}/account/{found[0]}"}, {"status": "valid"}
        if payload.get("onlyReturnExisting"):
            raise Problem(400, "accountDoesNotExist", "no account with this key")
        if payload.get("termsOfServiceAgreed") is not True:
            raise Problem(403, "userActionRequired", "the terms are not agreed to")
        self.contact = payload.get("contact")
        name = thumbprint_of(jwk)
        self.accounts[name] = jwk
        return 201, {"Location": f"{self.base}/account/{name}"}, {"status": "valid"}

    def change_key(self, kid, inner):
        """RFC 8555 section 7.3.5."""
        protected, payload = json.loads(decode(inner["protected"])), json.loads(decode(inner["payload"]))
        name, jwk = kid.rsplit("/", 1)[1], protected["jwk"]
        if protected["alg"] != "ES256" or protected["url"] != f"{self.base}/keyChange" or "nonce" in protected:
            raise Problem(400, "malformed", f"inner protected header {protected}")
        self.check_signature(inner, jwk)
        if payload != {"account": kid, "oldKey": self.accounts[name]}:
            raise Problem(400, "malformed", f"inner payload {payload}")
        if jwk in self.accounts.values():
            raise Problem(409, "malformed", "the new key belongs to an account", Location=kid)
        self.accounts[name] = jwk
        return 200, {}, {"status": "valid"}

    def thumbprint(self):
        """Of the key of the first account."""
        return thumbprint_of(next(iter(self.accounts.values())))

    def new_order(self, payload):
        with self.lock:
            number = len(self.orders)
            order = {"number": number, "name": payload["identifiers"][0]["value"], "status": "pending", "authorization": "pending",
                     "token": f"token-{number}-{time.monotonic_ns()}", "error": None, "replaces": payload.get("replaces")}
            self.orders.append(order)
        return 201, {"Location": f"{self.base}/order/{number}"}, self.on_order(order, None)[2]

    def identifier(self, order):
        """Of the order's certificate, by RFC 9773."""
        certificate = x509.parse_pem(order["chain"])
        return f"{encode(certificate.authority_key())}.{encode(certificate.serial)}"

    def find_order(self, identifier):
        """The one whose certificate has the identifier, or None."""
        return next((order for order in self.orders if order["status"] == "valid" and self.identifier(order) == identifier), None)

    def renewal_info(self, identifier):
        order = self.find_order(identifier)
        if order is None:
            raise Problem(404, "malformed", f"no certificate {identifier}")
        window = next(self.windows[key] for key in (identifier, order["name"], "") if key in self.windows)
        stamps = [time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + offset)) for offset in window]
        return 200, {"Retry-After": str(self.check_after_s)}, {"suggestedWindow": dict(zip(("start", "end"), stamps))}

    def on_order(self, order, _):
        number = order["number"]
        content = {"status": order["status"], "identifiers": [{"type": "dns", "value": order["name"]}],
                   "authorizations": [f"{self.base}/authorization/{number}"], "finalize": f"{self.base}/finalize/{number}"}
        if order["status"] == "valid":
            content["certificate"] = f"{self.base}/certificate/{number}"
        return 200, {}, content

    def on_authorization(self, order, _):
        urls = {"http-01": "challenge", "tls-alpn-01": "challenge_tls"}
        challenges = [{"type": kind, "url": f"{self.base}/{urls[kind]}/{order['number']}", "token": order["token"],
                       "status": order["authorization"]} for kind in self.offered]
        if order["error"]:
            challenges[0]["error"] = {"type": "urn:ietf:params:acme:error:unauthorized", "detail": order["error"]}
        return 200, {}, {"status": order["authorization"], "identifier": {"type": "dns", "value": order["name"]},
                         "challenges": [{"type": "dns-01", "url": "x", "token": "y"}, *challenges]}

    def begin_check(self, order, payload, kind, check):
        if payload != {}:
            raise Problem(400, "malformed", "the payload must be {}")
        self.checked.append(kind)
        threading.Thread(target=self.validate, args=(order, check), daemon=True).start()
        return 200, {}, {"status": "processing"}

    def on_challenge(self, order, payload):
        return self.begin_check(order, payload, "http-01", self.check_http)

    def on_challenge_tls(self, order, payload):
        return self.begin_check(order, payload, "tls-alpn-01", self.check_tls)

    def validate(self, order, check):
        """CHECK returns what is wrong, or None. The ACME process may be faster than the test that sets the ports."""
        until(lambda: self.http_port is not None, "the ports of the server")
        try:
            order["error"] = check(order, f"{order['token']}.{self.thumbprint()}")
        except OSError as error:
            order["error"] = f"cannot connect: {error}"
        order["status"] = "invalid" if order["error"] else "ready"
        order["authorization"] = "invalid" if order["error"] else "valid"

    def check_http(self, order, wanted):
        """Looks for the token as the real one does, but on the port of the test."""
        with socket.create_connection(("127.0.0.1", self.http_port), PATIENCE_S) as stream:
            stream.sendall(f"GET /.well-known/acme-challenge/{order['token']} HTTP/1.1\r\nHost: {order['name']}\r\n"
                           "Connection: close\r\n\r\n".encode())
            head, _, got = stream.makefile("rb").read().decode(errors="replace").partition("\r\n\r\n")
        return None if head.startswith("HTTP/1.1 200 ") and got == wanted else f"the key authorization is wrong: {head[:60]} {got[:60]}"

    def check_tls(self, order, wanted):
        return fault_of_validation(self.tls_port, order["name"], wanted)

    def on_finalize(self, order, payload):
        if order["status"] != "ready":
            raise Problem(403, "orderNotReady", f"the order is {order['status']}")
        order["chain"] = self.sign(decode(payload["csr"]))
        order["status"] = "valid"
        return self.on_order(order, None)

    def on_certificate(self, order, _):
        return 200, {"Content-Type": "application/pem-certificate-chain"}, order["chain"]
