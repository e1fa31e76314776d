#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""thinswap stats and tune, against a plugin that runs by itself

Known pages (case 47) as text, JSON and for Prometheus; a stopped and a dead
server; another user and another umask (case 49); room that is short (case
38); a log line for what fails (case 22). Usage: test_stats.py BUILD [--update]
"""

import contextlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from clitest import (PAGE, PLUGIN, THINSWAP, check, finish, need, scratch,
                     wait_for)

GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "golden")
N = 1000


def thinswap(*args, prefix=(), seconds=60):
    return subprocess.run([*prefix, THINSWAP, *args], capture_output=True,
                          text=True, timeout=seconds)


class Server:
    def __init__(self, tmp, *params, umask=0o022):
        self.sock = os.path.join(tmp, "sock")
        self.file = os.path.join(tmp, "stats")
        self.log = os.path.join(tmp, "log")
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(
                ["nbdkit", "--foreground", "--unix", self.sock, PLUGIN,
                 "write-behind=0", *params, "dictionary=false",
                 f"stats={self.file}"],
                stdout=log, stderr=log, umask=umask)
        wait_for(lambda: os.path.exists(self.sock) or
                 self.process.poll() is not None, "the server")

    def stats(self):
        done = thinswap("stats", "--json", "--file", self.file)
        return json.loads(done.stdout)

    def fresh_stats(self):
        """What is looked up once a second is of a later time than now."""
        begin = time.monotonic()
        stats = self.stats()
        wait_for(lambda: self.stats()["server"]["looked_up_seconds_ago"] <
                 time.monotonic() - begin, "a look")
        stats = self.stats()
        return stats

    def uri(self):
        return f"nbd+unix:///?socket={self.sock}"

    def write(self, data, offset=0):
        with tempfile.NamedTemporaryFile(dir=os.path.dirname(self.sock)) as f:
            f.write(data)
            f.flush()
            return self.io(f"write -q -s {f.name} {offset} {len(data)}")

    def io(self, *commands):
        args = [word for command in commands for word in ("-c", command)]
        return subprocess.run(["qemu-io", "-f", "raw", "-d", "unmap", *args,
                               self.uri()], capture_output=True, text=True,
                              timeout=60)

    def read_log(self):
        with open(self.log) as log:
            return log.read()


@contextlib.contextmanager
def server(*params, **more):
    with scratch("stats") as tmp:
        os.chmod(tmp, 0o755)
        it = Server(tmp, *params, **more)
        try:
            yield it
        finally:
            it.process.send_signal(signal.SIGCONT)
            it.process.terminate()
            it.process.wait(30)


def state(pid):
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[0]


def known_pages():
    """N pages of zeroes, of one byte, of text, and of noise."""
    rng = random.Random(1)
    words = [bytes(rng.choice(b"abcdefghijklmnop")
                   for _ in range(rng.randint(2, 9))) for _ in range(200)]
    text = b"".join(b" ".join(rng.choice(words) for _ in range(1400))[:PAGE]
                    for _ in range(N))
    return (bytes(PAGE * N), b"\x5a" * (PAGE * N), text,
            rng.randbytes(PAGE * N))


def slots(stats):
    return {k: stats["slots"][k] for k in
            ("zero", "fill", "staged", "ram", "raw", "spill", "used")}


def add_up(stats):
    kinds = {k: v for k, v in stats["slots"].items()
             if k not in ("used", "size")}
    return sum(kinds.values()) == stats["slots"]["used"]


def normal(text):
    """What differs from run to run."""
    text = re.sub(r"pid \d+, thinswap \S+, up \d+ min",
                  "pid PID, thinswap VERSION, up N min", text)
    text = re.sub(r"(?m)^memory +\S+ \S+ of (.*) \(.*and \S+ \S+ ready",
                  r"memory          SIZE of \1, and SIZE ready", text)
    text = re.sub(r"about \S+ \S+ more", "about SIZE more", text)
    text = re.sub(r"[\d.]+ all in", "R all in", text)
    text = re.sub(r"(?m)^(  [a-z_]+ +)(\d+)( +[\d.]+ [mu]s){4}$",
                  r"\1\2 TIMES", text)
    text = re.sub(r"(?m)^kernel(.*\n +)*.*\n", "", text)
    return re.sub(r"(?m)^  (read|write|discard) .*", r"  \1 ...", text)


def check_golden(name, text):
    path = os.path.join(GOLDEN, name)
    if "--update" in sys.argv:
        with open(path, "w") as file:
            file.write(text)
    with open(path) as file:
        check(f"golden {name}", file.read() == text, text)


def check_prometheus(it):
    out = thinswap("stats", "--format=prometheus", "--file", it.file).stdout
    if shutil.which("promtool"):
        done = subprocess.run(["promtool", "check", "metrics"], input=out,
                              capture_output=True, text=True, timeout=60)
        check("promtool finds nothing", done.returncode == 0 and
              not done.stderr, done)
    else:
        print("skipped in part: no promtool (Debian package prometheus)")
    names = set(re.findall(r"(?m)^(thinswap_\w+)", out))
    described = set(re.findall(r"# HELP (\S+)", out))
    typed = dict(re.findall(r"# TYPE (\S+) (\S+)", out))
    check("each family has HELP and TYPE", described == set(typed))
    check("counters end in _total",
          all(n.endswith("_total") for n, t in typed.items()
              if t == "counter") and "thinswap_written_pages_total" in names)
    values = dict(re.findall(r"(?m)^(thinswap_slots\S+) (\d+)", out))
    check("slots by kind", values['thinswap_slots{kind="fill"}'] == str(N),
          values)
    om = thinswap("stats", "--format", "openmetrics", "--file",
                  it.file).stdout
    check("OpenMetrics ends in EOF, and its counters' families not in _total",
          om.endswith("# EOF\n") and
          "# TYPE thinswap_written_pages counter" in om)
    buckets = [int(n) for n in re.findall(
        r'(?m)^thinswap_write_seconds_bucket\{\S+\} (\d+)', out)]
    count = int(re.search(r"thinswap_write_seconds_count (\d+)", out)[1])
    check("histogram buckets rise to the count",
          buckets == sorted(buckets) and buckets[-1] == count > 0, buckets)


def jq(expression, it):
    out = thinswap("stats", "--json", "--file", it.file).stdout
    return subprocess.run(["jq", "-e", expression], input=out, text=True,
                          capture_output=True, timeout=60).returncode == 0


def test_known_pages():
    """Case 47: every page is counted once, under its own kind"""
    with server("size=1G", "ram=64M") as it:
        for i, data in enumerate(known_pages()):
            done = it.write(data, i * PAGE * N)
            check("written", done.returncode == 0, done)
        stats = it.fresh_stats()
        check("1000 pages of each kind", slots(stats) ==
              {"zero": N, "fill": N, "staged": 0, "ram": N, "raw": N,
               "spill": 0, "used": 4 * N}, slots(stats))
        store = stats["store"]
        check("ratio by its definition", store["bytes_before"] ==
              2 * N * PAGE and abs(store["ratio"] - store["bytes_before"] /
                                   store["bytes_after"]) < 1e-6, store)
        check("integers are integers", all(
            isinstance(v, int) for part in ("slots", "counters", "gauges")
            for v in stats[part].values()))
        check("pages through the compressor",
              stats["latency"]["compress"]["count"] == 2 * N)
        check_golden("stats.txt", normal(
            thinswap("stats", "--file", it.file).stdout))
        check_golden("stats-keys.txt", "\n".join(keys_of(stats)) + "\n")
        check_prometheus(it)
        if shutil.which("jq"):
            check("jq", jq(".slots.zero == 1000 and (.slots | .zero + .fill "
                           "+ .ram + .raw + .spill == .used)", it) and
                  not jq(".slots.zero == 999", it))
        else:
            print("skipped in part: no jq")
        for i in range(4):
            it.io(f"discard {i * N * PAGE} {500 * PAGE}")
        stats = it.fresh_stats()
        check("500 of each trimmed", slots(stats) ==
              {"zero": N - 500, "fill": N - 500, "staged": 0,
               "ram": N - 500,
               "raw": N - 500, "spill": 0, "used": 4 * (N - 500)},
              slots(stats))
        check("trimmed pages are counted",
              stats["counters"]["discarded_pages"] == 2000)
        explain_swap_used(it)


def keys_of(value, path=""):
    if isinstance(value, dict):
        return [line for k, v in value.items()
                for line in keys_of(v, f"{path}.{k}")]
    if isinstance(value, list):
        return keys_of(value[0], path + "[]") if value else [path + "[]"]
    return [f"{path} {type(value).__name__}"]


def explain_swap_used(it):
    """With a swap area in /proc/swaps, in a mount namespace of our own."""
    if os.geteuid() != 0 or not shutil.which("unshare"):
        print("skipped in part: /proc/swaps cannot be replaced (needs root)")
        return
    with tempfile.NamedTemporaryFile("w") as swaps:
        swaps.write("Filename Type Size Used Priority\n"
                    "/dev/nbd0 partition 1048572 12288 100\n")
        swaps.flush()
        done = subprocess.run(
            ["unshare", "--mount", "sh", "-c",
             f"mount --bind {swaps.name} /proc/swaps && "
             f"exec {THINSWAP} stats --file {it.file}"],
            capture_output=True, text=True, timeout=60)
    check("text explains the gap to SwapUsed", "12 MiB" in done.stdout and
          "SwapUsed" in done.stdout, done)


def test_under_load():
    """Sums add up in every look while pages change their kind"""
    zero, fill, text, noise = (part[:64 * PAGE] for part in known_pages())
    with server("size=64M", "ram=32M", "write-behind=2M") as it, \
            tempfile.NamedTemporaryFile() as file:
        file.write(zero + fill + text + noise)
        file.flush()
        size = 256 * PAGE
        it.write(zero + fill + text + noise)
        load = [subprocess.Popen(
            ["qemu-io", "-f", "raw"] + [w for i in range(300) for w in
             ("-c", f"write -q -s {file.name} 0 {size}",
              "-c", f"write -q -P {i % 2} 0 {size}")] + [it.uri()],
            stdout=subprocess.DEVNULL) for _ in range(2)]
        looks = wrong = 0
        while any(p.poll() is None for p in load):
            stats = it.stats()
            looks += 1
            if stats["consistent"]:
                wrong += not (add_up(stats) and
                              stats["slots"]["used"] == 256)
        check(f"{looks} looks, all add up to 256 pages",
              looks > 5 and not wrong, f"{wrong} wrong")


def test_stalled():
    """A server stopped by SIGSTOP, then killed: the figures are still there"""
    with server("size=1G", "ram=64M") as it:
        it.write(known_pages()[1])
        os.kill(it.process.pid, signal.SIGSTOP)
        wait_for(lambda: state(it.process.pid) == "T", "the stop")
        # A reader that waited for the server would run into the time-out.
        for args in (["stats"], ["stats", "--format=prometheus"],
                     ["stats", "--watch", "0.1", "--count", "2"],
                     ["stats", "--json"]):
            begin = time.monotonic()
            done = thinswap(*args, "--file", it.file, seconds=10)
            print(f"  {' '.join(args)} took {time.monotonic() - begin:.3f} s")
            check("answers while stopped", done.returncode == 0, done)
        stats = json.loads(done.stdout)
        check("and says that it is",
              stats["slots"]["fill"] == N and stats["server"]["stopped"] and
              "server-stopped" in [w["name"] for w in stats["warnings"]],
              stats["warnings"])
        done = thinswap("tune", "level=2", "--file", it.file)
        check("tune says that it does not answer", done.returncode == 1 and
              "does not answer" in done.stderr, done)
        os.kill(it.process.pid, signal.SIGCONT)
        check("and the request was taken back",
              it.fresh_stats()["gauges"]["level"] == 1)
        it.process.kill()
        it.process.wait(30)
        stats = it.stats()
        check("last figures of a dead server", stats["slots"]["fill"] == N and
              not stats["server"]["alive"], stats)
        done = thinswap("tune", "level=2", "--file", it.file)
        check("tune says that it is gone", done.returncode == 3 and
              "is gone" in done.stderr, done)


def test_other_user():
    """Case 49: exact mode under any umask; another user reads, not writes"""
    for umask in (0o000, 0o077):
        with server("size=64M", "ram=16M", umask=umask) as it:
            mode = os.stat(it.file).st_mode & 0o7777
            check(f"umask {umask:03o}: mode 0644", mode == 0o644, oct(mode))
            if os.geteuid() != 0 or not shutil.which("setpriv"):
                print("skipped in part: needs root to be another user")
                continue
            nobody = ("setpriv", "--reuid=65534", "--regid=65534",
                      "--clear-groups")
            done = thinswap("stats", "--json", "--file", it.file,
                            prefix=nobody)
            if "cannot execute" in done.stderr or done.returncode in (126,
                                                                      127):
                print("skipped in part: the build directory is private")
                continue
            check("another user reads", done.returncode == 0 and
                  json.loads(done.stdout)["server"]["alive"], done)
            done = thinswap("tune", "level=2", "--file", it.file,
                            prefix=nobody)
            check("and is told why not to tune", done.returncode == 4 and
                  "owner" in done.stderr, done)


def test_tune():
    """Settings change, wrong ones are explained, nothing is lost"""
    with server("size=1G", "ram=32M") as it:
        it.write(known_pages()[2])
        done = thinswap("tune", "level=-7", "ram=64M", "--file", it.file)
        check("tune", done.returncode == 0 and done.stdout ==
              "level is now -7\nram is now 64 MiB\n", done)
        stats = it.fresh_stats()
        check("is in force", stats["gauges"]["level"] == -7 and
              stats["gauges"]["budget_bytes"] == 64 << 20)
        before = stats["store"]["bytes_after"]
        it.write(known_pages()[2])
        after = it.fresh_stats()["store"]["bytes_after"]
        check("level -7 makes more of the same", after > before,
              f"{before} {after}")
        for text, code, what in (("level=99", 2, "-7 to 19"),
                                 ("ram=1PB", 2, "PB"),
                                 ("rma=1G", 2, "KEY=VALUE"),
                                 ("ram=1024G", 1, "ram-max"),
                                 ("low-water=20", 1, "no spill file")):
            done = thinswap("tune", text, "--file", it.file)
            check(f"tune {text}", done.returncode == code and
                  what in done.stderr and not done.stdout, done)


def test_no_file():
    """What is said when there is nothing to read"""
    with tempfile.TemporaryDirectory() as tmp:
        done = thinswap("--runtime-dir", tmp, "stats")
        check("no daemon", done.returncode == 3 and
              "systemctl start thinswap" in done.stderr, done)
        path = os.path.join(tmp, "x")
        done = thinswap("stats", "--file", path)
        check("no file", done.returncode == 3 and "stats=" in done.stderr,
              done)
        with open(path, "w") as file:
            file.write("something else")
        done = thinswap("stats", "--json", "--file", path)
        check("another file", done.returncode == 1 and
              "not a statistics file" in json.loads(done.stdout)["error"],
              done)


def test_short_room():
    """Case 38: the real room is told, and that the kernel's figure misleads;
    case 22: a request that fails is EIO or ENOSPC, and one line in the log
    """
    with server("size=1G", "ram=8M") as it:
        stats = it.fresh_stats()
        names = [w["name"] for w in stats["warnings"]]
        check("no warning at first", "overcommitted" not in names and
              stats["store"]["room_is_guess"], names)
        noise = random.Random(2).randbytes(3000 * PAGE)
        failures = 0
        for i in range(3):
            failures += "No space" in it.write(noise, i << 20).stdout
        stats = it.fresh_stats()
        names = [w["name"] for w in stats["warnings"]]
        check("full: refused", stats["counters"]["nospace"] > 1, stats)
        check("full: next to no room, although most of the device is free",
              stats["store"]["room_bytes"] < 1 << 20 and
              stats["slots"]["used"] < 3000, stats["store"])
        check("full: warns of it", "overcommitted" in names and
              "low-ratio" not in names, names)
        text = thinswap("stats", "--file", it.file).stdout
        check("text warns too", "warning: overcommitted: about" in text and
              "SwapFree" in text, text)
        it.io(f"write -z {(1 << 29) + 100} 1000")
        lines = [line for line in it.read_log().splitlines()
                 if "No space left" in line]
        check("a line in the log for each sort of request that fails, not "
              "for each request", 1 <= len(lines) <= 2, it.read_log())


def main():
    need("nbdkit", "qemu-io")
    for name, function in list(globals().items()):
        if name.startswith("test_"):
            print(f"# {function.__doc__}")
            function()
    finish()


main()
