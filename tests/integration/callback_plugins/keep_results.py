"""Writes every module's result and the recap to the file that KEEP_RESULTS names, one JSON document a line."""

from __future__ import annotations

import json
import os

from ansible.plugins.callback import CallbackBase

DOCUMENTATION = """
name: keep_results
type: notification
short_description: Keep every result for a test
description: Writes JSON lines to the file that the environment variable KEEP_RESULTS names. It prints nothing.
"""


class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "notification"
    CALLBACK_NAME = "keep_results"
    CALLBACK_NEEDS_ENABLED = True

    def v2_runner_on_ok(self, result):
        self._keep("ok", result)

    def v2_runner_on_failed(self, result, ignore_errors=False):
        self._keep("failed", result)

    def v2_runner_on_unreachable(self, result):
        self._keep("unreachable", result)

    def v2_runner_on_skipped(self, result):
        self._keep("skipped", result)

    def v2_playbook_on_stats(self, stats):
        self._write({"recap": {host: stats.summarize(host) for host in stats.processed}})

    def _keep(self, status, result):
        name, host = result.task.get_name(), result.host.get_name()
        self._write({"task": name, "host": host, "status": status, "values": dict(result.result)})

    def _write(self, document):
        with open(os.environ["KEEP_RESULTS"], "a", encoding="utf-8") as file:
            file.write(json.dumps(document, default=str) + "\n")
