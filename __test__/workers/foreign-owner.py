# A process that guards the same key with redis-py, and writes down when it held it.

import json
import os
import sys
import time

import redis

port, key, turns, hold = int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), float(sys.argv[4]) / 1_000
client = redis.Redis(host="127.0.0.1", port=port)
client.ping()
print("ready", flush=True)
sys.stdin.readline()
holdings = []
for turn in range(turns):
    with client.lock(key, timeout=5, sleep=0.005, blocking_timeout=60):
        # The clock of process.hrtime.bigint().
        begin = time.monotonic_ns()
        value = int(client.get("value") or 0)
        time.sleep(hold)
        client.set("value", value + 1)
        holdings.append([f"redis-py {os.getpid()} {turn}", str(begin), str(time.monotonic_ns())])
    time.sleep(hold)
print(json.dumps(holdings), flush=True)
