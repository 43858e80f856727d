/* SPDX-License-Identifier: MIT */
/*
 * collect.h - collects chunks that other threads freed, for owners that sleep.
 *
 * A chunk that another thread frees waits in a list of its page until the page's owner collects it
 * (region/remote.c). An owner that sleeps, such as a thread that loaded data and waits for its
 * workers, collects nothing, so its empty pages would stay resident. The control thread therefore
 * collects for owners that used hardly any processor time between two looks.
 *
 * It collects in a visit with two barriers, as context/holes.h describes. While the visit lasts,
 * the owner allocates nothing outside of named contexts, whose pages are left alone. The owner
 * frees nothing in the pages of the visit, and changes no list of pages (page_after_free waits).
 *
 * Cannot collect: serial pages, pages of named contexts and of the policy simple, and pages with
 * META_OWNERS, META_CHECKED or META_APART (region/blocks.h). Without membarrier in the kernel,
 * nothing is collected.
 *
 * Cost: at each look, one system call for each heap with pages in its list remote_pages; then about
 * a microsecond for each page. The owner may have to wait until one visit has collected PAGES_MAX
 * pages (collect.c). malloc and free cost nothing more.
 *
 * Threads: the control thread.
 */
#ifndef MEMCTX_COLLECT_H
#define MEMCTX_COLLECT_H

#include "region/heap.h"

/* Collects in the heaps of owners that slept since the last call; with `all`, in all heaps whose
 * owner is outside the allocator. Ends at the time `until_ns` (os_now_exact_ns). True: pages are
 * left, because the time is over. */
bool collect_look(bool all, uint64_t until_ns);
/* Visits one heap. Returns the number of pages whose blocks were collected. The caller holds
 * heap_global.lock. */
unsigned collect_visit(struct heap *heap);

#endif
