#!/usr/bin/env python3
"""Tests of [acme] against a real server and an authority of our own, and against Pebble where it is installed.

    run.py DIRECTORY [TEST...]     DIRECTORY contains webserverd and wsctl

TEST_PART and TEST_MODULES as in ../tls/run.py. TEST_MODULES=killed selects tests that are not among the others: each starts
a server for each of many steps.
"""
import pathlib
import sys

sys.path.insert(1, str(pathlib.Path(__file__).resolve().parent.parent / "tls"))

# pylint: disable=wrong-import-position
from acme_server import Bench  # noqa: E402
from harness import import_tests, run_tests  # noqa: E402

import_tests("clock", "failures", "figures", "obtaining", "pebble", "processes", "renewal_info", "renewal", "rollover", "tls_alpn",
             "under_load")
sys.exit(run_tests(Bench))
