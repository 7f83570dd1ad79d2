"""Has a child in a session of its own, which outlives it."""

import subprocess
import time

child = subprocess.Popen(["sleep", "600"], start_new_session=True)
print(f"child {child.pid}", flush=True)
time.sleep(600)
