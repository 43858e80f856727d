/* SPDX-License-Identifier: MIT */
/*
 * The functions with which glibc describes and trims its heap, for the memory of this library:
 * mallinfo, malloc_info, malloc_stats, malloc_trim. Fields that have no meaning in this library are
 * 0. mallopt is here, too, and changes nothing.
 * Sources: mallinfo(3), malloc_info(3), malloc_trim(3).
 */
#include "api/fast.h"
#include "region/punch.h"

#include <errno.h>
#include <malloc.h>
#include <stdio.h>

#include "api/names.h"

struct figures {
    struct segment_usage usage;
    int64_t live; /* requested bytes of all chunks in use */
};

/* Marks the thread's heap busy, if the thread has a heap outside the allocator: while the thread
 * holds locks, a signal handler must not allocate from this heap. In a signal handler or a fork
 * handler whose thread holds a lock, `usage` is 0. */
static struct figures figures_now(void) {
    struct heap *heap = thread_enter();
    struct figures now = {.live = heap_live_bytes()};
    if (!lock_any_is_mine())
        now.usage = segment_usage();
    if (heap)
        thread_leave(heap);
    return now;
}

#if !__GLIBC_PREREQ(2, 33) /* programs that know mallinfo2 were built with a newer glibc */
struct mallinfo2 {
    size_t arena, ordblks, smblks, hblks, hblkhd, usmblks, fsmblks, uordblks, fordblks, keepcost;
};
struct mallinfo2 mallinfo2(void);
#endif

EXPORT struct mallinfo2 mallinfo2(void) {
    struct figures now = figures_now();
    int64_t live = now.live, used = now.usage.used_bytes;
    return (struct mallinfo2){
        .arena = (size_t)now.usage.mapped_bytes,
        .uordblks = live > 0 ? (size_t)live : 0,
        .fordblks = used > live ? (size_t)(used - live) : 0,
        .keepcost = (size_t)now.usage.freelist_bytes,
    };
}

static int to_int(size_t value) {
    return value > INT32_MAX ? INT32_MAX : (int)value;
}

EXPORT struct mallinfo __libc_mallinfo(void);
EXPORT struct mallinfo __libc_mallinfo(void) {
    struct mallinfo2 info = mallinfo2();
    return (struct mallinfo){
        .arena = to_int(info.arena),
        .uordblks = to_int(info.uordblks),
        .fordblks = to_int(info.fordblks),
        .keepcost = to_int(info.keepcost),
    };
}
#ifndef MEMCTX_UNIT
EXPORT struct mallinfo mallinfo(void) ALIAS(__libc_mallinfo);
#endif

EXPORT int malloc_info(int flags, FILE *stream) {
    if (flags)
        return EINVAL;
    struct figures now = figures_now();
    fprintf(stream,
            "<malloc version=\"memctx-1\">\n"
            "<total type=\"live\" size=\"%lld\"/>\n"
            "<total type=\"free\" size=\"%lld\"/>\n"
            "<system type=\"current\" size=\"%lld\"/>\n"
            "</malloc>\n",
            (long long)now.live, (long long)now.usage.freelist_bytes,
            (long long)now.usage.mapped_bytes);
    return 0;
}

/* Prints the lines that glibc prints for one arena, because programs parse them, and then a line
 * about the freelist. */
EXPORT void malloc_stats(void) {
    char lines[640];
    struct text text = {.bytes = lines, .capacity = sizeof lines};
    struct figures now = figures_now();
    const struct {
        const char *label;
        int64_t value; /* -1: no value on this line */
    } shown[] = {
        {"Arena 0:\n", -1},
        {"system bytes     = ", now.usage.mapped_bytes},
        {"in use bytes     = ", now.live},
        {"Total (incl. mmap):\n", -1},
        {"system bytes     = ", now.usage.mapped_bytes},
        {"in use bytes     = ", now.live},
        {"max mmap regions = ", 0},
        {"max mmap bytes   = ", 0},
        {"memctx freelist  = ", now.usage.freelist_bytes},
    };
    for (size_t i = 0; i < sizeof shown / sizeof shown[0]; i++) {
        text_add(&text, shown[i].label);
        if (shown[i].value < 0)
            continue;
        for (int64_t bound = 1000000000; bound > 1 && shown[i].value < bound; bound /= 10)
            text_add(&text, " "); /* right-aligned in ten columns */
        text_add_number(&text, shown[i].value);
        text_add(&text, "\n");
    }
    os_print(&text);
}

/* Trims the heap that this thread uses, and gives the freelist of the process back to the kernel.
 * Does not trim the heaps of other threads. `memctx trim` does that: it asks each thread to trim
 * its own heap (control/act.c). */
EXPORT int malloc_trim(size_t pad) {
    struct heap *heap;
    size_t bytes = 0;
    (void)pad;
    if (lock_any_is_mine())
        return 0;
    enum thread_access access = thread_enter_any(&heap);
    if (heap)
        bytes = trim_whole(heap);
    /* The thread's own heap stays busy, so that a signal handler does not allocate from it while
     * this thread holds the segments' lock. Other threads wait for the shared heap. */
    if (access != THREAD_OWN)
        thread_leave_any(heap, access);
    bytes += segment_purge(true);
    if (access == THREAD_OWN)
        thread_leave_any(heap, access);
    return bytes > 0;
}

/* Accepted without effect, because glibc's parameters do not exist here. glibc refuses one value:
 * for M_MXFAST, a size above the greatest size of its fast bins. */
EXPORT int mallopt(int parameter, int value) {
    const size_t fast_max = 80 * sizeof(size_t) / 4;
    return parameter != M_MXFAST || (size_t)value <= fast_max;
}

#ifndef MEMCTX_UNIT
EXPORT int __libc_mallopt(int parameter, int value) ALIAS(mallopt);
#endif
