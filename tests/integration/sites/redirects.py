"""[redirect]: a table of rules and requests, loops and other faults, http to https."""
import resource
import subprocess

from site_server import VERSIONS, SiteServer, expect, expect_in, run, test

RULES = """
[redirect]
/old = 301 /new
/found = 302 /new?x=1
/moved = 307 /new
/kept = 308 /new
/blog/keep/* = pass
/blog/* = 301 https://blog.example.org/posts/*
/away = 301 http://other.example:8080
/home = 302 /
/docs/* = 301 /manual/*
/flat/* = 302 /new
/gone = 410
/gone/* = 410
/secret/* = 403
/hidden = 404
/first = 301 /a
/app/* = try file /app/index.html
/dirs/* = try file directory /new 404
/only/* = try /new
/strict/* = try file 410
/names/* = try directory 403
/lost/* = try file /nothing.html 410
/caf\u00e9 = 301 /coffee
/a%20b = 301 /x
"/with blank/*" = 301 "/new page/*"
http "/e=q" = 301 /x
/c:d;e = 301 /y
/p/../q//r = 301 "/s%20t u"
"""

# target, status, Location or body; None: any
CASES = (
    ("/old", 301, "/new"), ("/old?q=1", 301, "/new?q=1"), ("/old?", 301, "/new?"), ("/old/", 404, None),
    ("/OLD", 404, None), ("/%6Fld", 301, "/new"), ("/x/../old", 301, "/new"), ("//old", 301, "/new"),
    ("/older", 404, None), ("/found", 302, "/new?x=1"), ("/found?y=2", 302, "/new?x=1"), ("/moved", 307, "/new"),
    ("/kept", 308, "/new"), ("/kept?a=%20b", 308, "/new?a=%20b"),
    ("/blog/", 301, "https://blog.example.org/posts/"), ("/blog/2026/x", 301, "https://blog.example.org/posts/2026/x"),
    ("/blog/a?b=c", 301, "https://blog.example.org/posts/a?b=c"), ("/blog", 301, "https://blog.example.org/posts/"),
    ("/blog/a%20b", 301, "https://blog.example.org/posts/a%20b"), ("/blog/%0d%0aX", 400, None),
    ("/blog/a%3Fb", 301, "https://blog.example.org/posts/a%3Fb"), ("/blog/a//b", 301, "https://blog.example.org/posts/a/b"),
    ("/blog/%C3%A9", 301, "https://blog.example.org/posts/%C3%A9"), ("/blog/keep/", 403, None),
    ("/blog/keep/it.txt", 200, "kept"), ("/blog/%22%3Cx", 301, "https://blog.example.org/posts/%22%3Cx"),
    ("/away", 301, "http://other.example:8080"), ("/home", 302, "/"), ("/home?a", 302, "/?a"),
    ("/docs/", 301, "/manual/"), ("/docs/a/b.html", 301, "/manual/a/b.html"), ("/docs/a/", 301, "/manual/a/"),
    ("/docs", 301, "/manual/"), ("/docs?a", 301, "/manual/?a"), ("/documents", 404, None),
    ("/flat", 302, "/new"), ("/flat/a/b", 302, "/new"), ("/flat/a?b", 302, "/new?b"), ("/gone", 410, None),
    ("/gone/", 410, None), ("/gone/a", 410, None), ("/secret/x", 403, None), ("/hidden", 404, None),
    ("/first", 301, "/a"), ("/app/", 200, "app"), ("/app/route/of.it", 200, "app"), ("/app/real.txt", 200, "real"),
    ("/app/sub", 200, "app"), ("/app/sub/", 200, "app"), ("/app/sub/index.html", 200, "sub"),
    ("/dirs/file.txt", 200, "file"), ("/dirs/sub/", 200, "index of sub"), ("/dirs/sub", 301, "/dirs/sub/"),
    ("/dirs/none", 200, "new"), ("/dirs/empty/", 200, "new"), ("/only/x", 200, "new"), ("/only/there.txt", 200, "new"),
    ("/strict/there.txt", 200, "strict"), ("/strict/none", 410, None), ("/names/x/", 403, None), ("/names/x", 403, None),
    ("/lost/a", 410, None), ("/coffee", 404, None), ("/new", 200, "new"), ("/caf%C3%A9", 301, "/coffee"), ("/index.html", 200, "default"),
    ("/other/none", 404, None), ("/a%20b", 301, "/x"), ("/a+b", 404, None), ("/with%20blank/a%20b", 301, "/new%20page/a%20b"),
    ("/with%20blank", 301, "/new%20page/"), ("/secret", 403, None), ("/blog/keep", 301, "/blog/keep/"), ("/app", 301, "/app/"),
    ("/dirs", 301, "/dirs/"), ("/only", 200, "new"), ("/strict", 301, "/strict/"), ("/names", 403, None), ("/lost", 410, None),
    ("/e=q", 301, "/x"), ("/e%3Dq", 301, "/x"), ("/c:d;e", 301, "/y"), ("/q/r", 301, "/s%20t%20u"))


def site(bench, text, **settings):
    server = SiteServer(bench, text, **settings)
    for path, body in (("new", "new"), ("blog/keep/it.txt", "kept"), ("blog/index.html", "x"), ("app/index.html", "app"),
                       ("app/real.txt", "real"), ("app/sub/index.html", "sub"), ("dirs/file.txt", "file"),
                       ("dirs/sub/index.html", "index of sub"), ("only/there.txt", "never"),
                       ("strict/there.txt", "strict")):
        server.put(f"www/{path}", body)
    (server.directory / "www/dirs/empty").mkdir()
    return server


@test
def first_matching_rule_decides(bench):
    with site(bench, RULES) as server:
        for target, status, wanted in CASES:
            for version in VERSIONS:
                for turn in range(2):  # then from the caches
                    response = server.get(target, version=version)
                    expect(response.status, status, f"{target}, HTTP/{version}, {turn}")
                    if 300 < status < 400:
                        expect(response["location"], wanted, f"{target}, HTTP/{version}")
                    elif wanted is not None:
                        expect(response.body.decode(), wanted, f"{target}, HTTP/{version}")
        expect(server.get("/old", method="HEAD").status, 301, "HEAD")
        expect(server.get("/old", method="POST").status, 405, "POST")
        expect(len(CASES) >= 60, True, "60 cases")


@test
def rules_of_a_host_come_first(bench):
    text = "[redirect]\n/x = 301 /for-all\n[host a.example www.a.example]\n[redirect host a.example]\n/x = 302 /for-a\n" \
           "[host b.example]\n[host c.example]\n[redirect host c.example]\n/* = 301 https://b.example/*\n"
    with site(bench, text) as server:
        for host, status, location in (("a.example", 302, "/for-a"), ("www.a.example", 302, "/for-a"),
                                       ("b.example", 301, "/for-all"), ("other", 301, "/for-all"),
                                       ("c.example", 301, "https://b.example/x")):
            expect(server.expect("/x", status, host=host)["location"], location, host)
        dumped = run(*server.command("-T"))
        for words in ("/x = 301 /for-all\n", f"[redirect host a.example]\n# {server.directory}/webserver.ini:10\n/x = 302 /for-a\n",
                      "/* = 301 https://b.example/*"):
            expect_in(words, dumped, "-T")


@test
def request_without_tls_goes_to_https(bench):
    text = f"[tls]\ncertificate = {bench.path('ec.pem')}\nkey = {bench.path('ec.key')}\n" \
           "[redirect]\n/.well-known/* = pass\nhttp /* = 308 https:\n"
    with site(bench, text, listen="127.0.0.1:0 https://127.0.0.1:0") as server:
        server.put("www/.well-known/token", "challenge")
        for _ in range(3):
            got = run("curl", "-sk", f"https://127.0.0.1:{server.ports['tls']}/new")
            expect(got, "new", "over TLS")
            for host, location in (("www.example.org", "https://www.example.org/new?a=1"),
                                   ("www.example.org:8080", "https://www.example.org/new?a=1")):
                expect(server.expect("/new?a=1", 308, host=host)["location"], location, host)
            expect(server.expect("/new", 308)["location"], "https://localhost/new", "the cached target")
            server.expect("/.well-known/token", 200, "challenge")


@test
def https_redirect_is_for_requests_without_tls_and_rules(bench):
    text = f"[tls]\ncertificate = {bench.path('ec.pem')}\nkey = {bench.path('ec.key')}\n[host a.example]\nhttps = redirect\n" \
           "[redirect host a.example]\n/healthz = pass\n/old = 301 /new\n[access host a.example /]\nusers = @/users\n"
    server = SiteServer(bench, text, listen="127.0.0.1:0 https://127.0.0.1:0")
    server.put("www/new", "new")
    server.put("www/healthz", "fine")
    server.put("users", "ann:$2y$04$QFnPyGF6.q2nlp3nVbzOEeeToKzCbUix/PFAa7buIQwbXDh1Aaij2\n")
    (server.directory / "users").chmod(0o600)
    with server:
        server.expect("/new", 200, "new")
        for _ in range(2):  # then from the caches
            expect(server.expect("/new?q=1", 308, host="a.example")["location"], "https://a.example/new?q=1", "before a password")
            server.expect("/healthz", 401, host="a.example")
            server.expect("/old", 401, host="a.example")
        got = run("curl", "-sk", "-o", "/dev/null", "-w", "%{http_code}", "--resolve", f"a.example:{server.ports['tls']}:127.0.0.1",
                  f"https://a.example:{server.ports['tls']}/new")
        expect(got, "401", "status over TLS")
    expect_in("https = redirect needs an address with https://",
              SiteServer(bench, "[host a.example]\nhttps = redirect\n").check(), "without TLS")


@test
def faults_of_rules_are_reported(bench):
    for text, words in (("/a = 301 /a\n", "the redirect of /a never ends"),
                        ("/a = 301 /b\n/b = 302 /a\n", "the redirect of /a never ends"),
                        ("/a/* = 301 /a\n", "the redirect of /a/* never ends"),
                        ("/a/* = 301 /b/*\n/b/x = pass\n/b/* = 301 /a/*\n", "the redirect of /a/* never ends"),
                        ("/a/* = 301 /b\n/a = 301 /c\n", "the rule for /a never applies: /a/* on line 7 is first"),
                        ("/a/* = 301 /a/b/*\n", "the redirect of /a/* never ends"),
                        ("/* = 301 /new\n", "the redirect of /* never ends"),
                        ("http /* = 301 https:\n/* = 301 /x/*\n", "never ends"),
                        ("/a%20b = 301 /a%20b\n", "the redirect of /a b never ends"),
                        ("/a = 301 /b\n/a = 301 /c\n", "the rule for /a never applies: /a on line 7 is first"),
                        ("/a/* = 301 /b\nhttp /a/b/* = 301 /c\n", "/a/b/* never applies: /a/* on line 7 is first"),
                        ("old = 301 /new\n", "a path begins with '/'"),
                        ("/o*d = 301 /new\n", "only the last segment of a path can be '*'"),
                        ("/a/b* = 301 /new\n", "only the last segment of a path can be '*'"),
                        ("/a b = 301 /x\n", "write a path with blanks in double quotes"), ("/a = 303 /x\n", "'303' is neither a status"),
                        ("/a = /x\n", "'/x' is neither a status"), ("/a = 301\n", "is not a target"),
                        ("/a = 301 x\n", "'x' is not a target"), ("/a = 301 //evil.example\n", "is not a target"),
                        ("/a = 301 /x/*\n", "the path before '=' has none"), ("/a = 301 /b c\n", "'c' is too much"),
                        ("/a = 410 /b\n", "'/b' is too much"), ("/a = try\n", "tries nothing"),
                        ("/a = try fiel\n", "'fiel' is not file, directory"), ("/a = try /b file\n", "'file' is not file"),
                        ("/* = try file /$1.html\n", "there is no variable '$1'"), ("/* = try /x$uri 404\n", "variable '$uri'"),
                        ("/a/* = 301 /b/$1\n", "there is no variable '$1'"), ("/a/* = 301 /b?x=$${path}\n", "variable '$'"),
                        ("/a = pass\n[redirect host b.example]\n/a = pass\n", "there is no [host b.example]"),
                        ("/a = 301 https://h.example/b\n[host h.example]\n[redirect host h.example]\n"
                         "/b = 301 http://h.example/b\n", "the redirect of /b never ends")):
        expect_in(words, SiteServer(bench, "[redirect]\n" + text).check(), text)
    for text in ("/a = 301 /b?c=$d\n", "/a = try /%241 404\n", "/a = try /c$\n", "/a = 301 /b\n/b = 301 /c\n", "/* = 301 https://elsewhere.example/*\n", "/x/y = pass\n/x/* = 301 /x/y\n",
                 "/x = pass\n/x/* = 301 /x\n",
                 "http /a/* = 301 /b\n/a/b/* = 301 /c\n", "/a/b = 301 /b\n/a/* = 301 /c\n", "http /* = 301 https:\n"):
        expect_in("is valid", SiteServer(bench, "[redirect]\n" + text).check(), text)


@test
def many_rules_are_checked_in_linear_time(bench):
    """Each check takes less than 0.1 s of CPU time, with a sanitizer less than 2 s; the kernel ends one that takes 10 s."""
    count = 20000
    for text in ("".join(f"/old-{number} = 301 /new\n" for number in range(count)),
                 "".join(f"/{number} = 301 /{number + 1}\n" for number in range(count)),
                 "".join(f"/{'long' * 20}/{number}/* = 301 /{number}/*\n" for number in range(count))):
        checked = subprocess.run(SiteServer(bench, "[redirect]\n" + text).command("-t"), capture_output=True, text=True, check=False,
                                 preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (10, 10)))
        expect_in("is valid", checked.stdout + checked.stderr, text[:200])
