/* SPDX-License-Identifier: MIT */
/*
 * marks.c - marks: the figures of every context at one moment.
 *
 * Each mark has a bound, and all marks together with the memory of resets have another bound. When
 * a bound does not suffice, the mark leaves out the contexts that hold least (mark_entries.h).
 *
 * The marks of MEMCTX_MARKS (options.marks) have slots of their own. Together they may use half of
 * the bytes that marks may use, and each of them an equal part of that half. If a part would be
 * smaller than MARK_CHUNK_BYTES, fewer marks are kept. If a mark has no room, the oldest of
 * these marks are dropped.
 */
#include "control/marks.h"
#include "base/options.h"
#include "context/evict.h"
#include "context/tree.h"
#include "control/control.h"
#include "control/mark_entries.h"
#include "control/record.h"
#include "figures/buffers.h"
#include "figures/pages.h"
#include "figures/sums.h"
#include "os/meta.h"
#include "region/heap.h"

/* Bytes of a mark, at most: no request may make the process grow by more than 1 MiB. */
#define MARK_MOST (896UL << 10)
#define ASKED_PART 8 /* marks may use an eighth of the tables' limit */
#define KEPT_PART 2  /* the marks of MEMCTX_MARKS may use half of that eighth */
/* Bytes of a mark of MEMCTX_MARKS, at most: marks_pin reads all marks without a pause. */
#define KEPT_MOST (128L << 10)
#define WAIT_DUMP_MS 50 /* pause before a mark that waits for the end of a dump is tried again */
#define KEPT_SHARE 50U  /* marks of MEMCTX_MARKS take at most 1/KEPT_SHARE of the time */

/* The slots of all marks. The tables are made when the first mark needs them, and are never freed.
 * Control thread only. */
static struct mark *user_marks; /* WIRE_MARKS_MAX slots */
static struct kept_marks *kept_marks;
struct mark *const *const marks_shown = &user_marks;
struct kept_marks *const *const marks_kept_shown = &kept_marks;
_Static_assert(MARKS_KEPT_MAX == MEMCTX_MARKS_COUNT_MAX, "a slot for each mark of MEMCTX_MARKS");
/* In a forked child: contexts may still have the flag TREE_MARKED from the parent's marks. */
static bool pins_are_stale;

int64_t asked_bytes;

/* Returns slot `i` of WIRE_MARKS_ALL slots; NULL: its table was not made yet. */
static struct mark *mark_at(unsigned i) {
    if (i < WIRE_MARKS_MAX)
        return user_marks ? &user_marks[i] : NULL;
    return kept_marks ? &kept_marks->slots[i - WIRE_MARKS_MAX] : NULL;
}

/* Returns the limit of the tables, without the part that heaps have in any case. */
static int64_t limit_bytes(void) {
    tables_limit_bytes(); /* called because it sets tables_limit_known */
    return load_relaxed(&tables_limit_known);
}

/* Resets and marks together may use twice as much as marks alone. A reset may also use the part of
 * the tables that is kept for sites (TABLES_SITE): users reset seldom, and nothing else can replace
 * a reset. */
bool asked_fits(int64_t bytes) {
    int64_t limit = limit_bytes();
    if (tables_are_crowded(bytes))
        evict_caches();
    return asked_bytes + bytes <= limit / ASKED_PART * 2 &&
           (load_relaxed(&tables_used_bytes) + bytes) * TABLES_PARTS <= limit * TABLES_SITE;
}

/* --- marks ------------------------------------------------------------------------------------ */

void text_add_kib(struct text *text, uint64_t bytes) {
    text_add_number(text, (int64_t)((bytes + 1023) >> 10));
    text_add(text, " KiB");
}

static uint32_t refuse(struct text *text, const struct mark_writer *writer) {
    text_add(text, writer->failed ? "no memory for the mark; " : "no room for the mark; ");
    text_add(text, "earlier marks and resets take ");
    text_add_kib(text, (uint64_t)asked_bytes);
    text_add(text,
             " of the tables (MEMCTX_TABLES); use the name of an existing mark to replace it, or "
             "keep all figures outside the process with memctx dump TARGET -o FILE");
    return writer->failed ? WIRE_NO_MEMORY : WIRE_REFUSED;
}

static void tell_left_out(struct text *text, const struct mark_writer *writer, uint64_t bytes) {
    const struct wire_left_out *out = &writer->left_out;
    text_add(text, "; it takes ");
    text_add_kib(text, bytes);
    text_add(text, " and leaves out ");
    text_add_number(text, (int64_t)out->contexts);
    if (out->most_bytes <= 0) {
        text_add(text, " contexts that hold nothing; for each of these contexts, memctx diff shows "
                       "only growth of its bytes and not of its counters; memctx dump TARGET -o "
                       "FILE keeps all");
        return;
    }
    text_add(text, " contexts that hold at most ");
    text_add_number(text, out->most_bytes);
    text_add(text, " bytes each, ");
    text_add_number(text, out->requested_bytes);
    text_add(text, " bytes in all; for each of these contexts, memctx diff shows only growth above "
                   "the first figure; memctx dump TARGET -o FILE keeps all");
}

/* Returns how many bytes a new mark may take when `gone` bytes of older marks are gone. */
static uint64_t find_limit(uint64_t gone) {
    int64_t limit = limit_bytes(), room = limit / ASKED_PART - asked_bytes;
    int64_t free = limit / TABLES_PARTS * TABLES_ASKED - load_relaxed(&tables_used_bytes);
    room = (free < room ? free : room) + (int64_t)gone;
    return room <= 0 ? 0 : room > (int64_t)MARK_MOST ? MARK_MOST : (uint64_t)room;
}

/* sums_begin takes heap_global.lock: meanwhile no thread evicts a context. */
void marks_pin(void) {
    sums_begin();
    for (uint32_t id = 0; id < tree_count(); id++)
        if (!tree_is_gone(id)) /* the memory of removed nodes may have gone to the kernel */
            tree_unflag(id, TREE_MARKED);
    for (unsigned i = 0; i < WIRE_MARKS_ALL; i++) {
        const struct mark *mark = mark_at(i);
        if (mark)
            mark_entries_pin(mark->first);
    }
    record_pin();
    sums_end();
}

static struct mark *find_mark(const char *name) {
    for (unsigned i = 0; i < WIRE_MARKS_ALL; i++) {
        struct mark *mark = mark_at(i);
        if (mark && mark->uptime_ns && text_equal(mark->name, name))
            return mark;
    }
    return NULL;
}

/* Returns the oldest mark of MEMCTX_MARKS; *count: number of these marks. NULL: there is none. */
static struct mark *oldest_kept(unsigned *count) {
    struct mark *oldest = NULL;
    *count = 0;
    for (unsigned i = 0; i < MARKS_KEPT_MAX; i++) {
        struct mark *mark = &kept_marks->slots[i];
        if (!mark->uptime_ns)
            continue;
        ++*count;
        if (!oldest || mark->uptime_ns < oldest->uptime_ns)
            oldest = mark;
    }
    return oldest;
}

/* Drops the oldest marks of MEMCTX_MARKS until at most `most` of them are left. */
static void drop_oldest(unsigned most) {
    unsigned count, dropped = 0;
    for (struct mark *oldest = oldest_kept(&count); count > most; oldest = oldest_kept(&count)) {
        mark_entries_free(oldest->first);
        *oldest = (struct mark){.uptime_ns = 0};
        dropped++;
    }
    if (dropped)
        marks_pin();
}

/* Returns the bytes of the marks that make_room may drop. */
static uint64_t droppable_bytes(void) {
    uint64_t bytes = 0, newest_ns = 0, newest_bytes = 0;
    for (unsigned i = 0; kept_marks && i < MARKS_KEPT_MAX; i++) {
        const struct mark *mark = &kept_marks->slots[i];
        if (!mark->uptime_ns)
            continue;
        bytes += mark->bytes;
        if (mark->uptime_ns > newest_ns) {
            newest_ns = mark->uptime_ns;
            newest_bytes = mark->bytes;
        }
    }
    return bytes - newest_bytes;
}

/* Drops the oldest marks of MEMCTX_MARKS, but not the newest one, until a mark has room in the slot
 * `mark`. Returns how many bytes that mark may take. */
static uint64_t make_room(const struct mark *mark) {
    uint64_t limit;
    unsigned count;
    while ((limit = find_limit(mark->bytes)) < MARK_CHUNK_BYTES && kept_marks &&
           oldest_kept(&count) && count > 1)
        drop_oldest(count - 1);
    return limit;
}

/* Makes a table of slots. NULL: no memory. */
static void *make_slots(size_t bytes) {
    void *slots = meta_alloc(bytes);
    tables_add(slots ? (int64_t)meta_block_bytes(bytes) : 0);
    return slots;
}

/* Returns the memory that did not come from malloc. The kernel's counters and the pages that it
 * shows are from moments that are a few milliseconds apart. */
static struct wire_elsewhere look_elsewhere(void) {
    int64_t segments_bytes = pages_resident_bytes();
    struct os_kinds kinds = os_kinds();
    struct meta_usage meta = meta_usage(true);
    int64_t ours = segments_bytes + meta.resident_bytes + buffers_bytes(true);
    int64_t mapped = segment_usage().mapped_bytes + meta.mapped_bytes;
    if (segments_bytes < 0 || kinds.anonymous_bytes < 0)
        return (struct wire_elsewhere){.private_bytes = WIRE_UNKNOWN};
    return (struct wire_elsewhere){
        .private_bytes = kinds.anonymous_bytes > ours ? kinds.anonymous_bytes - ours : 0,
        .shared_bytes = kinds.shared_bytes > 0 ? kinds.shared_bytes : 0,
        .file_bytes = kinds.file_bytes > 0 ? kinds.file_bytes : 0,
        .data_bytes = kinds.data_bytes > mapped ? kinds.data_bytes - mapped : 0,
        .swap_bytes = kinds.swap_bytes};
}

/* Makes a mark of at most `limit` bytes in a slot, and replaces the mark that the slot holds.
 * Returns enum wire_status. */
static uint32_t make_mark(struct mark *mark, const char name[WIRE_MARK_NAME_MAX], uint64_t limit,
                          struct text *text) {
    struct mark_writer writer = {.limit = limit};
    if (writer.limit < MARK_CHUNK_BYTES)
        return refuse(text, &writer);
    /* While tree_read_until_ns is set, no context is evicted into [other callers]. Otherwise the
     * mark could count a chunk twice, or not at all. */
    uint64_t read_until_ns = load_relaxed(&tree_read_until_ns);
    store_release(&tree_read_until_ns, UINT64_MAX);
    mark_entries_measure(&writer);
    /* The old mark goes first: there may be no room for both. */
    bool replaced = mark->first;
    mark_entries_free(mark->first);
    *mark = (struct mark){.uptime_ns = 0};
    if (replaced)
        marks_pin();
    uint64_t uptime_ns = control_uptime_ns();
    writer.left_out.ids_below = tree_count();
    mark_entries_write(&writer);
    store_release(&tree_read_until_ns, read_until_ns);
    if (writer.failed || (!writer.first && writer.left_out.contexts)) {
        mark_entries_free(writer.first);
        marks_pin();
        if (replaced)
            text_add(text, "the earlier mark of this name is gone; ");
        return refuse(text, &writer);
    }
    __builtin_memcpy(mark->name, name, sizeof mark->name);
    mark->first = writer.first;
    mark->bytes = writer.bytes;
    mark->left_out = writer.left_out;
    mark->uptime_ns = uptime_ns ? uptime_ns : 1;
    mark->slept_ns = os_slept_ns();
    int64_t rss_bytes = os_rss_bytes();
    mark->rss_bytes = rss_bytes > 0 ? rss_bytes : WIRE_UNKNOWN;
    mark->elsewhere = look_elsewhere();
    text_add(text, "mark \"");
    text_add(text, name);
    text_add(text, "\" set");
    if (writer.left_out.contexts)
        tell_left_out(text, &writer, writer.bytes);
    return WIRE_OK;
}

uint32_t mark_set(const struct wire_mark_request *request, struct text *text) {
    char name[WIRE_MARK_NAME_MAX] = "default";
    if (request->name[0]) {
        __builtin_memcpy(name, request->name, sizeof name);
        name[sizeof name - 1] = 0;
    }
    if (!user_marks)
        user_marks = make_slots(WIRE_MARKS_MAX * sizeof *user_marks);
    if (!user_marks)
        return refuse(text, &(struct mark_writer){.failed = true});
    struct mark *mark = find_mark(name);
    for (unsigned i = 0; i < WIRE_MARKS_MAX && !mark; i++)
        if (!user_marks[i].uptime_ns)
            mark = &user_marks[i];
    if (!mark || mark < user_marks || mark >= user_marks + WIRE_MARKS_MAX) {
        text_add(text,
                 mark ? "MEMCTX_MARKS has made the mark of this name; use another name"
                      : "all marks are in use; use the name of an existing mark to replace it");
        return WIRE_REFUSED;
    }
    /* If there is no room even without the marks that make_room may drop, none is dropped. */
    bool fits = find_limit(mark->bytes + droppable_bytes()) >= MARK_CHUNK_BYTES;
    return make_mark(mark, name, fits ? make_room(mark) : 0, text);
}

void marks_forget(void) {
    if (!marks_bytes && !kept_marks) /* a needless write copies the OS page in the child */
        return;
    for (unsigned i = 0; i < WIRE_MARKS_ALL; i++) {
        struct mark *mark = mark_at(i);
        if (mark && mark->uptime_ns)
            *mark = (struct mark){.uptime_ns = 0};
    }
    /* The chunks stay mapped: the parent may have been changing their list at the fork, so the
     * child cannot follow the list. The child never writes to the chunks, so it shares their OS
     * pages with the parent, and they do not count in its tables. */
    tables_add(-marks_bytes);
    asked_bytes -= marks_bytes;
    marks_bytes = 0;
    /* Clearing the flags takes many writes, so the fork handler leaves that to the child's control
     * thread (marks_look). */
    pins_are_stale = true;
    if (kept_marks)
        kept_marks->setting = kept_marks->made = 0;
}

void marks_forget_counters(void) {
    for (unsigned i = 0; i < WIRE_MARKS_ALL; i++) {
        struct mark *mark = mark_at(i);
        if (mark && mark->left_out.contexts) {
            struct wire_left_out *out = &mark->left_out;
            out->allocs = out->frees = out->requested_cum_bytes = WIRE_UNKNOWN;
        }
    }
}

/* --- the marks of MEMCTX_MARKS ---------------------------------------------------------------- */

/* Makes the next mark of MEMCTX_MARKS and keeps the newest `wanted` of these marks. If the mark has
 * no room, older marks of MEMCTX_MARKS are dropped. */
static void keep_mark(unsigned wanted) {
    char name[WIRE_MARK_NAME_MAX] = {0};
    struct text text = {.bytes = name, .capacity = sizeof name - 1}, none = {.capacity = 0};
    int64_t pool = limit_bytes() / ASKED_PART / KEPT_PART, fit = pool / MARK_CHUNK_BYTES;
    wanted = fit < wanted ? (unsigned)(fit > 0 ? fit : 0) : wanted;
    if (!wanted)
        return;
    int64_t most = pool / wanted / MARK_CHUNK_BYTES * MARK_CHUNK_BYTES;
    most = most < KEPT_MOST ? most : KEPT_MOST;
    struct mark *mark = NULL;
    for (unsigned i = 0; i < MARKS_KEPT_MAX && !mark; i++)
        if (!kept_marks->slots[i].uptime_ns)
            mark = &kept_marks->slots[i];
    unsigned count;
    oldest_kept(&count);
    if (count >= wanted) {
        drop_oldest(wanted);
        mark = oldest_kept(&count);
    }
    int64_t limit = (int64_t)make_room(mark);
    do {
        text.length = 0;
        text_add(&text, "auto-");
        text_add_number(&text, ++kept_marks->made);
        name[text.length] = 0;
    } while (find_mark(name)); /* the user's marks may have such names, too */
    make_mark(mark, name, (uint64_t)(limit < most ? limit : most), &none);
}

void marks_look(void) {
    if (pins_are_stale) {
        pins_are_stale = false;
        marks_pin();
    }
    int64_t setting = load_relaxed(&options.marks);
    if (!setting && (!kept_marks || !kept_marks->setting))
        return;
    if (!kept_marks)
        kept_marks = make_slots(sizeof *kept_marks);
    if (!kept_marks)
        return;
    uint64_t now = control_uptime_ns();
    uint64_t every = (uint64_t)(setting / MEMCTX_MARKS_PACK) * 1000000;
    if (setting != kept_marks->setting) {
        kept_marks->setting = setting;
        kept_marks->next_ns = now + every;
        drop_oldest((unsigned)(setting % MEMCTX_MARKS_PACK));
    }
    /* While a client reads a dump, no mark that the dump lists may be dropped. */
    if (!setting || now < kept_marks->next_ns ||
        os_now_exact_ns() < load_relaxed(&tree_read_until_ns))
        return;
    keep_mark((unsigned)(setting % MEMCTX_MARKS_PACK));
    uint64_t after = control_uptime_ns(), pause = (after - now) * KEPT_SHARE;
    kept_marks->next_ns += every;
    if (kept_marks->next_ns < after + pause) /* the process slept, or the mark took long */
        kept_marks->next_ns = after + (every > pause ? every : pause);
}

int marks_wait_ms(int wait) {
    if (!kept_marks || !kept_marks->setting)
        return wait;
    uint64_t now = control_uptime_ns();
    uint64_t left = kept_marks->next_ns > now ? kept_marks->next_ns - now : 0;
    uint64_t left_ms = left / 1000000 + (left ? 1 : WAIT_DUMP_MS);
    return left_ms < (uint64_t)wait ? (int)left_ms : wait;
}

/* --- answers ---------------------------------------------------------------------------------- */

uint32_t marks_piece(struct piece *piece) {
    for (uint64_t i = piece->request->from; i < WIRE_MARKS_ALL; i++) {
        const struct mark *mark = mark_at((unsigned)i);
        if (!mark || !mark->uptime_ns)
            continue;
        struct wire_mark *out = piece_record(piece, sizeof *out);
        if (!out) {
            piece->next = i;
            break;
        }
        __builtin_memcpy(out->name, mark->name, sizeof out->name);
        out->uptime_ns = mark->uptime_ns;
        out->slept_ns = mark->slept_ns;
        out->rss_bytes = mark->rss_bytes;
        out->elsewhere = mark->elsewhere;
        out->left_out = mark->left_out;
    }
    return WIRE_OK;
}

uint32_t marks_entries_piece(struct piece *piece) {
    const struct wire_piece_request *request = piece->request;
    const struct mark *mark = find_mark(request->mark);
    if (!mark || (request->mark_uptime_ns && mark->uptime_ns != request->mark_uptime_ns))
        return piece_refuse(piece, mark ? "the mark was replaced meanwhile; ask again"
                                        : "no mark has this name");
    mark_entries_tell(piece, mark->first);
    return WIRE_OK;
}
