/* SPDX-License-Identifier: MIT */
/* Allocates and frees guarded chunks, and reports accesses to their guards; see guard.h. */
#include "region/guard.h"
#include "os/fault.h"
#include "os/meta.h"
#include "region/check.h"
#include "region/hooks.h"

#include <signal.h>
#include <ucontext.h>

#define FREED_BY_MAX 20U

/* A freed chunk whose memory is not used again yet, and the call path that freed the chunk. */
struct waiting {
    struct page *page;
    uint32_t count; /* number of addresses in freed_by */
    uintptr_t freed_by[FREED_BY_MAX];
};
/* Written under region_lock. The handler for SIGSEGV and guard_explain read it without the lock. */
static struct {
    /* GUARD_WAITING entries; the chunk that is freed next takes the place of the oldest entry.
     * NULL: no guarded chunk was freed yet */
    struct waiting *ring;
    uint64_t freed;          /* number of guarded chunks that were ever freed */
    uint32_t pages;          /* number of guarded chunks, including freed ones that wait */
    bool watching;           /* the handler for SIGSEGV was set */
    struct sigaction before; /* the action for SIGSEGV that the program had before */
} guards;

static size_t span_bytes(const struct page *page) {
    return page->slices * SLICE_BYTES;
}
static char *guard_start(const struct page *page) {
    return segment_span_start(page) + span_bytes(page) - GUARD_BYTES;
}

/* Returns the entry of a freed guarded chunk; page->capacity is the entry's number. NULL: the chunk
 * has no entry. */
static const struct waiting *waiting_at(const struct page *page) {
    const struct waiting *waiting =
        guards.ring && page->capacity < GUARD_WAITING ? &guards.ring[page->capacity] : NULL;
    return waiting && waiting->page == page ? waiting : NULL;
}

/* --- the fault -------------------------------------------------------------------------------- */

void guard_explain(const struct page *page) {
    const struct waiting *waiting = page->kind == PAGE_WAITING ? waiting_at(page) : NULL;
    REGION_HOOK(explain_guarded, page->context, waiting ? waiting->freed_by : NULL,
                waiting ? waiting->count : 0);
}

static void tell(const struct page *page, const char *at, bool writes) {
    char line[256];
    struct text text = {.bytes = line, .capacity = sizeof line - 1};
    bool freed = page->kind == PAGE_WAITING;
    text_add(&text, writes ? "memctx: write to " : "memctx: read of ");
    text_add_hex(&text, (uintptr_t)at);
    const char *end = page->chunk + page->requested_bytes;
    if (at >= end) {
        text_add(&text, ", ");
        text_add_number(&text, at - end);
        text_add(&text, " bytes past the end of a chunk of ");
    } else {
        text_add(&text, at < page->chunk ? ", before a chunk of " : ", in a chunk of ");
    }
    text_add_number(&text, (int64_t)page->requested_bytes);
    text_add(&text, freed ? " bytes that was freed; context " : " bytes; context ");
    text_add_number(&text, page->context);
    text_add(&text, "\n");
    os_print(&text);
    guard_explain(page);
}

/* The handler for SIGSEGV. After the report of an access to guarded memory, the handler restores
 * the action that the program had before, and returns: the access is repeated, and the program's
 * action follows. The default action ends the program. For any other signal, the handler calls the
 * program's handler if there is one. If there is none, it ignores a sent signal that the program
 * ignores, and otherwise restores the default action. A sent signal is then raised again. */
static void fault(int number, siginfo_t *info, void *context) {
    struct sigaction before = guards.before;
    const struct page *page = segment_page_of(info->si_addr);
    bool ours = info->si_code == SEGV_ACCERR && page &&
                (page->kind == PAGE_WAITING ||
                 (page->kind == PAGE_SPAN && load_relaxed(&page->flags) & PAGE_GUARDED));
    bool sent = info->si_code <= 0, has_handler = before.sa_flags & SA_SIGINFO;
    if (ours) {
        tell(page, info->si_addr, ((ucontext_t *)context)->uc_mcontext.gregs[REG_ERR] & 2);
    } else if (has_handler) {
        before.sa_sigaction(number, info, context);
        return;
    } else if (before.sa_handler == SIG_IGN && sent) {
        return;
    } else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {
        before.sa_handler(number);
        return;
    }
    if (!has_handler && before.sa_handler == SIG_IGN)
        before.sa_handler = SIG_DFL; /* as the kernel does for an ignored fault */
    (void)sigaction(SIGSEGV, &before, NULL);
    if (sent)
        raise(SIGSEGV);
}

static void watch(void) {
    struct sigaction action = {.sa_sigaction = fault, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    if (guards.watching)
        return;
    guards.watching = true;
    if (OS_TRY(sigaction(SIGSEGV, NULL, &guards.before)))
        return;
    action.sa_mask = guards.before.sa_mask;
    action.sa_flags |= guards.before.sa_flags & (SA_NODEFER | SA_RESTART);
    (void)sigaction(SIGSEGV, &action, NULL);
}

/* --- chunks ----------------------------------------------------------------------------------- */

/* Gives the page back; the caller holds region_lock. */
static void give_back(struct page *page) {
    guards.pages--;
    if (os_forbid(segment_span_start(page), span_bytes(page), false))
        segment_span_free(page); /* if the kernel refuses os_forbid, the slices are lost */
}

struct page *guard_alloc(size_t size, size_t alignment) {
    alignment = alignment < 16 ? 16 : alignment;
    if (size > MAX_SPAN_SLICES * SLICE_BYTES || alignment > OS_PAGE_BYTES)
        return NULL;
    size_t bytes = align_up(align_up(size ? size : 1, alignment), OS_PAGE_BYTES) + GUARD_BYTES;
    if (bytes > MAX_SPAN_SLICES * SLICE_BYTES)
        return NULL;
    lock_take(&region_lock);
    /* In a process that has restricted its own system calls, no signal handler is set any more,
     * because the system call for that may be forbidden. */
    bool room =
        guards.pages < GUARD_MAX && (guards.watching || LIKELY(!load_relaxed(&os_restricted)));
    guards.pages += room;
    if (room)
        watch();
    lock_release(&region_lock);
    struct page *page =
        room ? segment_span_alloc((uint32_t)((bytes + SLICE_BYTES - 1) >> SLICE_SHIFT)) : NULL;
    if (page && !os_forbid(guard_start(page), GUARD_BYTES, true)) {
        segment_span_free(page);
        page = NULL;
    }
    if (!page) {
        lock_take(&region_lock);
        guards.pages -= room;
        lock_release(&region_lock);
        return NULL;
    }
    char *end = guard_start(page);
    page->chunk = (char *)((uintptr_t)(end - (size ? size : 1)) & ~(alignment - 1));
    store_owner(&page->flags, PAGE_GUARDED);
    check_seal(page->chunk, size, end);
    store_release(&page->kind, PAGE_SPAN);
    return page;
}

void guard_free(struct page *page) {
    check_sealed(page, page->chunk, page->requested_bytes, guard_start(page));
    lock_take(&region_lock);
    if (!guards.ring)
        guards.ring = meta_alloc(GUARD_WAITING * sizeof *guards.ring);
    char *start = segment_span_start(page);
    os_discard(start, span_bytes(page) - GUARD_BYTES); /* the guard was never touched */
    store_release(&page->kind, PAGE_WAITING);
    if (!guards.ring || !os_forbid(start, span_bytes(page), true)) {
        give_back(page);
        lock_release(&region_lock);
        return;
    }
    struct waiting *waiting = &guards.ring[guards.freed % GUARD_WAITING];
    if (waiting->page)
        give_back(waiting->page);
    waiting->page = page;
    page->capacity = (uint32_t)(guards.freed % GUARD_WAITING);
    guards.freed++;
    waiting->count = REGION_HOOK(callers, (uintptr_t)__builtin_frame_address(0), waiting->freed_by,
                                 FREED_BY_MAX);
    lock_release(&region_lock);
}
