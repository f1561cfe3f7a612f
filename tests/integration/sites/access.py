"""[access]: rules by address and path. [headers] preset: the security fields."""
from site_server import VERSIONS, SiteServer, expect, expect_in, run, test

RULES = """
[access /private]
allow = 127.0.0.1
deny = 127.0.0.2
[access /private/open]
deny = 192.0.2.0/24
[access /inner]
allow = 10.0.0.0/8 2001:db8::/32
[host a.example]
[access host a.example]
deny = 127.0.0.0/8
[access host a.example /public]
allow = 127.0.0.0/8
"""


@test
def addresses_are_allowed_and_denied_by_path(bench):
    server = SiteServer(bench, RULES)
    for path in ("private/a", "private/open/a", "inner/a", "privateer", "public/a", "errors/403.html"):
        server.put(f"www/{path}", path)
    with server:
        for target, host, client, status in (
                ("/private/a", "x", 1, 200), ("/private/a", "x", 2, 403), ("/private/a", "x", 3, 403),
                ("/private/", "x", 1, 403), ("/private", "x", 3, 403), ("/privateer", "x", 3, 200),
                ("/private/open/a", "x", 2, 200), ("/private/open/a", "x", 3, 200), ("/inner/a", "x", 1, 403),
                ("/%69nner/a", "x", 1, 403), ("/x/../inner/a", "x", 1, 403), ("/inner", "x", 1, 403),
                ("/privateer", "a.example", 1, 403), ("/public/a", "a.example", 1, 200),
                ("/private/a", "a.example", 1, 403)):
            for _ in range(3):  # from the file, then from the caches
                for version in VERSIONS:
                    response = server.get(target, host=host, version=version, source=f"127.0.0.{client}")
                    expect(response.status, status, f"{target} of {host} by 127.0.0.{client}, HTTP/{version}")
        expect(server.get("/private/a", source="127.0.0.3").body.decode(), "errors/403.html", "the error page")
        dumped = run(*server.command("-T"))
        for words in ("[access /private]\nallow = 127.0.0.1\ndeny = 127.0.0.2\n", "[access host a.example /public]\n"):
            expect_in(words, dumped, "-T")


@test
def cached_file_is_not_served_to_another_address(bench):
    server = SiteServer(bench, "[workers]\nprocesses = 1\nthreads = 1\n[access /p]\ndeny = 127.0.0.2\n")
    server.put("www/p/f", "secret")
    with server:
        for _ in range(3):
            expect(server.get("/p/f", source="127.0.0.1").status, 200, "allowed")
            expect(server.get("/p/f", source="127.0.0.2").status, 403, "denied")


@test
def file_of_networks_is_read_at_each_reload(bench):
    text = "[ratelimit]\nexempt = @bad.txt\n[access /p]\ndeny = 127.0.0.4 @bad.txt\n"
    server = SiteServer(bench, text)
    server.put("www/p/f", "f")
    server.put("bad.txt", "# crawlers\n127.0.0.2\n")
    with server:
        for client, status in ((1, 200), (2, 403), (3, 200), (4, 403)):
            expect(server.get("/p/f", source=f"127.0.0.{client}").status, status, f"127.0.0.{client}")
        server.reload(text)  # the address has a port now
        expect_in("no changes", server.reload(text), "a reload with the same files")
        server.put("bad.txt", "127.0.0.3")
        expect_in("changed: ratelimit.exempt, [access /p]", server.reload(text), "a reload with another file")
        for client, status in ((1, 200), (2, 200), (3, 403), (4, 403)):
            expect(server.get("/p/f", source=f"127.0.0.{client}").status, status, f"127.0.0.{client} after a reload")
        server.put("bad.txt", "127.0.0.300")
        expect_in("/bad.txt:1: '127.0.0.300' is not an address", server.reload(text), "a reload with a fault in the file")
        expect(server.get("/p/f", source="127.0.0.3").status, 403, "the list before")


@test
def faults_of_access_are_reported(bench):
    for text, words in (("[access /p]\nallw = ::1\n", "[access] has no key 'allw'"),
                        ("[access p]\nallow = ::1\n", "does not take this argument"),
                        ("[access /p*]\nallow = ::1\n", "only the last segment of a path can be '*'"),
                        ("[access /p /q]\nallow = ::1\n", "write a path with blanks in double quotes"),
                        ("[access /p]\nallow =\n", "write none or any"),
                        ("[access *.txt]\nallow = ::1\n", "does not take this argument"),
                        ("[access /p]\nallow = 10.0.0.1/8\n", "10.0.0.1/8"), ("[access /p]\ndeny = x\n", "'x'"),
                        ("[access /p]\ndeny = ::1\n[access /p/]\ndeny = ::2\n", "is already set for this path"),
                        ("[access host b.example /p]\ndeny = ::1\n", "there is no [host b.example]")):
        expect_in(words, SiteServer(bench, text).check(), text)


@test
def security_preset_can_be_overridden(bench):
    text = "[headers]\nX-Frame-Options = DENY\npreset = security\nReferrer-Policy = no-referrer\nPermissions-Policy =\n" \
           "[headers /framed]\nX-Frame-Options =\n"
    server = SiteServer(bench, text)
    server.put("www/framed/a", "a")
    with server:
        for target, status, frame in (("/", 200, "DENY"), ("/none", 404, "DENY"), ("/framed/a", 200, None)):
            response = server.expect(target, status)
            expect((response["x-content-type-options"], response["x-frame-options"], response["referrer-policy"],
                    response["permissions-policy"], response["cross-origin-opener-policy"]),
                   ("nosniff", frame, "no-referrer", None, "same-origin"), target)
            expect_in("default-src 'self'; ", response["content-security-policy"], target)
    expect_in("'strict' is not a preset", SiteServer(bench, "[headers]\npreset = strict\n").check(), "an unknown preset")
    expect_in("does not need always", SiteServer(bench, "[headers always]\npreset = security\n").check(), "always")


@test
def type_by_path_comes_before_type_by_extension(bench):
    server = SiteServer(bench, "[mime]\ndefault = text/x-any\ngmi = text/gemini\n[headers /data]\nContent-Type = text/csv\n"
                               "[headers /data/raw/*]\nContent-Type = application/x-raw\n")
    for path in ("README", "a.unknown", "a.gmi", "a.png", "data/a", "data/a.png", "data/raw/a.html"):
        server.put(f"www/{path}", path)
    with server:
        for target, wanted in (("/README", "text/x-any"), ("/a.unknown", "text/x-any"), ("/a.gmi", "text/gemini"), ("/a.png", "image/png"),
                               ("/data/a", "text/csv"), ("/data/a.png", "text/csv"), ("/data/raw/a.html", "application/x-raw")):
            expect(server.expect(target, 200)["content-type"], wanted, target)
