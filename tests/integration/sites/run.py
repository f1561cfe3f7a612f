#!/usr/bin/env python3
"""Tests of hosts, redirects, rules, access and proxies against a real server, with curl.

    run.py DIRECTORY [TEST...]     DIRECTORY contains webserverd and wsctl

TEST_PART=2/3 selects every third test, from the second on. Without curl, exits with 77.
"""
import shutil
import sys

import access  # noqa: F401
import access_model  # noqa: F401
import cors  # noqa: F401
import deploys  # noqa: F401
import first  # noqa: F401
import host_logs  # noqa: F401
import hosts  # noqa: F401
import limits  # noqa: F401
import logins  # noqa: F401
import proxies  # noqa: F401
import redirects  # noqa: F401
from site_server import Bench, run_tests

sys.exit(run_tests(Bench) if shutil.which("curl") else 77)
