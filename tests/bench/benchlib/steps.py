# SPDX-License-Identifier: BSD-3-Clause
"""steps.py - functions in profiles, sorted into the steps of a request"""

import os
import re

# (step, object file, function): the first that matches takes it.
STEPS = [(step, re.compile(obj), re.compile(function))
         for step, obj, function in (
             ("zstd", "libzstd", ""),
             ("check (XXH3)", "libxxhash", ""),
             ("copies", "libc", "mem(cpy|move|set)"),
             ("locks", "libc|ld-linux", "mutex|lll_|cond_|futex"),
             ("clock", "vdso|libc|^$", "clock_gettime"),
             ("classify", "thinswap", "ts_page_repeats"),
             ("pool", "thinswap",
              "ts_pool|ts_block|alloc_class|take_from|find_room|free_locked"
              "|change_used|link_block|give_block|ts_media_alloc"),
             ("words", "thinswap",
              "ts_cluster|ts_batch|open_(for|with)|close_cluster|ts_change"
              "|read_words|ts_media_drop"),
             ("write-behind", "thinswap", "ts_stage|ts_worker|worker"),
             ("rest of the engine", "thinswap", ""),
             ("kernel", "kernel|vmlinux", ""),
             ("nbdkit", "nbdkit", ""),
             ("rest", "", ""))]


def step_of(obj, function):
    return next(step for step, in_obj, in_function in STEPS
                if in_obj.search(obj) and in_function.search(function))


def parse_callgrind(text):
    """callgrind_annotate's lines -> step -> instructions."""
    line = re.compile(r"^\s*([\d,]+)(?: \([ \d.]+%\))?\s+(\S+?):(.+?)"
                      r"(?: \[(.*)\])?$")
    steps = {}
    for found in filter(None, map(line.match, text.splitlines())):
        count, _, function, obj = found.groups()
        step = step_of(os.path.basename(obj or ""), function)
        steps[step] = steps.get(step, 0) + int(count.replace(",", ""))
    return steps


def parse_perf(text):
    """perf report's lines, "SHARE%;object;[.] function" -> step -> share."""
    steps = {}
    for line in text.splitlines():
        parts = [part.strip() for part in line.split(";")]
        if len(parts) < 3 or not parts[0].endswith("%"):
            continue
        obj = "kernel" if parts[2].startswith("[k]") else parts[1]
        step = step_of(obj, parts[2][3:].strip())
        steps[step] = steps.get(step, 0) + float(parts[0][:-1]) / 100
    return steps
