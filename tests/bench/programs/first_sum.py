"""Print the moment at which this rank is past its first all_sum; with --stay, wait for the end."""

import sys
import time

import mlx.core as mx

group = mx.distributed.init(backend="ring", strict=True)
mx.eval(mx.distributed.all_sum(mx.ones(4)))
print(f"rank {group.rank()} past its first all_sum at {time.time()!r}", flush=True)
while "--stay" in sys.argv:
    time.sleep(60)
