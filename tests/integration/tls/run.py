#!/usr/bin/env python3
"""Tests of TLS against a real server, with Python's ssl, openssl s_client and curl.

    run.py DIRECTORY [TEST...]     DIRECTORY contains webserverd and wsctl

TEST_PART=2/3 selects every third test, from the second on; TEST_MODULES="keys sessions" the tests of these modules.
"""
import sys

from harness import Bench, import_tests, run_tests

import_tests("certificates", "clients", "connections", "keys", "probes", "records", "sessions", "transfer", "visibility")
sys.exit(run_tests(Bench))
