"""OCSP responses: stapled to the certificate that they are about, and refused if they do not fit."""
import calendar
import pathlib
import re
import time

from harness import Exchange, expect, expect_in, key_words, run, test, until

VERSIONS = ("-tls1_2", "-tls1_3")
NO_RESPONSE = "OCSP response: no response sent"
UNAUTHORIZED = bytes.fromhex("30030a0106")  # what a responder answers that does not know the certificate


class Authority:
    """A CA, its certificates and its responder."""

    def __init__(self, bench, name="ca"):
        self.bench, self.name = bench, name
        self.certificate, self.key = bench.path(f"{name}.pem"), bench.path(f"{name}.key")
        run("openssl", "req", "-x509", *key_words("ec", self.key), "-days", "2", "-subj", f"/CN={name}", "-out", self.certificate)

    def issue(self, name, kind, host, with_issuer=True):
        """A certificate, whose file also has that of the CA or not."""
        pem, request, names = self.bench.path(f"{name}.pem"), self.bench.path("request"), self.bench.path("names")
        pathlib.Path(names).write_text(f"subjectAltName=DNS:{host}\n")
        run("openssl", "req", "-new", *key_words(kind, self.bench.path(f"{name}.key")), "-subj", f"/CN={name}", "-out", request)
        run("openssl", "x509", "-req", "-in", request, "-CA", self.certificate, "-CAkey", self.key, "-days", "2",
            "-CAcreateserial", "-extfile", names, "-out", pem)
        if with_issuer:
            pathlib.Path(pem).write_text(pathlib.Path(pem).read_text() + pathlib.Path(self.certificate).read_text())

    def serial(self, name):
        return run("openssl", "x509", "-noout", "-serial", "-in", self.bench.path(f"{name}.pem")).split("=")[1].strip()

    def answer(self, name, *words, status="V"):
        """The path of a response about a certificate."""
        index, path = self.bench.path("index"), self.bench.path(f"{name}-{status}.ocsp")
        revoked = time.strftime("%y%m%d%H%M%SZ", time.gmtime()) if status == "R" else ""
        pathlib.Path(index).write_text(f"{status}\t490101000000Z\t{revoked}\t{self.serial(name)}\tunknown\t/CN={name}\n")
        run("openssl", "ocsp", *words, "-index", index, "-CA", self.certificate, "-rsigner", self.certificate, "-rkey", self.key,
            "-issuer", self.certificate, "-cert", self.bench.path(f"{name}.pem"), "-ndays", "1", "-respout", path,
            check="-badsig" not in words)
        return path


def moved(path, this_update, next_update):
    """A copy of the response with other times, whose signature is wrong. Seconds from now."""
    content = pathlib.Path(path).read_bytes()
    times = [int(calendar.timegm(time.strptime(found.decode(), "%Y%m%d%H%M%SZ")))
             for found in re.findall(rb"\d{14}Z", content)]
    first, last = min(times), max(times)
    for old, seconds in ((last, next_update), (first, this_update)):
        text = [time.strftime("%Y%m%d%H%M%SZ", time.gmtime(at)).encode() for at in (old, time.time() + seconds)]
        content = content.replace(*text)
    copy = pathlib.Path(f"{path}.{this_update}.{next_update}")
    copy.write_bytes(content)
    return str(copy)


def stapled(server, *words):
    """The serial number in the response that a client gets which requests one, or None."""
    said = server.probe("-status", *words)
    if NO_RESPONSE in said:
        return None
    expect_in("OCSP Response Status: successful (0x0)", said, "s_client -status")
    expect_in("Cert Status: good", said, "s_client -status")
    return said.split("Serial Number: ")[1].split()[0]


@test
def response_is_stapled_to_its_certificate(bench):
    ca = Authority(bench)
    for name, kind, host in (("leaf-ec", "ec", "localhost"), ("leaf-rsa", "rsa", "localhost"),
                             ("leaf-other", "ec", "other.example"), ("leaf-none", "ec", "none.example")):
        ca.issue(name, kind, host)
    responses = [ca.answer(name) for name in ("leaf-other", "leaf-ec")]
    with bench.start("leaf-ec", "leaf-rsa", "leaf-other", "leaf-none", tls__ocsp=f"{responses[0]}, {responses[1]}",
                     **{"host other.example.root": bench.site}) as server:
        for version in VERSIONS:
            expect(stapled(server, version, "-servername", "localhost", "-sigalgs", "ECDSA+SHA256"), ca.serial("leaf-ec"), "ec")
            expect(stapled(server, version, "-servername", "localhost", "-sigalgs", "RSA-PSS+SHA256"), None, "rsa")
            expect(stapled(server, version, "-servername", "other.example"), ca.serial("leaf-other"), "by SNI")
            expect(stapled(server, version, "-servername", "none.example"), None, "a certificate without a response")
            said = server.probe(version)
            expect_in("CN = leaf-ec", said, "a client that does not request it")
            expect("OCSP" in said, False, "a response that was not requested")
        server.set(**{"host other.example.ocsp": ca.answer("leaf-rsa", "-sha256")})
        server.control("reload")
        for version in VERSIONS:
            expect(stapled(server, version, "-servername", "localhost", "-sigalgs", "RSA-PSS+SHA256"),
                   ca.serial("leaf-rsa"), "rsa after the reload, with the key of a host")


@test
def response_that_does_not_fit_is_refused(bench):
    ca, other = Authority(bench), Authority(bench, "other-ca")
    ca.issue("leaf", "ec", "localhost")
    other.issue("foreign", "ec", "localhost")
    good = ca.answer("leaf")
    expected = ca.serial("leaf")
    bad = {name: bench.path(f"bad-{name}.ocsp") for name in ("empty", "garbage", "cut", "unauthorized", "forged", "copy")}
    content = pathlib.Path(good).read_bytes()
    for name, bytes_ in (("empty", b""), ("garbage", b"x" * 1000), ("cut", content[:-1]), ("copy", content),
                         ("unauthorized", UNAUTHORIZED)):
        pathlib.Path(bad[name]).write_bytes(bytes_)
    pathlib.Path(bad["forged"]).write_bytes(pathlib.Path(ca.answer("leaf", "-badsig")).read_bytes())
    pathlib.Path(good).write_bytes(content)
    with bench.start("leaf", tls__ocsp=good) as server:
        for path, message in (
                (bad["empty"], "bad-empty.ocsp: contains no OCSP response in DER format"),
                (bad["garbage"], "bad-garbage.ocsp: contains no OCSP response in DER format"),
                (bad["cut"], "bad-cut.ocsp: contains no OCSP response in DER format"),
                (bench.path("leaf.pem"), "leaf.pem: contains no OCSP response in DER format"),
                (bench.path("nothing.ocsp"), "nothing.ocsp: No such file or directory"),
                (bad["unauthorized"], "the OCSP responder has answered 'unauthorized'"),
                (bad["forged"], "bad-forged.ocsp: the OCSP response is not signed by the issuer of the certificate"),
                (other.answer("foreign"), "foreign-V.ocsp: the OCSP response is about none of the certificates"),
                (f"{good} {bad['copy']}", "bad-copy.ocsp: another OCSP response is about the same certificate")):
            server.set(tls__ocsp=path)
            expect_in("[tls] ocsp: ", server.control("reload", check=False), f"reload: {path}")
            expect_in(message, server.control("reload", check=False), f"reload: {path}")
            expect_in(message, run(*bench.command("leaf", tls__ocsp=path), "-t", check=False), f"-t: {path}")
            expect(stapled(server), expected, "the old response")
        server.set(tls__ocsp="")
        server.control("reload")
        expect(stapled(server), None, "after a reload without it")


@test
def response_that_clients_would_not_accept_is_not_stapled(bench):
    """The chain lacks the issuer, so the server cannot check the signature."""
    ca = Authority(bench)
    ca.issue("leaf", "ec", "localhost", with_issuer=False)
    good = ca.answer("leaf")
    with bench.start("leaf", tls__ocsp=good) as server:
        expect(stapled(server), ca.serial("leaf"), "a valid response")
        for path, message in ((moved(good, -1000, -10), "has expired: it is not stapled"),
                              (moved(good, 3600, 7200), "is not valid yet: it is not stapled"),
                              (ca.answer("leaf", status="R"), "says that the certificate is revoked or unknown")):
            server.set(tls__ocsp=path)
            server.control("reload")
            until(lambda text=message: text in server.output(), f"a warning: {message}")
            expect(stapled(server), None, message)
            expect(Exchange(server.connect()).get("small.txt")[0], 200, "a request")


@test
def response_is_stapled_until_it_expires(bench):
    ca = Authority(bench)
    ca.issue("leaf", "ec", "localhost", with_issuer=False)
    good = ca.answer("leaf")
    with bench.start("leaf", tls__ocsp=moved(good, -1000, 20)) as server:
        expect(stapled(server), ca.serial("leaf"), "before")
        until(lambda: "has expired: it is no longer stapled" in server.output(), "the warning")
        expect(stapled(server), None, "after")
        server.set(tls__ocsp=good)
        server.control("reload")
        expect(stapled(server), ca.serial("leaf"), "with a newer response")
        expect(server.output().count("no longer stapled"), 1, "warnings")
