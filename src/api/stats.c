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

/* In a signal handler or a fork handler whose thread holds a lock, these figures are 0. */
static struct segment_usage usage_now(void) {
    return lock_any_is_mine() ? (struct segment_usage){0} : segment_usage();
}

#if !__GLIBC_PREREQ(2, 33) /* programs that know mallinfo2 were built with a newer glibc */
struct mallinfo2 {
    size_t arena, ordblks, smblks, hblks, hblkhd, usmblks, fsmblks, uordblks, fordblks, keepcost;
};
struct mallinfo2 mallinfo2(void);
#endif

EXPORT struct mallinfo2 mallinfo2(void) {
    struct segment_usage usage = usage_now();
    int64_t live = heap_live_bytes();
    return (struct mallinfo2){
        .arena = (size_t)usage.mapped_bytes,
        .uordblks = live > 0 ? (size_t)live : 0,
        .fordblks = usage.used_bytes > live ? (size_t)(usage.used_bytes - live) : 0,
        .keepcost = (size_t)usage.freelist_bytes,
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
    struct segment_usage usage = usage_now();
    fprintf(stream,
            "<malloc version=\"memctx-1\">\n"
            "<total type=\"live\" size=\"%lld\"/>\n"
            "<total type=\"free\" size=\"%lld\"/>\n"
            "<system type=\"current\" size=\"%lld\"/>\n"
            "</malloc>\n",
            (long long)heap_live_bytes(), (long long)usage.freelist_bytes,
            (long long)usage.mapped_bytes);
    return 0;
}

/* Prints the lines that glibc prints for one arena, because programs parse them, and then a line
 * about the freelist. */
EXPORT void malloc_stats(void) {
    char lines[640];
    struct text text = {.bytes = lines, .capacity = sizeof lines};
    struct segment_usage usage = usage_now();
    int64_t live = heap_live_bytes();
    const struct {
        const char *label;
        int64_t value; /* -1: no value on this line */
    } shown[] = {
        {"Arena 0:\n", -1},
        {"system bytes     = ", usage.mapped_bytes},
        {"in use bytes     = ", live},
        {"Total (incl. mmap):\n", -1},
        {"system bytes     = ", usage.mapped_bytes},
        {"in use bytes     = ", live},
        {"max mmap regions = ", 0},
        {"max mmap bytes   = ", 0},
        {"memctx freelist  = ", usage.freelist_bytes},
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
    thread_leave_any(heap, access);
    return segment_purge(true) + bytes > 0;
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
