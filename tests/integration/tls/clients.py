"""Clients of other languages over TLS, which choose HTTP/2 by ALPN. Those that are not installed are skipped."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

from harness import PATIENCE_S, expect, run, test, until

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "clients"))

from compiled import find, go_client, java_client  # noqa: E402  pylint: disable=wrong-import-position

PAGE_FILES = 200
HTTPX = """import asyncio, sys
import httpx

async def fetch(client, url):
    got = await client.get(url)
    print(got.http_version, got.status_code, len(got.content))

async def main(words):
    while words:
        end = words.index("--") if "--" in words else len(words)
        version, first, *others = words[:end]
        words = words[end + 1:]
        async with httpx.AsyncClient(http1=version == "1", http2=version == "2", verify=False, timeout=900) as client:
            await fetch(client, first)
            await asyncio.gather(*(fetch(client, url) for url in others))
        print("--")

asyncio.run(main(sys.argv[1:]))
"""


def put_page(bench):
    """The files of a page with many images."""
    for i in range(PAGE_FILES):
        (bench.site / f"image-{i}.bin").write_bytes(bytes(500 + 97 * i))
    return [f"image-{i}.bin" for i in range(PAGE_FILES)]


def fetch(bench, name, program, *cases):
    """
    CASES: the version of HTTP that PROGRAM is to use, the one that it then prints with status and length of each file, and
    whether over TLS. One run of PROGRAM fetches all files for each case, with connections of its own.
    """
    names = list(bench.files) + put_page(bench)
    sizes = [(bench.site / file).stat().st_size for file in names]
    with bench.start() as server:
        words = []
        for wanted, _, secure in cases:
            site = f"https://localhost:{server.port}" if secure else f"http://localhost:{server.plain_port}"
            words += ["--"] * bool(words) + [wanted, *(f"{site}/{file}" for file in names)]
        done = subprocess.run([*program, *words], capture_output=True, text=True, timeout=10 * PATIENCE_S, check=False,
                              env=dict(os.environ, HOME=str(bench.directory)))
        got = [sorted(part.splitlines()) for part in done.stdout.split("--\n")]
        expect((done.stderr, got), ("", [sorted(f"{version} 200 {size}" for size in sizes) for _, version, _ in cases] + [[]]), name)
        server.expect_metric("requests", len(cases) * len(names))  # counted after their responses
        by_http2 = sum(version not in ("HTTP/1.1", "HTTP_1_1") for _, version, _ in cases) * len(names)
        expect((server.metric("requests_http2"), server.metric("http2_errors")), (by_http2, 0), "requests by HTTP/2")


@test
def h2spec_finds_nothing_over_tls(bench):
    """All cases of RFC 7540 and RFC 7541. Without TLS: tests/integration/clients/http2.py."""
    program = shutil.which("h2spec") or os.path.expanduser("~/go/bin/h2spec")
    if not os.path.exists(program):
        print("skipped: no h2spec")
        return
    with bench.start() as server:
        done = subprocess.run([program, "--strict", "-t", "-k", "-h", "127.0.0.1", "-p", str(server.port)],
                              timeout=PATIENCE_S, stdout=subprocess.PIPE, text=True, check=False)
        expect(re.findall(r"× (.*)", done.stdout.partition("Failures:")[2]), [], "failures of h2spec")
        expect(re.search(r"(\d+) skipped, (\d+) failed", done.stdout).groups(), ("0", "0"), "skipped and failed cases")


@test
def go_fetches_a_page_over_both_protocols(bench):
    program = go_client(bench.programs)
    if program is None:
        print("skipped: no Go")
        return
    fetch(bench, "Go", [program, "fetch"], ("2", "HTTP/2.0", True), ("1", "HTTP/1.1", True), ("1", "HTTP/1.1", False))


@test
def httpx_fetches_a_page_over_both_protocols(bench):
    found = find("python3")
    if found is None or subprocess.run([found, "-c", "import httpx, h2"], capture_output=True, check=False).returncode != 0:
        print("skipped: no httpx with h2")
        return
    fetch(bench, "httpx", [found, "-c", HTTPX], ("1", "HTTP/1.1", True), ("2", "HTTP/2", True), ("1", "HTTP/1.1", False),
          ("2", "HTTP/2", False))


PAGE = """<!doctype html><title>page</title><body>%s<pre id="out"></pre><script>
onload = () => {
    const protocols = new Set(performance.getEntriesByType("resource").map(entry => entry.nextHopProtocol));
    const complete = [...document.images].filter(image => image.naturalWidth == 40).length;
    document.getElementById("out").textContent = "complete: " + complete + ", by " + [...protocols].join(" ") + ".";
};
</script>
"""
IMAGE = ("<svg xmlns='http://www.w3.org/2000/svg' width='40' height='40'>"
         "<rect width='40' height='40' fill='hsl(%d 60%% 50%%)'/></svg>")


@test
def chromium_loads_a_page_of_many_images_over_http2(bench):
    program = find("chromium", "chromium-browser", "google-chrome")
    if program is None:
        print("skipped: no Chromium")
        return
    names = [f"image-{i}.svg" for i in range(PAGE_FILES)]
    for i, name in enumerate(names):
        (bench.site / name).write_text(IMAGE % i)
    (bench.site / "page.html").write_text(PAGE % "".join(f"<img src={name}>" for name in names))
    with bench.start() as server:
        done = subprocess.run(
            [program, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--ignore-certificate-errors",
             f"--user-data-dir={bench.directory / 'chromium'}", "--virtual-time-budget=60000", "--dump-dom",
             f"https://localhost:{server.port}/page.html"], capture_output=True, text=True, timeout=10 * PATIENCE_S, check=False,
            env=dict(os.environ, HOME=str(bench.directory), TMPDIR=str(bench.directory)))
        found = re.search(r'<pre id="out">(.*?)</pre>', done.stdout)
        expect(found and found.group(1), f"complete: {PAGE_FILES}, by h2.", f"what Chromium shows\n{done.stderr[-2000:]}")
        until(lambda: server.metric("requests_http2") > PAGE_FILES, "requests by HTTP/2")
        expect(server.metric("http2_errors"), 0, "errors of HTTP/2")


@test
def testssl_finds_nothing_weak(bench):
    """
    Its checks of versions, ciphers, forward secrecy and known attacks, offline. The certificates, self-signed here,
    are not its subject.
    """
    program = find("testssl", "testssl.sh")
    if program is None or "sanitizer" in run(bench.programs / "webserverd", "-V"):  # a minute of thousands of handshakes
        print("skipped: no testssl.sh, or a sanitizer")
        return
    report = bench.directory / "testssl.json"
    with bench.start("ec", "rsa") as server:
        done = subprocess.run(
            [program, "--ip", "127.0.0.1", "--warnings", "batch", "--color", "0", "-p", "-s", "-f", "-U", "--jsonfile",
             str(report), f"https://localhost:{server.port}"], timeout=20 * PATIENCE_S, capture_output=True, text=True,
            check=False, cwd=bench.directory)
    found = json.loads(report.read_text())
    expect({"TLS1_2", "TLS1_3", "SSLv3", "heartbleed", "ROBOT", "LUCKY13", "PFS"} - {one["id"] for one in found}, set(),
           f"checks that testssl.sh did not make:\n{done.stdout}")
    weak = [one for one in found if one["severity"] not in ("OK", "INFO") and one["id"] != "engine_problem"]  # of its own
    expect(weak, [], "what testssl.sh does not like")


@test
def java_fetches_a_page_over_both_protocols(bench):
    """Without TLS it offers an upgrade to HTTP/2, which the server need not accept."""
    program = java_client(bench.programs)
    if program is None:
        print("skipped: no Java")
        return
    fetch(bench, "Java", program, ("2", "HTTP_2", True), ("1", "HTTP_1_1", True), ("2", "HTTP_1_1", False))
