#!/usr/bin/env python3
"""Prints `N passed, N failed, N skipped` for the test report that meson wrote."""
import sys
import xml.etree.ElementTree as ElementTree

passed = failed = skipped = 0
for case in ElementTree.parse(sys.argv[1]).iter("testcase"):
    tags = {child.tag for child in case}
    if tags & {"failure", "error"}:
        failed += 1
    elif "skipped" in tags:
        skipped += 1
    else:
        passed += 1
print(f"{skipped} skipped" if skipped else "", f"{passed} passed, {failed} failed", sep="\n")
