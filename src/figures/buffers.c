/* SPDX-License-Identifier: MIT */
/* buffers.c - maps memory for answers and tables, and keeps some of it between requests; see
 * buffers.h. */
#include "figures/buffers.h"

char *buffers_stack_top START_PAGE;

/* Released mappings are kept for the next request, up to this many bytes in all, because munmap
 * interrupts each processor that a thread of the program runs on. They are unmapped when no client
 * is connected. */
#define KEPT_BYTES_MAX (256UL << 10)

static struct buffer mappings[BUFFERS_MAX]; /* control thread only */
static size_t kept_bytes;                   /* bytes of the mappings that are kept */
const struct buffer *const buffers_shown = mappings;

static void drop_kept(struct buffer *mapping) {
    struct buffer gone = *mapping;
    kept_bytes -= gone.bytes;
    *mapping = (struct buffer){0};
    order_stores(); /* a child that is forked after the munmap must not know the mapping */
    os_unmap(gone.start, gone.bytes);
}

static void *scratches[SCRATCHES];

void *buffers_scratch(enum buffers_scratch which, size_t bytes) {
    if (!scratches[which])
        scratches[which] = buffers_map(bytes, false);
    return scratches[which];
}

static void drop_all_kept(void) {
    for (unsigned i = 0; kept_bytes && i < BUFFERS_MAX; i++)
        if (mappings[i].kept)
            drop_kept(&mappings[i]);
}

void buffers_unmap_kept(void) {
    for (unsigned i = 0; i < SCRATCHES; i++) {
        void *gone = scratches[i];
        scratches[i] = NULL;
        order_stores();
        buffers_unmap(gone);
    }
    drop_all_kept();
}

/* Writes to each OS page. A read of an OS page that was never written maps the kernel's page of
 * zeros. A later write then replaces that mapping, which interrupts the processors of the program's
 * threads. If the first access is a write, nothing is replaced. */
static void touch(char *start, size_t bytes) {
    for (char *page = start; page < start + bytes; page += OS_PAGE_BYTES)
        *(volatile char *)page = 0;
}

/* Returns the smallest kept mapping that is large enough, but at most some four times as large;
 * else a new mapping. */
static void *map_untouched(size_t bytes) {
    struct buffer *kept = NULL, *place = NULL;
    for (unsigned i = 0; i < BUFFERS_MAX; i++) {
        struct buffer *mapping = &mappings[i];
        if (!mapping->start)
            place = mapping;
        else if (mapping->kept && bytes <= mapping->bytes && mapping->bytes / 4 <= bytes &&
                 (!kept || mapping->bytes < kept->bytes))
            kept = mapping;
    }
    if (kept) {
        kept->kept = false;
        kept_bytes -= kept->bytes;
        return __builtin_memset(kept->start, 0, bytes);
    }
    if (!place) {
        drop_all_kept();
        for (unsigned i = 0; i < BUFFERS_MAX && !place; i++)
            place = mappings[i].start ? NULL : &mappings[i];
    }
    char *start = place ? os_map(bytes) : NULL;
    if (start) {
        *place = (struct buffer){.start = start, .bytes = bytes};
        os_wipe_on_fork(start, bytes); /* `memctx frag` recognises the mapping by this flag */
    }
    return start;
}

void *buffers_map(size_t bytes, bool touched) {
    void *start = map_untouched(bytes);
    if (start && touched)
        touch(start, bytes);
    return start;
}

void buffers_unmap(void *start) {
    for (unsigned i = 0; start && i < BUFFERS_MAX; i++) {
        struct buffer *mapping = &mappings[i];
        if (mapping->start != start)
            continue;
        mapping->kept = true;
        kept_bytes += mapping->bytes;
        if (kept_bytes > KEPT_BYTES_MAX)
            drop_kept(mapping);
        return;
    }
}

int64_t buffers_bytes(bool resident) {
    int64_t sum = 0;
    for (unsigned i = 0; i < BUFFERS_MAX; i++) {
        if (!mappings[i].start)
            continue;
        sum += resident ? os_resident_bytes(mappings[i].start, mappings[i].bytes)
                        : (int64_t)mappings[i].bytes;
    }
    for (size_t part = OS_PAGE_BYTES; buffers_stack_top && part <= BUFFERS_STACK_BYTES;
         part += OS_PAGE_BYTES) {
        int64_t page = os_resident_bytes(buffers_stack_top - part, 1);
        if (page <= 0)
            break;
        sum += page;
    }
    return sum;
}

void *answer_add(struct answer *answer, size_t bytes) {
    if (bytes > answer->capacity - answer->length)
        return NULL;
    char *room = answer->bytes + answer->length;
    answer->length += bytes;
    return __builtin_memset(room, 0, bytes);
}
