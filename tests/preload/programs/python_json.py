# SPDX-License-Identifier: MIT
"""Builds, writes and reads back nested JSON, with strings, regular expressions and sorting."""
import gc
import hashlib
import json
import re
import zlib

state = 12345


def random(limit):
    global state
    state = (state * 6364136223846793005 + 1442695040888963407) % (1 << 64)
    return (state >> 33) % limit


def word():
    return "".join(chr(97 + random(26)) for _ in range(1 + random(12)))


def tree(depth):
    if depth == 0:
        return [word(), random(1000) / 7, None, True][random(4)]
    if random(2):
        return [tree(depth - 1) for _ in range(1 + random(6))]
    return {word() + str(i): tree(depth - 1) for i in range(1 + random(6))}


digest = hashlib.sha256()
for turn in range(40):
    data = tree(6)
    text = json.dumps(data, sort_keys=True, indent=turn % 3)
    assert json.loads(text) == data
    digest.update(zlib.compress(text.encode(), turn % 10))
    words = re.findall(r"[a-z]{5,}", text)
    digest.update(" ".join(sorted(set(words))).encode())
big = [str(i) * (i % 50) for i in range(100000)]
big.sort(key=len)
digest.update("".join(big[::100]).encode())
cycle = []
for i in range(20000):
    cycle = [cycle if i % 7 else [], {"self": i}]
    if i % 3 == 0:
        cycle.append(cycle)
del cycle
print(gc.collect() > 0, digest.hexdigest())
