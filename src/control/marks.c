/* SPDX-License-Identifier: MIT */
/*
 * Marks: how every context stood at a moment. A mark has the contexts only in which something was ever allocated, each as
 * a few numbers of as many bytes as they need (4 to 10 a context), and all marks together have a bound.
 */
#include "context/tree.h"
#include "control/control.h"
#include "os/meta.h"
#include "region/heap.h"

#define CHUNK_BYTES 4096U
#define NUMBERS 5U                /* of an entry */
#define ENTRY_MAX (NUMBERS * 10U) /* bytes */
#define LIMIT_LEAST (4ULL << 20)  /* of the most of which marks may have an eighth: this, ... */
#define LIMIT_SHARE 20U
#define LIMIT_PART 8U

/* Entries in the order of their ids, none of which goes on in the next one. */
struct mark_chunk {
    struct mark_chunk *next;
    uint32_t used;
    uint8_t bytes[CHUNK_BYTES - sizeof(void *) - sizeof(uint32_t)];
};
_Static_assert(sizeof(struct mark_chunk) == CHUNK_BYTES, "one block");

static struct mark {
    char name[WIRE_MARK_NAME_MAX];
    uint64_t uptime_ns; /* 0: a free slot */
    struct mark_chunk *first;
    uint64_t bytes;                 /* of its chunks */
} marks[WIRE_MARKS_MAX] START_PAGE; /* control thread only */

/* --- entries ------------------------------------------------------------------------------------- */

static uint64_t folded(int64_t value) { /* small negative numbers become small ones, too */
    return (uint64_t)value << 1 ^ (uint64_t)(value >> 63);
}

static int64_t unfolded(uint64_t value) {
    return (int64_t)(value >> 1 ^ -(value & 1));
}

/* Seven bits a byte, the lowest first; the highest bit says that there are more. */
static uint32_t put_number(uint8_t *to, uint64_t value) {
    uint32_t length = 0;
    for (; value >= 0x80; value >>= 7)
        to[length++] = (uint8_t)(value | 0x80);
    to[length++] = (uint8_t)value;
    return length;
}

static uint64_t get_number(const uint8_t **at) {
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        uint8_t byte = *(*at)++;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80))
            break;
    }
    return value;
}

struct writer {
    struct mark_chunk *first, *last;
    uint32_t previous;     /* id, in this chunk */
    uint64_t bytes, limit; /* of chunks */
    uint64_t needed;       /* by all entries, whether there is room or not */
    uint32_t contexts;
    bool failed;
};

static bool next_chunk(struct writer *writer) {
    struct mark_chunk *chunk =
        writer->bytes + CHUNK_BYTES <= writer->limit ? meta_alloc(CHUNK_BYTES) : NULL;
    if (!chunk)
        return false;
    if (writer->last)
        writer->last->next = chunk;
    else
        writer->first = chunk;
    writer->last = chunk;
    writer->bytes += CHUNK_BYTES;
    writer->previous = 0;
    return true;
}

static void write_entry(struct writer *writer, uint32_t context, const struct sum *sum) {
    uint8_t entry[ENTRY_MAX];
    bool full = !writer->last || writer->last->used + ENTRY_MAX > sizeof writer->last->bytes;
    writer->failed |= full && !writer->failed && !next_chunk(writer);
    /* Where nothing was freed, all that was ever allocated is what is alive. */
    bool freed = sum->frees || sum->requested_cum_bytes != sum->live_bytes;
    uint32_t length = put_number(entry, (uint64_t)(context - writer->previous) << 1 | freed);
    length += put_number(entry + length, folded(sum->live_bytes));
    length += put_number(entry + length, folded(sum->allocs - sum->frees));
    if (freed) {
        length += put_number(entry + length, (uint64_t)sum->allocs);
        length += put_number(entry + length, (uint64_t)sum->requested_cum_bytes);
    }
    writer->needed += length;
    writer->contexts++;
    writer->previous = context;
    if (writer->failed)
        return;
    __builtin_memcpy(writer->last->bytes + writer->last->used, entry, length);
    writer->last->used += length;
}

static void free_chunks(struct mark_chunk *chunk) {
    while (chunk) {
        struct mark_chunk *next = chunk->next;
        meta_free(chunk, CHUNK_BYTES);
        chunk = next;
    }
}

static void write_all(struct writer *writer) {
    uint32_t count = tree_count();
    sums_begin();
    for (uint32_t id = 0; id < count; id++) {
        struct sum sum;
        sums_pause(id);
        sums_read(id, &sum, NULL);
        if (sum.allocs || sum.frees)
            write_entry(writer, id, &sum);
    }
    sums_end();
}

/* --- marks --------------------------------------------------------------------------------------- */

static void add_kib(struct text *text, uint64_t bytes) {
    text_add_number(text, (int64_t)((bytes + 1023) >> 10));
    text_add(text, " KiB");
}

static uint32_t refuse(struct text *text, const struct writer *writer, uint64_t limit,
                       uint64_t others) {
    bool too_many = writer->needed > writer->limit;
    text_add(text, too_many ? "" : "no memory for it: ");
    text_add(text, "a mark of ");
    text_add_number(text, writer->contexts);
    text_add(text, " contexts takes ");
    add_kib(text, writer->needed);
    if (too_many) {
        text_add(text, "; all marks together may take ");
        add_kib(text, limit);
        text_add(text, ", and the others have ");
        add_kib(text, others);
        text_add(text, "; a mark of an existing name takes its place");
    }
    text_add(text, "; memctx dump TARGET -o FILE keeps all figures outside the process");
    return too_many ? WIRE_REFUSED : WIRE_NO_MEMORY;
}

static uint64_t find_limit(void) {
    int64_t most = LIMIT_LEAST, share = sums_all().live_bytes / LIMIT_SHARE;
    int64_t tables = meta_usage(false).used_bytes;
    most = share > most ? share : most;
    most = tables > most ? tables : most;
    return (uint64_t)most / LIMIT_PART;
}

static struct mark *find_mark(const char *name) {
    for (unsigned i = 0; i < WIRE_MARKS_MAX; i++)
        if (marks[i].uptime_ns && text_equal(marks[i].name, name))
            return &marks[i];
    return NULL;
}

uint32_t mark_set(const struct wire_mark_request *request, struct text *text) {
    char name[WIRE_MARK_NAME_MAX] = "default";
    if (request->name[0]) {
        __builtin_memcpy(name, request->name, sizeof name);
        name[sizeof name - 1] = 0;
    }
    struct mark *mark = find_mark(name);
    uint64_t others = 0;
    for (unsigned i = 0; i < WIRE_MARKS_MAX; i++) {
        if (!marks[i].uptime_ns && !mark)
            mark = &marks[i];
        others += marks[i].bytes;
    }
    if (!mark) {
        text_add(text, "all marks are in use; a mark of an existing name moves it");
        return WIRE_REFUSED;
    }
    others -= mark->bytes;
    uint64_t limit = find_limit();
    struct writer writer = {.limit = limit > others ? limit - others : 0};
    uint64_t uptime_ns = control_uptime_ns();
    write_all(&writer);
    if (writer.failed) {
        free_chunks(writer.first);
        return refuse(text, &writer, limit, others);
    }
    free_chunks(mark->first);
    __builtin_memcpy(mark->name, name, sizeof name);
    mark->first = writer.first;
    mark->bytes = writer.bytes;
    mark->uptime_ns = uptime_ns ? uptime_ns : 1;
    text_add(text, "mark ");
    text_add(text, name);
    text_add(text, " set");
    return WIRE_OK;
}

void marks_forget(void) {
    for (int i = 0; i < WIRE_MARKS_MAX; i++)
        if (marks[i].uptime_ns) /* a write costs the child a page of its own */
            marks[i] = (struct mark){.uptime_ns = 0};
}

/* --- telling ------------------------------------------------------------------------------------- */

uint32_t marks_piece(struct piece *piece) {
    for (uint64_t i = piece->request->from; i < WIRE_MARKS_MAX; i++) {
        if (!marks[i].uptime_ns)
            continue;
        struct wire_mark *out = piece_record(piece, sizeof *out);
        if (!out) {
            piece->next = i;
            break;
        }
        __builtin_memcpy(out->name, marks[i].name, sizeof out->name);
        out->uptime_ns = marks[i].uptime_ns;
    }
    return WIRE_OK;
}

static bool tell_entry(struct piece *piece, uint32_t context, bool freed, const uint8_t **at) {
    struct wire_mark_entry *out = piece_record(piece, sizeof *out);
    if (!out)
        return false;
    struct sum now = sums_base(context); /* a reset since then moves both the same way */
    int64_t live = unfolded(get_number(at)), chunks = unfolded(get_number(at));
    int64_t allocs = freed ? (int64_t)get_number(at) : chunks;
    int64_t bytes = freed ? (int64_t)get_number(at) : live;
    *out = (struct wire_mark_entry){.context = context,
                                    .requested_bytes = live,
                                    .live_chunks = chunks,
                                    .allocs = allocs - now.base_allocs,
                                    .frees = allocs - chunks - now.base_frees,
                                    .requested_cum_bytes = bytes - now.base_requested_cum_bytes};
    return true;
}

/* Where to go on: the chunk's number, the place in it, the id before. */
#define CURSOR_CHUNK 44
#define CURSOR_PLACE 32

/* The entries of one chunk; false: there is no room for all. */
static bool tell_chunk(struct piece *piece, const struct mark_chunk *chunk, uint64_t number,
                       uint32_t place, uint32_t previous) {
    while (place < chunk->used && place + ENTRY_MAX <= sizeof chunk->bytes) { /* who asks may lie */
        const uint8_t *at = chunk->bytes + place;
        uint64_t step = get_number(&at);
        uint32_t context = previous + (uint32_t)(step >> 1);
        if (!tell_entry(piece, context, step & 1, &at)) {
            piece->next = number << CURSOR_CHUNK | (uint64_t)place << CURSOR_PLACE | previous;
            return false;
        }
        place = (uint32_t)(at - chunk->bytes);
        previous = context;
    }
    return true;
}

uint32_t marks_entries_piece(struct piece *piece) {
    const struct wire_piece_request *request = piece->request;
    const struct mark *mark = find_mark(request->mark);
    if (!mark || (request->mark_uptime_ns && mark->uptime_ns != request->mark_uptime_ns))
        return piece_refuse(piece, mark ? "the mark was moved meanwhile; ask again"
                                        : "there is no mark of this name");
    uint64_t number = 0, from = request->from >> CURSOR_CHUNK;
    uint32_t place = (uint32_t)(request->from >> CURSOR_PLACE) % CHUNK_BYTES;
    uint32_t previous = (uint32_t)request->from;
    sums_begin();
    for (const struct mark_chunk *chunk = mark->first; chunk; chunk = chunk->next, number++) {
        if (number < from)
            continue;
        if (!tell_chunk(piece, chunk, number, place, previous))
            break;
        place = previous = 0;
    }
    sums_end();
    return WIRE_OK;
}
