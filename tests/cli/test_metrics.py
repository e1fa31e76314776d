#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""thinswap metrics, asked by real HTTP clients, and the Grafana dashboard

Usage: test_metrics.py BUILD DASHBOARD
"""

import http.client
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

from clitest import (BUILD, THINSWAP, check, finish, need, scratch, server,
                     wait_for)

def free_port():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


def get(port, path="/metrics", **headers):
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}",
                                     headers=headers)
    end = time.monotonic() + 20
    while True:
        try:
            with urllib.request.urlopen(request, timeout=20) as answer:
                return (answer.status, answer.headers["Content-Type"],
                        answer.read().decode())
        except urllib.error.HTTPError as error:
            return error.code, "", ""
        except urllib.error.URLError:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)


class Exporter:
    def __init__(self, *args, prefix=()):
        self.process = subprocess.Popen([*prefix, THINSWAP, "metrics", *args])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.code = self.process.wait(30)


def over_tcp(stats):
    port = free_port()
    with Exporter("--listen", f"127.0.0.1:{port}", "--file", stats) as it:
        status, kind, body = get(port)
        check("GET /metrics", status == 200 and
              kind.startswith("text/plain; version=0.0.4") and
              "\nthinswap_up 1\n" in body, (status, kind))
        same = subprocess.run([THINSWAP, "stats", "--format=prometheus",
                               "--file", stats], capture_output=True,
                              text=True, check=True, timeout=30).stdout
        check("the same names as thinswap stats", names(body) == names(same))
        _, kind, body = get(port, Accept="application/openmetrics-text;"
                            "version=1.0.0,text/plain;q=0.5")
        check("OpenMetrics for who asks for it", body.endswith("# EOF\n") and
              kind.startswith("application/openmetrics-text"), kind)
        check("another path is 404", get(port, "/etc/passwd")[0] == 404)
        conn = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        conn.request("POST", "/metrics", body=b"x" * 100000)
        answer = conn.getresponse()
        check("POST is 405", answer.status == 405 and
              "GET" in answer.headers["Allow"], answer.status)
        conn.close()
        with socket.create_connection(("127.0.0.1", port)) as sock:
            sock.sendall(b"\0\xff not HTTP at all\r\n\r\n")
        if shutil.which("curl"):
            out = subprocess.run(["curl", "-sf", "--max-time", "20",
                                  f"http://127.0.0.1:{port}/metrics"],
                                 capture_output=True, text=True)
            check("curl, after a client that spoke nonsense",
                  out.returncode == 0 and "thinswap_slots{" in out.stdout)
        second = subprocess.run([THINSWAP, "metrics", "--listen",
                                 f"127.0.0.1:{port}"], capture_output=True,
                                text=True, timeout=30)
        check("an address in use is named", second.returncode == 1 and
              "in use" in second.stderr, second)
    check("SIGTERM ends it well", it.code == 0, it.code)
    return body


def over_unix(tmp, stats):
    path = os.path.join(tmp, "metrics")
    for _ in range(2):  # the second finds the first's file, nobody behind it
        with Exporter("--listen", f"unix:{path}", "--file", stats):
            end = time.monotonic() + 20
            while True:
                try:
                    sock = socket.socket(socket.AF_UNIX)
                    sock.connect(path)
                    break
                except OSError:
                    assert time.monotonic() < end
                    time.sleep(0.05)
            conn = http.client.HTTPConnection("localhost")
            conn.sock = sock
            conn.request("GET", "/metrics")
            body = conn.getresponse().read()
            check("over a unix socket", b"\nthinswap_up 1\n" in body)
            conn.close()


def curl_over_unix(tmp, stats):
    if not shutil.which("curl"):
        print("skipped in part: no curl")
        return
    path = os.path.join(tmp, "for-curl")
    with Exporter("--listen", f"unix:{path}", "--file", stats):
        wait_for(lambda: os.path.exists(path), "the socket")
        out = subprocess.run(
            ["curl", "-sf", "--retry", "40", "--retry-connrefused",
             "--retry-delay", "1", "--max-time", "60", "--unix-socket", path,
             "http://localhost/metrics"],
            capture_output=True, text=True)
        check("curl over a unix socket", out.returncode == 0 and
              "thinswap_slots{" in out.stdout, out)


def by_prometheus(tmp, stats):
    """Prometheus itself scrapes, and asks for OpenMetrics when it does."""
    if not shutil.which("prometheus"):
        print("skipped in part: no prometheus")
        return
    port, own = free_port(), free_port()
    config = os.path.join(tmp, "prometheus.yml")
    with open(config, "w") as file:
        file.write("global: {scrape_interval: 1s}\n"
                   "scrape_configs:\n"
                   "- job_name: thinswap\n"
                   f"  static_configs: [targets: ['127.0.0.1:{port}']]\n")

    def ask(what):
        return json.loads(get(own, f"/api/v1/{what}")[2] or
                          '{"data": {}}')["data"]

    with Exporter("--listen", f"127.0.0.1:{port}", "--file", stats):
        it = subprocess.Popen(
            ["prometheus", f"--config.file={config}",
             f"--storage.tsdb.path={tmp}/tsdb",
             f"--web.listen-address=127.0.0.1:{own}"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            end = time.monotonic() + 60
            while not (targets := ask("targets").get("activeTargets")) or \
                    targets[0]["health"] == "unknown":
                assert time.monotonic() < end and it.poll() is None
                time.sleep(0.1)
            check("Prometheus scrapes it", targets[0]["health"] == "up" and
                  targets[0]["lastError"] == "", targets)
            found = ask("query?query=thinswap_up")["result"]
            check("and finds it up", found and found[0]["value"][1] == "1",
                  found)
            meta = ask("metadata?metric=thinswap_written_pages")
            check("as OpenMetrics: a counter without _total in its name",
                  meta.get("thinswap_written_pages", [{}])[0].get("type") ==
                  "counter", meta)
        finally:
            it.terminate()
            it.wait(30)


def by_textfile(tmp, stats):
    """What the manual page has node_exporter's textfile collector read."""
    page = os.path.join(os.path.dirname(sys.argv[2]), "..", "man",
                        "thinswap-stats.7.pod.in")
    with open(page) as file:
        recipe = re.search(r"(?m)^ thinswap stats .*> (\S+)/thinswap.tmp "
                           r"&&\n mv .*$", file.read())
    script = recipe[0].replace(recipe[1], tmp).replace(
        "thinswap stats", f"{THINSWAP} stats --file {stats}")
    subprocess.run(["sh", "-c", script], check=True, timeout=30)
    with open(os.path.join(tmp, "thinswap.prom")) as file:
        text = file.read()
    check("the textfile recipe works", "\nthinswap_up 1\n" in text and
          not os.path.exists(os.path.join(tmp, "thinswap.tmp")), recipe[0])
    if shutil.which("promtool"):
        done = subprocess.run(["promtool", "check", "metrics"], input=text,
                              capture_output=True, text=True, timeout=60)
        check("promtool finds nothing", done.returncode == 0 and
              not done.stderr, done)


def by_systemd(stats):
    if not shutil.which("systemd-socket-activate"):
        print("skipped in part: no systemd-socket-activate")
        return
    port = free_port()
    with Exporter("--file", stats, prefix=[
            "systemd-socket-activate", "-l", f"127.0.0.1:{port}"]):
        check("activated by a socket", "thinswap_up 1\n" in get(port)[2])


def check_units(tmp):
    """The shipped units, with the program of this build in its place."""
    service = os.path.join(BUILD, "systemd", "thinswap-metrics.service")
    if not shutil.which("systemd-analyze") or not os.path.exists(service):
        print("skipped in part: no systemd-analyze, or units are not built")
        return
    folder = os.path.join(tmp, "units")
    os.mkdir(folder)
    with open(service) as file:
        text = file.read()
    check("no place holder is left", "@thinswap@" not in text)
    check("the socket is off by default, and local", "PrivateNetwork=yes" in
          text and "[Install]" not in text)
    paths = [os.path.join(folder, "thinswap-metrics.service"),
             os.path.join(folder, "thinswap-metrics.socket")]
    with open(paths[0], "w") as file:
        file.write(re.sub(r"(?m)^ExecStart=\S+", f"ExecStart={THINSWAP}",
                          text))
    shutil.copy(os.path.join(os.path.dirname(sys.argv[2]),
                             "thinswap-metrics.socket"), paths[1])
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", *paths],
                          capture_output=True, text=True, timeout=60)
    said = [line for line in done.stderr.splitlines() if "thinswap" in line]
    check("systemd-analyze verify finds nothing", done.returncode == 0 and
          not said, done.stderr)
    done = subprocess.run(["systemd-analyze", "security", "--offline=true",
                           "--threshold=20", paths[0]], capture_output=True,
                          text=True, timeout=60)
    check("systemd-analyze security: exposure below 2", done.returncode == 0,
          done.stdout[-300:] + done.stderr)


def without_server():
    port = free_port()
    with Exporter("--listen", f"127.0.0.1:{port}", "--file", "/nonexistent"):
        check("no server: up is 0", "\nthinswap_up 0\n" in get(port)[2])
    done = subprocess.run([THINSWAP, "metrics"], capture_output=True,
                          text=True, timeout=30)
    check("off unless it is told where to listen", done.returncode == 2 and
          "thinswap-metrics.socket" in done.stderr, done)
    for where in ("localhost:http", "9953", "unix:", "127.0.0.1:x"):
        done = subprocess.run([THINSWAP, "metrics", "--listen", where],
                              capture_output=True, text=True, timeout=30)
        check(f"--listen {where} is refused", done.returncode == 1 and
              where in done.stderr, done)


def names(text):
    return set(re.findall(r"(?m)^(thinswap_\w+)", text))


def check_dashboard(path, body):
    with open(path) as file:
        board = json.load(file)
    expressions = [t["expr"] for p in board["panels"] for t in p["targets"]]
    used = set(re.findall(r"thinswap_\w+", " ".join(expressions)))
    check("the dashboard uses only names that exist",
          used and used <= names(body), used - names(body))
    check("the dashboard would be found wanting",
          not {"thinswap_nothing"} <= names(body))
    kinds = set(re.findall(r'thinswap_slots\{kind="(\w+)"', body))
    check("the dashboard shows all kinds of pages",
          any("thinswap_slots{instance" in e for e in expressions) and
          {"zero", "fill", "ram", "spill"} <= kinds)


def main():
    need("nbdkit")
    with scratch("metrics") as tmp, server(tmp, "size=64M", "ram=16M"):
        stats = os.path.join(tmp, "stats")
        over_tcp(stats)
        over_unix(tmp, stats)
        curl_over_unix(tmp, stats)
        by_prometheus(tmp, stats)
        by_textfile(tmp, stats)
        by_systemd(stats)
        without_server()
        check_units(tmp)
        body = subprocess.run([THINSWAP, "stats", "--format=prometheus",
                               "--file", stats], capture_output=True,
                              text=True, check=True, timeout=30).stdout
        check_dashboard(sys.argv[2], body)
    finish()


main()
