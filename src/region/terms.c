/* SPDX-License-Identifier: MIT */
/* Sets the terms of contexts and grants bytes out of their limits; see terms.h. */
#include "region/terms.h"
#include "region/region.h"

struct terms terms_table[TERMS_COUNT];
void *terms_leaves[PLACED_LEAVES];

bool terms_set(uint32_t context, unsigned number) {
    uint8_t *byte = heap_leaf_entry(terms_leaves, context, 1);
    if (!byte)
        return false;
    store_release(byte, (uint8_t)number);
    if (number)
        or_release(&heap_placed_any, HEAP_TERMS);
    return true;
}

bool terms_ask(uint32_t context, unsigned flags) {
    if (!flags)
        return !terms_number(context) || terms_set(context, 0);
    unsigned number = TERMS_RULES + flags - 1;
    lock_take(&region_lock);
    terms_table[number].flags = TERMS_OWN | (flags & MEMCTX_ZERO_FREED ? TERMS_ZERO : 0) |
                                (flags & MEMCTX_GUARDED ? TERMS_GUARD : 0);
    terms_table[number].slices = flags & MEMCTX_LARGE_PAGES ? WIDE_PAGE_SLICES : 0;
    lock_release(&region_lock);
    return terms_set(context, number);
}

int64_t terms_live(unsigned number) {
    int64_t bytes = 0;
    for (struct heap *heap = load_acquire(&heap_global.first); heap; heap = heap->next) {
        uint32_t views = load_acquire(&heap->view_count);
        for (uint32_t i = 1; i < views; i = heap_view_after(heap, i)) {
            const struct view *view = heap_view_at(heap, i);
            if (terms_number(view->context) == number)
                bytes += view_live_bytes(view);
        }
    }
    return bytes;
}

/* Takes `bytes` out of the allowance. False: the allowance is smaller than `bytes`. */
static bool grant(struct terms *terms, int64_t bytes) {
    int64_t left = load_relaxed(&terms->allowance);
    do
        if (left < bytes)
            return false;
    while (!cas_release(&terms->allowance, &left, left - bytes));
    return true;
}

/* Sums up the live bytes, and makes the rest of the limit the new allowance. The caller holds
 * heap_global.lock, for two reasons: no other thread renews the allowance from an older sum, and
 * the views of an ending thread are not counted twice while they are folded. The old allowance ends
 * before the sum begins. Only a chunk that another thread was granted and has not accounted yet is
 * missing in the sum. */
static bool renew_allowance(struct terms *terms, unsigned number, int64_t bytes) {
    exchange_relaxed(&terms->allowance, 0);
    int64_t left = terms->limit - terms_live(number);
    if (left > bytes)
        exchange_relaxed(&terms->allowance, left - bytes);
    return left >= bytes;
}

bool terms_allow(uint32_t context, size_t more, uint32_t had_in, size_t had) {
    unsigned number = terms_number(context);
    struct terms *terms = &terms_table[number];
    if (LIKELY(!(load_relaxed(&terms->flags) & TERMS_LIMIT)))
        return true;
    if (had && terms_number(had_in) == number) {
        if (more <= had)
            return true;
        more -= had;
    }
    if (more <= (size_t)terms->limit) {
        if (LIKELY(grant(terms, (int64_t)more)))
            return true;
        /* A signal handler that interrupted a thread with a lock cannot take heap_global.lock. It
         * then sets no allowance. */
        bool locks = !lock_any_is_mine(), granted;
        if (locks) {
            lock_take(&heap_global.lock);
            granted = renew_allowance(terms, number, (int64_t)more);
            lock_release(&heap_global.lock);
        } else {
            granted = terms->limit - terms_live(number) >= (int64_t)more;
        }
        if (granted)
            return true;
    }
    if (!(load_relaxed(&terms->flags) & TERMS_LIMIT)) /* the rules were cleared just now */
        return true;
    add_relaxed(&terms->passed, 1);
    return false;
}
