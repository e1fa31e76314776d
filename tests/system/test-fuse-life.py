#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""test-fuse-life.py - thinswap-fuse starts, is interrupted, ends, leaves nothing

Usage: test-fuse-life.py THINSWAP-FUSE TEST_LOOP

Cases 1, 2 and 10 (their FUSE parts), and 12 for loop devices: TEST_LOOP
attaches and detaches fifty times.
"""

import mmap
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from fuseserver import Server, is_mounted, require

CYCLES = 50
SLOT = 4096
PF_MEMALLOC_NOIO = 0x00080000
CAP_IPC_LOCK, CAP_SYS_RESOURCE = 14, 24
GROWTH = 'mmap,mremap,munmap,brk,mprotect,clone,clone3,madvise'


def wait_until(what, seconds=10.0):
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, 'waited in vain'
        time.sleep(0.01)


def has_capability(pid, number):
    with open(f'/proc/{pid}/status', encoding='utf-8') as status:
        effective = int(re.search(r'^CapEff:\s*(\w+)', status.read(),
                                  re.M).group(1), 16)
    return bool(effective >> number & 1)


def locked_shm(pid):
    """Has the largest System V segment that it created the lock flag?"""
    with open('/proc/sysvipc/shm', encoding='utf-8') as shm:
        rows = [line.split() for line in shm.readlines()[1:]]
    mine = [row for row in rows if int(row[4]) == pid]
    return bool(int(max(mine, key=lambda row: int(row[3]))[2], 8) & 0o2000)


def test_cycles(program):
    """Case 10: usable the instant that readiness is told."""
    for i in range(CYCLES):
        with Server(program, 'size=64M', 'ram=16M') as server:
            fd = os.open(server.file, os.O_RDWR)
            assert os.pwrite(fd, bytes([i]) * SLOT, 0) == SLOT
            assert os.pread(fd, SLOT, 0) == bytes([i]) * SLOT
            os.close(fd)
            assert server.stop() == 0
            assert not is_mounted(server.dir)
            assert not os.listdir(server.dir)


def test_in_use(program):
    """Told to stop, it serves on until nobody uses the file."""
    with Server(program, 'size=64M', 'ram=16M') as server:
        fd = os.open(server.file, os.O_RDWR)
        os.pwrite(fd, b'kept' * 1024, 0)
        for sig in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            server.proc.send_signal(sig)
        wait_until(lambda: server.text().count('in use') == 2)
        assert server.proc.poll() is None
        assert os.pread(fd, SLOT, 0) == b'kept' * 1024
        os.close(fd)
        assert server.stop() == 0


def test_umount(program):
    """It ends when anybody takes the mount away, and not before the last
    user of a detached one is gone."""
    with Server(program, 'size=64M', 'ram=16M') as server:
        subprocess.run(['umount', server.dir], check=True)
        assert server.proc.wait(timeout=240) == 0
    with Server(program, 'size=64M', 'ram=16M') as server:
        fd = os.open(server.file, os.O_RDWR)
        subprocess.run(['umount', '--lazy', server.dir], check=True)
        os.pwrite(fd, b'still' * 100, 0)
        assert os.pread(fd, 500, 0) == b'still' * 100
        assert server.proc.poll() is None
        os.close(fd)
        assert server.proc.wait(timeout=240) == 0


def test_interrupted(program):
    """Stopped at any moment of its start."""
    r = random.Random()
    for i in range(60):
        where = tempfile.mkdtemp(prefix='thinswap-fuse-')
        proc = subprocess.Popen([program, where, 'size=1G', 'ram=64M'],
                                start_new_session=True,
                                stderr=subprocess.DEVNULL)
        time.sleep(r.random() * 0.06)
        sig = (signal.SIGTERM, signal.SIGINT, signal.SIGKILL)[i % 3]
        proc.send_signal(sig)
        status = proc.wait(timeout=240)
        assert status in (0, -sig), status
        if sig == signal.SIGKILL and is_mounted(where):
            # What attach does with the mount of a dead instance.
            try:
                os.stat(where)
                raise AssertionError('a dead mount answers')
            except OSError:
                pass
            subprocess.run(['umount', where], check=True)
        assert not is_mounted(where), sig
        os.rmdir(where)


def test_refused(program):
    where = tempfile.mkdtemp(prefix='thinswap-fuse-')
    for args, want in (
            ([], 'Usage'),
            ([where], 'size'),
            ([where, 'size=1G', 'ramm=1G'], 'no such parameter'),
            ([where, 'size=1G', 'level=99'], 'level'),
            ([where, 'size=1G', 'nonsense'], 'key=value'),
            ([where + '/none', 'size=1G', 'ram=64M'], 'No such file'),
            (['--threads', '0', where, 'size=1G'], '--threads'),
            (['--threads', '65', where, 'size=1G'], '--threads'),
            (['--ready-fd', 'x', where, 'size=1G'], '--ready-fd'),
            (['--nonsense', where, 'size=1G'], 'nonsense')):
        done = subprocess.run([program, *args], capture_output=True,
                              text=True, timeout=240, check=False)
        assert done.returncode in (1, 2), args
        assert want in done.stderr, (args, done.stderr)
        assert not is_mounted(where)
    os.rmdir(where)


def test_hardened(program):
    """Cases 1 and 2: locked, touched, flagged; no growth while serving."""
    with Server(program, 'size=256M', 'ram=128M',
                options=['--threads', '6']) as server:
        pid = server.proc.pid
        if has_capability(pid, CAP_IPC_LOCK):
            # The pool has a lock of its own (SHM_LOCK).
            assert server.status_kib('VmLck') + \
                server.status_kib('RssShmem') >= server.status_kib('VmRSS')
            assert locked_shm(server.proc.pid), 'the pool is not locked'
        else:
            assert 'memory lock' in server.text()
        flagged = []
        for task in os.listdir(f'/proc/{pid}/task'):
            with open(f'/proc/{pid}/task/{task}/stat', encoding='utf-8') as f:
                flags = int(f.read().rsplit(')', 1)[1].split()[6])
            flagged.append(bool(flags & PF_MEMALLOC_NOIO))
        if has_capability(pid, CAP_SYS_RESOURCE):
            assert all(flagged), flagged
        else:
            assert 'I/O flusher flag' in server.text()
        assert server.status_kib('VmSwap') == 0
        count_growth(server)


def test_connection(program):
    """A descriptor a thread; requests of 1 MiB; room for all of a loop's."""
    with Server(program, 'size=64M', 'ram=32M',
                options=['--threads', '5']) as server:
        links = [os.readlink(f'/proc/{server.proc.pid}/fd/{fd}')
                 for fd in os.listdir(f'/proc/{server.proc.pid}/fd')]
        # libfuse has a copy of one.
        assert links.count('/dev/fuse') == 5 + 1, links
        limit = max_background(os.stat(server.dir).st_dev)
        # A loop device has 128 requests in flight.
        assert limit is None or limit > 128, limit
        count_large(server)


def max_background(dev):
    """The connection is named by its device; None where it is not shown."""
    where = tempfile.mkdtemp(prefix='thinswap-fusectl-')
    done = subprocess.run(['mount', '-t', 'fusectl', 'none', where],
                          capture_output=True, check=False)
    try:
        with open(f'{where}/{os.minor(dev)}/max_background',
                  encoding='utf-8') as file:
            return int(file.read())
    except OSError:
        return None
    finally:
        if done.returncode == 0:
            subprocess.run(['umount', where], check=True)
        os.rmdir(where)


def count_large(server):
    """1 MiB comes in one piece: one received with its header, one sent."""
    if not shutil.which('strace'):
        print('no strace: the size of requests is not looked at')
        return
    memory = mmap.mmap(-1, 1 << 20)
    memory[:] = random.randbytes(1 << 20)
    fd = os.open(server.file, os.O_RDWR | os.O_DIRECT)
    trace = tempfile.NamedTemporaryFile('r')
    pid = server.proc.pid
    strace = subprocess.Popen(
        ['strace', '--follow-forks', '--quiet=all', '--trace', 'read,writev',
         '--string-limit', '0', '--output', trace.name, '--attach', str(pid)],
        stderr=subprocess.PIPE)
    try:
        wait_until(lambda: all('TracerPid:\t0\n' not in open(
            f'/proc/{pid}/task/{t}/status', encoding='utf-8').read()
            for t in os.listdir(f'/proc/{pid}/task')))
        assert os.pwritev(fd, [memory], 0) == 1 << 20
        assert os.preadv(fd, [memory], 0) == 1 << 20
    finally:
        strace.terminate()
        strace.wait()
    os.close(fd)
    calls = trace.read()
    for want in (f'= {(1 << 20) + 80}\n', f'= {(1 << 20) + 16}\n'):
        assert calls.count(want) == 1, (want, calls)


def test_memlock(program):
    """Case 1: a low RLIMIT_MEMLOCK is named at start, and all works."""
    if not shutil.which('setpriv'):
        return
    with Server('setpriv', 'size=64M', 'ram=32M', options=(), prefix=[
            '--bounding-set=-ipc_lock', '--inh-caps=-ipc_lock', 'prlimit',
            '--memlock=8388608', program]) as server:
        assert 'memory lock' in server.text(), server.text()
        fd = os.open(server.file, os.O_RDWR)
        noise = random.randbytes(1 << 20)
        for i in range(16):
            os.pwrite(fd, noise, i << 20)
        for i in range(16):
            assert os.pread(fd, 1 << 20, i << 20) == noise
        os.close(fd)
        assert server.stop() == 0


def load(path, rounds, seed):
    """Overwrites of 4 KiB to 1 MiB, by several processes at once."""
    children = []
    for i in range(8):
        pid = os.fork()
        if pid == 0:
            r = random.Random(seed + i)
            fd = os.open(path, os.O_RDWR)
            noise = r.randbytes(1 << 19) + bytes(1 << 19)
            for _ in range(rounds):
                length = r.choice((1, 1, 1, 8, 32, 256)) * SLOT
                at = i * (4 << 20) + r.randrange(512) * SLOT
                os.pwrite(fd, noise[:length], at)
                os.pread(fd, length, at)
            os._exit(0)
        children.append(pid)
    for pid in children:
        assert os.waitpid(pid, 0)[1] == 0


def count_growth(server):
    """Serving threads make no call that could allocate, and no page fault."""
    if not shutil.which('strace'):
        print('no strace: system calls are not counted')
        return
    load(server.file, 150, 1)
    pid = server.proc.pid
    serving = [t for t in os.listdir(f'/proc/{pid}/task')
               if open(f'/proc/{pid}/task/{t}/comm',
                       encoding='utf-8').read() == 'ts-fuse\n']
    assert len(serving) == 6, serving

    def faults():
        total = 0
        for task in serving:
            with open(f'/proc/{pid}/task/{task}/stat', encoding='utf-8') as f:
                fields = f.read().rsplit(')', 1)[1].split()
            total += int(fields[7]) + int(fields[9])
        return total

    trace = tempfile.NamedTemporaryFile('r')
    strace = subprocess.Popen(
        ['strace', '--quiet=all', '--trace', GROWTH, '--output', trace.name,
         *[arg for task in serving for arg in ('--attach', task)]],
        stderr=subprocess.PIPE, text=True)
    try:
        wait_until(lambda: all('TracerPid:\t0\n' not in open(
            f'/proc/{pid}/task/{t}/status', encoding='utf-8').read()
            for t in serving))
        before = faults()
        load(server.file, 150, 2)
        after = faults()
    finally:
        strace.terminate()
        strace.wait()
    calls = trace.read().splitlines()
    assert not calls, calls[:5]
    # Reading another process's buffers is the kernel's business; a fault
    # here is one on memory of the server's own.
    assert after == before, f'{after - before} page faults while serving'


def test_loop(program, test_loop_program):
    with Server(program, 'size=1G', 'ram=64M') as server:
        subprocess.run([test_loop_program, server.dir, server.file],
                       check=True, timeout=240)
        assert server.stop() == 0


def main():
    require()
    program = sys.argv[1]
    test_refused(program)
    print('ok: wrong parameters', flush=True)
    test_cycles(program)
    print('ok: fifty starts and ends (case 10)', flush=True)
    test_in_use(program)
    test_umount(program)
    print('ok: ends only when nobody uses it', flush=True)
    test_interrupted(program)
    print('ok: interrupted at every moment', flush=True)
    test_hardened(program)
    test_memlock(program)
    test_connection(program)
    print('ok: locked, and does not grow (cases 1, 2)', flush=True)
    if not os.path.exists('/dev/loop-control'):
        print('no loop devices: they are not tried')
        return
    test_loop(program, sys.argv[2])
    print('ok: fifty attaches and detaches (case 12)')


main()
