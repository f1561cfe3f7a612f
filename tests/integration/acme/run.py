#!/usr/bin/env python3
"""Tests of [acme] against a real server and an authority of our own, and against Pebble where it is installed.

    run.py DIRECTORY [TEST...]     DIRECTORY contains webserverd and wsctl

TEST_PART=2/3 selects every third test, from the second on. TEST_MODULE=killed selects the tests of killed.py, which are
not among the others: each starts a server for each of many steps.
"""
import os
import pathlib
import sys

sys.path.insert(1, str(pathlib.Path(__file__).resolve().parent.parent / "tls"))

# pylint: disable=wrong-import-position
if os.environ.get("TEST_MODULE") == "killed":
    import killed  # noqa: E402,F401
else:
    import clock  # noqa: E402,F401
    import failures  # noqa: E402,F401
    import figures  # noqa: E402,F401
    import obtaining  # noqa: E402,F401
    import pebble  # noqa: E402,F401
    import processes  # noqa: E402,F401
    import renewal_info  # noqa: E402,F401
    import renewal  # noqa: E402,F401
    import rollover  # noqa: E402,F401
    import tls_alpn  # noqa: E402,F401
    import under_load  # noqa: E402,F401
from acme_server import Bench  # noqa: E402
from harness import run_tests  # noqa: E402

sys.exit(run_tests(Bench))
