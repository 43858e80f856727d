/* SPDX-License-Identifier: MIT */
/* Walking the stack by rules; see walk.h. */
#include "path/walk.h"

#define GROW_MAX (64UL << 20) /* a stack that is further away is looked at page by page */

/* Whether a word may be read. The unwind information of file-backed code led here, so it nearly
 * always may; wrong information must not fault. */
static bool readable(struct walk_stack *stack, uintptr_t address) {
    if (address & 7)
        return false;
    if (LIKELY(address >= stack->low && address + 8 <= stack->high))
        return true;
    uintptr_t page_end = (address & ~(OS_PAGE_BYTES - 1)) + OS_PAGE_BYTES;
    if (address >= stack->high && address - stack->high < GROW_MAX) {
        if (!os_is_mapped(stack->high, page_end))
            return false;
        stack->high = page_end;
        return true;
    }
    return os_is_mapped(address, page_end);
}

static void record(struct walk *walk, uintptr_t base, uintptr_t address, uint64_t value,
                   bool is_address) {
    int64_t offset = (int64_t)(address - base);
    if (offset > INT32_MAX || offset < INT32_MIN || walk->check_count == WALK_CHECKS_MAX) {
        walk->cacheable = false;
        return;
    }
    walk->offsets[walk->check_count] = (int32_t)(offset | is_address);
    walk->values[walk->check_count++] = is_address ? value - base : value;
}

static uint64_t word_at(uintptr_t address) {
    return *(const volatile uint64_t *)address;
}

struct registers {
    uintptr_t sp, rbp, rbp_at; /* rbp_at: where rbp was read from */
    bool rbp_known, rbp_recorded;
};

/* rbp is about to be used: what it was read from becomes part of the path's proof. */
static bool use_rbp(struct walk *walk, uintptr_t base, struct registers *regs) {
    if (!regs->rbp_known)
        return false;
    if (!regs->rbp_recorded)
        record(walk, base, regs->rbp_at, regs->rbp, true);
    regs->rbp_recorded = true;
    return true;
}

static bool load_rbp(struct walk_stack *stack, struct registers *regs, uintptr_t at) {
    if (!readable(stack, at))
        return false;
    regs->rbp = word_at(at);
    regs->rbp_at = at;
    regs->rbp_known = true;
    regs->rbp_recorded = false;
    return true;
}

/* From the frame that `packed` describes to its caller: the registers and *address. */
static bool step(struct walk *walk, uintptr_t base, uint64_t packed, struct registers *regs,
                 uintptr_t *address, struct walk_stack *stack) {
    uintptr_t cfa, return_at;
    uintptr_t old_sp = regs->sp;
    switch (rule_kind(packed)) {
    case CFI_SP: cfa = regs->sp + (uintptr_t)(intptr_t)rule_cfa_offset(packed); break;
    case CFI_RBP:
        if (!use_rbp(walk, base, regs))
            return false;
        cfa = regs->rbp + (uintptr_t)(intptr_t)rule_cfa_offset(packed);
        break;
    case CFI_RBP_DEREF: {
        if (!use_rbp(walk, base, regs))
            return false;
        uintptr_t at = regs->rbp + (uintptr_t)(intptr_t)rule_cfa_offset(packed);
        if (!readable(stack, at))
            return false;
        cfa = word_at(at);
        record(walk, base, at, cfa, true);
        break;
    }
    case CFI_SIGNAL:
        if (!readable(stack, regs->sp + CFI_SIGNAL_SP) ||
            !readable(stack, regs->sp + CFI_SIGNAL_PC))
            return false;
        cfa = word_at(regs->sp + CFI_SIGNAL_SP);
        record(walk, base, regs->sp + CFI_SIGNAL_SP, cfa, true);
        *address = word_at(regs->sp + CFI_SIGNAL_PC);
        record(walk, base, regs->sp + CFI_SIGNAL_PC, *address, false);
        regs->sp = cfa; /* may be another stack, in any direction */
        return load_rbp(stack, regs, old_sp + CFI_SIGNAL_RBP);
    default: return false;
    }
    return_at = cfa - 8;
    if (cfa <= old_sp || !readable(stack, return_at))
        return false;
    uintptr_t old_rbp = regs->rbp;
    *address = word_at(return_at);
    record(walk, base, return_at, *address, false);
    regs->sp = cfa;
    switch (rule_rbp(packed)) {
    case CFI_RBP_SAME: return true;
    case CFI_RBP_LOST: regs->rbp_known = false; return true;
    case CFI_RBP_AT_CFA:
        return load_rbp(stack, regs, cfa + (uintptr_t)(intptr_t)rule_rbp_offset(packed));
    default:
        return load_rbp(stack, regs, old_rbp + (uintptr_t)(intptr_t)rule_rbp_offset(packed));
    }
}

void walk_stack(struct walk *walk, uintptr_t frame, unsigned depth, struct walk_stack *stack) {
    uintptr_t base = frame + 16;
    struct registers regs = {.sp = base};
    if (base < stack->low || base >= stack->high) {
        stack->low = frame & ~(OS_PAGE_BYTES - 1);
        stack->high = (frame & ~(OS_PAGE_BYTES - 1)) + OS_PAGE_BYTES;
    } else if (frame < stack->low) {
        stack->low = frame & ~(OS_PAGE_BYTES - 1);
    }
    walk->frame_count = walk->check_count = 0;
    walk->cacheable = true;
    walk->end = WALK_BROKEN;
    load_rbp(stack, &regs, frame);
    uintptr_t address = word_at(frame + 8);
    record(walk, base, frame + 8, address, false);
    bool exact = false;
    for (;;) {
        uint64_t packed = rules_find(address, exact);
        walk->frames[walk->frame_count++] =
            (struct walk_frame){address, (uint16_t)rule_module(packed), exact};
        enum cfi_kind kind = rule_kind(packed);
        if (kind == CFI_END) {
            walk->end = WALK_COMPLETE;
            return;
        }
        if (walk->frame_count == depth) {
            walk->end = WALK_TRUNCATED;
            return;
        }
        if (kind == CFI_NONE) {
            walk->end = WALK_NO_CFI;
            /* Code that no object holds may be replaced by other code at the same address. */
            if (rule_module(packed) == MODULE_NONE)
                walk->cacheable = walk->cacheable && walk->frame_count > 1;
            return;
        }
        if (!step(walk, base, packed, &regs, &address, stack)) {
            walk->cacheable = false;
            return;
        }
        exact = kind == CFI_SIGNAL;
        if (!address) { /* the kernel and makecontext end some stacks so */
            walk->end = WALK_COMPLETE;
            return;
        }
    }
}
