# SPDX-License-Identifier: BSD-3-Clause
"""The programs of an earlier commit, to upgrade from.

Of the repository that the tests lie in: the newest tag that is not HEAD, or
else a commit BACK steps back; THINSWAP_PREVIOUS names another. Built once and
kept in the cache, one directory a commit.
"""
import os
import shutil
import subprocess
import tempfile

from guestimage import CACHE, HERE, Missing, find_program, run

BACK = 10


def git(*argv):
    """What git says, or nothing."""
    done = subprocess.run(["git", "-C", HERE, *argv], text=True, check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return done.stdout.strip() if done.returncode == 0 else ""


def previous_commit():
    find_program("git")
    name = os.environ.get("THINSWAP_PREVIOUS") or git(
        "describe", "--tags", "--abbrev=0", "HEAD~1")
    if not name:
        name = f"HEAD~{BACK}"
    commit = git("rev-parse", "--verify", "--quiet", name + "^{commit}")
    if not commit:
        raise Missing(f"no previous build: no {name} in a git repository")
    return commit


def build(commit, target):
    """Compile that commit and leave what it installs in target."""
    with tempfile.TemporaryDirectory(prefix="thinswap-previous-") as work:
        source = os.path.join(work, "source")
        os.mkdir(source)
        archive = subprocess.run(
            ["git", "-C", git("rev-parse", "--show-toplevel"), "archive",
             commit], check=True, stdout=subprocess.PIPE).stdout
        subprocess.run(["tar", "-x", "-C", source], input=archive, check=True)
        made = os.path.join(work, "build")
        run("meson", "setup", "-Dtests=false", "-Dman=disabled",
            "-Dsystemd=disabled", made, source)
        run("ninja", "-C", made)
        run("meson", "install", "-C", made, "--no-rebuild",
            "--destdir", target + ".new")
    os.rename(target + ".new", target)


def is_program(path):
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


def add_previous(directory):
    """Put the programs below directory, each at its installed path."""
    commit = previous_commit()
    cached = os.path.join(CACHE, "previous-" + commit[:12])
    if not os.path.isdir(cached):
        try:
            build(commit, cached)
        except subprocess.CalledProcessError as error:
            raise Missing(f"no previous build of {commit[:12]}: {error}")
    for where, _, names in os.walk(cached):
        for name in names:
            source = os.path.join(where, name)
            target = os.path.join(directory, os.path.relpath(source, cached))
            if is_program(source):
                os.makedirs(os.path.dirname(target), exist_ok=True)
                shutil.copy(source, target)
    return commit
