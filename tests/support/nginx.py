"""Debian's nginx as an ordinary process with deploy/nginx.conf, and hosts that misbehave."""

import os
import shutil
import signal
import socket
import ssl
import struct
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from ipaddress import ip_address
from pathlib import Path
from socketserver import StreamRequestHandler, ThreadingTCPServer
from threading import Thread

import httpx2
import psutil
from cryptography import x509

from support.processes import HOST, eventually, unused_port
from support.service import Answer, received
from support.tls import Authority

ROOT = Path(__file__).parents[2]
CONFIGURATION = ROOT / "deploy/nginx.conf"
PROGRAM = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin") or "nginx"
LIMITS = "max_fails=3 fail_timeout=5s"
"""When nginx leaves a host alone, as deploy/nginx.conf suggests."""

_VALID_UNTIL = struct.Struct("<q")
"""The second field of a stored response: until when it is fresh, in seconds."""

_MAIN = """\
{user}
worker_processes 2;
worker_rlimit_nofile 2048;
daemon off;
pid {folder}/pid;
error_log {folder}/error.log;
events {{ worker_connections 1024; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    include {folder}/barograph.conf;
}}
"""


class Nginx:
    """nginx in front of some hosts."""

    def __init__(
        self, folder: Path, hosts: Sequence[str], changes: Mapping[str, str] | None = None
    ) -> None:
        """`changes` replace text of the configuration; only benchmarks need them."""
        self.folder = folder
        self.port, self.plain_port = unused_port(), unused_port()
        self.base_url = f"https://{HOST}:{self.port}"
        self.hosts_file = folder / "hosts.conf"
        folder.mkdir()
        self.hosts_file.write_text("".join(f"server {each} {LIMITS};\n" for each in hosts))
        tls = Authority(folder, x509.IPAddress(ip_address(HOST)))
        # Workers of root would change to a user who can't read the test's folder.
        user = "user root;" if os.geteuid() == 0 else ""
        texts = {
            "barograph.conf": configuration(folder, self.hosts_file, self.port, self.plain_port),
            "nginx.conf": _MAIN.format(folder=folder, user=user),
        }
        for name, text in texts.items():
            for ours, theirs in (changes or {}).items():
                text = text.replace(ours, theirs)  # noqa: PLW2901
            (folder / name).write_text(text)
        self.command = (PROGRAM, "-p", str(folder), "-c", str(folder / "nginx.conf"))
        self._tls = tls.client

    def start(self) -> None:
        with (self.folder / "output.log").open("ab") as output:
            self._popen = subprocess.Popen(self.command, stdout=output, stderr=output)
        eventually(lambda: self._popen.poll() is not None or _is_open(self.port), "nginx")
        assert self._popen.poll() is None, (self.folder / "output.log").read_text()

    def end(self) -> None:
        self._popen.send_signal(signal.SIGTERM)
        self._popen.wait(20)

    def workers(self) -> list[psutil.Process]:
        return psutil.Process(self._popen.pid).children()

    def get(self, path: str, **headers: str) -> httpx2.Response:
        """A request on a connection of its own; `x_api_key="x"` sends `X-API-Key: x`."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        url = self.base_url + path
        return httpx2.get(url, headers=named, verify=self._tls, trust_env=False, timeout=90)

    def connect(self) -> ssl.SSLSocket:
        plain = socket.create_connection((HOST, self.port), 90)
        return self._tls.wrap_socket(plain, server_hostname=HOST)

    def knock(self, *lines: bytes) -> Answer:
        """Send a request byte for byte; a client library would refuse or change it."""
        with self.connect() as connection:
            with suppress(OSError):  # nginx need not read everything
                connection.sendall(b"\r\n".join((*lines, b"", b"")))
            return received(connection, method=lines[0].split()[0].decode())

    def wait_for_log(self, path: str, lines: int = 1) -> None:
        """Wait until the access log has so many lines with this path."""
        log = self.folder / "access.log"
        eventually(lambda: log.read_text().count(f" {path} ") == lines, path)

    def logs(self) -> str:
        return "".join(each.read_text() for each in self.folder.glob("*.log"))

    def age_cache(self, seconds: int) -> None:
        """Make every stored response older, as if it had been stored that long ago."""
        for each in self.folder.glob("cache/*/*/*"):
            with each.open("r+b") as file:
                file.seek(_VALID_UNTIL.size)
                (until,) = _VALID_UNTIL.unpack(file.read(_VALID_UNTIL.size))
                file.seek(_VALID_UNTIL.size)
                file.write(_VALID_UNTIL.pack(until - seconds))


@contextmanager
def running_nginx(
    folder: Path, *hosts: str, changes: Mapping[str, str] | None = None
) -> Iterator[Nginx]:
    nginx = Nginx(folder, hosts, changes)
    nginx.start()
    try:
        yield nginx
    finally:
        nginx.end()


def configuration(folder: Path, hosts_file: Path, port: int, plain_port: int) -> str:
    """deploy/nginx.conf with other paths and ports."""
    replaced = {
        "/etc/nginx/barograph-hosts.conf": str(hosts_file),
        "/var/cache/nginx/barograph": f"{folder}/cache",
        "/var/log/nginx/barograph.log": f"{folder}/access.log",
        "/var/log/nginx/barograph-error.log": f"{folder}/server-error.log",
        "/etc/letsencrypt/live/barograph.example/fullchain.pem": f"{folder}/server.pem",
        "/etc/letsencrypt/live/barograph.example/privkey.pem": f"{folder}/server.pem",
        "listen [::]:80;": "",
        "listen [::]:443 ssl http2;": "",
        "listen 80;": f"listen {HOST}:{plain_port};",
        "listen 443 ": f"listen {HOST}:{port} ",
    }
    text = CONFIGURATION.read_text()
    for ours, theirs in replaced.items():
        assert ours in text, f"deploy/nginx.conf has no {ours}"
        text = text.replace(ours, theirs)
    return text


Reply = Callable[[bytes], bytes]
"""From the head of a request to everything that is sent before the connection is closed."""


class Upstream:
    """A host that sends any bytes and records the heads of its requests."""

    def __init__(self, reply: Reply) -> None:
        self.reply = reply
        self.after_reply: Callable[[], object] = lambda: None
        self.heads: list[bytes] = []
        outer = self

        class Handler(StreamRequestHandler):
            def handle(self) -> None:
                head = b"".join(iter(self.rfile.readline, b"\r\n"))
                if head:
                    outer.heads.append(head)
                    self.wfile.write(outer.reply(head))
                    outer.after_reply()

        self._server = ThreadingTCPServer((HOST, 0), Handler)
        self._server.daemon_threads = True
        self.address = f"{HOST}:{self._server.server_address[1]}"

    @contextmanager
    def running(self) -> Iterator["Upstream"]:
        thread = Thread(target=self._server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            thread.join()
            self._server.server_close()


def http_reply(body: bytes, *fields: tuple[bytes, bytes], status: int = 200) -> bytes:
    head = b"HTTP/1.1 %d x\r\nContent-Length: %d\r\nConnection: close\r\n" % (status, len(body))
    return head + b"".join(b"%b: %b\r\n" % each for each in fields) + b"\r\n" + body


def _is_open(port: int) -> bool:
    with socket.socket() as connection:
        return connection.connect_ex((HOST, port)) == 0
