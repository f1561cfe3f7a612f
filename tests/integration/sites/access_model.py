"""Random rules of [access] and requests, compared with a model: 100 hosts with rules of their own, 120 requests to each,
together more than 100,000 pairs of a rule and a request."""
import base64
import gzip
import random
import socket
import urllib.parse

from site_server import SiteServer, expect, test

HOSTS, REQUESTS, PAIRS = 100, 120, 100000
FILES = ("index.html", "priv/index.html", "priv/x", "priv/pub/y", "pub/z.txt", "pub/priv/x", "private/x", "a b/c d.txt", "caf\u00e9/x",
         "d/e/f/g.txt", "d/e/index.html", "empty/sub/x", "z/app.js", "z/app.js.gz", "app/index.html", "target/t.html",
         "errors/403.html", "errors/404.html", "errors/401.html", "50%/x", "e=q/x")
DIRECTORIES = {"/"} | {"/" + name[:i + 1] for name in FILES for i, byte in enumerate(name) if byte == "/"}
PATHS = sorted({"/" + name for name in FILES} | DIRECTORIES | {path.rstrip("/") for path in DIRECTORIES if path != "/"} |
               {"/none", "/priv/none", "/try/none", "/try/priv/none", "/route", "/d/route.x", "/z/none.js"})
USER = ("ann", "pass word")
ACTIONS = {"deny = any": "403", "allow = none": "403", "allow = any": "open", "deny = none": "open", "deny = 127.0.0.0/8": "403",
           "allow = 127.0.0.1": "open", "users = @/users": "users", "allow = any\nusers = @/users": "users"}


def disguise(source, path, is_rule):
    """PATH, written in another way that means the same."""
    segments = path.split("/")[1:]
    text = ""
    for segment in segments:
        text += source.choice(["/"] * 12 + ["//", "/./", "/x/../", "/%2e/", "/none/%2E%2e/"])
        for character in segment:
            must = character in " %*\"" or (ord(character) > 126 and source.random() < 0.5)
            text += urllib.parse.quote(character, safe="") if must or source.random() < 0.1 else character
    if not is_rule:
        return text.replace("\u00e9", "%C3%A9")
    if "%20" in text and source.random() < 0.5:
        text = '"' + text.replace("%20", " ") + '"'
    return text


class Rule:
    def __init__(self, source):
        self.prefix = source.choice(PATHS).rstrip("/")
        self.action = source.choice(sorted(ACTIONS))
        self.kind = ACTIONS[self.action]
        text = disguise(source, self.prefix, True) if self.prefix else ""
        ending = source.choice(["", "/", "/*"])
        self.text = text[:-1] + ending + '"' if text.endswith('"') else text + ending

    def matches(self, path):
        return path == self.prefix or path.startswith(self.prefix + "/")


class Host:
    def __init__(self, source, number):
        self.name = f"h{number}.test"
        self.fallback = "/app/index.html" if number % 3 == 0 else ""
        rules = {rule.prefix: rule for rule in (Rule(source) for _ in range(source.randint(1, 25)))}
        self.rules = sorted(rules.values(), key=lambda rule: -len(rule.prefix))

    def text(self):
        lines = [f"[host {self.name}]", f"fallback = {self.fallback}"]
        for rule in self.rules:
            lines += [f"[access host {self.name} {rule.text}]".replace(" ]", "]"), rule.action]
        return "\n".join(lines)

    def rule(self, path):
        return next((rule for rule in self.rules if rule.matches(path)), None)

    def file(self, path):
        """The file for a request, 301 or the status of the error."""
        if path[1:] in FILES:
            return path
        if path + "/" in DIRECTORIES:
            return 301
        if path in DIRECTORIES and (path + "index.html")[1:] in FILES:
            return path + "index.html"
        if path.startswith("/try/"):
            return "/target/t.html"
        if self.fallback and "." not in path.rsplit("/", 1)[1]:
            return self.fallback
        return 403 if path in DIRECTORIES else 404

    def answer(self, path, login, compressed):
        """The status, and the file that is served, also for an error; None: a built-in page."""
        granted = None

        def refused(path):
            nonlocal granted
            rule = self.rule(path)
            if rule is None or rule is granted:
                return 0
            status = {"403": 403, "open": 0, "users": 0 if login else 401}[rule.kind]
            if status == 0:
                granted = rule
            return status

        def permitted(path):  # without a password
            rule = self.rule(path)
            return rule is None or rule is granted or rule.kind == "open"

        status = refused(path)
        if status == 0:
            file = self.file(path)
            status = file if isinstance(file, int) else refused(file) or 200
        if status == 200:
            variant = file + ".gz"
            return 200, variant if compressed and variant[1:] in FILES and permitted(variant) else file
        page = f"/errors/{status}.html"
        return status, page if page[1:] in FILES and permitted(page) else None


def read_response(stream):
    status = int(stream.readline().split()[1])
    fields = {}
    while (line := stream.readline()) != b"\r\n":
        name, _, value = line.decode().partition(": ")
        fields[name.lower()] = value.strip()
    return status, fields, stream.read(int(fields["content-length"]))


@test
def random_rules_decide_as_the_model_does(bench):
    source = random.Random(40)
    hosts = [Host(source, number) for number in range(HOSTS)]
    server = SiteServer(bench, "[cache]\ncompress = off\n[redirect]\n/try/* = try file /target/t.html\n"
                        + "\n".join(host.text() for host in hosts) + "\n")
    expect(sum(len(host.rules) for host in hosts) * REQUESTS > PAIRS, True, "enough rules")
    bodies = {}
    for name in FILES:
        bodies["/" + name] = f"the file {name}".encode()
        server.put("www/" + name, f"the file {name}")
    bodies["/z/app.js.gz"] = gzip.compress(b"compressed", mtime=0)
    (server.directory / "www/z/app.js.gz").write_bytes(bodies["/z/app.js.gz"])
    (server.directory / "users").write_text(f"{USER[0]}:$2y$04$QFnPyGF6.q2nlp3nVbzOEeeToKzCbUix/PFAa7buIQwbXDh1Aaij2\n")
    (server.directory / "users").chmod(0o600)
    header = "Authorization: Basic " + base64.b64encode(":".join(USER).encode()).decode() + "\r\n"
    seen = {}
    with server, socket.create_connection(("127.0.0.1", server.port)) as connection:
        stream = connection.makefile("rb")
        for host in hosts:
            requests = []
            for _ in range(REQUESTS):
                path, login, compressed = source.choice(PATHS), source.random() < 0.3, source.random() < 0.3
                requests.append((path, disguise(source, path, False), login, compressed))
            connection.sendall("".join(
                f"GET {target} HTTP/1.1\r\nHost: {host.name}\r\n{header if login else ''}"
                f"{'Accept-Encoding: gzip' if compressed else 'X-A: b'}\r\n\r\n"
                for _, target, login, compressed in requests).encode())
            for path, target, login, compressed in requests:
                status, _, body = read_response(stream)
                wanted, file = host.answer(path, login, compressed)
                expected = status == 301 or (body == bodies[file] if file is not None else body.startswith(b"<!DOCTYPE"))
                if status != wanted or not expected:
                    raise AssertionError(f"{target} ({path}), login {login}, gzip {compressed}: {status} {body} instead of "
                                         f"{wanted} {file} of\n{host.text()}")
                seen[status] = seen.get(status, 0) + 1
    expect(sorted(status for status, count in seen.items() if count > HOSTS * REQUESTS / 100), [200, 301, 401, 403, 404], f"statuses: {seen}")
