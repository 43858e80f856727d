/* SPDX-License-Identifier: MIT */
/*
 * stack_walk.h - shared by the walk over plain frames (stack.c) and the walk by all rules
 * (stack_rules.c): reads words of the stack, and joins a walk to the frames of the last walk.
 *
 * Threads: only the owner of the heap, as for stack.h.
 */
#ifndef MEMCTX_STACK_WALK_H
#define MEMCTX_STACK_WALK_H

#include "path/stack.h"

/* True if a word may be read. The unwind information of file-backed code led to the word, so it is
 * nearly always readable. But a fault must not happen even if the information is wrong, or if
 * assembly code changed the stack pointer without unwind information for this. */
bool stack_may_read(struct stack *stack, uintptr_t address);

/* An aligned word lies within one OS page. So it is readable if its first byte is. */
INLINE bool readable(struct stack *stack, uintptr_t address) {
    if (UNLIKELY(address & 7))
        return false;
    return LIKELY(address - stack->low < stack->high - stack->low) ||
           stack_may_read(stack, address);
}

INLINE uint64_t word_at(uintptr_t address) {
    return *(const volatile uint64_t *)address;
}

/* Gives an old frame another address. The frame's node is no longer right, so `kept` ends before
 * it. */
INLINE void change_address(struct stack *stack, int frame, uintptr_t address, uint64_t rule) {
    stack->frames[frame].address = address;
    stack->frames[frame].rule = rule;
    if (stack->kept > (uint32_t)frame)
        stack->kept = (uint32_t)frame;
}

/* Changes the address of an old frame if the rules of both addresses make the same step. False: the
 * steps differ, and the frame is unchanged. */
INLINE bool adjust(struct stack *stack, int frame, uintptr_t address) {
    struct stack_frame *old = &stack->frames[frame];
    if (LIKELY(old->address == address))
        return true;
    uint64_t rule = unwind_rules_find(address, old->exact);
    if (!rule_steps_alike(rule, old->rule))
        return false;
    change_address(stack, frame, address, rule);
    return true;
}

/* The walk has reached old frame `join`, whose rbp stands at `rbp_at`. Compares the words that
 * prove this frame and the next old frames outwards, `wanted` frames in all. Where only an address
 * differs, changes the frame in place. Returns -1 if all these frames are right now; else the index
 * of the check that differs: from the frame of this check outwards, the stack must be walked by
 * rules. */
INLINE int join_at(struct stack *stack, int join, unsigned wanted, uintptr_t rbp_at) {
    const struct stack_frame *old = &stack->frames[join];
    struct stack_check *check = &stack->checks[old->checks];
    const struct stack_check *last = stack->checks;
    if (UNLIKELY((unsigned)join + 1 > wanted))
        last += stack->frames[join - (int)wanted + 1].checks;
    if (old->rbp_use >= 0)
        stack->checks[old->rbp_use].at = rbp_at;
    while ((check = stack_compare(check, last)) > last) {
        uint64_t word = word_at((--check)->at);
        int k = (int)(check - stack->checks);
        if (UNLIKELY(k < stack->frames[0].checks))
            return k;                    /* the outermost frame has a caller now */
        int i = k < join ? k : join - 1; /* the step that read check k leads to frame i */
        while (stack->frames[i].checks > k)
            i--;
        if (k != stack->frames[i].checks || !word || !adjust(stack, i, word))
            return k;
        check->value = word;
    }
    return -1;
}

/* Walks the stack by all rules, until the walk joins old frames whose checks are unchanged. Called
 * by stack_walk, when a walk over plain frames was not possible; the caller has set `kept`. */
void stack_walk_by_rules(struct stack *stack, uintptr_t frame, unsigned depth);

#endif
