"""Every rank contributes ones; the sum must be the number of ranks. With --forever it goes on, once a second."""

import sys
import time

import mlx.core as mx

group = mx.distributed.init(backend="ring", strict=True)
while True:
    total = mx.distributed.all_sum(mx.ones(4))
    mx.eval(total)
    print(f"rank {group.rank()} of {group.size()}: all_sum(ones) = {total.tolist()}", flush=True)
    if total.tolist() != [group.size()] * 4:
        sys.exit(f"rank {group.rank()}: the sum is wrong")
    if "--forever" not in sys.argv:
        break
    time.sleep(1)
