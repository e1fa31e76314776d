#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""thinswapd with a device: each step of a start fails once, all is undone

Cases 5, 6 and 12. FUSE and loop are real; what fails are the helpers, one at
a time, as fakes. Nothing is ever swapped out here.
"""

import os
import signal
import subprocess
import time

import daemontest
from daemontest import (Instance, Skip, check, fake, loops_below, need_swap,
                        quoted, start_time, swaps, wait_for)

FUSE = {"device.attach": '"fuse"'}


def swap_of(it):
    return [dev for dev in loops_below(it.dir) if dev in swaps()]


def refused(tmp, name, keys, step, texts, steps_before=()):
    """A start fails at a step, names it, and leaves nothing."""
    with Instance(tmp, dict(FUSE, **keys), name=name) as it:
        it.launch()
        while it.process.poll() is None:
            it.remember_servers()
            time.sleep(0.002)
        check(it.process.returncode == 1, f"{name}: exit code 1",
              it.process.returncode)
        check(f'step "{step}" failed' in it.log(), f"{name}: step named",
              it.log())
        for text in texts:
            check(text in it.log(), f"{name}: {text}", it.log())
        check(it.left() == [], f"{name}: nothing is left", it.left())
        check(not it.heard("READY"), "never ready")


def test_each_step_fails(tmp):
    """case 6: each failing step is named and everything is undone"""
    need_swap()
    no = fake(tmp, "fake-no", 'echo "$0: it is broken" >&2; exit 3')
    broken = "failed with status 3"
    none = {"device.attach": '"none"'}
    refused(tmp, "nbdkit", dict(none, **{"tuning.nbdkit": '"/nonexistent"'}),
            "start the server", ["cannot run /nonexistent", "No such file"])
    refused(tmp, "server", dict(none, **{"tuning.nbdkit": quoted(no)}),
            "read through the store", ["ended at start"])
    refused(tmp, "plugin",
            dict(none, **{"tuning.plugin": '"/nonexistent.so"'}),
            "read through the store", ["/nonexistent.so"])
    refused(tmp, "fuse", {"tuning.fuse": '"/nonexistent"'},
            "start the server", ["cannot run /nonexistent"])
    refused(tmp, "mount", {"tuning.fuse": quoted(no)},
            "read through the store", ["ended at start"])
    refused(tmp, "mkswap", {"tuning.mkswap": quoted(no)},
            "write the swap header", [broken, "it is broken"])
    refused(tmp, "swapon", {"tuning.swapon-program": quoted(no)},
            "switch swap on", [broken, "it is broken"])


def test_strict_refuses_fuse(tmp):
    """case 4: strict = true refuses the FUSE route and says why"""
    need_swap()
    refused(tmp, "strict", {"security.strict": "true"},
            "check the hardening",
            ["strict = true", "whole-machine pressure (path): missing kernel "
             "nbd", "can hang when the whole machine runs out of memory"])


def test_limits_are_told(tmp):
    """case 4: the route's limit is in the status and in the log"""
    need_swap()
    text = "can hang when the whole machine runs out of memory"
    with Instance(tmp, FUSE) as it:
        it.start()
        status = it.status()
        check(text in status["device"]["limits"], "status", status["device"])
        check(text in it.cli("status").stdout, "shown")
        check(text in it.log(), "log", it.log())
        check(it.stop() == 0 and it.left() == [], "clean", it.left())


def test_auto(tmp):
    """attach = "auto" takes this route where there is no kernel nbd"""
    need_swap()
    if os.path.exists("/dev/nbd0") or os.path.exists("/sys/module/nbd"):
        raise Skip("the kernel has nbd")
    no = fake(tmp, "no-modprobe", "exit 1")
    with Instance(tmp, {"device.attach": '"auto"',
                        "tuning.modprobe": quoted(no)}) as it:
        it.start()
        check(it.status()["device"]["attached_by"] == "fuse", "the route")
        check("route fuse, since nbd is not usable" in it.log(), "why",
              it.log())
        check(it.stop() == 0 and it.left() == [], "clean", it.left())


def test_busy_for_ever(tmp):
    """case 6: a device that stays busy ends the start after bounded tries"""
    need_swap()
    count = os.path.join(tmp, "count")
    busy = fake(tmp, "fake-swapon", f"echo >>{count}\n"
                'echo "swapon: $3: Device or resource busy" >&2; exit 255')
    refused(tmp, "busy", {"tuning.swapon-program": quoted(busy),
                          "tuning.attach-timeout": "1"},
            "switch swap on", ["busy", "gave up waiting"])
    with open(count) as file:
        tries = len(file.readlines())
    check(2 <= tries <= 10, "several tries, not endless", tries)


def test_busy_for_a_while(tmp):
    """case 6: a device that is busy for a while is waited for"""
    need_swap()
    count = os.path.join(tmp, "count")
    busy = fake(tmp, "busy", f"echo >>{count}\n"
                f"[ $(wc -l <{count}) -ge 3 ] && exec mkswap \"$@\"\n"
                'echo "mkswap: cannot open: Device or resource busy" >&2\n'
                "exit 1")
    with Instance(tmp, dict(FUSE, **{"tuning.mkswap": quoted(busy)})) as it:
        it.start()
        check(len(swap_of(it)) == 1, "swap is on")
        with open(count) as file:
            check(len(file.readlines()) == 3, "third time lucky")
        check(it.stop() == 0 and it.left() == [], "clean", it.left())


def test_stop_at_each_step(tmp):
    """SIGTERM while a step is at work: undone, at every step"""
    need_swap()
    for name, key, real in (("mkswap", "tuning.mkswap", "mkswap"),
                            ("swapon", "tuning.swapon-program", "swapon"),
                            ("fuse", "tuning.fuse",
                             daemontest.THINSWAP_FUSE)):
        mark = os.path.join(tmp, name + ".reached")
        slow = fake(tmp, "slow-" + name,
                    f'touch {mark}; sleep 1; exec {real} "$@"')
        with Instance(tmp, dict(FUSE, **{key: quoted(slow)}),
                      name=name) as it:
            it.launch()
            wait_for(lambda: os.path.exists(mark), name)
            it.remember_servers()
            code = it.stop()
            # A stop after the last step is an ordinary one.
            check(code == (0 if name == "swapon" else 1), f"{name}: code",
                  f"{code} {it.log()}")
            check(it.left() == [], f"{name}: nothing is left", it.left())


def test_swapoff_fails(tmp):
    """a swapoff that fails: keeps serving, tries again; the next stop works"""
    need_swap()
    no = fake(tmp, "fake-off", f"[ -e {tmp}/allow ] && exec swapoff \"$@\"\n"
              'echo "swapoff: $1: Cannot allocate memory" >&2; exit 64')
    with Instance(tmp, dict(FUSE,
                            **{"tuning.swapoff-program": quoted(no)})) as it:
        it.start()
        device = swap_of(it)[0]
        done = it.cli("detach")
        check(done.returncode == 1, "detach fails", done)
        check("still on and still served" in done.stderr, "text", done.stderr)
        check("memory.max" in done.stderr, "what to do", done.stderr)
        it.process.send_signal(signal.SIGTERM)
        # One of the signal, then one that nobody asked for.
        wait_for(lambda: it.log().count("still on and still served") >= 3,
                 "the third refusal")
        check(it.process.poll() is None, "the daemon lives")
        check(device in swaps(), "swap is still on")
        check(start_time(it.server_pid()) is not None, "the server lives")
        check(it.status()["state"] == "running", "state")
        open(os.path.join(tmp, "allow"), "w").close()
        check(it.stop() == 0 and it.left() == [], "clean", it.left())


def test_attach_detach(tmp):
    """case 12: attach and detach, 20 times; without swapon; twice refused"""
    need_swap()
    with Instance(tmp, FUSE) as it:
        it.start()
        it.remember_servers()
        done = it.cli("attach")
        check(done.returncode == 1 and "attached already" in done.stderr,
              "second attach", done)
        for i in range(20):
            done = it.cli("detach")
            check(done.returncode == 0, f"detach {i}", done)
            check(loops_below(it.dir) == [], "nothing is left of it")
            done = it.cli("attach")
            check(done.returncode == 0, f"attach {i}", done)
            check(len(swap_of(it)) == 1, "swap is on")
        check(it.cli("detach").returncode == 0, "detach")
        done = it.cli("attach", "--no-swapon")
        check(done.returncode == 0, "attach --no-swapon", done)
        device = loops_below(it.dir)[0]
        check(device not in swaps(), "swap is off")
        check(it.status()["device"]["swap"] is None, "status says so")
        done = subprocess.run(["swapon", "-p", "5", device],
                              capture_output=True, text=True)
        check(done.returncode == 0, "somebody else's swapon", done)
        check(it.status()["device"]["swap"]["priority"] == 5, "seen")
        check(it.stop() == 0 and it.left() == [], "clean", it.left())


def test_device_values(tmp):
    """the device: direct I/O, 4 KiB blocks, not rotational, discards"""
    need_swap()
    with Instance(tmp, FUSE) as it:
        it.start()
        name = os.path.basename(loops_below(it.dir)[0])

        def value(path):
            with open(f"/sys/block/{name}/{path}") as file:
                return int(file.read())

        check(value("loop/dio") == 1, "direct I/O")
        check(value("queue/rotational") == 0, "not rotational")
        check(value("queue/discard_max_bytes") > 0, "discards")
        check(value("queue/logical_block_size") == 4096, "block size")
        check(value("loop/autoclear") == 1, "autoclear")
        check(it.status()["store"]["pages_stored"] == 1,
              "the warm-up left nothing but the swap header")


def test_killed_with_swap_on(tmp):
    """case 5: both killed with swap on: a new start refuses to serve zeros"""
    need_swap()
    with Instance(tmp, FUSE) as it:
        it.start()
        device = swap_of(it)[0]
        server = it.remember_servers()[0]
        it.kill()
        os.kill(server, signal.SIGKILL)
        wait_for(lambda: start_time(server) is None, "its end")
        check(device in swaps(), "swap is still on")
        it.launch()
        check(it.process.wait(240) == 1, "refused")
        check("zeros" in it.log() and device in it.log(), "danger named",
              it.log())
        check(device in swaps(), "and left on")
        subprocess.run(["swapoff", device], check=True)
        it.start()
        check("cleaned up" in it.log(), "leftovers named", it.log())
        check(len(swap_of(it)) == 1, "swap is on again")
        it.remember_servers()
        check(it.stop() == 0 and it.left() == [], "clean", it.left())


def test_leftovers_without_note(tmp):
    """leftovers are found by their file, not by a note: swap refuses a start,
    a loop device that somebody holds open is cleaned up"""
    need_swap()
    with Instance(tmp, FUSE) as it:
        it.start()
        device = swap_of(it)[0]
        it.kill()
        os.unlink(os.path.join(it.dir, "device"))
        it.launch()
        check(it.process.wait(240) == 1, "refused")
        check("on as swap" in it.log() and device in it.log(), "named",
              it.log())
        holder = os.open(device, os.O_RDONLY)
        subprocess.run(["swapoff", device], check=True)
        check(loops_below(it.dir) == [device], "held")
        os.close(holder)
        it.start()
        it.remember_servers()
        check(it.stop() == 0 and it.left() == [], "clean", it.left())


def test_dead_mount(tmp):
    """the mount of a server that died without its daemon is taken away"""
    need_swap()
    with Instance(tmp, FUSE) as it:
        it.start()
        subprocess.run(["swapoff", swap_of(it)[0]], check=True)
        it.kill()
        for pid in it.servers:
            os.kill(pid, signal.SIGKILL)
            wait_for(lambda: start_time(pid) is None, "its end")
        check(daemontest.mounts_below(it.dir) != [], "the mount is left")
        it.start()
        it.remember_servers()
        check(len(swap_of(it)) == 1, "swap is on again")
        check(it.stop() == 0 and it.left() == [], "clean", it.left())


def test_server_killed_under_swap(tmp):
    """case 5: the server dies under swap: nothing empty takes its place"""
    need_swap()
    # A kernel that cannot send again what was in flight: before 6.9.
    with Instance(tmp, FUSE, prefix=["setarch", "--uname-2.6"]) as it:
        it.start()
        os.kill(it.remember_servers()[0], signal.SIGKILL)
        wait_for(lambda: it.status()["state"] == "failed", "state failed")
        check("lost" in it.log(), "the loss is reported", it.log())
        done = it.cli("detach")
        check(done.returncode == 5 and "lost" in done.stderr,
              "detach is refused", done)
        done = it.cli("detach", "--force")
        check(done.returncode == 0, "detach --force", done)
        check(swap_of(it) == [], "swap is off")
        it.process.send_signal(signal.SIGTERM)
        it.process.wait(240)
        check(it.left() == [], "clean", it.left())


daemontest.main(globals())
