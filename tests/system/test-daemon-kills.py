#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""kill -9 of thinswapd and of its servers in every state they can be in

Each ends with everything served again, or with a refusal that keeps what is
stored. Route none with clients that connect again, as the kernel does, and
the FUSE route with swap that is on. Moments are random; the seed is printed.
Case 5.
"""

import os
import random
import signal
import subprocess
import time

import daemontest
from daemontest import (Instance, check, fake, fake_systemctl, journal,
                        loops_below, need_swap, quoted, start_time, swaps,
                        verdict, wait_for)

ROUNDS = int(os.environ.get("THINSWAP_KILLS", "40")) // 10
RAM = {"ram.budget": '"48M"'}
ALWAYS = dict(RAM, **{"tuning.standby": '"always"'})
FUSE = {"device.attach": '"fuse"', "device.size": '"64M"',
        "device.priority": "0"}

rng = random.Random(seed := int(os.environ.get("THINSWAP_SEED",
                                               int(time.time()))))
print(f"  seed {seed}")


def kill_servers(it, wanted=("nbdkit.pid", "standby.pid")):
    """Those that the notes name at this moment."""
    for name in wanted:
        try:
            with open(os.path.join(it.dir, name)) as file:
                pid, started = map(int, file.read().split())
        except (OSError, ValueError):
            continue
        it.servers[pid] = started
        if start_time(pid) == started:
            os.kill(pid, signal.SIGKILL)


def settled(it):
    """Running, with a server."""
    def look():
        status = it.status()
        check(status["state"] in ("running", "recovering"), "state", status)
        return status["state"] == "running" and status["server_pid"]

    it.remember_servers()
    return wait_for(look, "a server that serves")


def finish(it):
    it.remember_servers()
    check(it.stop() == 0, "stop", it.log())
    check(it.left() == [], "nothing is left", it.left())


def under_load(tmp, act, keys=None):
    """act(it) ends with a daemon that was started or still runs."""
    with Instance(tmp, keys or RAM) as it:
        it.start()
        load = journal(it)
        time.sleep(0.5)
        for _ in range(ROUNDS):
            act(it)
            settled(it)
            check(load.poll() is None, "the load is on", it.log())
            time.sleep(rng.uniform(0, 0.2))
        verdict(load)
        finish(it)


def test_start(tmp):
    """the daemon is killed while it starts; the server too, now and then"""
    def act(it):
        it.kill()
        for _ in range(2):
            if rng.random() < 0.4:
                kill_servers(it)
            it.launch()
            time.sleep(rng.uniform(0, 0.3))
            it.kill()
        it.start()

    under_load(tmp, act)


def test_reload(tmp):
    """the daemon, or its server, is killed while it reloads"""
    def act(it):
        it.write_config(dict(RAM, **{
            "codec.level": str(rng.randint(1, 3))}))
        it.process.send_signal(signal.SIGHUP)
        time.sleep(rng.uniform(0, 0.05))
        if rng.random() < 0.5:
            kill_servers(it)
        else:
            it.kill()
            it.start()

    under_load(tmp, act)


def test_upgrade(tmp):
    """the daemon is killed while it upgrades"""
    def act(it):
        cli = subprocess.Popen(
            [daemontest.THINSWAP, "--runtime-dir", it.dir, "upgrade"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(rng.uniform(0, 0.6))
        it.kill()
        cli.wait(240)
        it.start()

    under_load(tmp, act, ALWAYS)


def test_upgrade_servers(tmp):
    """the servers are killed while they are replaced: old, new, or both"""
    def act(it):
        cli = subprocess.Popen(
            [daemontest.THINSWAP, "--runtime-dir", it.dir, "upgrade"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(rng.uniform(0, 0.6))
        kill_servers(it, rng.choice([("nbdkit.pid",), ("standby.pid",),
                                     ("nbdkit.pid", "standby.pid")]))
        check(cli.wait(240) in (0, 1), "an answer")
        check(it.process.poll() is None, "the daemon lives", it.log())

    under_load(tmp, act, ALWAYS)


def test_takeover(tmp):
    """the daemon is killed while a standby takes over"""
    def act(it):
        wait_for(lambda: it.status()["standby"], "a standby")
        it.remember_servers()
        kill_servers(it, ("nbdkit.pid",))
        time.sleep(rng.uniform(0, 0.06))
        it.kill()
        it.start()

    under_load(tmp, act, ALWAYS)


def test_handover(tmp):
    """the server is killed between two instances of a restart"""
    env = fake_systemctl(tmp, "restart")
    with Instance(tmp, RAM, env=env) as it:
        it.has_store = True
        it.start()
        load = journal(it)
        for _ in range(ROUNDS):
            time.sleep(rng.uniform(0, 0.3))
            it.remember_servers()
            check(it.stop() == 0, "restart", it.log())
            if rng.random() < 0.6:
                kill_servers(it)
            it.start()
            settled(it)
        verdict(load)
        fake_systemctl(tmp, "stop")
        finish(it)


def swap_on(it):
    return [dev for dev in loops_below(it.dir) if dev in swaps()]


def taken_over(it, device):
    """A new start finds swap as it was."""
    check(swap_on(it) == [device], "swap is on")
    server = it.remember_servers()
    check(server, "a server")
    it.start()
    check(swap_on(it) == [device] and
          it.status()["device"]["path"] == device, "taken over")


def test_swap_reload_upgrade(tmp):
    """with swap on: the daemon is killed in reload and upgrade"""
    need_swap()
    with Instance(tmp, FUSE) as it:
        it.start()
        device = swap_on(it)[0]
        for _ in range(3):
            it.process.send_signal(signal.SIGHUP)
            time.sleep(rng.uniform(0, 0.02))
            it.kill()
            taken_over(it, device)
            cli = subprocess.Popen(
                [daemontest.THINSWAP, "--runtime-dir", it.dir, "upgrade"],
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(rng.uniform(0, 0.3))
            it.kill()
            cli.wait(240)
            taken_over(it, device)
        finish(it)


def test_swap_drain(tmp):
    """with swap on: the daemon is killed while it drains"""
    need_swap()
    slow = fake(tmp, "slow-off", f"touch {tmp}/reached; sleep 1\n"
                'exec swapoff "$@"')
    with Instance(tmp, dict(FUSE,
                            **{"tuning.swapoff-program": quoted(slow)})) as it:
        it.start()
        device = swap_on(it)[0]
        it.process.send_signal(signal.SIGTERM)
        wait_for(lambda: os.path.exists(f"{tmp}/reached"), "swapoff")
        it.kill()
        # swapoff is at work still: taken over, it comes to its end.
        it.start()
        it.remember_servers()
        wait_for(lambda: device not in swaps() or len(swap_on(it)) == 1,
                 "an end")
        wait_for(lambda: it.status()["state"] == "running", "running")
        finish(it)


def test_swap_start(tmp):
    """before and while it attaches: the daemon is killed, and started"""
    need_swap()
    with Instance(tmp, FUSE) as it:
        for _ in range(4):
            it.launch()
            time.sleep(rng.uniform(0, 1))
            it.kill()
        it.start()
        it.remember_servers()
        check(len(swap_on(it)) == 1, "swap is on")
        finish(it)


def test_no_memory(tmp):
    """live swap on the noted device, and no memory to go with it: refused"""
    need_swap()
    image = os.path.join(tmp, "image")
    with open(image, "wb") as file:
        file.truncate(64 << 20)
    subprocess.run(["mkswap", image], check=True, capture_output=True)
    device = subprocess.run(["losetup", "-f", "--show", image], check=True,
                            capture_output=True, text=True).stdout.strip()
    subprocess.run(["swapon", "-p", "0", device], check=True)
    try:
        with Instance(tmp, {"device.attach": '"none"'}) as it:
            os.mkdir(it.dir, 0o755)
            # Of the nbd route: there a successor could go on with memory.
            for memory in (None, "123456 not-this-boot"):
                with open(it.socket_path("device"), "w") as file:
                    file.write(f"nbd {device} 1 {2 ** 22 - 1}\n")
                if memory:
                    with open(it.socket_path("memory"), "w") as file:
                        file.write(memory + "\n")
                it.launch()
                check(it.process.wait(240) == 1, "refused")
                for text in (device, "zeros", "swapoff", "reboot"):
                    check(text in it.log(), f"says {text}", it.log())
                check(device in swaps(), "swap is left on")
                check(not it.heard("READY"), "nothing is served")
            os.unlink(it.socket_path("device"))
            os.unlink(it.socket_path("memory"))
    finally:
        subprocess.run(["swapoff", device])
        subprocess.run(["losetup", "-d", device])


def test_dies_at_once(tmp):
    """servers that die at once: longer and longer waits, a limit, a report"""
    broken = os.path.join(tmp, "broken")
    tries = os.path.join(tmp, "tries")
    program = fake(tmp, "nbdkit", f'[ -e {broken} ] && date +%s.%N >>{tries} '
                   '&& kill -9 $$\nexec nbdkit "$@"')
    with Instance(tmp, dict(ALWAYS,
                            **{"tuning.nbdkit": quoted(program)})) as it:
        it.start()
        load = journal(it)
        time.sleep(0.5)
        wait_for(lambda: it.status()["standby"], "a standby")
        open(broken, "w").close()
        kill_servers(it)
        wait_for(lambda: it.status()["state"] == "failed", "giving up")
        with open(tries) as file:
            times = [float(line) for line in file]
        waits = [b - a for a, b in zip(times, times[1:])]
        check(len(times) <= 13 and max(waits[:2]) < max(waits[-2:]),
              "longer and longer", waits)
        check("no more are started" in it.log(), "reported", it.log())
        check(load.poll() is None, "clients wait")
        os.unlink(broken)
        it.process.send_signal(signal.SIGHUP)
        settled(it)
        time.sleep(0.2)
        verdict(load)
        finish(it)


daemontest.main(globals())
