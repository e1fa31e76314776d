# SPDX-License-Identifier: BSD-3-Clause
"""Start thinswap-fuse for a test, and leave nothing of it behind."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile


def skip(why):
    print('SKIP:', why)
    sys.exit(77)


def require():
    if os.geteuid() != 0:
        skip('needs root')
    if not os.path.exists('/dev/fuse'):
        skip('no /dev/fuse')


def is_mounted(path):
    with open('/proc/mounts', encoding='utf-8') as mounts:
        return any(line.split()[1] == path for line in mounts)


class Server:
    """thinswap-fuse on a directory of its own; use with `with`."""

    def __init__(self, program, *params, options=(), prefix=()):
        self.dir = tempfile.mkdtemp(prefix='thinswap-fuse-')
        self.file = os.path.join(self.dir, 'swap')
        self.log = tempfile.TemporaryFile('w+')
        ready, told = os.pipe()
        # Own session: Ctrl-C reaches the test alone, which cleans up.
        self.proc = subprocess.Popen(
            [program, *prefix, '--ready-fd', str(told), *options, self.dir, *params],
            pass_fds=[told], start_new_session=True, stderr=self.log)
        os.close(told)
        self.ready = os.read(ready, 1) == b'\n'
        os.close(ready)
        if not self.ready:
            status = self.proc.wait()
            text = self.text()
            self.close()
            raise RuntimeError(f'no server, status {status}: {text}')

    def text(self):
        self.log.seek(0)
        return self.log.read()

    def status_kib(self, key):
        with open(f'/proc/{self.proc.pid}/status', encoding='utf-8') as f:
            for line in f:
                if line.startswith(key + ':'):
                    return int(line.split()[1])
        raise KeyError(key)

    def stop(self, sig=signal.SIGTERM):
        """Signal it and return its exit status."""
        self.proc.send_signal(sig)
        return self.proc.wait(timeout=240)

    def close(self):
        if self.proc.poll() is None:
            self.proc.terminate()
            try:
                self.proc.wait(timeout=240)
            except subprocess.TimeoutExpired:
                self.proc.kill()
                self.proc.wait()
        if is_mounted(self.dir):
            subprocess.run(['umount', '--lazy', self.dir], check=False)
        self.log.close()
        shutil.rmtree(self.dir, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
