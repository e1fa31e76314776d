#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""lint_systemd.py - the shipped systemd, udev and sysctl files

Usage: lint_systemd.py CHECK UNIT SOURCE_DIR
  CHECK       unit, verify, security, udev, sysctl or modules
  UNIT        thinswap.service as built
  SOURCE_DIR  systemd/

Cases 13 (udev rule), 35 (no cycle, no 90 s), 36 (outlives swapoff), 38
(ordered before swap.target and OOM daemons), 41 (cgroup and devices).
Exit code 77: a tool is missing.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

# An offline `systemd-analyze security` may not get worse than this (0 is
# best, 10 worst); what is left is listed in the unit as what must not be set.
EXPOSURE_MAX = 40  # tenths

failures = []


def fail(sentence):
    failures.append(sentence)
    print("FAIL:", sentence)


def expect(condition, sentence):
    if not condition:
        fail(sentence)


def need(tool):
    if not shutil.which(tool):
        print(f"SKIP: {tool} is not installed")
        sys.exit(77)


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def parse_unit(text):
    """{section: {key: [values in order]}}; comments and blank lines go."""
    unit, section = {}, None
    for line in text.splitlines():
        line = line.strip()
        if not line or line[0] in "#;":
            continue
        if line[0] == "[":
            section = unit.setdefault(line[1:-1], {})
            continue
        key, value = line.split("=", 1)
        section.setdefault(key, []).append(value)
    return unit


def words(section, key):
    return " ".join(section.get(key, [])).split()


def systemd_version():
    out = subprocess.run(["systemd-analyze", "--version"], text=True,
                         capture_output=True, check=True).stdout
    return int(re.match(r"systemd (\d+)", out).group(1))


def check_unit(path, _source):
    text = read(path)
    expect("@" not in re.sub(r'modprobe@nbd|~?@[a-z-]+|"@"|=@/', "", text),
           "a place holder was not replaced")
    conf = parse_unit(text)
    unit, service = conf["Unit"], conf["Service"]

    # 35: as early as swap, in no cycle (see also verify), in seconds
    expect(unit.get("DefaultDependencies") == ["no"], "DefaultDependencies=no")
    expect("local-fs.target" not in words(unit, "After"),
           "After=local-fs.target is a cycle by way of tmp.mount")
    for key in ("PrivateTmp", "RootDirectory", "RootImage"):
        expect(key not in service, f"{key}= is a cycle by way of tmp.mount")
    for key in ("TimeoutStartSec", "TimeoutStopSec"):
        expect(int(service[key][0]) <= 60, f"{key} is at most a minute")
    expect(service["Type"] == ["notify"], "Type=notify")
    expect(conf["Install"]["WantedBy"] == ["swap.target"],
           "WantedBy=swap.target: wanted, not required")

    # 38: what judges by free swap comes later
    for later in ("swap.target", "systemd-oomd.service", "earlyoom.service",
                  "nohang.service"):
        expect(later in words(unit, "Before"), f"Before={later}")

    # 36: swapoff before the server ends, and nothing kills the server
    for n in range(16):
        expect(f"dev-nbd{n}.swap" in words(unit, "Before"),
               f"Before=dev-nbd{n}.swap")
    expect("umount.target" in words(unit, "Conflicts"),
           "Conflicts=umount.target: drained at shutdown")
    expect("umount.target" in words(unit, "Before"), "Before=umount.target")
    expect("shutdown.target" not in words(unit, "Conflicts"),
           "Conflicts=shutdown.target would stop it beside its users")
    expect(service["KillMode"] == ["process"], "KillMode=process")
    expect(service["SendSIGKILL"] == ["no"], "SendSIGKILL=no")
    expect(service["RuntimeDirectoryPreserve"] == ["yes"],
           "the runtime directory outlives a failed stop")
    if shutil.which("systemd-analyze"):
        survives = systemd_version() >= 255
        expect((unit.get("SurviveFinalKillSignal") == ["yes"]) == survives,
               "SurviveFinalKillSignal=yes exactly where systemd has it")
        expect(bool(re.match(r"@/\S+ @thinswapd$", service["ExecStart"][0]))
               != survives, "ExecStart=@... @thinswapd exactly where not")

    # 41: memory of the unit, devices within reach
    expect(service["OOMScoreAdjust"] == ["-1000"], "OOMScoreAdjust=-1000")
    expect(service["MemorySwapMax"] == ["0"], "MemorySwapMax=0")
    expect(service["LimitMEMLOCK"] == ["infinity"], "LimitMEMLOCK=infinity")
    for key in ("MemoryMax", "MemoryHigh", "MemoryLimit", "PrivateDevices",
                "DevicePolicy", "DeviceAllow", "ProtectClock",
                "PrivateNetwork", "PrivateUsers", "RestrictRealtime",
                "DynamicUser", "User", "ProcSubset"):
        expect(key not in service, f"{key}= must not be set")
    for cap in ("SYS_ADMIN", "IPC_LOCK", "SYS_RESOURCE", "SYS_NICE", "CHOWN"):
        expect("CAP_" + cap in words(service, "CapabilityBoundingSet"),
               f"CAP_{cap} is needed")
    expect("AF_NETLINK" in words(service, "RestrictAddressFamilies"),
           "nbd is attached by netlink")
    denied = " ".join(service["SystemCallFilter"])
    expect(denied.startswith("~"), "SystemCallFilter= is a list of refusals")
    for group in ("@swap", "@mount", "@resources", "@privileged", "@aio",
                  "@memlock", "@ipc"):
        expect(group not in denied, f"{group} is needed")


def verify(directory, unit, recursive):
    env = dict(os.environ, SYSTEMD_UNIT_PATH=directory + ":",
               SYSTEMD_LOG_LEVEL="debug")
    return subprocess.run(
        ["systemd-analyze", "verify", "--man=no",
         "--recursive-errors=" + recursive, unit], env=env, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120,
        check=False)


def check_verify(path, _source):
    """Load the unit in a boot with a tmpfs on /tmp, as most machines have."""
    need("systemd-analyze")
    text = re.sub(r"(?m)^ExecStart=(@?)\S+", r"ExecStart=\1/bin/true",
                  read(path))
    with tempfile.TemporaryDirectory(prefix="thinswap-verify.") as directory:
        for target, unit in (("swap.target", "thinswap.service"),
                             ("local-fs.target", "tmp.mount")):
            os.mkdir(f"{directory}/{target}.wants")
            os.symlink(f"../{unit}", f"{directory}/{target}.wants/{unit}")
        with open(directory + "/tmp.mount", "w", encoding="utf-8") as f:
            f.write("[Unit]\nConflicts=umount.target\n"
                    "Before=local-fs.target umount.target\n"
                    "After=swap.target\n"
                    "DefaultDependencies=no\n"
                    "[Mount]\nWhat=tmpfs\nWhere=/tmp\nType=tmpfs\n")

        def boot(unit_text):
            with open(directory + "/thinswap.service", "w",
                      encoding="utf-8") as f:
                f.write(unit_text)
            own = verify(directory, "thinswap.service", "no")
            whole = verify(directory, "sysinit.target", "yes")
            problems = [line for line in own.stdout.splitlines()
                        if "thinswap.service:" in line and
                        re.search(r"Unknown|ignoring|Failed|not exec|Invalid",
                                  line)]
            cycles = [line for line in whole.stdout.splitlines()
                      if "thinswap.service" in line and
                      re.search(r"Found (ordering cycle|dependency)", line)]
            installed = "thinswap.service/start" in whole.stdout
            return own.returncode, problems, cycles, installed

        code, problems, cycles, installed = boot(text)
        expect(code == 0, f"systemd-analyze verify: exit code {code}")
        expect(not problems, "\n".join(problems))
        expect(not cycles, "\n".join(cycles))
        expect(installed, "sysinit.target did not pull the unit in")
        # The check must be able to fail.
        expect(boot(text.replace("UMask=", "PrivateTmp=yes\nUMask="))[2],
               "the cycle that PrivateTmp=yes makes was not seen")
        expect(boot(text.replace("\nAfter=", "\nAfter=local-fs.target "))[2],
               "the cycle that After=local-fs.target makes was not seen")
        expect(boot(text.replace("UMask=", "NoSuchKey=1\nUMask="))[1],
               "an unknown key was not seen")


def check_security(path, _source):
    need("systemd-analyze")
    if systemd_version() < 250:
        print("SKIP: systemd-analyze security --offline needs systemd 250")
        sys.exit(77)
    result = subprocess.run(
        ["systemd-analyze", "--no-pager", "security", "--offline=true",
         f"--threshold={EXPOSURE_MAX}", path],
        text=True, capture_output=True, timeout=120, check=False)
    print(result.stdout[-200:], result.stderr)
    expect(result.returncode == 0,
           f"exposure above {EXPOSURE_MAX / 10}, see systemd-analyze security")


TOKEN = re.compile(r'([A-Z_]+)(\{[^}]+\})?(==|!=|=|\+=|-=|:=)"([^"]*)"$')


def check_udev(_unit, source):
    name = "59-thinswap.rules"
    path = f"{source}/{name}"
    expect(name < "60-persistent-storage.rules",
           "must run before contents are probed")
    labels, gotos, text = [], [], read(path)
    for number, line in enumerate(text.splitlines(), 1):
        if not line or line.startswith("#"):
            continue
        for token in line.split(", "):
            match = TOKEN.match(token)
            if not match:
                fail(f"{name}:{number}: not a token: {token}")
                continue
            if match.group(1) == "LABEL":
                labels.append(match.group(4))
            if match.group(1) == "GOTO":
                expect(match.group(4) not in labels,
                       f"{name}:{number}: GOTO backwards")
                gotos.append(match.group(4))
    expect(set(labels) == set(gotos), f"{name}: labels and jumps differ")
    for part in ('KERNEL=="nbd*", ATTR{backend}=="thinswap *"',
                 'KERNEL=="loop*", ATTR{loop/backing_file}=="/run/thinswap*"',
                 'ENV{UDEV_DISABLE_PERSISTENT_STORAGE_RULES_FLAG}="1"',
                 'ENV{UDISKS_IGNORE}="1"', 'OPTIONS:="nowatch"'):
        expect(part in text, f"{name}: {part}")
    expect("SYSTEMD_READY" not in re.sub("(?m)^#.*", "", text),
           f"{name}: the device unit must stay usable for fstab")
    # udevadm verify came with systemd 254.
    if shutil.which("udevadm"):
        result = subprocess.run(["udevadm", "verify", path], text=True,
                                capture_output=True, check=False)
        if "Unknown command" not in result.stderr:
            expect(result.returncode == 0, result.stdout + result.stderr)


def check_sysctl(_unit, source):
    """Every setting exists, once, under a comment of its own."""
    before, seen = "", set()
    for line in read(f"{source}/60-thinswap.conf").splitlines():
        if line and not line.startswith("#"):
            key, value = [part.strip() for part in line.split("=")]
            expect(len(before) > 80, f"{key}: no reason is given")
            expect(key not in seen, f"{key}: set twice")
            seen.add(key)
            expect(value.isdigit(), f"{key}: {value}")
            expect(os.path.exists("/proc/sys/" + key.replace(".", "/")),
                   f"{key}: the kernel has no such setting")
        before = before + line if line.startswith("#") else ""
    for key in ("vm.page-cluster", "vm.swappiness",
                "vm.watermark_scale_factor"):
        expect(key in seen, f"{key} is not set")


def check_modules(_unit, source):
    lines = [line for line in
             read(f"{source}/thinswap-modules.conf").splitlines()
             if line and not line.startswith("#")]
    expect(lines == ["nbd"], f"modules: {lines}")
    # What a kernel without nbd makes of it, by a module that none has.
    loader = "/lib/systemd/systemd-modules-load"
    if not os.path.exists(loader):
        print(f"skipped in part: no {loader}")
        return
    with tempfile.NamedTemporaryFile("w", suffix=".conf") as file:
        file.write("thinswap_no_such_module\n")
        file.flush()
        done = subprocess.run([loader, file.name], capture_output=True,
                              text=True, timeout=60,
                              env=dict(os.environ,
                                       SYSTEMD_LOG_TARGET="console"))
    expect(done.returncode == 0 and
           len(done.stderr.splitlines()) == 1, f"modules: {done}")


if __name__ == "__main__":
    globals()["check_" + sys.argv[1]](sys.argv[2], sys.argv[3])
    sys.exit(1 if failures else 0)
