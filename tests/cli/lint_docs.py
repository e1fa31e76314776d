#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""lint_docs.py - what the papers say, against what is there

Usage: lint_docs.py SOURCE_DIR BUILD_DIR CHECK_EXE

Man pages have no pod errors and are built; the plugin's page has exactly the
parameters that the engine takes, with their ranges; a picture marked with
"=for picture FILE" is the one in that file; every name_with_underscores that a
paper gives as code is one of the sources (statistics above all); our own pages,
files, commands and options that a paper names exist; examples in TOML are
good; what --help prints fits a screen.
"""
import html
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

SCREEN_LINES, SCREEN_COLUMNS = 24, 80
# Keys of the same name in two sections give two link targets.
HARMLESS_POD_WARNING = "multiple occurrences"
SOURCE_ENDINGS = (".c", ".h", ".cc", ".def", ".py", ".sh", ".in", ".conf",
                  ".rules", ".build", ".txt")
OUR_FOLDERS = ("lib", "plugin", "daemon", "systemd", "man", "tests", "tools",
               ".ci")

failures = []


def expect(condition, sentence):
    if not condition:
        failures.append(sentence)
        print("FAIL:", sentence)


def read(*parts):
    with open(os.path.join(*parts), encoding="utf-8", errors="replace") as f:
        return f.read()


def run(*argv, cwd=None):
    return subprocess.run(argv, text=True, capture_output=True, timeout=60,
                          check=False, cwd=cwd)


class Tree:
    """The source directory, and what was built from it."""

    def __init__(self, source, build):
        self.source, self.build = source, build
        self.papers = {name: read(source, name)
                       for name in ("README.md", "CONTRIBUTING.md")}
        self.pods = {name: read(source, "man", name)
                     for name in sorted(os.listdir(os.path.join(source,
                                                                "man")))
                     if name.endswith(".pod")}
        self.pod_paths = {name: os.path.join(source, "man", name)
                          for name in self.pods}
        # Pages with tables that are made from declarations.
        for name in os.listdir(os.path.join(source, "man")):
            made = os.path.join(build, "man", name[:-3])
            if name.endswith(".pod.in") and os.path.exists(made):
                self.pods[name[:-3]] = read(made)
                self.pod_paths[name[:-3]] = made
        self.helps = {}

    def sources(self):
        for folder in OUR_FOLDERS:
            for where, _, names in os.walk(os.path.join(self.source, folder)):
                for name in names:
                    if name.endswith(SOURCE_ENDINGS) or "." not in name:
                        yield read(where, name)

    def has(self, path):
        if path.startswith("build/"):
            return os.path.exists(os.path.join(self.build, path[6:]))
        return os.path.exists(os.path.join(self.source, path))

    def program(self, name):
        """Where one of our own commands is, or None."""
        if name in ("thinswap", "thinswapd"):
            return os.path.join(self.build, "daemon", name)
        if name == "thinswap-fuse":
            return next((p for p in (os.path.join(self.build, *d, name)
                                     for d in (["daemon"], ["daemon", "fuse"]))
                         if os.path.exists(p)), None)
        if name.startswith("build/"):
            return os.path.join(self.build, name[6:])
        if name.startswith(("tools/", "tests/", ".ci/")):
            return os.path.join(self.source, name)
        return None

    def help_of(self, *argv):
        if argv not in self.helps:
            self.helps[argv] = run(*argv, "--help")
        return self.helps[argv]


# --- man pages ------------------------------------------------------------

def check_pods(tree):
    listed = set(re.findall(r"'((?:nbdkit-)?thinswap[a-z.-]*\.[0-9])'",
                            read(tree.source, "man", "meson.build")))
    expect(sorted(f"{page}.pod" for page in listed) == sorted(tree.pods),
           f"man/meson.build lists {listed}, there are {list(tree.pods)}")
    for name in tree.pods:
        done = run("podchecker", "-warnings",
                   tree.pod_paths[name])
        told = [line for line in (done.stdout + done.stderr).splitlines()
                if line.startswith("***") and
                HARMLESS_POD_WARNING not in line]
        expect(done.returncode == 0 and not told,
               f"man/{name}: podchecker: {told or done.stderr}")
        if tree.has(f"build/man/{name[:-4]}"):
            expect(read(tree.build, "man", name[:-4]).count("\n.SH") >= 3,
                   f"man/{name}: the built page has no sections")


def check_pictures(tree):
    found = 0
    for name, text in tree.pods.items():
        for file, picture in re.findall(
                r"=for picture (\S+)\n\n((?:[ \t].*\n|\n(?=[ \t]))+)", text):
            found += 1
            there = {" ".join(line.lstrip(" *").split())
                     for line in read(tree.source, file).splitlines()}
            for line in picture.splitlines():
                expect(" ".join(line.split()) in there,
                       f"man/{name}: not in {file}: {line.strip()}")
    expect(found >= 5, "few pictures")


# --- the plugin's parameters ----------------------------------------------

def range_of(tree, key):
    """What the plugin itself says is allowed, as the page should put it."""
    plugin = os.path.join(tree.build, "plugin", "nbdkit-thinswap-plugin.so")
    for wrong in ("1", "-99", "maybe"):
        # A path is taken literally, and a file made there.
        with tempfile.TemporaryDirectory() as scratch:
            told = run("nbdkit", "--unix", os.path.join(scratch, "s"), plugin,
                       "size=1M", f"{key}={wrong}", "--run", "true",
                       cwd=scratch).stderr
        match = re.search(r"(?:allowed are|from) (\S.*?) to (\S.*)$", told,
                          re.M)
        if match:
            return f"from {match[1]} to {match[2]}"
        match = re.search(r"must be (\S+) or (\S+)$", told, re.M)
        if match:
            return f"{match[1]}|{match[2]}"
    return None


def check_parameters(tree):
    keys = re.findall(r'!strcmp\(key, "([a-z-]+)"\)',
                      read(tree.source, "lib", "params.c"))
    page = tree.pods["nbdkit-thinswap-plugin.1.pod"]
    synopsis = page.split("=head1 SYNOPSIS")[1].split("=head1")[0]
    items = dict(re.findall(r"(?ms)^=item B<([a-z-]+)=>(.*?)(?=^=item|^=back)",
                            page))
    ranges = 0
    expect(len(keys) >= 3, f"params.c: few keys: {keys}")
    expect(sorted(items) == sorted(keys),
           f"plugin page has {sorted(items)}, params.c {sorted(keys)}")
    for key in keys:
        expect(re.search(rf"[ \[]{key}=", synopsis),
               f"plugin page: SYNOPSIS without {key}=")
        said = " ".join(items.get(key, "").split())
        expect("Default: " in said or "Required." in said,
               f"plugin page: {key}: neither a default nor required")
        allowed = range_of(tree, key)
        ranges += allowed is not None
        if allowed:
            # "true|false" stands in any order.
            both = [allowed, "|".join(reversed(allowed.split("|")))]
            expect(any(one in said for one in both),
                   f"plugin page: {key}: does not say {allowed}")
    expect(ranges >= 3, "few ranges were learnt from the plugin")


# --- names, pages, files, commands ----------------------------------------

def code_in_pod(text):
    return [html.unescape(code) for code in
            re.findall(r"[CF]<(?!<)([^<>]*)>", text)]


def code_in_markdown(text):
    return re.findall(r"`([^`\n]+)`", re.sub(r"(?ms)^```.*?^```", "", text))


def names_our_file(code):
    """Not the subject of a commit, "lib/pool: what"."""
    return "/" in code and code.split("/")[0] in OUR_FOLDERS and \
        not re.match(r"\S+: ", code)


def check_names(tree):
    known = set()
    for text in tree.sources():
        known.update(re.findall(r"\w+", text))
    stats = re.findall(r"TS_STAT\((\w+),", read(tree.source, "lib",
                                                "stats.def"))
    expect(len(stats) > 10, "few statistics")
    papers = {name: code_in_pod(text) for name, text in tree.pods.items()}
    papers.update({name: code_in_markdown(text)
                   for name, text in tree.papers.items()})
    for name, codes in papers.items():
        for code in codes:
            if "/" in code:
                continue
            for word in re.findall(r"\b[a-z]+(?:_[a-z0-9]+)+\b", code):
                expect(word in known, f"{name}: there is no {word}")


def check_pages(tree):
    for name, text in list(tree.pods.items()) + list(tree.papers.items()):
        for page, section in re.findall(
                r"\b((?:nbdkit-)?thinswap[a-z.-]*?)\(([1-9])\)", text):
            expect(f"{page}.{section}.pod" in tree.pods,
                   f"{name}: there is no page {page}({section})")


def check_files(tree):
    for name, text in tree.papers.items():
        for target in re.findall(r"\]\(([^)#]+)\)", text):
            expect("://" in target or tree.has(target),
                   f"{name}: link to {target}")
        for code in code_in_markdown(text):
            if names_our_file(code):
                check_command(tree, name, code)
    for name, text in tree.pods.items():
        for code in code_in_pod(text):
            if names_our_file(code):
                expect(tree.has(code), f"man/{name}: there is no {code}")


def check_command(tree, name, line):
    """Our own program exists and knows the options; files of ours exist."""
    words = [word for word in shlex.split(line, comments=True)
             if word != "sudo"]
    if not words:
        return
    program = tree.program(words[0])
    for word in words:
        if names_our_file(word):
            expect(tree.has(word), f"{name}: there is no {word}")
    if not program:
        return
    expect(os.path.exists(program), f"{name}: there is no {words[0]}")
    if not os.access(program, os.X_OK) or os.path.isdir(program):
        return
    rest = words[1:]
    options = [word.split("=")[0] for word in rest if word.startswith("--")]
    known = ""
    if options or words[0] == "thinswap":
        known = tree.help_of(program).stdout
    if words[0] == "thinswap" and rest and not rest[0].startswith("-"):
        expect(re.search(rf"(?m)^  {rest[0]}\b", known),
               f"{name}: thinswap has no command {rest[0]}")
        known += tree.help_of(program, rest[0]).stdout
    for option in options:
        expect(re.search(rf"{option}\b", known),
               f"{name}: {words[0]} has no option {option}")


def shell_lines(text):
    for block in re.findall(r"(?ms)^```sh\n(.*?)^```", text):
        for line in block.replace("\\\n", " ").splitlines():
            for part in line.split("#")[0].split("&&"):
                yield part


def check_commands(tree):
    found = 0
    for name, text in tree.papers.items():
        for line in shell_lines(text):
            found += 1
            check_command(tree, name, line)
    for name, text in tree.pods.items():
        for line in re.findall(r"(?m)^ (thinswap(?:d|-fuse)? .*)$", text):
            found += 1
            if "[" not in line:
                check_command(tree, f"man/{name}", line)
    expect(found > 10, "few commands")


def check_toml(tree, check_exe):
    blocks = re.findall(r"(?ms)^```toml\n(.*?)^```", tree.papers["README.md"])
    expect(blocks, "README: no configuration")
    for name, text in tree.pods.items():
        blocks += [re.sub(r"(?m)^ ", "", block) for block in
                   re.findall(r"(?m)^ \[[a-z]+\]\n(?:(?: .*)?\n)+", text)]
    for block in blocks:
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as f:
            f.write(block)
            f.flush()
            done = run(check_exe, "--memory", "64G", "--cpus", "8", f.name)
        expect(done.returncode == 0, f"not a good configuration: {block}"
               f"{done.stdout}{done.stderr}")


# --- help -----------------------------------------------------------------

def check_help(tree):
    commands = [("build/daemon/thinswapd",), ("build/daemon/thinswap",)]
    main_help = tree.help_of(tree.program("thinswap")).stdout
    for command in re.findall(r"(?m)^  ([a-z][a-z-]*) .*$", main_help):
        commands.append(("build/daemon/thinswap", command))
    for name in sorted(os.listdir(os.path.join(tree.source, "tools"))):
        if os.access(os.path.join(tree.source, "tools", name), os.X_OK):
            commands.append(("tools/" + name,))
    expect(len(commands) > 8, f"few commands: {commands}")
    for command in commands:
        done = tree.help_of(tree.program(command[0]), *command[1:])
        lines = done.stdout.splitlines()
        what = " ".join(command) + " --help"
        expect(done.returncode == 0 and len(lines) >= 3,
               f"{what}: status {done.returncode}, {len(lines)} lines")
        expect(len(lines) <= SCREEN_LINES,
               f"{what}: {len(lines)} lines, a screen has {SCREEN_LINES}")
        for line in lines:
            expect(len(line) <= SCREEN_COLUMNS, f"{what}: too long: {line}")


def main():
    for need in ("nbdkit", "podchecker"):
        if not shutil.which(need):
            print(f"SKIP: {need} is not installed")
            sys.exit(77)
    tree = Tree(os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2]))
    check_pods(tree)
    check_pictures(tree)
    check_parameters(tree)
    check_names(tree)
    check_pages(tree)
    check_files(tree)
    check_commands(tree)
    check_toml(tree, sys.argv[3])
    check_help(tree)
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
