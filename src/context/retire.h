/* SPDX-License-Identifier: MIT */
/*
 * retire.h - gives back heaps of ended threads.
 *
 * A thread that ends leaves its heap to a later thread. After a burst of threads most of these
 * heaps would wait for ever: 8 KiB of the tables' budget each, and some 14 KB of memory. So the
 * control thread *retires* such heaps: their figures move to the heap of the totals, and their
 * memory goes back.
 *
 * A heap may be retired if its chunks are all freed. Two kinds of heaps stay: a heap with a view of
 * a named context, because that context may point to the heap, and the first heap, which is part of
 * the library's data. While the tables are within their limit, at least KEPT_LEAST heaps without a
 * thread stay for new threads, and at least as many as there are threads with a heap.
 *
 * Three steps, so that no thread uses a heap that is gone:
 *   1. Under heap_global.lock, the heaps that may be retired are marked (heap.may_retire). A thread
 *      that adopts such a heap takes the mark away.
 *   2. Without a lock, the headers of all pages are read. A heap with a page loses the mark. A heap
 *      without a thread gets no new pages, so a mark that is left is right.
 *   3. Under heap_global.lock, the marked heaps leave the list of all heaps. Another thread may
 *      still know such a heap: it freed the heap's last chunk, or it is reading the list. It is
 *      inside the allocator then. The memory is given back when each thread that was inside has
 *      been seen outside. A memory barrier in all threads makes sure that such a thread is not
 *      overlooked, so without membarrier no heap is retired.
 *
 * Source: the grace period of read-copy-update (McKenney and Slingwine, 1998).
 *
 * Cost: nothing while few heaps wait; else the headers of all pages once a second, or more rarely
 * if no heap could be retired. malloc and free cost nothing more.
 *
 * Threads: the control thread. It holds no lock.
 */
#ifndef MEMCTX_RETIRE_H
#define MEMCTX_RETIRE_H

/* Takes the next step if its time has come. */
void retire_look(void);

#endif
