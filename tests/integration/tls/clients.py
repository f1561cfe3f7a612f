"""Clients of other languages over TLS, which choose HTTP/2 by ALPN. Those that are not installed are skipped."""
import json
import os
import re
import shutil
import subprocess

from harness import PATIENCE_S, expect, run, test, until

PAGE_FILES = 200
# Compiling Go's library takes a minute, so use what an earlier run has compiled.
GO_SETTINGS = {"GO111MODULE": "off", "GOCACHE": os.environ.get("GOCACHE", os.path.expanduser("~/.cache/go-build"))}

GO = """package main

import ("crypto/tls"; "fmt"; "io"; "net/http"; "os"; "sync")

func main() {
    transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: os.Args[1] == "2"}
    client := &http.Client{Transport: transport}
    var all sync.WaitGroup
    for i, url := range os.Args[2:] {
        all.Add(1)
        fetch := func(url string) {
            defer all.Done()
            response, err := client.Get(url)
            if err != nil { fmt.Println(err); return }
            body, _ := io.ReadAll(response.Body)
            fmt.Println(response.Proto, response.StatusCode, len(body))
        }
        if i == 0 { fetch(url) } else { go fetch(url) }
    }
    all.Wait()
}
"""

JAVA_OPTIONS = "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"  # for a program that runs for a second
JAVA = """import java.net.URI;
import java.net.http.*;
import java.security.cert.X509Certificate;
import java.util.Arrays;
import javax.net.ssl.*;

public class Fetch {
    public static void main(String[] words) throws Exception {
        TrustManager all = new X509ExtendedTrustManager() {
            public void checkClientTrusted(X509Certificate[] c, String a, java.net.Socket s) {}
            public void checkServerTrusted(X509Certificate[] c, String a, java.net.Socket s) {}
            public void checkClientTrusted(X509Certificate[] c, String a, SSLEngine e) {}
            public void checkServerTrusted(X509Certificate[] c, String a, SSLEngine e) {}
            public void checkClientTrusted(X509Certificate[] c, String a) {}
            public void checkServerTrusted(X509Certificate[] c, String a) {}
            public X509Certificate[] getAcceptedIssuers() { return new X509Certificate[0]; }
        };
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(null, new TrustManager[] {all}, null);
        HttpClient.Version version = words[0].equals("2") ? HttpClient.Version.HTTP_2 : HttpClient.Version.HTTP_1_1;
        HttpClient client = HttpClient.newBuilder().sslContext(context).version(version).build();
        for (String url : Arrays.copyOfRange(words, 1, words.length)) {
            HttpResponse<byte[]> got = client.send(HttpRequest.newBuilder(URI.create(url)).build(),
                                                   HttpResponse.BodyHandlers.ofByteArray());
            System.out.println(got.version() + " " + got.statusCode() + " " + got.body().length);
        }
    }
}
"""


HTTPX = """import asyncio, sys
import httpx

async def fetch(client, url):
    got = await client.get(url)
    print(got.http_version, got.status_code, len(got.content))

async def main():
    async with httpx.AsyncClient(http1=sys.argv[1] == "1", http2=sys.argv[1] == "2", verify=False, timeout=900) as client:
        await fetch(client, sys.argv[2])
        await asyncio.gather(*(fetch(client, url) for url in sys.argv[3:]))

asyncio.run(main())
"""


def find(*names):
    path = os.environ.get("PATH", "") + ":/usr/local/go/bin"
    return next((found for name in names if (found := shutil.which(name, path=path))), None)


def put_page(bench):
    """The files of a page with many images."""
    for i in range(PAGE_FILES):
        (bench.site / f"image-{i}.bin").write_bytes(bytes(500 + 97 * i))
    return [f"image-{i}.bin" for i in range(PAGE_FILES)]


def prepare(bench, name, source, *words):
    """Writes the file NAME. WORDS, which may be none, compile it. Returns its path."""
    path = bench.directory / name
    path.write_text(source)
    if words:
        subprocess.run([*words, path], check=True, timeout=10 * PATIENCE_S, env=settings(bench))
    return path


def settings(bench):
    """The environment of a client."""
    return dict(os.environ, HOME=str(bench.directory), **GO_SETTINGS)


def fetch(bench, program, name, wanted, version, secure=True):
    """
    Runs PROGRAM with WANTED, the version of HTTP that it is to use, and the URLs of all files. Compares what it prints of
    each with VERSION, which it uses.
    """
    names = list(bench.files) + put_page(bench)
    with bench.start() as server:
        site = f"https://localhost:{server.port}" if secure else f"http://localhost:{server.plain_port}"
        urls = [f"{site}/{name}" for name in names]
        done = subprocess.run([*program, wanted, *urls], capture_output=True, text=True, timeout=10 * PATIENCE_S, check=False,
                              env=settings(bench))
        lines = sorted(f"{version} 200 {(bench.site / name).stat().st_size}" for name in names)
        expect((done.stderr, sorted(done.stdout.splitlines())), ("", lines), name)
        by_http2 = 0 if version in ("HTTP/1.1", "HTTP_1_1") else len(names)
        server.expect_metric("requests", len(names))  # counted after their responses
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
    program = find("go")
    if program is None:
        print("skipped: no Go")
        return
    binary = bench.directory / "fetch-go"
    prepare(bench, "fetch.go", GO, program, "build", "-o", binary)
    for wanted, version, secure in (("2", "HTTP/2.0", True), ("1", "HTTP/1.1", True), ("1", "HTTP/1.1", False)):
        fetch(bench, [binary], "Go", wanted, version, secure)


@test
def httpx_fetches_a_page_over_both_protocols(bench):
    found = find("python3")
    if found is None or subprocess.run([found, "-c", "import httpx, h2"], capture_output=True, check=False).returncode != 0:
        print("skipped: no httpx with h2")
        return
    path = prepare(bench, "fetch.py", HTTPX)
    for wanted, version, secure in (("1", "HTTP/1.1", True), ("2", "HTTP/2", True), ("1", "HTTP/1.1", False),
                                    ("2", "HTTP/2", False)):
        fetch(bench, [found, path], "httpx", wanted, version, secure)


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
    program = find("java")
    if program is None:
        print("skipped: no Java")
        return
    words = [program, *JAVA_OPTIONS]
    prepare(bench, "Fetch.java", JAVA, *words, "-m", "jdk.compiler/com.sun.tools.javac.Main", "-d", bench.directory)
    for wanted, version, secure in (("2", "HTTP_2", True), ("1", "HTTP_1_1", True), ("2", "HTTP_1_1", False)):
        fetch(bench, [*words, "-cp", bench.directory, "Fetch"], "Java", wanted, version, secure)
