"""Downloads: complete, parallel, in ranges, conditional, and compressed."""
import hashlib
import http.client
import os

from harness import PATIENCE_S, client, expect, need, run

GIB = 1024 ** 3


def digest(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def scratch(server, name):
    directory = server.directory / name
    directory.mkdir()
    return directory


def expect_same(path, server, name):
    expect(path.read_bytes() == (server.site / name).read_bytes(), True, f"the bytes of {name}")


def put_half(path, server, name):
    """Resumes an interrupted download."""
    whole = (server.site / name).read_bytes()
    path.write_bytes(whole[:len(whole) // 2])


def fetch(*words):
    return run(need("curl"), "-sS", "--fail", "--max-time", "100", *words).decode()


@client("curl-parallel")
def curl_parallel(server):
    directory = scratch(server, "parallel")
    fetch("--parallel", "--parallel-max", "20", "-o", f"{directory}/#1",
          f"{server.url}/large.bin?[1-20]")
    for number in range(1, 21):
        expect_same(directory / str(number), server, "large.bin")


@client("curl-resume")
def curl_resume(server):
    directory = scratch(server, "resume")
    put_half(directory / "large.bin", server, "large.bin")
    said = fetch("-C", "-", "-o", directory / "large.bin", "-w", "%{http_code} %{size_download}",
                 f"{server.url}/large.bin")
    size = (server.site / "large.bin").stat().st_size
    expect(said, f"206 {size - size // 2}", "the rest of a download")
    expect_same(directory / "large.bin", server, "large.bin")


@client("curl-huge")
def curl_huge(server):
    """A sparse file over 4 GiB: resumes just before its end."""
    with open(server.site / "huge.bin", "wb") as file:
        file.truncate(4 * GIB + 5)
        file.seek(4 * GIB)
        file.write(b"tail\n")
    said = fetch("-I", f"{server.url}/huge.bin")
    if f"content-length: {4 * GIB + 5}" not in said.lower():
        raise AssertionError("the length of a file beyond 4 GiB: " + said)
    expect(fetch("-r", f"{4 * GIB}-", f"{server.url}/huge.bin"), "tail\n", "what is beyond 4 GiB")
    directory = scratch(server, "huge")
    with open(directory / "huge.bin", "wb") as file:
        file.truncate(4 * GIB - 1000)
    said = fetch("-C", "-", "-o", directory / "huge.bin", "-w", "%{http_code} %{size_download}",
                 f"{server.url}/huge.bin")
    expect(said, "206 1005", "resuming before 4 GiB")
    with open(directory / "huge.bin", "rb") as file:
        file.seek(4 * GIB)
        expect(file.read(), b"tail\n", "the end of a resumed download")
    os.unlink(directory / "huge.bin")
    os.unlink(server.site / "huge.bin")


@client("curl-conditional")
def curl_conditional(server):
    directory = scratch(server, "conditional")
    tag, url = directory / "tag", f"{server.url}/hello.txt"
    again = ["--etag-compare", tag, "--etag-save", tag, "-o", directory / "hello.txt",
             "-w", "%{http_code}", url]
    expect(fetch(*again), "200", "the first time")
    expect(fetch(*again), "304", "--etag-compare")
    (server.site / "hello.txt").write_text("hello\n")  # the same content, written again
    os.utime(server.site / "hello.txt", (1000000000, 1000000000))
    server.control("cache-flush")
    expect(fetch(*again), "200", "--etag-compare after a change")
    expect(fetch(*again), "304", "--etag-compare with the new tag")
    expect(fetch("-z", server.site / "hello.txt", "-o", directory / "x", "-w", "%{http_code}", url),
           "304", "-z")
    expect(fetch("-z", "1 Jan 1990", "-o", directory / "x", "-w", "%{http_code}", url), "200",
           "-z with an old date")


@client("curl-compressed")
def curl_compressed(server):
    """All codings that curl can decode, from the server and from files."""
    directory = scratch(server, "compressed")
    url = f"{server.url}/prose.txt"
    size = (server.site / "prose.txt").stat().st_size
    sent = int(fetch("--compressed", "-o", directory / "prose.txt", "-w", "%{size_download}", url))
    expect_same(directory / "prose.txt", server, "prose.txt")
    if sent * 4 > size:
        raise AssertionError(f"{size} bytes were sent as {sent}")
    for program, ending, coding, words in (("gzip", ".gz", "gzip", ["-9", "-k"]),
                                           ("zstd", ".zst", "zstd", ["-q", "-k"]),
                                           ("brotli", ".br", "br", ["-k"])):
        need(program)
        run(program, *words, server.site / "prose.txt")
        server.control("cache-flush")
        fetch("--compressed", "-o", directory / "prose.txt", url)
        expect_same(directory / "prose.txt", server, "prose.txt")
        fetch("-H", f"Accept-Encoding: {coding}", "-o", directory / "raw", url)
        expect(digest(directory / "raw"), digest(f"{server.site}/prose.txt{ending}"),
               f"the bytes of prose.txt{ending}")
        os.unlink(f"{server.site}/prose.txt{ending}")


@client("wget")
def wget(server):
    directory = scratch(server, "wget")
    put_half(directory / "large.bin", server, "large.bin")
    run(need("wget"), "-q", "-c", f"{server.url}/large.bin", cwd=directory)
    expect_same(directory / "large.bin", server, "large.bin")
    before = os.stat(directory / "large.bin").st_mtime_ns
    run("wget", "-q", "-N", f"{server.url}/large.bin", cwd=directory)
    expect(os.stat(directory / "large.bin").st_mtime_ns, before, "-N fetches nothing again")
    run("wget", "-q", "--compression=gzip", f"{server.url}/prose.txt", cwd=directory)
    expect_same(directory / "prose.txt", server, "prose.txt")


@client("aria2c")
def aria2c(server):
    """Eight connections with different ranges."""
    directory = scratch(server, "aria2")
    run(need("aria2c"), "-q", "-x8", "-s8", "-k1M", "--no-conf", "-d", directory,
        f"{server.url}/large.bin")
    expect_same(directory / "large.bin", server, "large.bin")


@client("python-ranges")
def python_ranges(server):
    """Assembles a file from single and multipart ranges on one connection."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE_S)
    whole = (server.site / "large.bin").read_bytes()

    def ask(ranges):
        connection.request("GET", "/large.bin", headers={"Range": f"bytes={ranges}"})
        answer = connection.getresponse()
        return answer, answer.read()

    step = len(whole) // 7 + 1
    got = b"".join(ask(f"{at}-{at + step - 1}")[1] for at in range(0, len(whole), step))
    expect(hashlib.sha256(got).digest(), hashlib.sha256(whole).digest(), "seven ranges")
    answer, body = ask("0-99,1000-1999,-10")
    boundary = answer.getheader("Content-Type").split("boundary=")[1].encode()
    parts = body.split(b"--" + boundary)
    expect((len(parts), parts[0], parts[-1]), (5, b"\r\n", b"--\r\n"), "the delimiters of three parts")
    contents = [part.split(b"\r\n\r\n", 1)[1][:-2] for part in parts[1:-1]]
    expect(contents, [whole[:100], whole[1000:2000], whole[-10:]], "three parts")
    connection.close()


@client("zsync")
def zsync(server):
    """Fetches only the changed blocks, by requests for several ranges."""
    need("zsync")
    directory = scratch(server, "zsync")
    old, new = directory / "old.bin", server.site / "new.bin"
    old.write_bytes((server.site / "large.bin").read_bytes())
    changed = bytearray(old.read_bytes())
    for place in range(100000, len(changed), 1000000):
        changed[place] ^= 1
    new.write_bytes(changed)
    run(need("zsyncmake"), "-u", "new.bin", "-o", server.site / "new.zsync", new)
    said = run("zsync", "-i", old, f"{server.url}/new.zsync", cwd=directory).decode()
    expect_same(directory / "new.bin", server, "new.bin")
    fetched = int(said.rsplit("fetched ", 1)[1].split()[0])
    if not 0 < fetched < len(changed) // 10:
        raise AssertionError(f"zsync fetched {fetched} of {len(changed)} bytes")
