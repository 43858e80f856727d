# SPDX-License-Identifier: MIT
"""multiprocessing with the start method in the argument: pools, queues, managers, shared memory."""
import multiprocessing
import os
import sys
import threading
import warnings

# Python 3.12 and newer warn of fork in a process with threads. The warning has the pid, so the
# output of two runs would differ.
warnings.simplefilter("ignore", DeprecationWarning)


def square(number):
    text = "x" * (number % 5000)
    return number * number + len(text)


def produce(out, count):
    for i in range(count):
        out.put([i] * (i % 50))
    out.put(None)


def count_up(shared, lock, times):
    for _ in range(times):
        with lock:
            shared.value += 1


def main(method):
    context = multiprocessing.get_context(method)
    with context.Pool(3) as pool:
        print(sum(pool.map(square, range(3000), chunksize=50)))
    channel = context.Queue()
    producer = context.Process(target=produce, args=(channel, 500))
    producer.start()
    total = 0
    while (item := channel.get()) is not None:
        total += sum(item)
    producer.join()
    print(total, producer.exitcode)
    shared, lock = context.Value("q", 0), context.Lock()
    counters = [context.Process(target=count_up, args=(shared, lock, 300)) for _ in range(4)]
    for counter in counters:
        counter.start()
    for counter in counters:
        counter.join()
    print(shared.value, [counter.exitcode for counter in counters])
    if method == "fork":  # also os.fork() while other threads allocate
        stop = threading.Event()

        def churn():
            while not stop.is_set():
                [bytes(i * 10) for i in range(100)]

        threads = [threading.Thread(target=churn) for _ in range(3)]
        for thread in threads:
            thread.start()
        codes = []
        for i in range(60):
            pid = os.fork()
            if pid == 0:
                kept = [str(j) * 20 for j in range(2000)]
                os._exit(len(kept) % 256 if i % 2 else 11)
            codes.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        stop.set()
        for thread in threads:
            thread.join()
        print(sum(codes))


if __name__ == "__main__":
    main(sys.argv[1])
