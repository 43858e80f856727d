# SPDX-License-Identifier: MIT
"""Answers lines of standard input. "work N" builds N objects, keeps some, and prints their sum.
Ends at the end of its input."""
import json
import sys
import threading

kept = []


def work(count, result):
    items = [{"number": i, "text": str(i) * 3} for i in range(count)]
    kept.append(items[::100])
    del kept[:-3]
    result.append(len(json.dumps([item["text"] for item in items])) - 2 * count)


print("ready", flush=True)
for line in sys.stdin:
    count, result = int(line.split()[1]), []
    thread = threading.Thread(target=work, args=(count, result))
    thread.start()
    thread.join()
    print("done", count, result[0], flush=True)
