#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""test-fuse-file.py - the file of thinswap-fuse against a model of a file

Usage: test-fuse-file.py THINSWAP-FUSE [SEED]

Random reads, writes, holes and zeroes of any offset and length, by the plain
and by the O_DIRECT way, are done to the file and to an array of bytes; then
what may not happen is tried, and room runs out (cases 14, 17 and 23, the
FUSE parts). That the page cache stays empty is asked from the kernel.
"""

import ctypes
import errno
import mmap
import os
import random
import sys
import threading

from fuseserver import Server, require, skip

KIB = 1 << 10
MIB = 1 << 20
SLOT = 4096
PUNCH = 0x02 | 0x01     # FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE
ZERO = 0x10             # FALLOC_FL_ZERO_RANGE
KEEP = 0x01
SYS_CACHESTAT = 451

libc = ctypes.CDLL(None, use_errno=True)


def fallocate(fd, mode, off, length):
    r = libc.fallocate(fd, mode, ctypes.c_long(off), ctypes.c_long(length))
    if r:
        raise OSError(ctypes.get_errno(), 'fallocate')


def cached_pages(fd):
    """Pages of the file in the page cache, None where it cannot be asked."""
    where = (ctypes.c_uint64 * 2)(0, 0)
    found = (ctypes.c_uint64 * 5)()
    if libc.syscall(SYS_CACHESTAT, fd, where, found, 0) == 0:
        return found[0]
    size = os.fstat(fd).st_size
    view = mmap.mmap(fd, size, mmap.MAP_PRIVATE,
                     mmap.PROT_READ | mmap.PROT_WRITE)
    start = ctypes.c_char.from_buffer(view)
    vector = (ctypes.c_ubyte * (size // SLOT))()
    failed = libc.mincore(ctypes.c_void_p(ctypes.addressof(start)),
                          ctypes.c_size_t(size), vector)
    del start
    view.close()
    return None if failed else sum(byte & 1 for byte in vector)


def fails(want, call, *args):
    try:
        call(*args)
    except OSError as err:
        assert err.errno == want, \
            f'{call}{args}: {os.strerror(err.errno)}, ' \
            f'not {os.strerror(want)}'
        return
    raise AssertionError(f'{call}{args} succeeded')


class Model:
    def __init__(self, path, size, seed):
        self.size = size
        self.random = random.Random(seed)
        self.bytes = bytearray(size)
        self.plain = os.open(path, os.O_RDWR)
        self.direct = os.open(path, os.O_RDWR | os.O_DIRECT)
        self.aligned = mmap.mmap(-1, 4 * MIB)
        self.noise = self.random.randbytes(4 * MIB)

    def range(self):
        """An offset and a length, often at borders, sometimes beyond."""
        r = self.random
        off = r.choice((r.randrange(self.size), r.randrange(self.size),
                        r.randrange(self.size // SLOT) * SLOT,
                        self.size - r.randrange(3 * SLOT)))
        length = r.choice((r.randrange(1, 64), r.randrange(1, 3 * SLOT),
                           r.randrange(1, 32) * SLOT,
                           r.randrange(1, 3 * MIB)))
        return off, length

    def content(self, length):
        r = self.random
        kind = r.randrange(4)
        if kind == 0:
            return bytes(length)
        if kind == 1:
            return r.randbytes(8) * (length // 8) + b'x' * (length % 8)
        at = r.randrange(len(self.noise) - length + 1)
        data = self.noise[at:at + length]
        if kind == 2:
            return data
        # Compressible: runs of noise and of text.
        return (data[:100] + b'thinswap ' * 50)[:length] * 1 + \
            b'.' * (length - min(length, 550))

    def write(self):
        off, length = self.range()
        data = self.content(length)
        if self.random.randrange(2):
            off, length = off // SLOT * SLOT, max(length // SLOT, 1) * SLOT
            data = data.ljust(length, b'\1')[:length]
            self.aligned[:length] = data
            view = memoryview(self.aligned)[:length]
            wrote = os.pwritev(self.direct, [view], off)
            view.release()
        else:
            wrote = os.pwrite(self.plain, data, off)
        assert wrote == min(length, self.size - off), (off, length, wrote)
        self.bytes[off:off + wrote] = data[:wrote]

    def read(self):
        off, length = self.range()
        if self.random.randrange(2):
            off, length = off // SLOT * SLOT, max(length // SLOT, 1) * SLOT
            view = memoryview(self.aligned)[:length]
            got = os.preadv(self.direct, [view], off)
            data = bytes(view[:got])
            view.release()
        else:
            data = os.pread(self.plain, length, off)
        want = self.bytes[off:off + length]
        assert data == want, f'read of {length} at {off} differs'

    def zero(self):
        off, length = self.range()
        mode = self.random.choice((PUNCH, ZERO | KEEP, ZERO))
        if mode == ZERO:
            length = min(length, self.size - off)
        fallocate(self.plain, mode, off, length)
        end = min(off + length, self.size)
        self.bytes[off:end] = bytes(end - off)

    def seek(self):
        """Holes read as zero; what is not zero lies in data."""
        off = self.random.randrange(self.size)
        try:
            data = os.lseek(self.plain, off, os.SEEK_DATA)
        except OSError as err:
            assert err.errno == errno.ENXIO
            data = self.size
        assert data >= off
        assert not any(self.bytes[off:data]), f'data at {off} in a hole'
        if data < self.size:
            hole = os.lseek(self.plain, data, os.SEEK_HOLE)
            assert data < hole <= self.size, (data, hole)
            assert hole % SLOT == 0

    def check(self):
        for off in range(0, self.size, MIB):
            assert os.pread(self.plain, MIB, off) == \
                self.bytes[off:off + MIB], f'{off} differs'

    def run(self, steps):
        for i in range(steps):
            self.random.choice((self.write, self.write, self.write, self.read,
                                self.read, self.zero, self.seek))()
            if i % 200 == 0:
                self.check()
        self.check()


def test_model(program, seed):
    with Server(program, 'size=16M', 'ram=64M') as server:
        model = Model(server.file, 16 * MIB, seed)
        model.run(1500)
        cached = cached_pages(model.plain)
        if cached is None:
            print('the kernel does not tell what is cached')
        else:
            assert cached == 0, f'{cached} pages in the page cache'
        os.close(model.plain)
        os.close(model.direct)
        assert server.stop() == 0


def test_alignment(path):
    """O_DIRECT takes any offset, length and address, as the plain way does."""
    direct = os.open(path, os.O_RDWR | os.O_DIRECT)
    memory = mmap.mmap(-1, 4 * SLOT)
    want = random.Random(2).randbytes(4 * SLOT)
    assert os.pwrite(direct, want, 16 * SLOT) == len(want)
    for off, length, address in ((0, SLOT, 0), (512, 512, 512), (1, 3, 5),
                                 (SLOT - 1, 2, 1), (7, 2 * SLOT, 13),
                                 (0, 3 * SLOT, 4)):
        view = memoryview(memory)[address:address + length]
        assert os.preadv(direct, [view], 16 * SLOT + off) == length
        assert view == want[off:off + length], (off, length, address)
        assert os.pwritev(direct, [view], 16 * SLOT + off) == length
        view.release()
    assert os.pread(direct, len(want), 16 * SLOT) == want
    fallocate(direct, PUNCH, 16 * SLOT, len(want))
    memory.close()
    os.close(direct)


def test_refusals(program):
    with Server(program, 'size=1M', 'ram=64M') as server:
        fd = os.open(server.file, os.O_RDWR)
        st = os.fstat(fd)
        assert st.st_size == MIB and st.st_mode == 0o100600, st
        assert os.stat(server.dir).st_mode == 0o40700
        assert os.listdir(server.dir) == ['swap']
        fails(errno.EPERM, os.ftruncate, fd, MIB // 2)
        fails(errno.EPERM, os.ftruncate, fd, 2 * MIB)
        os.ftruncate(fd, MIB)
        fails(errno.EPERM, os.chmod, server.file, 0o666)
        fails(errno.EPERM, os.chown, server.file, 1, 1)
        fails(errno.EPERM, os.open, server.file, os.O_RDWR | os.O_TRUNC)
        fails(errno.ENOENT, os.stat, server.file + 'x')
        for call in (os.unlink, os.mkdir):
            try:
                call(server.file if call is os.unlink else server.dir + '/d')
                raise AssertionError(f'{call} succeeded')
            except OSError:
                pass
        assert os.pread(fd, 10, MIB) == b''
        assert os.pread(fd, 10, 5 * MIB) == b''
        fails(errno.EFBIG, os.pwrite, fd, b'x', MIB)
        fails(errno.EFBIG, os.pwrite, fd, b'x', 1 << 40)
        assert os.pwrite(fd, b'abc', MIB - 2) == 2
        assert os.pread(fd, 10, MIB - 2) == b'ab'
        fails(errno.EOPNOTSUPP, fallocate, fd, 0, 0, SLOT)
        fails(errno.EFBIG, fallocate, fd, ZERO, MIB - SLOT, 2 * SLOT)
        fallocate(fd, PUNCH, 2 * MIB, SLOT)
        fails(errno.ENODEV, mmap.mmap, fd, MIB, mmap.MAP_SHARED)
        os.fsync(fd)
        vfs = os.statvfs(server.dir)
        assert vfs.f_blocks * vfs.f_frsize == MIB
        assert vfs.f_blocks - vfs.f_bfree == 1
        test_alignment(server.file)
        # Case 14: pieces of slots.
        os.pwrite(fd, b'A' * 512, 512)
        fallocate(fd, ZERO | KEEP, 3584, 512)
        os.pwrite(fd, b'B' * 6144, 2 * SLOT - 3072)
        assert os.pread(fd, 1024, 512) == b'A' * 512 + bytes(512)
        assert os.pread(fd, 6144, 2 * SLOT - 3072) == b'B' * 6144
        os.close(fd)


def test_large(program):
    """Case 17: no wrap at 4 GiB or 2 TiB, and a small idle footprint."""
    tib = 1 << 40
    with Server(program, f'size={3 * tib}', 'ram=64M') as server:
        fd = os.open(server.file, os.O_RDWR)
        places = (0, (1 << 32) - SLOT, 1 << 32, 2 * tib, 3 * tib - SLOT)
        for i, off in enumerate(places):
            os.pwrite(fd, bytes([i + 1]) * SLOT, off)
        fallocate(fd, PUNCH, SLOT, (1 << 32) - 2 * SLOT)
        for i, off in enumerate(places):
            assert os.pread(fd, SLOT, off) == bytes([i + 1]) * SLOT or \
                off == (1 << 32) - SLOT
        assert os.pread(fd, SLOT, (1 << 32) - SLOT) == b'\2' * SLOT
        fallocate(fd, PUNCH, 0, 3 * tib)
        for off in places:
            assert not any(os.pread(fd, SLOT, off))
        rss = server.status_kib('VmRSS')
        assert rss < 96 * KIB, f'{rss} KiB resident'
        os.close(fd)


def test_full(program):
    """Case 23: the budget is used up; what is stored stays readable."""
    with Server(program, 'size=256M', 'ram=16M') as server:
        fd = os.open(server.file, os.O_RDWR | os.O_DIRECT)
        page = mmap.mmap(-1, SLOT)
        noise = random.Random(1)
        stored = []
        for slot in range(256 * MIB // SLOT):
            data = noise.randbytes(SLOT)
            page[:] = data
            try:
                os.pwritev(fd, [page], slot * SLOT)
            except OSError as err:
                assert err.errno == errno.ENOSPC
                break
            stored.append(data)
        assert 2000 < len(stored) < 4096 + 64, len(stored)
        for slot, data in enumerate(stored):
            os.preadv(fd, [page], slot * SLOT)
            assert page[:] == data, f'slot {slot} differs'
        assert os.preadv(fd, [page], len(stored) * SLOT) == SLOT
        assert not any(page[:])
        # Freed, there is room again.
        fallocate(fd, PUNCH, 0, len(stored) // 10 * SLOT)
        page[:] = noise.randbytes(SLOT)
        want = page[:]
        os.pwritev(fd, [page], 0)
        os.preadv(fd, [page], 0)
        assert page[:] == want
        os.close(fd)


def test_threads(program):
    """Case 18: disjoint writers exact; a contended slot holds one write."""
    with Server(program, 'size=64M', 'ram=64M') as server:
        errors = []

        def work(number):
            try:
                r = random.Random(number)
                fd = os.open(server.file, os.O_RDWR)
                base = number * 4 * MIB
                mine = bytearray(4 * MIB)
                for _ in range(60):
                    off = r.randrange(4 * MIB - 128 * KIB)
                    data = r.randbytes(r.randrange(1, 128 * KIB))
                    os.pwrite(fd, data, base + off)
                    mine[off:off + len(data)] = data
                    os.pwrite(fd, bytes([number]) * SLOT, 60 * MIB)
                    one = os.pread(fd, SLOT, 60 * MIB)
                    assert one == one[:1] * SLOT, 'a mixed slot'
                assert os.pread(fd, MIB, base) == mine[:MIB]
                for at in range(0, 4 * MIB, MIB):
                    assert os.pread(fd, MIB, base + at) == mine[at:at + MIB]
                os.close(fd)
            except Exception as err:    # a thread must not hide it
                errors.append(err)

        threads = [threading.Thread(target=work, args=(i,))
                   for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not errors, errors


def main():
    require()
    if not hasattr(os, 'pwritev'):
        skip('python without pwritev')
    program = sys.argv[1]
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else \
        random.randrange(1 << 32)
    print('seed', seed, flush=True)
    test_refusals(program)
    print('ok: refusals, edges, pieces of slots (case 14)', flush=True)
    test_model(program, seed)
    print('ok: against the model, nothing in the page cache', flush=True)
    test_large(program)
    print('ok: 3 TiB (case 17)', flush=True)
    test_full(program)
    print('ok: no room left (case 23)', flush=True)
    test_threads(program)
    print('ok: eight writers (case 18)')


main()
