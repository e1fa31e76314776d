# SPDX-License-Identifier: BSD-3-Clause
"""Put a guest together from Debian packages: kernel, modules, initramfs.

Everything comes from the host's own packages or from its package manager;
what had to be fetched is kept in the cache directory, outside the
repository. The initramfs is made anew for every run (a second of work) so
that it always holds the programs of the build directory under test.

It is unpacked into rootfs, which the runner makes a ramfs: a tmpfs root
would itself be swapped out, and then a server that lives in it hangs. A
ramfs can never be reclaimed, so files above COLD_BYTES (ICU's tables behind
libnbd, stress-ng) are left on a small read-only disk and linked to.
"""
import contextlib
import fcntl
import glob
import json
import os
import re
import shlex
import shutil
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))
CACHE = os.environ.get("THINSWAP_VM_CACHE", "/var/cache/thinswap-vm")

# Loaded by init in this order, with what they depend on.
BASE_MODULES = ["virtio_pci", "virtio_blk", "crc32c_generic", "ext4", "nbd"]
COLD_BYTES = 4 << 20
PAGES_BYTES = 64 << 20   # as much of the page file as goes along
# What init and lib.sh use, beside busybox.
BASE_PROGRAMS = ["mkswap", "swapon", "swapoff", "chrt", "nbdkit"]
# Peers and fault injection: a plugin or filter is a file, not a program.
NBDKIT_PARTS = ["plugins/nbdkit-memory-plugin.so",
                "plugins/nbdkit-null-plugin.so",
                "filters/nbdkit-delay-filter.so",
                "filters/nbdkit-error-filter.so"]
# The small C build of the side by side scenario.
C_SOURCES = ["batch.c", "spiller.c", "pool.c"]
# From the build directory; a missing one is left out and lib.sh finds out.
PRODUCT = {
    "tests/vm/nbd-attach": "usr/bin/nbd-attach",
    "tests/vm/heartbeat": "usr/bin/heartbeat",
    "tests/vm/harden": "usr/bin/harden",
    "tests/system/ts-pager": "usr/bin/ts-pager",
    "daemon/thinswapd": "usr/sbin/thinswapd",
    "daemon/thinswap": "usr/bin/thinswap",
    # To nbdkit's own folder of plugins, by add_product().
    "plugin/nbdkit-thinswap-plugin.so": None,
    "lib/thinswap-train": None,
}


class Missing(Exception):
    """Something the suite needs is not here: the test is skipped."""


def find_program(name):
    path = shutil.which(name, path="/usr/local/sbin:/usr/local/bin:"
                                   "/usr/sbin:/usr/bin:/sbin:/bin")
    if not path:
        raise Missing(f"{name} is not installed (tools/install-deps vm)")
    return path


def run(*argv, **kwargs):
    return subprocess.run(argv, check=True, text=True,
                          stdout=subprocess.PIPE, **kwargs).stdout


@contextlib.contextmanager
def cache_lock():
    """Held while something may be put into the cache."""
    os.makedirs(CACHE, exist_ok=True)
    with open(os.path.join(CACHE, "lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def installed_kernel():
    """The newest installed kernel that has its modules, as (image, root)."""
    for image in sorted(glob.glob("/boot/vmlinuz-*-amd64"), reverse=True):
        version = image.split("vmlinuz-", 1)[1]
        if os.path.isdir(f"/lib/modules/{version}/kernel"):
            return image, "/"
    return None


def cached_kernel():
    """A kernel package unpacked in the cache, fetched when there is none."""
    root = os.path.join(CACHE, "kernel")
    images = sorted(glob.glob(f"{root}/boot/vmlinuz-*"), reverse=True)
    if images:
        return images[0], root
    depends = subprocess.run(["apt-cache", "depends", "linux-image-amd64"],
                             text=True, check=False, stdout=subprocess.PIPE,
                             stderr=subprocess.DEVNULL).stdout
    match = re.search(r"Depends: (linux-image-\S+-amd64)", depends)
    if not match:
        raise Missing("no kernel: linux-image-amd64 is neither installed "
                      "nor known to apt")
    unpack = root + ".new"
    shutil.rmtree(unpack, ignore_errors=True)
    os.makedirs(unpack)
    try:
        run("apt-get", "download", "-q", match.group(1), cwd=unpack,
            stderr=subprocess.DEVNULL)
    except subprocess.CalledProcessError:
        raise Missing(f"no kernel: apt-get download {match.group(1)} failed")
    package = glob.glob(f"{unpack}/*.deb")[0]
    run("dpkg-deb", "-x", package, unpack)
    os.unlink(package)
    run("depmod", "-b", unpack,
        os.listdir(f"{unpack}/lib/modules")[0])
    os.rename(unpack, root)
    return cached_kernel()


def kernel():
    """(path of the image, directory that holds lib/modules, version)"""
    image, root = installed_kernel() or cached_kernel()
    return image, root, image.split("vmlinuz-", 1)[1]


def module_files(root, version, names):
    """Module files in loading order, each once."""
    files = []
    for name in names:
        out = run("modprobe", "-d", root, "-S", version, "--show-depends",
                  "--ignore-install", name)
        for line in out.splitlines():
            words = line.split()
            if words[0] == "insmod" and words[1] not in files:
                files.append(words[1])
    return files


def libraries(path):
    """The shared libraries that a program or plugin needs."""
    result = subprocess.run(["ldd", path], text=True, check=False,
                            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    for line in result.stdout.splitlines():
        match = re.search(r"(/\S+) \(0x", line)
        if match:
            yield match.group(1)


class Stage:
    """A directory that becomes the guest's root, and one for its disk."""

    def __init__(self, work):
        self.path = os.path.join(work, "root")
        self.cold = os.path.join(work, "cold")
        os.makedirs(self.cold)
        for name in ("bin", "sbin", "dev", "proc", "sys", "tmp", "run",
                     "etc", "usr/bin", "usr/sbin", "lib64", "modules",
                     "cold"):
            os.makedirs(os.path.join(self.path, name))

    def add(self, source, target=None):
        """Copy a file, and the libraries it needs, to the same place."""
        inside = (target or source).lstrip("/")
        target = os.path.join(self.path, inside)
        if os.path.lexists(target):
            return
        os.makedirs(os.path.dirname(target), exist_ok=True)
        if os.stat(source).st_size > COLD_BYTES:
            cold = os.path.join(self.cold, os.path.basename(source))
            shutil.copy(source, cold)
            os.symlink("/cold/" + os.path.basename(source), target)
        else:
            shutil.copy(source, target)
        for library in libraries(source):
            self.add(library)

    def write(self, target, text, mode=0o644):
        path = os.path.join(self.path, target)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as out:
            out.write(text)
        os.chmod(path, mode)

    def node(self, target, major, minor):
        try:
            os.mknod(os.path.join(self.path, target), 0o020600,
                     os.makedev(major, minor))
        except PermissionError as error:
            raise Missing(f"mknod for the guest's console: {error}")

    def cold_disk(self, out):
        """A read-only disk that is just large enough."""
        size = sum(os.stat(os.path.join(where, name)).st_size
                   for where, _, names in os.walk(self.cold)
                   for name in names)
        run(find_program("mke2fs"), "-q", "-t", "ext4", "-O", "^has_journal",
            "-d", self.cold, out, f"{(size >> 10) * 11 // 10 + 4096}k")

    def archive(self, out):
        names = subprocess.run(["find", ".", "-print0"], cwd=self.path,
                               check=True, stdout=subprocess.PIPE).stdout
        with open(out, "wb") as archive:
            subprocess.run(["cpio", "--null", "-o", "-H", "newc", "--quiet"],
                           cwd=self.path, input=names, stdout=archive,
                           check=True)


def nbdkit_dir():
    out = run("nbdkit", "--dump-config")
    return re.search(r"^plugindir=(.*)/plugins$", out, re.M).group(1)


def add_product(stage, build):
    for source, target in PRODUCT.items():
        path = os.path.join(build, source)
        if not target:
            target = f"{nbdkit_dir()}/plugins/{os.path.basename(source)}"
        if os.path.exists(path):
            stage.add(path, target)


def add_c_build(stage, build):
    """cc1, and C_SOURCES as it wants them: preprocessed."""
    stage.add(run(find_program("gcc"), "-print-prog-name=cc1").strip())
    os.makedirs(os.path.join(stage.cold, "src"))
    with open(os.path.join(build, "compile_commands.json"),
              encoding="utf-8") as file:
        for entry in json.load(file):
            name = os.path.basename(entry["file"])
            if "/lib/" not in "/" + entry["file"] or name not in C_SOURCES:
                continue
            flags = [flag for flag in shlex.split(entry["command"])
                     if re.match(r"-[ID]|-std", flag)]
            run("gcc", *flags, "-E", "-P", entry["file"], "-o",
                os.path.join(stage.cold, "src", name[:-2] + ".i"),
                cwd=entry["directory"])


def guest_init(stage, root, version, modules, init):
    """The parts of an initramfs that both guests have."""
    stage.add(find_program("busybox"), "bin/busybox")
    os.symlink("busybox", os.path.join(stage.path, "bin/sh"))
    order = []
    for path in module_files(root, version, modules):
        stage.add(path, "modules/" + os.path.basename(path))
        order.append(os.path.basename(path) + "\n")
    stage.write("modules/order", "".join(order))
    stage.node("dev/console", 5, 1)
    shutil.copy(os.path.join(HERE, "guest", init),
                os.path.join(stage.path, "init"))
    os.chmod(os.path.join(stage.path, "init"), 0o755)


def settings_text(settings):
    return "".join(f"{k}='{v}'\n" for k, v in sorted(settings.items()))


def small_guest(work, build, scenario, settings, pages=None):
    """The busybox guest: (kernel image, initramfs, read-only disk)."""
    for name in ("cpio", "modprobe", "depmod"):
        find_program(name)
    image, root, version = kernel()
    stage = Stage(work)
    guest_init(stage, root, version, BASE_MODULES + scenario.modules, "init")
    for name in BASE_PROGRAMS + scenario.programs:
        stage.add(find_program(name))
    for source, target in scenario.files.items():
        stage.add(source, target)
    for name in NBDKIT_PARTS:
        stage.add(f"{nbdkit_dir()}/{name}")
    add_product(stage, build)
    shutil.copy(os.path.join(HERE, "guest", "lib.sh"), stage.path)
    shutil.copy(os.path.join(HERE, "../../systemd/60-thinswap.conf"),
                os.path.join(stage.path, "etc/sysctl.conf"))
    shutil.copy(scenario.path, os.path.join(stage.path, "scenario"))
    stage.write("settings", settings_text(settings))
    if scenario.c_build:
        add_c_build(stage, build)
    initramfs = os.path.join(work, "initramfs.cpio")
    stage.archive(initramfs)
    if pages:
        with open(pages, "rb") as source, \
                open(os.path.join(stage.cold, "pages"), "wb") as target:
            target.write(source.read(PAGES_BYTES))
    cold = os.path.join(work, "cold.img")
    stage.cold_disk(cold)
    return image, initramfs, cold
