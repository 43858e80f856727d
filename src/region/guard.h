/* SPDX-License-Identifier: MIT */
/*
 * guard.h - chunks with a guard: inaccessible memory behind the chunk. A free makes the chunk
 * itself inaccessible.
 *
 * For: finding the code that writes behind the end of a path's chunks, or uses them after their
 * free, in a program in production. The access itself stops the program, and is reported with the
 * path that allocated the chunk and the path that freed it. Each such chunk is a span of slices of
 * its own. Its allocation costs one system call, its free two, and the later reuse of its memory
 * one more. A freed chunk waits, without memory, until GUARD_WAITING other guarded chunks were
 * freed after it. Cannot do: find accesses in front of a chunk in use; guard sizes over 1016 KiB;
 * guard more than GUARD_MAX chunks, because the kernel allows a process 65 530 mappings. Chunks
 * that cannot be guarded are allocated as usual, and counted. Between the end of a chunk and its
 * guard there may be bytes, fewer than the chunk's alignment: a read of these bytes is not found, a
 * write only when the chunk is freed. If the program sets its own handler for SIGSEGV after the
 * first guarded chunk, that handler runs, and there is no report.
 *
 * Source: Electric Fence (Bruce Perens, 1987); GWP-ASan (delayed reuse and both paths).
 *
 * Threads: any.
 */
#ifndef MEMCTX_GUARD_H
#define MEMCTX_GUARD_H

#include "region/heap.h"

/* Two OS pages. One inaccessible OS page would look like the end of a stack to `memctx frag`. */
#define GUARD_BYTES 8192U
#define GUARD_MAX 16000U    /* greatest number of guarded chunks, including freed ones that wait */
#define GUARD_WAITING 4096U /* number of freed chunks whose memory waits */

/* Allocates a guarded chunk. The caller counts the chunk in a view. NULL: the chunk can have no
 * guard. */
struct page *guard_alloc(size_t size, size_t alignment);
/* Frees a guarded chunk, which has a page of its own (PAGE_GUARDED). */
void guard_free(struct page *page);

/* Prints the paths that allocated and freed the guarded chunk, and the path that misuses it. */
void guard_explain(const struct page *page);

#endif
