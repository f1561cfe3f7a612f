"""What the server compresses, decoded by the programs of the codings; its size, and what it saves."""
import json
import shutil
import subprocess
import zlib

from site_server import HTTP2, VERSIONS, SiteServer, expect, expect_in, run, test, until

TEXT = "".join(f"<p>Paragraph {number} of a text that is {number * 7919 % 1000} words long.</p>\n" for number in range(600))
WORDS = "".join(f"{number * 2654435761 % 2 ** 32:x} " for number in range(3000))
PROGRAMS = {"br": "brotli", "zstd": "zstd"}
ALL = "Accept-Encoding: gzip, deflate, br, zstd"
MORE = "[workers]\nprocesses = 1\n[metrics]\nlisten = 127.0.0.1:0\n[cache]\nrevalidate = 1h\n"


def decoded(response):
    coding = response["content-encoding"]
    if coding is None:
        return response.body
    if coding == "gzip":
        return zlib.decompress(response.body, 15 + 16)
    program = shutil.which(PROGRAMS[coding])
    if program is None:
        print(f"skipped: no {PROGRAMS[coding]}")
        return None
    return subprocess.run([program, "-dc"], input=response.body, capture_output=True, check=True).stdout


def expect_decoded(response, text, what):
    if (got := decoded(response)) is not None:
        expect(got == text.encode(), True, f"decoded {what}")


def made(server, target, coding, version=VERSIONS[0]):
    response = server.get(target, f"Accept-Encoding: {coding}", version=version)
    expect((response.status, response["content-encoding"]), (200, coding), f"coding of {target}")
    expect_in("Accept-Encoding", response["vary"], f"Vary of {target} with {coding}")
    return response


@test
def each_level_of_each_coding_is_decoded(bench):
    sizes = {}
    for levels in ((1, 1, 1), (6, 5, 7), (9, 11, 19)):
        with SiteServer(bench, MORE + "gzip_level = %d\nbrotli_level = %d\nzstd_level = %d\n" % levels) as server:
            server.put("www/page.html", TEXT)
            for coding in ("gzip", "br", "zstd"):
                response = made(server, "/page.html", coding)
                expect_decoded(response, TEXT, coding)
                expect(response["etag"].endswith(f'-{coding}"'), True, f"tag {response['etag']}")
                expect(made(server, "/page.html", coding, HTTP2).body == response.body, True, f"{coding} over HTTP/2")
                sizes.setdefault(coding, []).append(len(response.body))
    for coding, found in sizes.items():
        expect(len(set(found)), 3, f"sizes of {coding} by level: {found}")


@test
def the_smaller_of_br_and_zstd_is_sent_and_made_once(bench):
    with SiteServer(bench, "format = json\nfields = coding\n" + MORE) as server:
        texts = {"/text.html": TEXT, "/words.txt": WORDS, "/one.txt": "a" * 40000, "/page.js": "const x = 1;\n" * 60}
        for path, text in texts.items():
            server.put("www" + path, text)
        first = {path: server.get(path, ALL) for path in texts}
        server.counted()
        jobs = server.status()["metrics"]["offloaded"]
        saved = sum(len(texts[path]) - len(first[path].body) for path in texts)
        expect(server.status()["metrics"]["bytes_saved"], saved, "bytes saved")
        for path, text in texts.items():
            sizes = {coding: len(made(server, path, coding).body) for coding in ("br", "zstd")}
            smaller = min(sizes, key=sizes.get)
            expect(first[path]["content-encoding"], smaller, f"coding of {path} of {sizes}")
            expect_decoded(first[path], text, path)
            saved += 2 * len(text) - sum(sizes.values())
        until(lambda: server.status()["metrics"]["bytes_saved"] == saved, "bytes saved by each coding")
        expect(server.status()["metrics"]["offloaded"], jobs, "jobs of offload threads after the first requests")
        server.get("/text.html", ALL, method="HEAD")
        server.get("/text.html")
        server.counted()
        seen = json.loads(run(server.bench.programs / "wsctl", "-s", server.directory / f"{server.name}.sock", "--json", "status"))
        expect(seen["metrics"]["bytes_saved"], saved, "bytes saved, to which HEAD and the file itself add nothing")
        until(lambda: server.log().count("\n") == server.sent, "all lines of the log")
        codings = [json.loads(line).get("coding") for line in server.log().splitlines()]  # two threads: in any order
        sent = [response["content-encoding"] for response in first.values()] + ["br", "zstd"] * len(texts)
        sent += [first["/text.html"]["content-encoding"], None]
        expect(sorted(map(str, codings)), sorted(map(str, sent)), "logged codings")


@test
def precompressed_files_and_weights_come_first(bench):
    with SiteServer(bench, MORE + "zstd_level = 0\n") as server:
        for name in ("a.txt", "b.txt"):
            server.put(f"www/{name}", TEXT)
        server.put("www/a.txt.gz", "from the file")
        for accepted, coding, body in (("gzip, br", "gzip", "from the file"), ("br;q=1, gzip;q=0.9", "br", None), ("zstd", None, None)):
            response = server.get("/a.txt", f"Accept-Encoding: {accepted}")
            expect(response["content-encoding"], coding, accepted)
            if body is None:
                expect_decoded(response, TEXT, accepted)
            else:
                expect(response.body.decode(), body, accepted)
        expect(server.get("/b.txt", "Accept-Encoding: gzip, zstd")["content-encoding"], "gzip", "with zstd off")


@test
def listings_and_error_pages_are_compressed(bench):
    with SiteServer(bench, MORE + "[files]\nautoindex = on\n") as server:
        for number in range(40):
            server.put(f"www/list/file-{number}.txt", "x")
        server.put("www/errors/404.html", TEXT)
        for version in VERSIONS:
            plain = server.get("/list/", version=version)
            expect((plain["content-encoding"], plain["vary"]), (None, "Accept, Accept-Encoding"), "plain listing")
            for coding in ("gzip", "br", "zstd"):
                response = made(server, "/list/", coding, version)
                expect_decoded(response, plain.body.decode(), f"listing with {coding}")
                expect(len(response.body) < len(plain.body) / 2, True, f"size of the listing with {coding}")
                missing = server.get("/none", f"Accept-Encoding: {coding}", version=version)
                expect((missing.status, missing["content-encoding"], missing["vary"]), (404, coding, "Accept-Encoding"),
                       "error page")
                expect_decoded(missing, TEXT, f"error page with {coding}")
            missing = server.get("/none", version=version)
            expect((missing["content-encoding"], missing.body.decode()), (None, TEXT), "plain error page")
            expect(server.get("/none", "Accept-Encoding: *;q=0", version=version).body.decode(), TEXT, "nothing is acceptable")
        rows = server.get("/list/", "Accept: application/json, text/html;q=0.1", "Accept-Encoding: gzip")
        expect((rows["content-type"], rows["content-encoding"]), ("application/json", "gzip"), "listing as JSON")
        expect(len(json.loads(decoded(rows))), 40, "its entries")


@test
def levels_are_checked(bench):
    for line, what in (("brotli_level = 12", "allowed: 0 to 11"),
                       ("zstd_level = 20", "allowed: 0 to 19"),
                       ("gzip_level = fast", "gzip_level"),
                       ("brotli = on", "did you mean 'compress'?"), ("brotli_comp_level = 4", "did you mean 'brotli_level'?")):
        expect_in(what, SiteServer(bench, f"[cache]\n{line}\n").check(), line)
