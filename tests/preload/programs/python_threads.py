# SPDX-License-Identifier: MIT
"""Short threads, queues, and C code that releases the interpreter lock (hashes, compression)."""
import bz2
import hashlib
import lzma
import queue
import threading
import zlib
from concurrent.futures import ThreadPoolExecutor

results = queue.Queue()


def work(number):
    data = bytes((number * 31 + i * i) % 256 for i in range(20000))
    packed = [zlib.compress(data, 9), bz2.compress(data), lzma.compress(data, preset=1)]
    assert zlib.decompress(packed[0]) == bz2.decompress(packed[1]) == lzma.decompress(packed[2])
    results.put((number, hashlib.sha1(packed[0] + packed[1]).hexdigest()))


for start in range(0, 60, 6):
    threads = [threading.Thread(target=work, args=(start + i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
with ThreadPoolExecutor(4) as pool:
    list(pool.map(work, range(60, 100)))
everything = sorted(results.get() for _ in range(100))
print(len(everything), hashlib.sha256(repr(everything).encode()).hexdigest())
print(threading.active_count(), "thread left")
