# SPDX-License-Identifier: MIT
"""The sqlite3 module: tables, indexes, functions in python, threads, a backup, an interrupt."""
import sqlite3
import threading

base = sqlite3.connect("work.db")
base.execute("create table items (id integer primary key, word text, payload blob)")
with base:
    base.executemany("insert into items values (?, ?, ?)",
                     ((i, f"word {i * 7919 % 5000}", bytes(i % 700)) for i in range(20000)))
base.execute("create index by_word on items (word)")
base.create_function("weigh", 2, lambda word, payload: len(word) + len(payload))
print(base.execute("select count(distinct word), sum(weigh(word, payload)) from items").fetchone())


class Longest:
    def __init__(self):
        self.word = ""

    def step(self, word):
        self.word = max(self.word, word, key=len)

    def finalize(self):
        return self.word


base.create_aggregate("longest", 1, Longest)
print(base.execute("select longest(word || hex(payload)) from items").fetchone()[0][-20:])
sums = [0] * 4


def read(index):
    connection = sqlite3.connect("work.db")
    for (size,) in connection.execute(
            "select length(payload) from items where id % 4 = ? order by word", (index,)):
        sums[index] += size
    connection.close()


threads = [threading.Thread(target=read, args=(index,)) for index in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(sums)
memory = sqlite3.connect(":memory:")
base.backup(memory)
print(memory.execute("select sum(id) from items where word like 'word 1%'").fetchone())
print(len(list(memory.iterdump())))
try:
    base.execute("select * from nothing")
except sqlite3.OperationalError as error:
    print(error)
base.close()
