#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The command lines of thinswap and thinswapd, without a daemon

Golden --help texts (golden/NAME.txt), each at most a screen of 24 lines of
80 columns; exit codes; one JSON object for --json. Case 49: errors say what
to do. Usage: test_cli.py BUILD [--update]
"""

import json
import os
import socket
import subprocess
import sys
import tempfile
import threading

BUILD = sys.argv[1]
GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "golden")
COMMANDS = ["attach", "check", "detach", "estimate", "fsck", "metrics",
            "stats", "status", "top", "tune", "upgrade", "version"]
failed = 0


def run(name, *args):
    return subprocess.run([os.path.join(BUILD, "daemon", name), *args],
                          capture_output=True, text=True, timeout=30)


def check(what, ok, detail=""):
    global failed
    failed += not ok
    print(f"{'ok' if ok else 'FAILED'}: {what}" +
          (f": {detail}" if not ok else ""))


def check_help(golden, name, *args):
    done = run(name, *args, "--help")
    path = os.path.join(GOLDEN, golden + ".txt")
    if "--update" in sys.argv:
        with open(path, "w") as file:
            file.write(done.stdout)
    with open(path) as file:
        check(f"{golden} --help is the golden text",
              done.returncode == 0 and done.stdout == file.read(),
              done.stdout)
    lines = done.stdout.splitlines()
    check(f"{golden} --help fits a screen",
          len(lines) <= 24 and max(map(len, lines)) <= 80)
    check(f"{golden} -h is the same", run(name, *args, "-h").stdout ==
          done.stdout)


def check_fails(what, code, text, name, *args):
    done = run(name, *args)
    check(f"{what}: exit code {code}, says what to do",
          done.returncode == code and text in done.stderr and
          done.stdout == "" and len(done.stderr.splitlines()) == 1, done)


check_help("thinswapd", "thinswapd")
check_help("thinswap", "thinswap")
for command in COMMANDS:
    check_help("thinswap-" + command, "thinswap", command)

check_fails("no command", 2, "--help", "thinswap")
check_fails("unknown command", 2, '"frob"', "thinswap", "frob")
check_fails("unknown option", 2, "--help", "thinswap", "--frob")
check_fails("thinswapd argument", 2, "--help", "thinswapd", "x")
for command in COMMANDS:
    check_fails(f"{command}: unknown option", 2, f"thinswap {command} --help",
                "thinswap", command, "--frob")

with tempfile.TemporaryDirectory() as empty:
    where = ["--runtime-dir", empty]
    for command in ("attach", "detach", "status"):
        check_fails(f"{command} without a daemon", 3, "systemctl start",
                    "thinswap", *where, command)
        done = run("thinswap", *where, command, "--json")
        answer = json.loads(done.stdout)
        check(f"{command} --json without a daemon", done.returncode == 3 and
              answer["ok"] is False and answer["exit_code"] == 3 and
              done.stderr == "", done)
    done = run("thinswap", *where, "version", "--json")
    answer = json.loads(done.stdout)
    check("version --json without a daemon", done.returncode == 0 and
          answer["thinswapd"] is None and answer["thinswap"], done)
    check("--json before the command",
          run("thinswap", *where, "--json", "version").stdout == done.stdout)
    check("version", run("thinswap", *where, "version").stdout ==
          f"thinswap {answer['thinswap']}\n")



def check_status(name, change):
    """The text of `thinswap status` for a daemon that answers as given."""
    with open(os.path.join(GOLDEN, "status.json")) as file:
        status = json.load(file)
    change(status)
    answer = json.dumps({"ok": True, "result": status}) + "\n"
    with tempfile.TemporaryDirectory() as tmp, \
            socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.join(tmp, "control"))
        server.listen()

        def serve():
            client, _ = server.accept()
            client.recv(1024)
            client.sendall(answer.encode())
            client.close()

        thread = threading.Thread(target=serve)
        thread.start()
        done = run("thinswap", "--runtime-dir", tmp, "status")
        thread.join()
    path = os.path.join(GOLDEN, f"status-{name}.txt")
    if "--update" in sys.argv:
        with open(path, "w") as file:
            file.write(done.stdout)
    with open(path) as file:
        check(f"status, {name}, is the golden text",
              done.returncode == 0 and done.stdout == file.read(), done)


def nothing_kept(status):
    status["state"] = "failed"
    status["kept_memory"] = status["server_pid"] = status["probe"] = None
    status["settings"] = status["spill"] = None
    status["warnings"] = []
    status["device"].update(path="/dev/loop3", attached_by="fuse",
                            limits="for memory cgroups only")
    status["successors"].update(taken_over=0, last_seconds=None,
                                last_status=None)


check_status("running", lambda status: None)
check_status("failed", nothing_kept)

sys.exit(1 if failed else 0)
