#!/usr/bin/env python3
"""Tests of TLS against a real server, with Python's ssl, openssl s_client and curl.

    run.py DIRECTORY [TEST...]     DIRECTORY contains webserverd and wsctl

TEST_PART=2/3 selects every third test, from the second on.
"""
import sys

import certificates  # noqa: F401
import clients  # noqa: F401
import connections  # noqa: F401
import keys  # noqa: F401
import probes  # noqa: F401
import records  # noqa: F401
import sessions  # noqa: F401
import transfer  # noqa: F401
import visibility  # noqa: F401
from harness import Bench, run_tests

sys.exit(run_tests(Bench))
