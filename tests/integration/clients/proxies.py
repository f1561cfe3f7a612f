"""Shared caches in front of the server: nginx with proxy_cache."""
import http.client
import os
import pathlib
import socket
import subprocess
import tempfile
import time

from harness import PATIENCE_S, Server, client, expect, need

# /any stores every response whose fields do not forbid it.
NGINX_CONFIG = """
daemon off;
master_process off;
pid nginx.pid;
error_log stderr;
events {}
http {
    access_log off;
    client_body_temp_path body;
    proxy_temp_path proxy;
    fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi;
    scgi_temp_path scgi;
    large_client_header_buffers 8 32k;
    proxy_cache_path cache keys_zone=zone:1m;
    proxy_cache zone;
    proxy_cache_key $request_uri;
    add_header X-Cache $upstream_cache_status always;
    server {
        listen unix:SOCKET;
        location /any/ {
            proxy_pass http://127.0.0.1:PORT/;
            proxy_cache_valid any 1h;
        }
        location / {
            proxy_pass http://127.0.0.1:PORT;
        }
    }
}
"""


class UnixConnection(http.client.HTTPConnection):
    """HTTP over a Unix socket: a test needs no free port."""

    def __init__(self, path):
        super().__init__("proxy", timeout=PATIENCE_S)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(PATIENCE_S)
        self.sock.connect(str(self.path))


class Nginx:
    """An nginx that caches the responses of the server at PORT."""

    def __init__(self, directory, port):
        self.socket = directory / "nginx.sock"
        (directory / "nginx.conf").write_text(
            NGINX_CONFIG.replace("PORT", str(port)).replace("SOCKET", str(self.socket)))
        self.said = open(directory / "nginx.said", "wb")
        self.process = subprocess.Popen([need("nginx"), "-p", directory, "-c", "nginx.conf"],
                                        stdout=self.said, stderr=self.said)
        give_up = time.monotonic() + PATIENCE_S
        while not self.accepts():
            if self.process.poll() is not None or time.monotonic() > give_up:
                self.stop()
                raise AssertionError("nginx does not start:\n"
                                     + (directory / "nginx.said").read_text())
            time.sleep(0.02)

    def accepts(self):
        try:
            UnixConnection(self.socket).connect()
        except OSError:
            return False
        return True

    def get(self, target, fields=None):
        """Returns the status and what the cache did."""
        connection = UnixConnection(self.socket)
        connection.request("GET", target, headers=fields or {})
        response = connection.getresponse()
        response.read()
        connection.close()
        return response.status, response.getheader("X-Cache")

    def stop(self):
        self.process.terminate()
        self.process.wait(PATIENCE_S)
        self.said.close()


def check_cache(server, nginx, prefix):
    """No error of a request is stored for the requests that follow."""
    bad = {"many.txt": {f"X-{i}": "1" for i in range(120)},
           "large.txt": {f"X-{i}": "x" * 20000 for i in range(2)}}
    for name, fields in bad.items():
        (server.site / name).write_text("file\n")
        expect(nginx.get(f"{prefix}/{name}", fields), (431, "MISS"), f"a bad request for {name}")
        expect(nginx.get(f"{prefix}/{name}"), (200, "MISS"), f"a good request for {name}")
        expect(nginx.get(f"{prefix}/{name}", fields), (200, "HIT"), f"a request for stored {name}")


@client("nginx-cache")
def nginx_cache(main):
    """A cache that obeys Cache-Control stores files, but no error."""
    need("nginx")
    with tempfile.TemporaryDirectory(prefix="webserverd-proxy-") as name:
        directory = pathlib.Path(name)
        os.chmod(directory, 0o755)  # workers may run as another user
        server = Server(main.programs, directory, "proxied",
                        "headers.Cache-Control=max-age=300", "cache.revalidate=0")
        try:
            nginx = Nginx(directory, server.port)
            try:
                check_cache(server, nginx, "")
                check_cache(server, nginx, "/any")
                expect([nginx.get("/new.txt"), nginx.get("/new.txt")], [(404, "MISS")] * 2,
                       "a missing file")
                (server.site / "new.txt").write_text("new\n")
                expect(nginx.get("/new.txt"), (200, "MISS"), "a new file")
            finally:
                nginx.stop()
        finally:
            server.stop()
