#!/usr/bin/env python3
"""Tests of [metrics] against a real server.

    run.py DIRECTORY [TEST...]     DIRECTORY contains webserverd and wsctl

TEST_PART and TEST_MODULES as in ../tls/run.py. Without curl, exits with 77.
"""
import shutil
import sys

from metrics_server import Bench, import_tests, run_tests

import_tests("by_host", "changes", "content", "files", "live_page", "passwords", "requests_to_it")
sys.exit(run_tests(Bench) if shutil.which("curl") else 77)
