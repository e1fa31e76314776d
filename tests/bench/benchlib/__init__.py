# SPDX-License-Identifier: BSD-3-Clause
"""benchlib - the parts of tools/bench

peers    the servers that are compared, and one run of nbdload on one of them
groups   what is measured, a function a group, all return plain dictionaries
goals    the figures to reach, computed from what the groups returned
report   tables for the terminal
charts   SVG by gnuplot
"""
