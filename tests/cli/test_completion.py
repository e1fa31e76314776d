#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Completion for bash and zsh knows what --help says

bash is asked for real; zsh's file is parsed by zsh and read as text.
Usage: test_completion.py BUILD FOLDER
"""

import os
import re
import shutil
import subprocess
import sys

from clitest import THINSWAP, check, finish

FOLDER = sys.argv[2]
BASH = os.path.join(FOLDER, "thinswap.bash")
ZSH = os.path.join(FOLDER, "_thinswap")


def help_of(*command):
    return subprocess.run([THINSWAP, *command, "--help"], text=True,
                          capture_output=True, check=True, timeout=30).stdout


def options_of(text):
    return set(re.findall(r"(?m)^  (?:-\w, )?(--[a-z-]+)", text))


def complete(*words):
    script = ('source "$1"; shift; COMP_WORDS=("$@"); '
              'COMP_CWORD=$(($# - 1)); compopt() { :; }; _thinswap; '
              'printf "%s\\n" "${COMPREPLY[@]}"')
    out = subprocess.run(["bash", "-c", script, "bash", BASH, "thinswap",
                          *words], capture_output=True, text=True, timeout=30)
    return set(out.stdout.split())


commands = set(re.findall(r"(?m)^  ([a-z]+) ", help_of()))
check("commands are found", {"stats", "tune", "status"} <= commands, commands)
with open(ZSH) as file:
    zsh = file.read()
check("bash: commands", complete("") >= commands, complete(""))
check("bash: a prefix", complete("sta") == {"stats", "status"})
check("bash: a command after --runtime-dir",
      complete("--runtime-dir", "/x", "tu") == {"tune"})
check("bash: formats", complete("stats", "--format", "p") == {"prometheus"})
keys = set(re.findall(r"(?m)^  ([a-z-]+=)", help_of("tune")))
check("bash: settings", keys and complete("tune", "") >= keys,
      complete("tune", ""))
check("zsh: commands", set(re.findall(r"(?m)^\t'([a-z]+):", zsh)) == commands)
check("zsh: settings", all(f" {key[:-1]}" in zsh for key in keys), keys)
for command in sorted(commands):
    options = options_of(help_of(command))
    check(f"bash: options of {command}",
          {w for w in complete(command, "--") if w.startswith("--")} ==
          options, (complete(command, "--"), options))
    part = re.search(rf"(?s)\t\t(?:[a-z]+ \| )?{command}(?: \| [a-z]+)?\)"
                     r"(.*?);;", zsh)
    known = set(re.findall(r"--[a-z-]+", part[1])) if part else set()
    if part and "$common" in part[1]:
        known |= {"--json", "--help"}
    if part and "$file" in part[1]:
        known |= {"--file"}
    check(f"zsh: options of {command}", known == options, (known, options))
if shutil.which("zsh"):
    done = subprocess.run(["zsh", "-n", ZSH], capture_output=True, text=True)
    check("zsh parses it", done.returncode == 0, done.stderr)
else:
    print("skipped in part: zsh is not installed")
finish()
