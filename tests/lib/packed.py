# SPDX-License-Identifier: MIT
"""A second reader of packed snapshot files, written from tools/memctx/snapshot/snapshot_format.h
alone, and functions that make damaged files."""
import itertools
import struct
import subprocess

MAGIC = b"\x89memctx\n"
TOTALS = ["requested_bytes", "block_bytes", "reserved_bytes", "resident_bytes", "pinned_bytes",
          "sole_pinned_bytes",
          "live_chunks", "allocs", "frees", "requested_cum_bytes", "peak_requested_bytes", "pages"]
KINDS = ["unknown", "path", "named", "unknown"]
POLICIES = ["none", "aset", "mixed", "slab", "generation", "bump", "simple"]
PLACEMENTS = ["default", "apart", "shared", *POLICIES[3:]]
(TEXTS, PROCESS, FIGURES, MODULES, FUNCTIONS, FRAMES, CONTEXTS, THREADS, VIEWS, REMOTES, MARKS,
 ENTRIES, PAGES, SHARES,
 NOTES, TAILS, RESIZES) = range(1, 18)
WORD = (1 << 64) - 1


def zstd(data, *options):
    return subprocess.run(["zstd", "-q", "-c", *options], input=data, capture_output=True,
                          check=True, timeout=120).stdout


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at


def put_varint(value):
    out = bytearray()
    while value >= 128:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes(out) + bytes([value])


def wrap(value):
    """Reads the low 64 bits as a signed number."""
    value &= WORD
    return value - (1 << 64) if value >> 63 else value


def signed(code):
    return code // 2 if code % 2 == 0 else -(code + 1) // 2


def figure(code, expected):
    """Decodes a figure: None (not known), or a number that the file has as a difference from
    `expected`."""
    if code == 0:
        return None
    off = wrap(-(1 << 63) - expected)
    left_out = (off << 1 ^ off >> 63) & WORD
    return wrap(expected + signed(code - 1 if code <= left_out else code))


def body_of(data):
    assert data[:8] == MAGIC and data[8:12] == struct.pack("<I", 1), data[:12]
    return zstd(data[12:], "-d")


def file_of(body, *options):
    return MAGIC + struct.pack("<I", 1) + zstd(body, "--check", *options)


def blocks_of(body):
    """Parses a body: [[table, rows, {column: bytes}]], without the closing block of table 0."""
    blocks, at = [], 0
    while True:
        table, at = varint(body, at)
        length, at = varint(body, at)
        end = at + length
        rows, at = varint(body, at)
        count, at = varint(body, at)
        directory = []
        for _ in range(count):
            number, at = varint(body, at)
            size, at = varint(body, at)
            directory.append((number, size))
        columns = {}
        for number, size in directory:
            columns[number] = body[at:at + size]
            at += size
        assert at == end
        if table == 0:
            assert end == len(body)
            return blocks
        blocks.append([table, rows, columns])


def put_block(table, rows, columns):
    content = put_varint(rows) + put_varint(len(columns))
    content += b"".join(put_varint(number) + put_varint(len(data))
                        for number, data in columns.items())
    content += b"".join(columns.values())
    return put_varint(table) + put_varint(len(content)) + content


def body_from(blocks):
    return b"".join(put_block(*block) for block in blocks) + put_block(0, 0, {})


class Table:
    """The rows of one table, collected from all its blocks."""

    def __init__(self, blocks, table):
        self.blocks = [block for block in blocks if block[0] == table]
        self.rows = sum(block[1] for block in self.blocks)

    def numbers(self, column):
        for _, rows, columns in self.blocks:
            at = 0
            for _ in range(rows):
                value = 0
                if column in columns:
                    value, at = varint(columns[column], at)
                yield value

    def raw(self, column):
        return b"".join(columns.get(column, b"") for _, _, columns in self.blocks)

    def signed(self, column):
        return map(signed, self.numbers(column))

    def delta(self, column):
        return (value & WORD for value in itertools.accumulate(self.signed(column)))

    def figures(self, column, expected=itertools.repeat(0)):
        return [figure(code, about or 0)
                for code, about in zip(self.numbers(column), expected)]


def texts_of(blocks):
    table = Table(blocks, TEXTS)
    data, texts, at = table.raw(2), [None], 0
    for length in table.numbers(1):
        texts.append(data[at:at + length].decode("utf-8", "replace"))
        at += length
    return texts


def totals_of(table):
    figures = {}
    for number, name in enumerate(TOTALS):
        expected = {
            "block_bytes": "requested_bytes", "reserved_bytes": "block_bytes",
            "resident_bytes": "reserved_bytes",
            "allocs": "live_chunks", "requested_cum_bytes": "requested_bytes",
            "peak_requested_bytes": "requested_bytes"}.get(name)
        about = figures[expected] if expected else itertools.repeat(0)
        if name == "frees":
            about = [(allocs or 0) - (live or 0)
                     for allocs, live in zip(figures["allocs"], figures["live_chunks"])]
        figures[name] = table.figures(32 + number, about)
    return [dict(zip(TOTALS, row)) for row in zip(*figures.values())]


def functions_of(blocks, texts):
    lists = [None]
    table = Table(blocks, FUNCTIONS)
    for name, file, line, inlined in zip(*map(table.numbers, (1, 2, 3, 4))):
        entry = {"function": texts[name], "file": texts[file], "line": line if file else None}
        if inlined:
            lists[-1].append(entry)
        else:
            lists.append([entry])
    return lists


def frame_of(address, module, names):
    place = {"addr": hex(address), "module": module and module["path"],
             "offset": module and hex(address - int(module["bias"], 16) & WORD)}
    empty = {"function": None, "file": None, "line": None}
    frames = [{**place, **(name or empty), "inlined": []} for name in names or [None]]
    return {**frames[0], "inlined": frames[1:]}


def word(words, number):
    return words[number if number < len(words) else 0]


def contexts_of(blocks, texts, modules):
    lists = functions_of(blocks, texts)
    table = Table(blocks, FRAMES)
    frames = [None, *(frame_of(address, modules[module - 1] if module else None, lists[names])
                      for address, module, names in zip(table.delta(1), table.numbers(2),
                                                        table.numbers(3)))]
    table = Table(blocks, CONTEXTS)
    occupancy = list(zip(*(table.numbers(16 + number) for number in range(7))))
    contexts, numbers, before = [], [], -1
    rows = zip(table.signed(1), *map(table.numbers, range(2, 11)), totals_of(table), occupancy)
    for step, up, kind, policy, placement, flags, frame, label, why, loop, own, bins in rows:
        before += 1 + step
        context = {"id": before, "parent": contexts[-up]["id"] if up else None, "kind": KINDS[kind],
                   "policy": word(POLICIES, policy), "self": own, "occupancy": list(bins)}
        context["frame"] = frames[frame] if kind == 1 else None if kind == 0 else {
            "addr": None, "module": None, "offset": None, "function": texts[label], "file": None,
            "line": None,
            "inlined": []}
        context |= {"placement": word(PLACEMENTS, placement)} if placement else {}
        context |= {"why": texts[why]} if why else {}
        context |= {"exact_address": True} if flags & 1 else {}
        context |= {"recursive": []} if flags & 8 else {}
        # a row number plus 1; name_loops makes it an id
        context |= {"recursive_from": loop} if loop else {}
        context |= {"partial": True} if flags & 2 else {}
        context |= {"late": True} if flags & 4 else {}
        contexts.append(context)
        numbers.append(frame)
    add_tails(blocks, contexts, frames, numbers)
    return contexts


def add_tails(blocks, contexts, frames, numbers):
    """Adds to each frame the functions that tail-called on the way from its caller (tail_calls) and
    on the way to malloc (tail_calls_to_malloc)."""
    table, tails = Table(blocks, TAILS), {}
    for outer, inner, function in zip(*map(table.numbers, (1, 2, 3))):
        tails.setdefault((outer + 1, inner), []).append(frames[function + 1])
    calls = {context["id"]: number for context, number in zip(contexts, numbers)
             if context["kind"] == "path" and not {"recursive", "exact_address"} & set(context)}
    for context, number in zip(contexts, numbers):
        if context["kind"] != "path" or not context["frame"]:
            continue
        before = tails.get((calls.get(context["parent"]), number))
        behind = tails.get((calls.get(context["id"]), 0)) if (context["self"]["allocs"] or
                                                              0) > 0 else None
        context["frame"] = {**context["frame"], **({"tail_calls": before} if before else {}),
                            **({"tail_calls_to_malloc": behind} if behind else {})}


def name_loops(contexts):
    by_id = {context["id"]: context for context in contexts}
    for context in contexts:
        if "recursive_from" in context:
            context["recursive_from"] = contexts[context["recursive_from"] - 1]["id"]
    for context in contexts:
        names, at = [], by_id.get(context.get("recursive_from")) if "recursive" in context else None
        while at and context["parent"] is not None:
            names.insert(0, at["frame"] and (at["frame"]["function"] or at["frame"]["addr"]))
            if at["parent"] == context["parent"]:
                context["recursive"] = names
                break
            at = by_id.get(at["parent"])


def full_paths_of(contexts):
    """Sums over the contexts whose path has no label. None: a part is unknown or the sum needs 64
    bits."""
    labelled, sums = {}, {"requested_bytes": 0, "allocs": 0}
    for context in contexts:
        labelled[context["id"]] = (labelled.get(context["parent"], False)
                                   or (context["kind"] == "unknown" and
                                       context["parent"] is not None))
        for key, value in sums.items():
            if not labelled[context["id"]]:
                own = context["self"][key]
                known = value is not None and own is not None and abs(value + own) < 1 << 63
                sums[key] = value + own if known else None
    return sums


def add_views(blocks, contexts, threads):
    table = Table(blocks, VIEWS)
    codes = [list(table.numbers(32 + number)) for number in range(len(TOTALS))]
    at = 0
    for context in contexts:
        context["threads"] = {}
    for row, (step, thread) in enumerate(zip(table.numbers(1), table.numbers(2))):
        at += step
        rest = contexts[at].setdefault("rest", {name: value or 0
                                                for name, value in contexts[at]["self"].items()})
        view = {}
        for number, name in enumerate(TOTALS):
            code = codes[number][row]
            view[name] = figure(code, rest[name])
            rest[name] -= view[name] or 0
        contexts[at]["threads"][str(threads[thread]["tid"] or "exited")] = view
    for context in contexts:
        context.pop("rest", None)


def modules_of(blocks, texts):
    table = Table(blocks, MODULES)
    ids, at, modules = table.raw(6), 0, []
    for path, start, end, bias, length, closed, symbols in zip(*map(table.numbers,
                                                                    (1, 2, 3, 4, 5, 7, 8))):
        modules.append({"path": texts[path], "start": hex(start), "end": hex(end),
                        "bias": hex(bias),
                        "build_id": ids[at:at + length].hex() or None, "closed": closed != 0,
                        "symbols": texts[symbols]})
        at += length
    return modules


def marks_of(blocks, texts, contexts):
    entries, marks = Table(blocks, ENTRIES), []
    names = ["requested_bytes", "live_chunks", "allocs", "frees", "requested_cum_bytes"]
    own = list(entries.delta(1))
    rows = zip(own, *(entries.figures(2 + number, [contexts[at]["self"][name] for at in own])
                      for number, name in enumerate(names)))
    table = Table(blocks, MARKS)
    left_out = zip(*map(table.numbers, (5, 6)), *(table.figures(7 + number) for number in range(6)))
    numbers = zip(*map(table.numbers, (1, 2, 3, 4, 13, 15)))
    kinds = ["private_bytes", "shared_bytes", "file_bytes", "data_bytes", "swap_bytes"]
    elsewhere = zip(*(table.figures(16 + number) for number in range(5)))
    for (name, bits, has, count, slept, known), resident, left, figures in zip(
            numbers, table.figures(14), left_out, elsewhere):
        mark = {"name": texts[name],
                "uptime_s": round(struct.unpack("<d", struct.pack("<Q", bits))[0], 6)}
        if slept:
            mark["slept_s"] = round(struct.unpack("<d", struct.pack("<Q", slept))[0], 6)
        if resident:
            mark["rss_bytes"] = resident
        if known:
            mark["elsewhere"] = dict(zip(kinds, figures))
        if left[0]:
            mark["left_out"] = dict(zip(["contexts", "ids_below", "most_bytes", *names], left))
        listed = [{"id": contexts[at]["id"], **dict(zip(names, row))}
                  for at, *row in itertools.islice(rows, count)]
        marks.append({**mark, "contexts": listed} if has else mark)
    return marks


def pages_of(blocks, contexts):
    table, shares = Table(blocks, PAGES), Table(blocks, SHARES)
    shared = zip(shares.numbers(1), shares.numbers(2))
    touched = list(table.numbers(3))
    starts, pages = 0, []
    rows = zip(table.signed(1), table.numbers(2), touched, table.numbers(4),
               table.figures(5, touched),
               *map(table.numbers, [*range(6, 17), *range(24, 31), 17, 18]))
    for step, size, *rest, count in rows:
        start = wrap(starts + step)
        starts = start + size
        rest[3] = contexts[rest[3] - 1]["id"] if rest[3] else None
        page = [start, size, *rest]
        for context, live in itertools.islice(shared, count):
            page += [contexts[context]["id"], live]
        pages.append(page)
    return pages


def read(data):
    """Returns the file's content in the form of `memctx dump --json --threads`, without
    subtotals."""
    blocks = blocks_of(body_of(data))
    texts = texts_of(blocks)
    table = Table(blocks, PROCESS)
    (pid,), (depth,), (build,) = table.figures(1), table.figures(4), table.figures(8)
    (exe,), (bits,), (exact,), (ticks,), (version,) = map(table.numbers, (2, 3, 5, 6, 7))
    (names,), (has_threads,), (has_pages,) = map(table.numbers, (9, 10, 11))
    (has_mappings,), (program,), (lost,) = map(table.numbers, (12, 13, 14))
    (slept,), (resets,) = map(table.numbers, (15, 17))
    dump = {"schema": "memctx/1", "pid": pid, "exe": texts[exe],
            "program": texts[program] or texts[exe].rsplit("/", 1)[-1],
            "depth": depth, "exact": exact != 0,
            "uptime_s": round(struct.unpack("<d", struct.pack("<Q", bits))[0], 6),
            "start_ticks": ticks,
            "library_version": texts[version], "build_ns": build, "has_names": names != 0,
            "filtered": False}
    if slept:
        dump["slept_s"] = round(struct.unpack("<d", struct.pack("<Q", slept))[0], 6)
    if resets:
        dump["counter_resets"] = resets
    table = Table(blocks, FIGURES)
    for group, key in ((1, "ledger"), (2, "mappings")):
        if key == "ledger" or has_mappings:
            dump[key] = {texts[name]: value for kind, name, value
                         in zip(table.numbers(1), table.numbers(2), table.figures(3))
                         if kind == group}
    dump["rss_bytes"] = dump["ledger"]["rss_bytes"]
    dump["modules"] = modules_of(blocks, texts)
    dump["contexts"] = contexts_of(blocks, texts, dump["modules"])
    name_loops(dump["contexts"])
    dump["full_paths"] = full_paths_of(dump["contexts"])
    dump["marks"] = marks_of(blocks, texts, dump["contexts"])
    dump["notes"] = [texts[number] for number in Table(blocks, NOTES).numbers(1)]
    table, counts = Table(blocks, RESIZES), ("reallocs", "copies", "copied_bytes", "grows",
                                             "grown_bytes", "grown_from_bytes")
    dump["lost_reallocs"] = lost
    dump["reallocs"] = [dict(zip(("context", *counts), (dump["contexts"][at]["id"], *row)))
                        for at, *row
                        in zip(table.delta(1), *(table.figures(2 + number) for number in range(6)))]
    if has_threads:
        table = Table(blocks, THREADS)
        dump["threads"] = [{"tid": tid, "name": texts[name]}
                           for tid, name in zip(table.numbers(1), table.numbers(2))]
        add_views(blocks, dump["contexts"], dump["threads"])
        table, tids = Table(blocks, REMOTES), [thread["tid"] for thread in dump["threads"]]
        dump["remote_frees"] = [{"freed_by": tids[by], "owner": tids[owner], "frees": frees}
                                for by, owner, frees
                                in zip(table.numbers(1), table.numbers(2), table.figures(3))]
    if has_pages:
        dump["page_numbers"] = 24
        dump["pages"] = pages_of(blocks, dump["contexts"])
    return dump
