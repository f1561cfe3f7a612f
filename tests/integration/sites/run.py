#!/usr/bin/env python3
"""Tests of hosts, redirects, rules, access and proxies against a real server, with curl.

    run.py DIRECTORY [TEST...]     DIRECTORY contains webserverd and wsctl

TEST_PART and TEST_MODULES as in ../tls/run.py. Without curl, exits with 77.
"""
import shutil
import sys

from site_server import Bench, import_tests, run_tests

import_tests("access", "access_model", "compression", "cors", "deploys", "first", "host_logs", "hosts", "limits", "logins", "proxies", "redirects")
sys.exit(run_tests(Bench) if shutil.which("curl") else 77)
