# SPDX-License-Identifier: BSD-3-Clause
"""benchlib - the parts of tools/bench

peers    the servers that are compared, and one run of nbdload on one of them
groups   what is measured, a function a group, all return plain dictionaries
swap     the groups that swap for real
spill    the group of the spill tier
goals    the figures to reach, computed from what the groups returned
report   tables for the terminal
charts   SVG by gnuplot
steps    what a function in a profile belongs to, for tests/bench/budget
"""
