#!/usr/bin/env python3
"""Long downloads while the server is reloaded, gets other certificates and is replaced by another binary.

One over each of HTTP/1.1, HTTP/2 without TLS, HTTP/1.1 over TLS and HTTP/2 over TLS begins at the start and after each
operation; curl receives each so slowly that all end together. Each must be complete and have the right hash. A renewal
keeps the worker processes. In the end the old master and all old workers are gone.

    downloads.py --bin build/release/bin --minutes 10 --megabytes 64

Exit status 0 or 1.
"""

import argparse
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True

from processes import Fault, Server, control, free_port, has_exited, run_in_directory, wait_until  # noqa: E402

OPERATIONS = ("reload", "reload", "renew", "reload", "reload", "renew", "reload", "upgrade")
PROTOCOLS = (("http", "--http1.1"), ("http", "--http2-prior-knowledge"), ("https", "--http1.1"), ("https", "--http2"))
WORKERS = 2


class Download:
    def __init__(self, server, protocol, begun, seconds):
        scheme, version = protocol
        self.name = f"{scheme} {version} begun {begun}"
        self.output = tempfile.TemporaryFile(dir=server.directory)
        self.process = subprocess.Popen(
            ["curl", "-sSk", version, "--limit-rate", str(int(server.size / seconds)), f"{scheme}://127.0.0.1:{server.port[scheme]}/file"],
            stdout=self.output)

    def check(self, wanted):
        status = self.process.wait()
        length = self.output.seek(0, os.SEEK_END)
        self.output.seek(0)
        if status != 0 or hashlib.file_digest(self.output, "sha256").hexdigest() != wanted:
            raise Fault(f"{self.name}: {length} bytes, curl ends with status {status}")
        self.output.close()


def install_certificate(programs, directory, number):
    made = os.path.join(directory, f"certificate-{number}")
    os.mkdir(made)
    subprocess.run([os.path.join(programs, "webserverd"), "--self-signed", made], check=True, stdout=subprocess.DEVNULL)
    for kind in ("key", "pem"):
        shutil.copy(os.path.join(made, f"localhost.{kind}"), os.path.join(directory, f"{kind}.new"))
        os.rename(os.path.join(directory, f"{kind}.new"), os.path.join(directory, kind))


class DownloadServer(Server):
    def __init__(self, options, directory):
        self.size, self.renewals = int(options.megabytes * 1e6), 0
        self.port = {"http": free_port(), "https": free_port()}
        os.mkdir(os.path.join(directory, "www"))
        content = hashlib.shake_128(b"downloads").digest(self.size)
        self.hash = hashlib.sha256(content).hexdigest()
        with open(os.path.join(directory, "www", "file"), "wb") as file:
            file.write(content)
        install_certificate(options.bin, directory, 0)
        super().__init__(options, directory, f"""root = {directory}/www
listen = http://127.0.0.1:{self.port['http']} https://127.0.0.1:{self.port['https']}
[tls]
certificate = {directory}/pem
key = {directory}/key
[workers]
processes = {WORKERS}
max_processes = 64
[connections]
send_timeout = {options.send_timeout}
""")
        self.wait_for_workers(WORKERS)

    def reload(self):
        before = self.status()["generation"]
        control(self.socket, "reload")
        wait_until(lambda: self.status()["generation"] == before + 1 and len(self.workers("serving")) == WORKERS, "the reload")

    def renew(self):
        before = self.workers("serving")
        self.renewals += 1
        install_certificate(self.bin, self.directory, self.renewals)
        wait_until(lambda: self.printed("new certificates in use") == self.renewals, "the renewal")
        if self.workers("serving") != before:
            raise Fault("a renewal has replaced workers")

    def upgrade(self):
        os.kill(self.pid, signal.SIGUSR2)
        wait_until(lambda: self.printed("this one shuts down") == 1, "the new master")
        wait_until(lambda: len(self.workers("serving")) == WORKERS, "the workers of the new master")
        if has_exited(self.pid):
            raise Fault("the old master has not waited for its downloads")
        self.pid = self.status()["pid"]

    def check_end(self):
        """Only the workers of the new master are left."""
        wait_until(lambda: has_exited(self.process.pid), "end of the old master")
        self.wait_for_workers(WORKERS)
        self.stop()


def run(options, directory):
    server, downloads, start = DownloadServer(options, directory), [], time.monotonic()
    end = start + options.minutes * 60

    def begin(begun):
        for protocol in PROTOCOLS:
            downloads.append(Download(server, protocol, begun, max(1, end - time.monotonic())))

    begin("at the start")
    for number, operation in enumerate(OPERATIONS, 1):
        time.sleep(max(0, start + number * options.minutes * 60 / (len(OPERATIONS) + 1) - time.monotonic()))
        getattr(server, operation)()
        print(f"{time.monotonic() - start:.0f} s: {operation}; {len(server.workers('leaving'))} workers finish downloads", flush=True)
        begin(f"after {operation} {number}")
    for download in downloads:
        download.check(server.hash)
    taken = time.monotonic() - start
    server.check_end()
    print(f"{len(downloads)} downloads of {server.size} bytes, {' '.join(OPERATIONS)}: all complete after {taken:.0f} s")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default="build/release/bin", help="directory of webserverd")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--megabytes", type=float, default=64, help="size of the file")
    # With --limit-rate, curl 7 reads up to 10 MB at once over HTTP/1.1, and then nothing until that is the average.
    parser.add_argument("--send-timeout", default="10m", help="send_timeout of the server")
    parser.add_argument("--dispatch", choices=("kernel", "master"), default="kernel")
    return run_in_directory(run, parser.parse_args())


if __name__ == "__main__":
    sys.exit(main())
