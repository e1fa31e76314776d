#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""lint_config_docs.py - sample file and man page against the table of keys

Usage: lint_config_docs.py KEYS_EXE CHECK_EXE SAMPLE POD

Every key is in both, under its section, in the table's order, with the
table's default and range, and nothing else is. The sample with every "#"
taken away is a valid file that changes nothing. Case 39: the man page says
that hibernation is excluded.
"""
import json
import re
import subprocess
import sys
import tempfile

# The machine that the sample's computed defaults are for.
MACHINE = ["--memory", "16G", "--cpus", "8"]

failures = []


def expect(condition, sentence):
    if not condition:
        failures.append(sentence)
        print("FAIL:", sentence)


def run(*argv, code=0):
    result = subprocess.run(argv, text=True, capture_output=True, timeout=60,
                            check=False)
    expect(result.returncode == code,
           f"{' '.join(argv)}: {result.returncode} {result.stderr}")
    return result.stdout


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


class Key:
    def __init__(self, line):
        (self.section, self.name, self.default, self.allowed,
         live) = line.split("\t")
        self.live = bool(live)
        self.full = f"{self.section}.{self.name}"


def sample_entries(text):
    """[(section.key, value, the comment block above)]"""
    entries, section, comment = [], None, ""
    for line in text.splitlines():
        match = re.match(r"#?([a-z-]+) = (.*)$", line)
        if re.match(r"\[[a-z]+\]$", line):
            section, comment = line[1:-1], ""
        elif match:
            entries.append((f"{section}.{match[1]}", match[2], comment))
            expect(line.startswith("#"), f"sample: {line} is not a comment")
        elif line.startswith("# "):
            comment += line[1:]
        else:
            comment = ""
    return entries


def check_sample(keys, check_exe, text):
    entries = sample_entries(text)
    expect([e[0] for e in entries] == [k.full for k in keys],
           f"sample: keys or order: {[e[0] for e in entries]}")
    for key, (_, value, comment) in zip(keys, entries):
        if key.default.startswith("("):
            expect(key.default[1:-1].lower() in comment.lower(),
                   f"sample: {key.full}: does not say {key.default}")
        else:
            expect(value == key.default, f"sample: {key.full} = {value}")
        if key.section not in ("tuning", "spill"):
            expect(comment, f"sample: {key.full}: no comment")
            expect(("Live." in comment) == key.live,
                   f"sample: {key.full}: live or not")
    # Taken as it is, and with every key set.
    known = {k.full for k in keys}
    bare, section = [], None
    for line in text.splitlines():
        if line.startswith("["):
            section = line[1:-1]
        match = re.match(r"#([a-z-]+) = ", line)
        if match and f"{section}.{match[1]}" in known:
            line = line[1:]
        bare.append(line)
    configs = []
    for content in ("", text, "\n".join(bare)):
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as f:
            f.write(content)
            f.flush()
            out = json.loads(run(check_exe, "--json", *MACHINE, f.name))
        expect(out.get("ok"), f"sample: {out}")
        configs.append(out.get("config"))
    expect("\n".join(bare).count("\n#") < text.count("\n#"),
           "sample: nothing was taken out of comments")
    expect(configs[0] == configs[1] == configs[2],
           "sample: does not show the defaults")


def pod_entries(text):
    """[(section.key, text)] of the KEYS part"""
    keys_part = text.split("=head1 KEYS")[1].split("=head1")[0]
    entries = []
    for part in re.split(r"(?m)^=head2 ", keys_part)[1:]:
        section = re.match(r"\[([a-z]+)\]", part)[1]
        for item in re.split(r"(?m)^=item ", part)[1:]:
            name = re.match(r"B<([a-z-]+)>\n", item)[1]
            plain = re.sub(r"[CBFL]<+ ?([^<>]*?) ?>+", r"\1", item)
            entries.append((f"{section}.{name}", " ".join(plain.split())))
    return entries


def check_pod(keys, text):
    entries = pod_entries(text)
    expect([e[0] for e in entries] == [k.full for k in keys],
           f"man page: keys or order: {[e[0] for e in entries]}")
    for key, (_, said) in zip(keys, entries):
        default = key.default.strip("()")
        expect(f"Default: {default}" in said,
               f"man page: {key.full}: no \"Default: {default}\"")
        for pattern in (r"from \S+(?: \w+)? to \S+(?: [KMGTP]iB)?",
                        r"true or false"):
            match = re.search(pattern, key.allowed)
            if match and not key.allowed.startswith('"auto"'):
                expect(match[0] in said,
                       f"man page: {key.full}: no \"{match[0]}\"")
        if key.allowed.startswith("one of"):
            for choice in re.findall(r'"[a-z]+"', key.allowed):
                expect(choice in said, f"man page: {key.full}: {choice}")
        expect(("Reload takes a new value over" in said) == key.live,
               f"man page: {key.full}: reload or not")


def check_hibernation(text):
    said = text.split("=head1 HIBERNATION")[1].split("=head1")[0]
    for part in ("excluded", "resume=", "AllowHibernation=no"):
        expect(part in said, f"man page: HIBERNATION: {part}")


def main():
    keys_exe, check_exe, sample, pod = sys.argv[1:]
    keys = [Key(line) for line in run(keys_exe).splitlines()]
    expect(len(keys) > 20, "few keys")
    check_sample(keys, check_exe, read(sample))
    check_pod(keys, read(pod))
    check_hibernation(read(pod))
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
