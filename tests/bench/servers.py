"""The compared servers: how to start, measure and stop each.

All do equal work: one serving process (or thread) on one core, the same files, unlimited keep-alive requests,
16,384 connections, an open-file cache where the server has one, and an access log in combined format, or none.
"""
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time

from scenarios import certificate

SERVER_CORE, LOAD_CORE = "0", "1"
TLS_CIPHERS = "ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-ECDSA-CHACHA20-POLY1305"


class Unavailable(Exception):
    """A server cannot run; the text is the reason."""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """A running server: a process and its descendants."""

    def __init__(self, name, command, port, log=None, cores=SERVER_CORE, stop=signal.SIGTERM, tls_port=None):
        self.name, self.port, self.log, self.stop_signal, self.tls_port = name, port, log, stop, tls_port
        self.http2_port = port  # for clients that begin with HTTP/2
        self.last_ns = {}  # by thread
        self.errors = tempfile.TemporaryFile()
        self.process = subprocess.Popen(["taskset", "-c", cores] + command, stdout=subprocess.DEVNULL,
                                        stderr=self.errors, stdin=subprocess.DEVNULL, start_new_session=True)
        try:
            self.wait_until_it_answers()
        except BaseException:
            self.stop()
            raise

    def wait_until_it_answers(self):
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                time.sleep(0.05)
        self.errors.seek(0)
        raise Unavailable(f"{self.name} does not answer on port {self.port}: {self.errors.read(1000).decode(errors='replace')}")

    def pids(self):
        found, todo = [], [self.process.pid]
        while todo:
            pid = todo.pop()
            found.append(pid)
            try:
                for task in os.listdir(f"/proc/{pid}/task"):
                    with open(f"/proc/{pid}/task/{task}/children") as children:
                        todo += [int(child) for child in children.read().split()]
            except OSError:
                pass
        return found

    def cpu_ns(self):
        """On-CPU time of all threads. An exited thread counts with its last known value."""
        for pid in self.pids():
            try:
                for task in os.listdir(f"/proc/{pid}/task"):
                    with open(f"/proc/{pid}/task/{task}/schedstat") as stat:
                        self.last_ns[task] = int(stat.read().split()[0])
            except OSError:
                pass
        return sum(self.last_ns.values())

    def pss_kib(self):
        """Proportional set size (PSS) of all processes."""
        total = 0
        for pid in self.pids():
            try:
                with open(f"/proc/{pid}/smaps_rollup") as rollup:
                    total += sum(int(line.split()[1]) for line in rollup if line.startswith("Pss:"))
            except OSError:
                pass
        return total

    def forget_log(self):
        """Truncates the logs, so that they do not fill the disk. All servers append."""
        if self.log and os.path.exists(self.log):
            os.truncate(self.log, 0)

    def stop(self):
        """Stops the server's process group."""
        if self.process.poll() is None:
            self.process.send_signal(self.stop_signal)
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                pass
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()


def binary(*names):
    for name in names:
        found = shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin")
        if found:
            return found
    raise Unavailable(f"{names[0]} is not installed")


def write(path, text):
    with open(path, "w") as file:
        file.write(text)
    return path


class Webserverd:
    def __init__(self, directory, name="webserverd"):
        self.directory, self.name = directory, name

    def start(self, site, work, log, options=(), cores=SERVER_CORE, tickets=False):
        port, tls_port, logged = free_port(), free_port(), os.path.join(work, self.name + ".log")
        pem, key = certificate(site)
        settings = {
            "server.name": f"bench-{os.getpid()}-{port}", "server.root": site,
            "server.listen": f"127.0.0.1:{port} https://127.0.0.1:{tls_port}", "server.run_dir": work,
            "tls.certificate": pem, "tls.key": key, "tls.session_tickets": "on" if tickets else "off",
            "workers.processes": 1, "workers.threads": 1, "connections.keepalive_timeout": "10m",
            "cache.max_entries": 16384,
            "log.access": logged if log else "off", "log.error": os.path.join(work, self.name + ".err"),
        }
        settings.update(options)
        command = [os.path.join(self.directory, "webserverd")]
        for key, value in settings.items():
            command += ["-o", f"{key}={value}"]
        server = Server(self.name, command, port, logged if log else None, cores, tls_port=tls_port)
        server.instance = settings["server.name"]
        server.socket = os.path.join(work, settings["server.name"] + ".sock")
        return server


class Peer:
    """A server to compare with: the packaged one or the binary PATH, which is then named by its version, too."""

    key = ""
    version_option = "-v"
    tls = False  # measured over TLS
    keys_process = False  # the private key is in a process of its own, if the server has one

    def __init__(self, path=None):
        self.path = path or binary(self.key)
        try:
            done = subprocess.run([self.path, self.version_option], capture_output=True, text=True, check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            raise Unavailable(f"{self.path} {self.version_option}: {error}") from error
        found = re.search(r"\d+(\.\d+)+", done.stdout + done.stderr)
        self.version = found.group() if found else "?"
        self.name = f"{self.key}-{self.version}" if path else self.key


class Nginx(Peer):
    """sendfile is off for small files (one write instead of four calls) and on for large ones: the faster way."""

    key, tls = "nginx", True

    def start(self, site, work, log, tickets=False):
        port, tls_port, http2_port = free_port(), free_port(), free_port()
        logged = os.path.join(work, f"{self.name}.log")
        pem, key = certificate(site)
        access = f"{logged} combined buffer=64k flush=1s" if log else "off"
        temporary = "".join(f"{kind}_temp_path {work}/{self.name}.{kind};\n" for kind in
                            ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        config = write(os.path.join(work, f"{self.name}.conf"), f"""
daemon off; worker_processes 1; worker_rlimit_nofile 20000; pid {work}/{self.name}.pid;
error_log {work}/{self.name}.err;
events {{ worker_connections 16384; multi_accept on; }}
http {{
    default_type text/html; sendfile off; tcp_nodelay on;
    keepalive_requests 1000000000; keepalive_timeout 600s;
    open_file_cache max=16384 inactive=60s; open_file_cache_valid 1s; open_file_cache_errors on;
    {temporary}
    access_log {access};
    server {{
        listen 127.0.0.1:{port} backlog=4096; listen 127.0.0.1:{http2_port} http2 backlog=4096; root {site};
        listen 127.0.0.1:{tls_port} ssl backlog=4096;
        ssl_certificate {pem}; ssl_certificate_key {key}; ssl_protocols TLSv1.2 TLSv1.3;
        ssl_ciphers {TLS_CIPHERS}; ssl_session_tickets {"on" if tickets else "off"}; ssl_session_cache off;
        ssl_conf_command NumTickets 1;
        location /gz/ {{ gzip on; gzip_types *; }}
        location /large/ {{ sendfile on; tcp_nopush on; }}
    }}
}}
""")
        server = Server(self.name, [self.path, "-c", config], port, logged if log else None, tls_port=tls_port)
        server.http2_port = http2_port
        return server


class Lighttpd(Peer):
    key = "lighttpd"

    def start(self, site, work, log):
        port, logged = free_port(), os.path.join(work, f"{self.name}.log")
        cache = os.path.join(work, f"{self.name}.cache")
        os.makedirs(cache, exist_ok=True)
        access = f'server.modules += ("mod_accesslog")\naccesslog.filename = "{logged}"' if log else ""
        config = write(os.path.join(work, f"{self.name}.conf"), f"""
server.document-root = "{site}"
server.port = {port}
server.bind = "127.0.0.1"
server.errorlog = "{work}/{self.name}.err"
server.max-connections = 16384
server.max-fds = 20000
server.max-keep-alive-requests = 1000000000
server.max-keep-alive-idle = 600
server.listen-backlog = 4096
server.modules += ("mod_deflate")
mimetype.assign = (".html" => "text/html", "" => "application/octet-stream")
$HTTP["url"] =~ "^/gz/" {{
    deflate.mimetypes = ("text/")
    deflate.allowed-encodings = ("gzip")
    deflate.cache-dir = "{cache}"
}}
{access}
""")
        return Server(self.name, [self.path, "-D", "-f", config], port, logged if log else None)


class H2o(Peer):
    key, version_option, tls = "h2o", "--version", True

    def start(self, site, work, log, tickets=False):
        port, tls_port, logged = free_port(), free_port(), os.path.join(work, f"{self.name}.log")
        pem, key = certificate(site)
        access = f"access-log: {logged}" if log else ""
        user = "user: root" if os.getuid() == 0 else ""
        config = write(os.path.join(work, f"{self.name}.conf"), f"""
num-threads: 1
max-connections: 16384
http1-request-timeout: 600
tcp-fastopen: 0
pid-file: {work}/{self.name}.pid
error-log: {work}/{self.name}.err
{user}
listen: {{ host: 127.0.0.1, port: {port} }}
listen:
  host: 127.0.0.1
  port: {tls_port}
  ssl: {{ certificate-file: {pem}, key-file: {key}, cipher-suite: "{TLS_CIPHERS}",
    neverbleed: {"ON" if self.keys_process else "OFF"} }}
ssl-session-resumption: {{ mode: {"ticket" if tickets else "off"} }}
{access}
hosts:
  default:
    paths:
      "/gz": {{ file.dir: {site}/gz, compress: [gzip] }}
      "/": {{ file.dir: {site} }}
""")
        return Server(self.name, [self.path, "-c", config], port, logged if log else None, tls_port=tls_port)


class Caddy(Peer):
    """It has no log in combined format: its log lines are JSON. On one core Go runs its code on one thread."""

    key, version_option, tls = "caddy", "version", True

    def start(self, site, work, log, tickets=False):
        port, tls_port, logged = free_port(), free_port(), os.path.join(work, f"{self.name}.log")
        pem, key = certificate(site)
        logs = {"default": {"writer": {"output": "file", "filename": f"{work}/{self.name}.err"}, "exclude": ["http.log.access"]}}
        if log:
            logs["access"] = {"writer": {"output": "file", "filename": logged, "roll": False}, "include": ["http.log.access"]}
        common = {"idle_timeout": "600s", "automatic_https": {"disable": True}, "routes": [
            {"match": [{"path": ["/gz/*"]}], "handle": [{"handler": "encode", "encodings": {"gzip": {}}}]},
            {"handle": [{"handler": "file_server", "root": site}]}]} | ({"logs": {}} if log else {})
        config = write(os.path.join(work, f"{self.name}.json"), json.dumps({
            "admin": {"disabled": True, "config": {"persist": False}},
            "logging": {"logs": logs},
            "storage": {"module": "file_system", "root": f"{work}/{self.name}"},
            "apps": {
                "http": {"servers": {
                    "plain": {"listen": [f"127.0.0.1:{port}"], "protocols": ["h1", "h2c"]} | common,
                    "tls": {"listen": [f"127.0.0.1:{tls_port}"], "tls_connection_policies": [{"default_sni": "localhost"}]} | common}},
                "tls": {"certificates": {"load_files": [{"certificate": pem, "key": key}]},
                        "session_tickets": {"disabled": not tickets}}}}))
        return Server(self.name, [self.path, "run", "--config", config], port, logged if log else None, tls_port=tls_port)


class Apache(Peer):
    key = "apache2"

    def start(self, site, work, log):
        port, logged = free_port(), os.path.join(work, "apache.log")
        modules = "/usr/lib/apache2/modules"
        if not os.path.isdir(modules):
            raise Unavailable("apache2 is not installed")
        load = "".join(f"LoadModule {name}_module {modules}/mod_{name}.so\n" for name in
                       ("mpm_event", "authz_core", "mime", "headers", "deflate", "filter"))
        access = f'BufferedLogs On\nCustomLog {logged} "%h %l %u %t \\"%r\\" %>s %O \\"%{{Referer}}i\\" \\"%{{User-Agent}}i\\""'
        config = write(os.path.join(work, "apache.conf"), f"""
ServerRoot {work}
{load}
Listen 127.0.0.1:{port}
ListenBacklog 4096
ServerName localhost
PidFile {work}/apache.pid
ErrorLog {work}/apache.err
User www-data
Group www-data
ServerLimit 1
StartServers 1
ThreadLimit 64
ThreadsPerChild 64
MaxRequestWorkers 64
MinSpareThreads 64
MaxSpareThreads 64
AsyncRequestWorkerFactor 300
KeepAlive On
MaxKeepAliveRequests 0
KeepAliveTimeout 600
TypesConfig /dev/null
AddType text/html .html
DocumentRoot {site}
<Directory {site}>
    Require all granted
</Directory>
<Location /gz/>
    SetOutputFilter DEFLATE
</Location>
{access if log else ""}
""")
        return Server(self.name, [self.path, "-DFOREGROUND", "-f", config],
                      port, logged if log else None)


class Floor:
    """tests/bench/floor.c, started for each scenario with answers of the scenario's size."""

    name = "floor"

    def __init__(self, directory):
        self.directory = directory

    def start(self, scenario, threads=1, cores=SERVER_CORE):
        port = free_port()
        command = [os.path.join(self.directory, "bench_floor"), "-p", str(port), "-t", str(threads),
                   "-b", str(scenario.body), "-n", str(scenario.depth)]
        command += ["-c"] if scenario.closes else []
        command += ["-s"] if scenario.status == 304 else []
        return Server(self.name, command, port, cores=cores)


PEERS = {peer.key: peer for peer in (Nginx, H2o, Lighttpd, Caddy, Apache)}
