"""[cors]: fields by origin, preflights, Vary."""
from site_server import VERSIONS, SiteServer, expect, expect_in, run, test

ORIGIN = "https://www.example.org"
RULES = """
[cors /fonts]
origins = *
max_age = 10m
[cors /data]
origins = https://www.example.org, http://localhost:3000
methods = GET
fields = X-Requested-With Range
expose = ETag, Content-Range
max_age = 1h
credentials = on
[access /data/inner]
users = @/users
[access /fonts/local]
deny = 127.0.0.2
[host a.example]
[cors host a.example /fonts]
origins = https://a.example
[redirect]
/data/old = 301 /data/new
"""
PREFIX = "access-control-"


def start(bench):
    server = SiteServer(bench, RULES)
    for path in ("fonts/f.woff", "fonts/local/f", "data/d", "data/inner/d", "open"):
        server.put(f"www/{path}", path)
    server.put("users", "a:$5$dD8YeXtIU8mGvbn7$rnNFDsBqL6or4htTyWweiHoeySwQl/jVIapfrWeEQf7\n")
    (server.directory / "users").chmod(0o600)
    return server


def fields(response):
    """Those of CORS, without the prefix, and Vary."""
    found = {name[len(PREFIX):]: value for name, value in response.fields.items() if name.startswith(PREFIX)}
    return {**found, **({"vary": response["vary"]} if response["vary"] else {})}


def send(server, target, origin, *lines, **more):
    return server.get(target, *([f"Origin: {origin}"] if origin else []), *lines, **more)


def preflight(server, target, origin, **more):
    return send(server, target, origin, "Access-Control-Request-Method: GET", method="OPTIONS", **more)


@test
def responses_have_the_fields_of_their_origin(bench):
    permitted = {"allow-origin": ORIGIN, "allow-credentials": "true", "expose-headers": "ETag, Content-Range",
                 "vary": "Origin"}
    local = {**permitted, "allow-origin": "http://localhost:3000"}
    refused = {"vary": "Origin"}
    with start(bench) as server:
        for target, origin, host, status, wanted in (
                ("/open", ORIGIN, "x", 200, {}), ("/fonts/f.woff", ORIGIN, "x", 200, {"allow-origin": "*"}),
                ("/fonts/f.woff", None, "x", 200, {"allow-origin": "*"}), ("/fontsize", ORIGIN, "x", 404, {}),
                ("/data/d", ORIGIN, "x", 200, permitted), ("/data/d", "http://localhost:3000", "x", 200, local),
                ("/data/d", None, "x", 200, refused), ("/data/d", "null", "x", 200, refused),
                ("/data/d", "https://WWW.example.org", "x", 200, refused), ("/data/d", f"{ORIGIN}.", "x", 200, refused),
                ("/data/d", "https://www.example.org.evil", "x", 200, refused),
                ("/data/d", "https://www.example.or", "x", 200, refused), ("/data/d", "*", "x", 200, refused),
                ("/data/d", "http://www.example.org", "x", 200, refused),
                ("/data/d", f"{ORIGIN}, http://localhost:3000", "x", 200, refused),
                ("/%64ata/d", ORIGIN, "x", 200, permitted), ("/data/none", ORIGIN, "x", 404, permitted),
                ("/data/old", ORIGIN, "x", 301, permitted), ("/data/inner/d", ORIGIN, "x", 401, permitted),
                ("/fonts/f.woff", ORIGIN, "a.example", 200, {"vary": "Origin"}),
                ("/fonts/f.woff", "https://a.example", "a.example", 200,
                 {"allow-origin": "https://a.example", "vary": "Origin"})):
            for _ in range(3):  # from the file, then from the caches
                for version in VERSIONS:
                    response = send(server, target, origin, host=host, version=version)
                    expect((response.status, fields(response)), (status, wanted), f"{target} {origin} {host}, HTTP/{version}")
        expect(fields(send(server, "/data/d", ORIGIN, f"Origin: {ORIGIN}")), refused, "two fields")
        expect(fields(send(server, "/data/d", ORIGIN, method="OPTIONS")), permitted, "OPTIONS without a method that it asks for")
        for lines, method, status in ((["Range: bytes=0-1"], "GET", 206), (["If-None-Match: *"], "GET", 304), ([], "HEAD", 200)):
            response = send(server, "/data/d", ORIGIN, *lines, method=method)
            expect((response.status, fields(response)), (status, permitted), f"{method} {lines}")


@test
def preflights_are_answered(bench):
    data = {"allow-origin": ORIGIN, "allow-credentials": "true", "allow-methods": "GET",
            "allow-headers": "X-Requested-With, Range", "max-age": "3600", "vary": "Origin"}
    fonts = {"allow-origin": "*", "allow-methods": "GET, HEAD", "max-age": "600"}
    with start(bench) as server:
        for target, origin, wanted in (("/data/d", ORIGIN, data), ("/data/none", ORIGIN, data),
                                       ("/data/inner/d", ORIGIN, data), ("/data/old", ORIGIN, data),
                                       ("/data/d", "https://evil.example", {"vary": "Origin"}),
                                       ("/fonts/f.woff", ORIGIN, fonts), ("/open", ORIGIN, {})):
            for version in VERSIONS:
                response = preflight(server, target, origin, version=version)
                expect((response.status, response["allow"], response.body, fields(response)),
                       (200, "GET, HEAD, OPTIONS", b"", wanted), f"{target} {origin}, HTTP/{version}")
        metrics = server.status()["metrics"]
        expect((metrics["preflights"], metrics["preflights_refused"]), (12, 2), "counters")
        expect(preflight(server, "/fonts/local/f", ORIGIN, source="127.0.0.2").status, 403,
               "an address that is not allowed")
        response = send(server, "/data/inner/d", ORIGIN, method="OPTIONS")
        expect(response.status, 401, "OPTIONS that is no preflight")
        dumped = run(*server.command("-T"))
        expect_in("[cors /data]\norigins = https://www.example.org, http://localhost:3000\nmethods = GET\n"
                  "fields = X-Requested-With, Range\nexpose = ETag, Content-Range\nmax_age = 3600s\ncredentials = on\n",
                  dumped, "-T")


@test
def faults_of_cors_are_reported(bench):
    for text, words in (("origin = *", "[cors] has no key 'origin'"), ("origins =", "the list is empty"),
                        ("origins = null", "'null' is the origin of every local file and sandbox"),
                        ("origins = https://a.example/", "'https://a.example/' has a path"),
                        ("origins = www.example.org", "'www.example.org' is not an origin"),
                        ("origins = https://A.example", "is not an origin in lower case"),
                        ("origins = https://*.example", "is not an origin in lower case"),
                        ("origins = https://a.example:443", "has the default port"),
                        ("origins = http://a.example:x", "has a port that is not a number"),
                        ("origins = https://", "is not an origin in lower case"),
                        ("origins = * https://a.example", "origins has * and other origins"),
                        ("origins = *\ncredentials = on", "browsers refuse credentials with origins = *"),
                        ("origins = https://a\nfields = *\ncredentials = on", "with credentials * is not every field"),
                        ("max_age = 1h", "[cors /p]: error: the section has no origins"),
                        ("origins = *\nmethods = PUT", "'PUT' is not a method of this server"),
                        ("origins = *\nfields = a:b", "'a:b' is not the name of a field"),
                        ("origins = *\nmax_age = 25h", "invalid max_age '25h'"),
                        ("origins = *\nmax_age = x", "invalid max_age 'x'"),
                        ("origins = *\ncredentials = yes", "'yes' is neither on nor off"),
                        ("origins = *\norigins = *", "'origins' is already set for this path")):
        expect_in(words, SiteServer(bench, f"[cors /p]\n{text}\n").check(), text)
    expect_in("there is no [host b.example]", SiteServer(bench, "[cors host b.example]\norigins = *\n").check(), "host")
    expect_in("write [cors], [cors /prefix]", SiteServer(bench, "[cors p]\norigins = *\n").check(), "argument")
