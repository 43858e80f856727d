# SPDX-License-Identifier: MIT
"""doctor judges growth also by figures other than its shape: frees, the names of functions and
modules, threads, other paths that shrink, marks that are short of room."""
import copy
import math
import re

from harness import check, check_equal, test
from planted import ALARMING, names
from shapes import (EVEN, FIGURES, KEPT, SHAPES, WORK, array, check_alarm, figures_of, growth_in,
                    looked, looks_of, rows)
from text import labelled, verdict


def leave_out_work(dump, found):
    """Removes the contexts of the work from the marks, as a mark does that is short of room."""
    work = [one["id"] for one in found[WORK]]
    for mark in dump["marks"]:
        left = [one for one in mark["contexts"] if one["id"] in work]
        mark["contexts"] = [one for one in mark["contexts"] if one["id"] not in work]
        mark["left_out"] = {"contexts": len(left), "ids_below": 1 << 20, "most_bytes": 0,
                            **{key: sum(one[key] for one in left) for key in FIGURES}}


def keep_work(dump, found):
    """Makes the work a path that keeps a second chunk for each record."""
    kept, (work, *others) = found[KEPT][0], [one["id"] for one in found[WORK]]
    for mark in dump["marks"]:
        row = next(one for one in mark["contexts"] if one["id"] == kept["id"])
        mark["contexts"] = [one for one in mark["contexts"]
                            if one["id"] not in (work, *others)] + [{**row, "id": work}]
    for context in dump["contexts"]:
        if context["id"] in (work, *others):
            for key in FIGURES:
                value = kept["self"][key] if context["id"] == work else 0
                context["self"][key] = context["total"][key] = value


def come_and_go(dump, found):
    """Makes 1000 records come and go between two marks."""
    for number, rows in enumerate(looks_of(dump)):
        row = next(one for one in rows if one["id"] == found[KEPT][0]["id"])
        for figures in figures_of(row):
            figures["allocs"] += 1000 * number
            figures["frees"] += 1000 * number


def in_module(path, mib, size=400):
    """Returns a change that puts the records, and the wrappers and functions around them, into a
    module of that path. At the end there are `mib` MiB of records of `size` bytes."""
    def change(dump, found):
        kept = [one["id"] for one in found[KEPT]]
        old = dump["exe"]
        whole = sum(one["self"]["requested_bytes"] for one in found[KEPT])
        for module in dump["modules"]:
            module["path"] = path if module["path"] == old else module["path"]
        for context in dump["contexts"]:
            if context["frame"] and context["frame"].get("module") == old:
                context["frame"]["module"] = path
        for rows_of in looks_of(dump):
            for row in (row for row in rows_of if row["id"] in kept):
                for figures in figures_of(row):
                    taken_bytes = figures["requested_bytes"] * (mib << 20) // whole
                    figures.update(requested_bytes=taken_bytes, live_chunks=taken_bytes // size,
                                   allocs=taken_bytes // size)
    return change


def thrice(dump, found):
    """Makes the path of the records allocate three chunks for each one that stays."""
    for rows_of in looks_of(dump):
        for row in (row for row in rows_of if row["id"] == found[KEPT][0]["id"]):
            for figures in figures_of(row):
                figures["allocs"] = 3 * figures["live_chunks"]
                figures["frees"] = 2 * figures["live_chunks"]


@test
def shape_one_of_three_chunks_stays():
    """A cache whose entries cost two short-lived chunks each grows evenly for each of its own
    allocations, also when it fills more and more slowly. A leak with such chunks is an alarm."""
    for sizes, alarming in (([1000 * (1 - math.exp(-t / 6)) for t in range(1, 17)], False),
                            (range(10, 170, 10), True)):
        found, _ = looked(rows(range(1, 17), sizes), change=thrice)
        growth = growth_in(found)
        check("one of 3 chunks stays" in growth[0][1], f"{growth}")
        check_alarm(found, alarming, sizes)


@test
def shape_growth_that_may_be_a_cache_says_so():
    """Even growth of which nothing was freed is no critical finding in the first ten minutes; the
    finding says when to look again. If a part of the chunks was freed, it is critical."""
    def found_of(step, change=None, sizes=(10, 20, 30, 40, 50)):
        found, _ = looked(rows([step * second for second in EVEN[:len(sizes)]], sizes),
                          change=change, rss_bytes=20 << 20)
        return found[0]["severity"], found[0]["evidence"]

    def much(dump, found):
        in_module("/opt/server", 40)(dump, found)

    def much_thrice(dump, found):
        much(dump, found)
        thrice(dump, found)
    severity, evidence = found_of(1, much)
    check_equal(severity, "warning", evidence)
    check("look again in 60.0 s: by then a cache, or data that the program " in evidence, evidence)
    for step, change in ((200, much), (1, much_thrice)):
        severity, evidence = found_of(step, change)
        check_equal(severity, "critical", evidence)
        check("look again" not in evidence, evidence)
    # a program that had nothing to do at first
    for change, wanted in ((much, "warning"), (much_thrice, "critical")):
        severity, evidence = found_of(1, change, (10, 10, 10, 10, 20, 30, 40, 50))
        check_equal((severity, "look again" in evidence), (wanted, wanted == "warning"), evidence)


@test
def shape_garbage_of_runtimes():
    """Growth by no more than a runtime may leave as garbage is no alarm. More growth is one, and so
    is growth in a program that only has such a name."""
    tenfold, little = (10, 20, 30, 40, 50), (100, 102, 104, 106, 108)
    for path, sizes, mib, alarming in (
            ("/usr/bin/python3.11", tenfold, 4, False), ("/usr/bin/python3.11", tenfold, 10, True),
            ("/usr/bin/python3.11", little, 108, False), ("/usr/bin/python3", little, 270, True),
            ("/usr/lib/libpython3.11.so.1.0", tenfold, 4, False),
            ("/usr/bin/pythonize", tenfold, 4, True), ("/usr/bin/lua5.4", tenfold, 4, True),
            ("/usr/bin/lua5.4", (10, 13, 15, 17, 19), 50, False),
            ("/usr/lib/libruby-3.1.so.3.1", tenfold, 10, False),
            ("/usr/lib/libruby-3.1.so.3.1", tenfold, 40, True),
            ("/usr/bin/php8.2", tenfold, 8, False), ("/usr/bin/php8.2", tenfold, 12, True),
            ("/usr/bin/node", tenfold, 4, False), ("/usr/bin/node_exporter", tenfold, 4, True)):
        growth = [one for one in looked(rows(EVEN[:5], sizes), change=in_module(path, mib))[0]
                  if one["id"] == "growth"]
        check(growth, f"{path}, {mib} MiB: no growth")
        check_equal(growth[0]["severity"] in ALARMING, alarming, f"{path}, {mib} MiB: {growth}")
        if not alarming:
            check_equal(growth[0]["title"], "growth that may go on", f"{path}")
            check(growth[0]["sure"].startswith("open: ") and
                  "garbage" in growth[0]["sure"], growth[0]["sure"])
    found, _ = looked(rows(EVEN[:5], tenfold), change=in_module("/usr/bin/python3", 4, 20000))
    check(found[0]["severity"] in ALARMING, f"large buffers are no garbage: {found[0]}")
    for pause_s, alarming in ((60, False), (300, True)):
        times = [pause_s * number for number in range(1, 15)]
        found, _ = looked(rows(times, range(10, 150, 10)), change=in_module("/usr/bin/python3", 4))
        check_equal(found[0]["severity"] in ALARMING, alarming, f"{pause_s} s: {found[0]}")


def copied(dump, found):
    """Makes each larger array a new chunk; the old one is freed."""
    before, allocs = 0, 0
    for rows_of in [*(mark["contexts"] for mark in dump["marks"]), dump["contexts"]]:
        for row in (row for row in rows_of if row["id"] == found[KEPT][0]["id"]):
            each = (row["self"], row["total"]) if "self" in row else (row,)
            allocs += each[0]["requested_bytes"] > before
            before = each[0]["requested_bytes"]
            for figures in each:
                figures.update(live_chunks=1, allocs=allocs, frees=allocs - 1)


@test
def shape_table_with_three_steps():
    """A table that has become larger three times is no alarm yet: now it may have room for all that
    the program will ever add."""
    for looks_of in ((4, 3, 5, 4), (2, 4, 6, 4), (5, 4, 4, 3), (6, 5, 4, 3)):
        sizes = [1 << step for step, count in enumerate(looks_of) for _ in range(count)]
        found, _ = looked(array(range(1, len(sizes) + 1), sizes), change=copied)
        growth = [(one["severity"], one["evidence"]) for one in found if one["id"] == "growth"]
        check(growth and "grew in steps, each by a quarter or more" in growth[0][1], f"{growth}")
        check_equal([one for one in growth if one[0] in ALARMING], [], f"{looks_of}: alarms")


def with_buffers(dump, found):
    """Puts the records into node, and makes the work buffers of JavaScript, of 8 MiB now."""
    in_module("/usr/bin/node", 2)(dump, found)
    work = [one["id"] for one in found[WORK]]
    for context in dump["contexts"]:
        if context["id"] in work:
            context["frame"]["function"] = "v8::internal::BackingStore::Allocate"
    mib = (1, 9, 3, 7, 8)
    for bytes_of, rows_of in zip(mib, [*(mark["contexts"] for mark in dump["marks"]),
                                       dump["contexts"]], strict=True):
        for row in (row for row in rows_of if row["id"] == work[0]):
            for figures in (row["self"], row["total"]) if "self" in row else (row,):
                figures.update(requested_bytes=bytes_of << 20, live_chunks=bytes_of << 6)


@test
def shape_garbage_beside_buffers():
    """Objects of JavaScript may be garbage, however many buffers there are now."""
    found, _ = looked(rows(EVEN[:5], (10, 20, 30, 40, 50)), change=with_buffers)
    growth = [one for one in found if one["id"] == "growth"]
    check(growth and names(growth[0], KEPT), f"growth: {[one['path'] for one in growth]}")
    check_equal([one["evidence"] for one in growth if one["severity"] in ALARMING], [], "alarms")
    check("objects of JavaScript" in growth[0]["evidence"], growth[0]["evidence"])


@test
def shape_growth_in_few_intervals():
    """Growth in each interval, but nearly all of it in two, is no alarm: a queue of few batches
    grows like that. A leak before a large rise is one."""
    for sizes, alarming in (((129, 258, 262, 391), False), ((10, 20, 30, 40, 900), True)):
        found, _ = looked(rows(range(1, len(sizes) + 1), sizes))
        growth = [one for one in found if one["id"] == "growth"]
        check(growth, f"{sizes}: no growth")
        check_equal(growth[0]["severity"] in ALARMING, alarming, f"{sizes}: {growth}")
        check(alarming or growth[0]["sure"].startswith("open: nearly all of the growth was in "),
              growth[0]["sure"])


@test
def shape_slots_that_a_program_without_other_work_fills():
    """Slots that are filled and replaced at random, while the program allocates nothing else, are
    no leak, although times are uneven. As many chunks that all stay are one."""
    live = (300, 555, 773, 955)
    for replaced, alarming in ((True, False), (False, True)):
        def change(dump, found, replaced=replaced):
            kept, work = found[KEPT][0]["id"], [one["id"] for one in found[WORK]]
            for number, rows_of in enumerate(looks_of(dump)):
                chunks = live[number] if replaced else 300 + 300 * number
                allocs = 364 * (number + 1) if replaced else chunks
                for row in (row for row in rows_of if row["id"] in (kept, *work)):
                    for figures in figures_of(row):
                        if row["id"] == kept:
                            figures.update(live_chunks=chunks, allocs=allocs,
                                           frees=allocs - chunks, requested_bytes=1651 * chunks)
                        else:
                            figures.update(live_chunks=0, allocs=number, frees=number,
                                           requested_bytes=0)
        found, _ = looked(rows((1.9, 3.0, 4.2, 4.9), (1, 2, 3, 4)), change=change)
        check_alarm(found, alarming, replaced)


@test
def shape_few_frames():
    """A path that keeps one to four buffers of two sizes, and replaces one or two between looks,
    does not leak. A path whose chunks all stay leaks, although it has as many."""
    for made, alarming in ((True, False), (False, True)):
        def change(dump, found, made=made):
            kept, chunks = found[KEPT][0]["id"], (1, 2, 2, 3, 3, 3, 4)
            for number, rows_of in enumerate(looks_of(dump)):
                row = next(one for one in rows_of if one["id"] == kept)
                for figures in figures_of(row):
                    live = chunks[number]
                    allocs = 10 + 2 * number if made else live
                    figures.update(live_chunks=live, allocs=allocs, frees=allocs - live,
                                   requested_bytes=(6 * live - (number in (2, 4))) << 20)
        found, _ = looked(rows(EVEN[:7], range(1, 8)), change=change)
        check_alarm(found, alarming, made)


def many_threads(dump, found):
    """Gives the dump 33 threads besides those that have exited, a GiB of free memory in mixed
    pages, and counts of remote frees: those of exited threads stand in two records of one pair."""
    dump.pop("pages", None)
    dump["threads"] = [{"tid": number, "name": f"worker-{number}" if number else "exited"}
                       for number in range(34)]
    dump["ledger"].update(mixed_reserved=dump["ledger"]["mixed_block_bytes"] + (1 << 30),
                          rss_bytes=2 << 30)
    frees = [(0, 7, 600000), (8, 9, 1000000), (0, 7, 600000)]
    dump["remote_frees"] = [dict(zip(("freed_by", "owner", "frees"), row)) for row in frees]
    for one in found[WORK]:
        row = next(context for context in dump["contexts"] if context["id"] == one["id"])
        row["threads"] = {"8": dict.fromkeys(row["self"], 0) | {"frees": 1000000}}


@test
def shape_threads_that_have_exited():
    """Threads that have exited are one entry of a dump: it is not counted as a thread, and has no
    number in the text."""
    told = {one["id"]: one["evidence"] for one in looked(SHAPES["leak"][1], change=many_threads)[0]}
    check(told["thread-memory"].startswith("33 threads have mixed pages"), told["thread-memory"])
    check(told["remote-frees"].endswith("most frees for another thread are by threads that have "
                                        "exited: 1200000 chunks in pages of thread 7 "
                                        "(worker-7)"), told["remote-frees"])


@test
def shape_records_that_come_and_go():
    """A number of records that varies by chance is no growth, even if it is larger each time; an
    even rise of as many records is growth."""
    for alarming, counts in ((False, (9000, 9002, 9035, 9040, 9060)),
                             (True, (9000, 9015, 9030, 9045, 9060))):
        found, _ = looked(rows(EVEN[:5], counts), change=come_and_go)
        check_alarm(found, alarming, counts)


def replace(dump, found):
    """Gives the kept records as many allocations in each interval; those that do not add a record
    replace one."""
    kept = found[KEPT][0]["id"]
    last = next(one for one in dump["contexts"] if one["id"] == kept)["self"]["live_chunks"]
    for number, rows in enumerate(looks_of(dump)):
        row = next(one for one in rows if one["id"] == kept)
        for figures in figures_of(row):
            figures["allocs"] = last * number // 2 + last // 100
            figures["frees"] = figures["allocs"] - figures["live_chunks"]


@test
def shape_slots_that_are_filled_at_random():
    """A table of which ever more slots are in use is no alarm, if chance makes it grow a little
    more in the last interval than in the one before; a leak beside a table that is full is one."""
    seconds = (1, 2, 6, 7, 11, 16, 21)
    for alarming, sizes in ((False, (1, 207, 312, 390, 442, 458, 492)),
                            (True, (1, 207, 237, 261, 291, 315, 345))):
        found, _ = looked(rows(seconds, sizes), change=replace)
        check_alarm(found, alarming, sizes)


def small_chunks_go(dump, found):
    """Makes the work free a chunk of one byte for each record that is kept."""
    kept, work = found[KEPT][0]["id"], found[WORK][0]["id"]
    last = next(one for one in dump["contexts"] if one["id"] == kept)["self"]["live_chunks"]
    for rows in looks_of(dump):
        live = {row["id"]: row.get("self", row)["live_chunks"] for row in rows}
        row = next(one for one in rows if one["id"] == work)
        for figures in figures_of(row):
            figures["live_chunks"] = figures["requested_bytes"] = last - live[kept] + 100
            figures["frees"] = figures["allocs"] - figures["live_chunks"]


@test
def shape_small_chunks_that_go_as_large_ones_come():
    """A program that frees a small chunk for each large one that it keeps grows."""
    found, _ = looked(SHAPES["leak"][1], change=small_chunks_go)
    growth = [one for one in found if one["id"] == "growth" and one["severity"] in ALARMING]
    check(growth and names(growth[0], KEPT),
          f"{[(one['id'], one['severity'], one['evidence']) for one in found]}")


def number_chunks(dump, found):
    """Sets the chunks of the kept record: 1000 at first, and one more at each rise of its bytes."""
    kept, chunks, before = found[KEPT][0]["id"], 1000, 0
    for rows in looks_of(dump):
        row = next(one for one in rows if one["id"] == kept)
        for figures in figures_of(row):
            chunks += figures["requested_bytes"] > before > 0
            before = figures["requested_bytes"]
            figures["live_chunks"], figures["allocs"], figures["frees"] = chunks, chunks + 50, 50


@test
def shape_arena():
    """An arena, which takes one ever larger chunk when it is full, grows. A pool that takes chunks
    of one size at equal times may have a bound: it is no alarm."""
    arena = (8, 8, 12, 12, 12, 18, 18, 18, 18, 27, 27, 27, 27, 27, 27)
    for length in (15, 10):  # at the end of the shorter one, the arena has just grown
        found = looked(array(range(1, length + 1), arena[:length]), change=number_chunks)[0]
        growth = [one for one in found if one["id"] == "growth"]
        check(growth and names(growth[0], KEPT), f"{length}: {growth}")
        if length == 15:
            evidence = growth[0]["evidence"]
            check("grew in steps, each by a quarter or more" in evidence and
                  "; it is an arena, " in evidence, evidence)
    pool = [1 + number // 3 for number in range(15)]
    growth = [one for one in looked(array(range(1, 16), pool), change=number_chunks)[0]
              if one["id"] == "growth"]
    check(not [one for one in growth if "grew in steps" in one["evidence"]], f"{growth}")


@test
def shape_words_for_doubtful_growth():
    """If growth slows down, or was seen in one interval only, the text does not say that it does
    not stop."""
    text = looked(SHAPES["keys"][1])[1]
    check("1. info: growth that slows down, " in text and
          ", which slows down (record_keep" in verdict(text), text)
    check(labelled(text, 1, "why").startswith("A cache that fills grows like this"), text)
    check("1. info: growth that may go on, " in looked(rows((1, 2), (10, 20)))[1], "one interval")


@test
def shape_cache_whose_entries_have_two_chunks():
    """A cache whose entries have two chunks of different paths is no alarm: the second path's
    allocations are not taken for a load."""
    growth = growth_in(looked(SHAPES["keys"][1], change=keep_work)[0])
    check(growth and not [one for one in growth if one[0] in ALARMING], f"growth: {growth}")


def beside_falling(shares, wrapped=False):
    """Returns a change that gives the work the site of the records, and at each look a share of the
    bytes that the records have in the end. `wrapped`: a wrapper of malloc is the site of both."""
    def change(dump, found):
        contexts = {one["id"]: one for one in dump["contexts"]}
        kept, work = contexts[found[KEPT][0]["id"]], contexts[found[WORK][0]["id"]]
        size, chunks = kept["self"]["requested_bytes"], kept["self"]["live_chunks"]
        site = kept["frame"]
        new = {}
        for one in (kept, work) if wrapped else ():
            new[one["id"]] = len(contexts) + 100 + len(new)
            dump["contexts"].append({**copy.deepcopy(one), "id": new[one["id"]],
                                     "parent": one["id"], "frame": {**site, "function": "xmalloc"}})
            one["self"] = dict.fromkeys(one["self"], 0)
        if not wrapped:
            work["frame"] = site
        for share, rows in zip(shares, looks_of(dump), strict=True):
            for row in rows if rows is not dump["contexts"] else ():
                row["id"] = new.get(row["id"], row["id"])
            row = next(one for one in rows if one["id"] == new.get(work["id"], work["id"]))
            for figures in figures_of(row):
                figures["requested_bytes"] = round(size * share)
                figures["live_chunks"] = round(chunks * share)
                figures["frees"] = figures["allocs"] - figures["live_chunks"]
    return change


@test
def shape_leak_beside_memory_that_was_freed():
    """A leak is an alarm also if other memory of its site was freed once. If paths of the site lose
    half as much in each interval, their entries are replaced, and the growth is no leak. Paths that
    only share a wrapper of malloc have different sites."""
    once, always = (0.6, 0, 0, 0, 0), (0.65, 0.53, 0.41, 0.29, 0.17)
    for shares, wrapped, alarming in ((once, False, True), (always, False, False),
                                      (always, True, True)):
        found, _ = looked(SHAPES["leak"][1], change=beside_falling(shares, wrapped))
        check_alarm(found, alarming, f"{shares}, {wrapped}")


@test
def shape_cache_that_is_filled_and_then_replaced():
    """A cache is filled during the first half of the looks, while a second path replaces entries.
    In the second half, the second path grows by what the first one loses, and the cache as a whole
    does not grow. A path that grows by twice as much leaks."""
    for alarming, filled in ((False, (0, 0.3, 0.6, 0.4, 0.2)), (True, (0, 0.3, 0.6, 0.5, 0.4))):
        found, _ = looked(SHAPES["leak"][1], change=beside_falling(filled))
        check_alarm(found, alarming, filled)


@test
def shape_leak_of_as_many_chunks_as_a_cache_replaces():
    """A request replaces an entry of a cache, from another line than the entry was made at, and
    leaks a small chunk. The leak is an alarm, although as many chunks were freed: the new entries
    replaced these."""
    def change(dump, found):
        kept, work = found[KEPT][0]["id"], found[WORK][0]
        dump["contexts"].append({**copy.deepcopy(work), "id": 1 << 19,
                                 "frame": {**work["frame"], **{key: hex(int(work["frame"][key],
                                                                            16) + 1)
                                                               for key in ("addr", "offset")}}})
        last = next(one for one in dump["contexts"] if one["id"] == kept)["self"]["live_chunks"]
        for rows in looks_of(dump):
            live = next(row.get("self", row)["live_chunks"] for row in rows if row["id"] == kept)
            if rows is not dump["contexts"]:
                rows.append({**next(row for row in rows if row["id"] == work["id"]), "id": 1 << 19})
            for row in (row for row in rows if row["id"] in (work["id"], 1 << 19)):
                for figures in figures_of(row):
                    figures["live_chunks"] = live if row["id"] == 1 << 19 else last - live + 100
                    figures["requested_bytes"] = 9000 * figures["live_chunks"]
                    figures["frees"] = figures["allocs"] - figures["live_chunks"]
    found, _ = looked(SHAPES["leak"][1], change=change)
    growth = [one for one in found if one["id"] == "growth" and one["severity"] in ALARMING]
    check_equal([names(one, KEPT) for one in growth], [True],
                f"{[(one['severity'], one['evidence'], one['path'][:2]) for one in found]}")


@test
def shape_leak_in_marks_that_are_short_of_room():
    """A leak is an alarm also if the marks left out the contexts of the load: their allocations
    count as load."""
    found, _ = looked(SHAPES["leak-while-the-load-falls"][1], change=leave_out_work)
    growth = growth_in(found)
    check(growth and growth[0][0] in ALARMING, f"no alarm: {growth}")


@test
def shape_uneven():
    """Uneven growth is told without a rate and without a time at which memory is used up."""
    sizes = [5 + number + (80 if number > 13 else 0) for number in range(20)]
    found, text = looked(rows([0.1 + number / 10 for number in range(20)], sizes))
    growth = [one for one in found if one["id"] == "growth"]
    check(growth and names(growth[0], KEPT), f"found: {found}")
    check(not growth[0]["growth"] and not growth[0]["out"],
          f"made up: {growth[0]['growth']} {growth[0]['out']}")
    check(not labelled(text, 1, "out") and labelled(text, 1, "since").startswith("at least 1.9 s"),
          text)
    check("growth of " in verdict(text) and " in 1.9 s (record_keep" in verdict(text), text)


@test
def shape_larger_chunks():
    """If bytes grow and the number of chunks hardly does, the finding says that the chunks are
    larger."""
    found, _ = looked([(second, size, 1000 + second, second)
                       for second, size in zip(EVEN, (10, 20, 30, 40, 50))])
    evidence = next(one["evidence"] for one in found if one["id"] == "growth")
    check("the number of chunks hardly grew, so the chunks are larger" in evidence, evidence)


@test
def shape_idle_at_first():
    """Growth that is too uneven for a rate, of a program that had nothing to do at first, is told
    since it began."""
    sizes = [5] * 8 + [5 + number + (80 if number > 8 else 0) for number in range(1, 13)]
    found, text = looked(rows([1 + number / 2 for number in range(20)], sizes))
    growth = [one for one in found if one["id"] == "growth"]
    check(growth and not growth[0]["growth"], f"a rate: {growth}")
    check_equal(labelled(text, 1, "since"), "6.0 s before the snapshot, or up to 0.5 s later",
                "since")
    check("growth of " in verdict(text) and " in 6.0 s (record_keep" in verdict(text), text)


def hold_much(dump, found):
    """Makes the records ten times as large."""
    kept = [one["id"] for one in found[KEPT]]
    for look in looks_of(dump):
        for row in look:
            if row["id"] in kept:
                for figures in figures_of(row):
                    figures["requested_bytes"] *= 10


ARRIVALS = {  # what doctor says of memory, and its size at looks one second apart
    "came between 6.0 s before the snapshot and 4.0 s before the snapshot":
        (0, 1, 30, 40, 40, 39, 40, 40),
    "came after 1.0 s before the snapshot": (0, 0, 0, 0, 0, 0, 0, 40),
    "held since before 7.0 s before the snapshot": (40, 41, 39, 40, 38, 40, 40, 40),
    "MiB more than at 7.0 s before the snapshot": (20, 20, 20, 30, 40, 39, 40, 40),
}


@test
def shape_of_the_largest_holder():
    """Doctor says when the memory came that the largest holder has."""
    for says, sizes in ARRIVALS.items():
        _, text = looked(rows(EVEN, sizes), change=hold_much)
        plain = " ".join(text.split())
        check(re.search(rf"who holds most .* \(record_keep[^;]*, ([0-9.]+ )?{says}( |$)", plain),
              f"{says}: {text}")


@test
def shape_rate_is_in_one_line():
    """A line does not end between the number of a rate and its unit."""
    for begun in range(1, 13):
        seconds = [begun * look for look in EVEN[:5]]
        _, text = looked(rows(seconds, (10, 20, 30, 40, 50)))
        check(re.search(r"\+[0-9.]+ [KM]iB/", text), text)
        check(not re.search(r"^ *[KM]iB/", text, re.M), text)
