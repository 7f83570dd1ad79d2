"""Joins the ring, says so, and then does nothing: it does not notice when another rank ends."""

import time

import mlx.core as mx

group = mx.distributed.init(backend="ring", strict=True)
mx.eval(mx.distributed.all_sum(mx.ones(4)))
print(f"rank {group.rank()} is idle", flush=True)
time.sleep(600)
