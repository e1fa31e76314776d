#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""golden_check.py - what `thinswap check` prints, word by word

Usage: golden_check.py [--update] GOLDEN COMMAND...

COMMAND is `thinswap check`, or what stands for it. Runs every case below and
compares command, both outputs and exit code with GOLDEN; --update writes it
anew (read the diff before you commit it). Cases
11, 43, 44, 45. The JSON of every case must say the same as its text.
"""
import difflib
import json
import os
import re
import subprocess
import sys
import tempfile

MACHINE = ["--memory", "16G", "--cpus", "8"]

# What a file holds, by name; each is checked on a machine with 16 GiB.
FILES = {
    # good
    "empty.toml": b"",
    "crlf.toml": b"[device]\r\nsize = \"20G\"\r\n[ram]\r\n"
                 b"budget = \"25%\"\r\n",
    "bom.toml": b"\xef\xbb\xbf[device]\npath = \"/dev/nbd0\"\n",
    "short-name.toml": b"[device]\npath = \"nbd0\"\n",
    "fuse.toml": b"[device]\nattach = \"fuse\"\nsize = \"100G\"\n"
                 b"[ram]\nbudget = \"2G\"\n",
    "greedy.toml": b"[ram]\nbudget = \"90%\"\n",
    # 43
    "misspelled-key.toml": b"ram_limt = \"1G\"\n",
    "misspelled-in-section.toml": b"[device]\n\n# comment\nprioritty = 3\n",
    "misspelled-section.toml": b"[spil]\npath = \"/x\"\n",
    "garbage.toml": b"%!PS-Adobe\n[device]\n",
    "binary.toml": b"\x7fELF\x02\x01\n",
    "twice.toml": b"[ram]\nbudget = \"1G\"\nbudget = \"2G\"\n",
    "wrong-type.toml": b"[device]\npriority = \"high\"\n",
    "no-quotes.toml": b"[device]\r\nsize = 4G\r\n",
    "bom-misspelled.toml": b"\xef\xbb\xbf[devcie]\n",
    # 44
    "decimal-or-binary.toml": b"[device]\nsize = \"4GB\"\n",
    "percent.toml": b"[device]\nsize = \"50%\"\n",
    "overflow.toml": b"[device]\nsize = \"18446744073709551616\"\n",
    # 45
    "cap-over-size.toml": b"[device]\nsize = \"1G\"\n[ram]\n"
                          b"budget = \"2G\"\n",
    "cap-over-memory.toml": b"[ram]\nbudget = \"17G\"\n",
    "priority.toml": b"[device]\npriority = 32768\n",
    # 11
    "disk.toml": b"[device]\npath = \"/dev/sda\"\n",
    "nbd9999.toml": b"[device]\npath = \"nbd9999\"\n",
    # the rest
    "spill.toml": b"[spill]\npath = \"/var/lib/thinswap/spill\"\n"
                  b"size = \"64G\"\n",
    "world.toml": b"[security]\nsocket-mode = \"0666\"\n",
}

COMMANDS = [["--help"], ["--no-such-option"], ["--memory"],
            ["--memory", "4GB"], ["--cpus", "0"],
            ["empty.toml", "bom.toml"], ["missing.toml"], ["."]]


def run(command, args, directory):
    return subprocess.run([*command, *args], cwd=directory, text=True,
                          capture_output=True, timeout=60, check=False)


def transcript(command, directory):
    out = []
    for args in [MACHINE + [name] for name in FILES] + COMMANDS:
        result = run(command, args, directory)
        shown = [a for a in args if args in COMMANDS or a not in MACHINE]
        out.append("$ thinswap check " + " ".join(shown) + "\n" +
                   result.stdout + result.stderr +
                   f"= {result.returncode}\n\n")
    # What the library says about bad syntax is its own, and may change.
    return re.sub(r"not TOML: [^;\n]*", "not TOML: (reason)", "".join(out))


def check_json(command, directory):
    """The JSON agrees with the text about everything that the text says."""
    for name in FILES:
        text = run(command, MACHINE + [name], directory)
        result = run(command, MACHINE + ["--json", name], directory)
        said = json.loads(result.stdout)
        assert result.stderr == "", result.stderr
        assert result.returncode == text.returncode, name
        assert said["ok"] == (text.returncode == 0), name
        if said["ok"]:
            size, cap = said["virtual_size_bytes"], said["ram_cap_bytes"]
            assert "virtual size: " in text.stdout
            assert f"= {size} bytes" in text.stdout, name
            assert f"= {cap} bytes" in text.stdout, name
            spill = 64 << 30 if name == "spill.toml" else 0
            assert said["spill_cap_bytes"] == spill, name
            assert said["config"]["device"]["size"] == size
            assert said["config"]["ram"]["budget"] == cap
            assert said["file"] == name
            assert text.stdout.count("warning: ") == len(said["warnings"])
            for warning in said["warnings"]:
                assert f"warning: {warning}\n" in text.stdout
        else:
            error = said["error"]
            assert error["text"] + "\n" == text.stderr, name
            assert error["file"] == name
            assert error["text"].startswith(f"{name}:{error['line']}:")
            for field in ("section", "key", "given", "allowed", "message"):
                assert (error[field] or "") in error["text"], (name, field)


def main():
    args = sys.argv[1:]
    update = args[0] == "--update"
    if update:
        del args[0]
    golden = args[0]
    command = [os.path.abspath(args[1]), *args[2:]]
    with tempfile.TemporaryDirectory(prefix="thinswap-golden.") as directory:
        for name, content in FILES.items():
            with open(f"{directory}/{name}", "wb") as f:
                f.write(content)
        said = transcript(command, directory)
        check_json(command, directory)
    if update:
        with open(golden, "w", encoding="utf-8") as f:
            f.write(said)
        return 0
    with open(golden, encoding="utf-8") as f:
        wanted = f.read()
    sys.stdout.writelines(difflib.unified_diff(
        wanted.splitlines(True), said.splitlines(True), golden, "now"))
    return said != wanted


if __name__ == "__main__":
    sys.exit(main())
