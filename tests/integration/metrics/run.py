#!/usr/bin/env python3
"""Tests of [metrics] against a real server.

    run.py DIRECTORY [TEST...]     DIRECTORY contains webserverd and wsctl

Without curl, exits with 77.
"""
import shutil
import sys

import by_host  # noqa: F401
import changes  # noqa: F401
import content  # noqa: F401
import files  # noqa: F401
import live_page  # noqa: F401
import passwords  # noqa: F401
import requests_to_it  # noqa: F401
from metrics_server import Bench, run_tests

sys.exit(run_tests(Bench) if shutil.which("curl") else 77)
