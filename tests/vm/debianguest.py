# SPDX-License-Identifier: BSD-3-Clause
"""The second guest: a real Debian with systemd as PID 1.

debootstrap makes it once; its disk image stays in the cache and is never
written to (QEMU keeps a run's changes in a snapshot, which lasts over the
guest's own reboots). What is under test comes with the initramfs, as a tree
that is copied over the root file system before systemd starts: the product
as `meson install` puts it, kernel modules, and the scenario with its unit.
"""
import hashlib
import os
import shutil

from guestimage import (CACHE, HERE, PAGES_BYTES, PRODUCT, Missing, Stage,
                        find_program, guest_init, kernel, module_files, run,
                        settings_text)
from previous import add_previous

PACKAGES = ["systemd", "systemd-sysv", "udev", "dbus", "kmod", "util-linux",
            "procps", "e2fsprogs", "nbdkit", "libnbd0", "libnl-genl-3-200",
            "libjansson4", "libsodium23", "liburing2", "libzstd1",
            "libxxhash0", "libstdc++6", "libsystemd0",
            "libtomlplusplus3", "libblkid1", "libfuse3-3", "libmicrohttpd12",
            "libncursesw6", "lvm2"]
IMAGE_MIB = 1536
ROOT_MODULES = ["nbd", "zram", "loop", "fuse", "dm-mod"]
# Of the product's programs, those that meson does not install.
TEST_TOOLS = ["tests/vm/nbd-attach", "tests/vm/heartbeat", "tests/vm/harden",
              "tests/system/ts-pager"]


def mirror():
    """Where apt gets Debian 12 from."""
    found = run("apt-get", "indextargets", "--format", "$(REPO_URI)",
                "Created-By: Packages", "Codename: bookworm",
                "Component: main").split()
    if not found:
        raise Missing("no Debian guest: apt knows no bookworm (apt-get update)")
    return found[0]


def image():
    """The cached disk image; minutes of work the first time."""
    key = hashlib.sha256(" ".join(PACKAGES).encode()).hexdigest()[:8]
    path = os.path.join(CACHE, f"debian-{key}.img")
    if os.path.exists(path):
        return path
    find_program("debootstrap")
    root = os.path.join(CACHE, "debian.new")
    shutil.rmtree(root, ignore_errors=True)
    os.makedirs(root)
    try:
        run("debootstrap", "--variant=minbase",
            "--include=" + ",".join(PACKAGES), "bookworm", root, mirror())
    except Exception as error:
        raise Missing(f"no Debian guest: {error}")
    clean(root)
    run(find_program("mke2fs"), "-q", "-t", "ext4", "-L", "vmroot",
        "-d", root, path + ".new", f"{IMAGE_MIB}m")
    os.rename(path + ".new", path)
    shutil.rmtree(root)
    return path


def clean(root):
    """Leave out what a guest that is never logged in to does not need."""
    for name in ("var/cache/apt", "var/lib/apt/lists", "usr/share/doc",
                 "usr/share/locale", "usr/share/man"):
        shutil.rmtree(os.path.join(root, name), ignore_errors=True)
    with open(os.path.join(root, "etc/fstab"), "w") as fstab:
        fstab.write("/dev/vda / ext4 defaults 0 1\n")
    with open(os.path.join(root, "etc/hostname"), "w") as hostname:
        hostname.write("vmguest\n")
    # An id of its own, so that no boot counts as the first.
    with open(os.path.join(root, "etc/machine-id"), "w") as machine_id:
        machine_id.write("7468696e737761702d766d2d67756573\n")


def merge_usr(overlay):
    """What is installed to /lib belongs where the guest's link leads."""
    lib = os.path.join(overlay, "lib")
    if os.path.isdir(lib):
        shutil.copytree(lib, os.path.join(overlay, "usr/lib"),
                        dirs_exist_ok=True, symlinks=True)
        shutil.rmtree(lib)


def overlay_modules(overlay, root, version):
    for path in module_files(root, version, ROOT_MODULES):
        inside = path[path.index("/lib/modules/"):].lstrip("/")
        target = os.path.join(overlay, "usr", inside)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        shutil.copy(path, target)
    for name in ("modules.order", "modules.builtin",
                 "modules.builtin.modinfo"):
        source = os.path.join(root, "lib/modules", version, name)
        shutil.copy(source, os.path.join(overlay, "usr/lib/modules", version))
    os.symlink("usr/lib", os.path.join(overlay, "lib"))
    run("depmod", "-b", overlay, version)
    os.unlink(os.path.join(overlay, "lib"))


def debian_guest(work, build, scenario, settings, pages=None):
    """(kernel image, initramfs, read-only disk) for the systemd guest."""
    disk = image()
    kernel_image, root, version = kernel()
    stage = Stage(work)
    guest_init(stage, root, version,
               ["virtio_pci", "virtio_blk", "crc32c_generic", "ext4"],
               "init-systemd")
    overlay = os.path.join(stage.path, "overlay")
    run("meson", "install", "-C", build, "--no-rebuild", "--destdir", overlay)
    merge_usr(overlay)
    overlay_modules(overlay, root, version)
    vm = os.path.join(overlay, "usr/lib/vm")
    os.makedirs(vm)
    os.makedirs(os.path.join(overlay, "usr/bin"), exist_ok=True)
    for tool in TEST_TOOLS:
        path = os.path.join(build, tool)
        if os.path.exists(path):
            shutil.copy(path, os.path.join(overlay, PRODUCT[tool]))
    for name in ("lib.sh", "systemd.sh"):
        shutil.copy(os.path.join(HERE, "guest", name), vm)
    shutil.copy(scenario.path, os.path.join(vm, "scenario"))
    if scenario.previous:
        merged = os.path.join(vm, "previous")
        settings["PREVIOUS"] = add_previous(merged)
        merge_usr(merged)
    units = os.path.join(overlay, "usr/lib/systemd/system")
    os.makedirs(units, exist_ok=True)
    shutil.copy(os.path.join(HERE, "guest", "vm-scenario.service"), units)
    for unit in scenario.enable:
        wants = os.path.join(overlay,
                             "etc/systemd/system/swap.target.wants")
        os.makedirs(wants, exist_ok=True)
        os.symlink("/lib/systemd/system/" + unit, os.path.join(wants, unit))
    with open(os.path.join(vm, "settings"), "w", encoding="utf-8") as out:
        out.write(settings_text(settings))
    if pages:
        with open(pages, "rb") as source, \
                open(os.path.join(vm, "pages"), "wb") as target:
            target.write(source.read(PAGES_BYTES // 4))
    initramfs = os.path.join(work, "initramfs.cpio")
    stage.archive(initramfs)
    return kernel_image, initramfs, disk
