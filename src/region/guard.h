/* SPDX-License-Identifier: MIT */
/*
 * guard.h - chunks that end where an OS page ends that cannot be touched, and that cannot be
 * touched when they were freed.
 *
 * For: finding who writes behind the end of a path's chunks, or uses them after they were freed, in
 * a program that runs for real: the access itself is stopped, and named with the path that
 * allocated and the one that freed. Each such chunk is a span of slices of its own, and two system
 * calls. Freed ones wait, without memory, until GUARD_WAITING others were freed behind them. Cannot
 * do: what is in front of a chunk; sizes over 1 MiB; more than GUARD_MAX chunks, for the kernel
 * allows a process 65 530 mappings: those are allocated as ever, and counted. A program that takes
 * SIGSEGV for itself after the first such chunk is stopped without the lines.
 *
 * Source: Electric Fence (Bruce Perens, 1987); GWP-ASan (delayed reuse and both paths).
 *
 * Threads: any.
 */
#ifndef MEMCTX_GUARD_H
#define MEMCTX_GUARD_H

#include "region/heap.h"

#define GUARD_BYTES 8192U   /* two OS pages: one is what stands below a stack */
#define GUARD_MAX 16000U    /* alive and waiting */
#define GUARD_WAITING 4096U /* freed ones that are not used again yet */

/* NULL: it can have no guard. The caller accounts it. */
struct page *guard_alloc(size_t size, size_t alignment);
/* Frees a chunk that stands in such a page (PAGE_GUARDED). */
void guard_free(struct page *page);

/* Tells of the paths that allocated and freed the chunk of such a page, and of the one that misuses
 * it. */
void guard_explain(const struct page *page);

#endif
