/* SPDX-License-Identifier: MIT */
/* Walking the stack by rules, and joining the last walk; see stack.h. */
#include "path/stack.h"
#include "os/meta.h"

#define GROW_MAX (64UL << 20) /* memory further away from the stack is looked at word by word */

struct registers {
    uintptr_t sp, rbp, rbp_at; /* rbp_at: where rbp was read from */
    bool rbp_known;
};

struct walker {
    struct stack *stack;
    struct registers regs;
    uintptr_t address;
    bool exact;
    unsigned fresh_count;
};

/* Whether a word may be read. The unwind information of file-backed code led here, so it nearly
 * always may; wrong information must not fault. */
static NOINLINE bool is_mapped(struct stack *stack, uintptr_t address) {
    uintptr_t page_end = (address & ~(OS_PAGE_BYTES - 1)) + OS_PAGE_BYTES;
    if (address >= stack->high && address - stack->high < GROW_MAX) {
        if (!os_is_mapped(stack->high, page_end))
            return false;
        stack->high = page_end;
        return true;
    }
    return os_is_mapped(address, page_end);
}

INLINE bool readable(struct stack *stack, uintptr_t address) {
    if (UNLIKELY(address & 7))
        return false;
    return LIKELY(address >= stack->low && address + 8 <= stack->high) || is_mapped(stack, address);
}

INLINE uint64_t word_at(uintptr_t address) {
    return *(const volatile uint64_t *)address;
}

INLINE uint64_t check(struct stack_fresh *fresh, uintptr_t at) {
    uint64_t value = word_at(at);
    fresh->checks[fresh->check_count++] = (struct stack_check){at, value};
    return value;
}

INLINE bool load_rbp(struct walker *walker, uintptr_t at) {
    if (!readable(walker->stack, at))
        return false;
    walker->regs.rbp = word_at(at);
    walker->regs.rbp_at = at;
    walker->regs.rbp_known = true;
    return true;
}

static bool use_rbp(struct walker *walker, struct stack_fresh *fresh) {
    if (!walker->regs.rbp_known)
        return false;
    fresh->uses_rbp = true;
    check(fresh, walker->regs.rbp_at);
    return true;
}

static bool step_signal(struct walker *walker, struct stack_fresh *fresh) {
    uintptr_t saved = walker->regs.sp;
    struct stack *stack = walker->stack;
    if (!readable(stack, saved + CFI_SIGNAL_SP) || !readable(stack, saved + CFI_SIGNAL_PC))
        return false;
    walker->regs.sp = check(fresh, saved + CFI_SIGNAL_SP); /* may be another stack */
    walker->address = check(fresh, saved + CFI_SIGNAL_PC);
    return load_rbp(walker, saved + CFI_SIGNAL_RBP);
}

/* From the frame in the walker's registers to its caller. */
static bool step(struct walker *walker, uint64_t packed, struct stack_fresh *fresh) {
    struct registers *regs = &walker->regs;
    uintptr_t old_sp = regs->sp, old_rbp = regs->rbp, cfa;
    uintptr_t offset = (uintptr_t)(intptr_t)rule_cfa_offset(packed);
    switch (rule_kind(packed)) {
    case CFI_SP: cfa = regs->sp + offset; break;
    case CFI_RBP:
        if (!use_rbp(walker, fresh))
            return false;
        cfa = regs->rbp + offset;
        break;
    case CFI_RBP_DEREF:
        if (!use_rbp(walker, fresh) || !readable(walker->stack, regs->rbp + offset))
            return false;
        cfa = check(fresh, regs->rbp + offset);
        break;
    case CFI_SIGNAL: return step_signal(walker, fresh);
    default: return false;
    }
    if (cfa <= old_sp || !readable(walker->stack, cfa - 8))
        return false;
    walker->address = check(fresh, cfa - 8);
    regs->sp = cfa;
    offset = (uintptr_t)(intptr_t)rule_rbp_offset(packed);
    switch (rule_rbp(packed)) {
    case CFI_RBP_SAME: fresh->keeps_rbp = true; return true;
    case CFI_RBP_LOST: regs->rbp_known = false; return true;
    case CFI_RBP_AT_CFA: return load_rbp(walker, cfa + offset);
    default: return load_rbp(walker, old_rbp + offset);
    }
}

INLINE struct stack_fresh *add_fresh(struct walker *walker) {
    struct stack_fresh *fresh = &walker->stack->fresh[walker->fresh_count++];
    fresh->frame.address = walker->address;
    fresh->frame.sp = walker->regs.sp;
    fresh->frame.rbp = walker->regs.rbp;
    fresh->frame.module = MODULE_NONE;
    fresh->frame.exact = walker->exact;
    fresh->frame.rbp_known = walker->regs.rbp_known;
    fresh->check_count = 0;
    fresh->uses_rbp = fresh->keeps_rbp = false;
    return fresh;
}

/* The old frame that the walker has reached, at or below index `from`; -1: none. */
INLINE int find_join(const struct walker *walker, int from) {
    const struct stack *stack = walker->stack;
    const struct registers *regs = &walker->regs;
    while (from >= 0 && stack->frames[from].sp < regs->sp)
        from--;
    if (from < 0)
        return -1;
    const struct stack_frame *old = &stack->frames[from];
    bool same = old->sp == regs->sp && old->address == walker->address &&
                old->exact == walker->exact &&
                (old->rbp_use < 0 || (regs->rbp_known && regs->rbp == old->rbp));
    return same ? from : -1;
}

/* Compares what proves the frames from old frame `join` outwards, `wanted` frames of it; -1: all
 * equal; else the check that differs. */
static int compare(struct stack *stack, int join, unsigned wanted, uintptr_t rbp_at) {
    const struct stack_frame *old = &stack->frames[join];
    int last = (unsigned)join + 1 > wanted ? (int)stack->frames[join - (int)wanted + 1].checks : 0;
    if (old->rbp_use >= 0)
        stack->checks[old->rbp_use].at = rbp_at;
    for (int i = (int)old->checks - 1; i >= last; i--)
        if (UNLIKELY(word_at(stack->checks[i].at) != stack->checks[i].value))
            return i;
    return -1;
}

/* The old frames from `join` outwards to the one whose step has check `differs` are true: they
 * become fresh, and the walker stands in the last of them. Returns its index. */
static int take_over(struct walker *walker, int join, int differs) {
    const struct stack *stack = walker->stack;
    int i = join;
    for (;; i--) {
        const struct stack_frame *old = &stack->frames[i];
        int first = i ? stack->frames[i - 1].checks : 0;
        walker->regs.sp = old->sp;
        walker->address = old->address;
        walker->exact = old->exact;
        if (differs >= first)
            return i; /* rbp: in the registers from the step before, or as joined */
        struct stack_fresh *fresh = add_fresh(walker);
        fresh->frame.module = old->module;
        uint64_t packed = rules_find(walker->address, walker->exact);
        step(walker, packed, fresh); /* same words, same way; fills the registers */
        walker->exact = rule_kind(packed) == CFI_SIGNAL;
    }
}

INLINE void put(struct stack *stack, const struct stack_fresh *fresh, bool outermost) {
    struct stack_frame *frame = &stack->frames[stack->count];
    *frame = fresh->frame;
    frame->rbp_use = -1;
    if (!outermost) {
        /* Backwards, because checks are compared from the last to the first. */
        for (unsigned i = fresh->check_count; i-- > 0;)
            stack->checks[stack->check_count++] = fresh->checks[i];
        if (fresh->uses_rbp) /* always the first that a step reads */
            frame->rbp_use = (int16_t)(stack->check_count - 1);
        else if (fresh->keeps_rbp)
            frame->rbp_use = stack->frames[stack->count - 1].rbp_use;
    }
    frame->checks = (uint16_t)stack->check_count;
    stack->count++;
}

static void begin(struct walker *walker, struct stack *stack, uintptr_t frame) {
    uintptr_t page = frame & ~(OS_PAGE_BYTES - 1);
    if (frame + 16 < stack->low || frame + 16 >= stack->high) {
        stack->low = page;
        stack->high = page + OS_PAGE_BYTES;
    } else if (frame < stack->low) {
        stack->low = page;
    }
    walker->stack = stack;
    walker->fresh_count = 0;
    walker->regs = (struct registers){.sp = frame + 16};
    walker->exact = false;
    load_rbp(walker, frame);
    walker->address = word_at(frame + 8);
}

static size_t frame_bytes(uint32_t room) { /* of the frames and their checks */
    return room * (sizeof(struct stack_frame) + 2 * sizeof(struct stack_check));
}

bool stack_make_room(struct stack *stack, uint32_t frames) {
    static const size_t fresh_bytes = sizeof(struct stack_fresh) * 2 * MEMCTX_DEPTH_MAX;
    uint32_t room = stack->room ? stack->room : STACK_FRAMES_FIRST;
    while (room < frames)
        room *= 2;
    if (room > STACK_FRAMES_MAX)
        return false;
    if (room == stack->room)
        return true;
    struct stack old = *stack;
    char *memory = meta_alloc(frame_bytes(room) + fresh_bytes);
    if (!memory)
        return false;
    stack->room = room;
    stack->frames = (struct stack_frame *)memory;
    stack->checks = (struct stack_check *)(stack->frames + room);
    stack->fresh = (struct stack_fresh *)(memory + frame_bytes(room));
    if (!old.frames)
        return true;
    __builtin_memcpy(stack->frames, old.frames, old.room * sizeof *old.frames);
    __builtin_memcpy(stack->checks, old.checks, 2UL * old.room * sizeof *old.checks);
    __builtin_memcpy(stack->fresh, old.fresh, fresh_bytes);
    meta_free(old.frames, frame_bytes(old.room) + fresh_bytes);
    return true;
}

void stack_walk(struct stack *stack, uintptr_t frame, unsigned depth) {
    struct walker walker;
    int old = (int)stack->count - 1, joined = -1;
    enum stack_end end = stack->end;
    begin(&walker, stack, frame);
    for (;;) {
        int join = find_join(&walker, old);
        if (join >= 0) {
            unsigned have = walker.fresh_count;
            unsigned wanted = depth > have ? depth - have : 1;
            bool enough = (unsigned)join + 1 >= wanted || stack->end != STACK_OPEN;
            int differs = enough ? compare(stack, join, wanted, walker.regs.rbp_at) : -1;
            if (enough && differs < 0) {
                joined = join;
                break;
            }
            /* Too little is known beyond the old frames to fill the depth: walk anew. */
            old = enough ? take_over(&walker, join, differs) - 1 : -1;
        }
        if (walker.fresh_count >= 2 * depth || walker.fresh_count >= 2 * MEMCTX_DEPTH_MAX - 1) {
            end = STACK_OPEN;
            break;
        }
        struct stack_fresh *fresh = add_fresh(&walker);
        uint64_t packed = rules_find(walker.address, walker.exact);
        fresh->frame.module = (uint16_t)rule_module(packed);
        enum cfi_kind kind = rule_kind(packed);
        if (kind == CFI_END || kind == CFI_NONE) {
            end = kind == CFI_END ? STACK_COMPLETE : STACK_NO_CFI;
            break;
        }
        if (!step(&walker, packed, fresh)) {
            end = STACK_BROKEN;
            break;
        }
        if (!walker.address) { /* the kernel and makecontext end some stacks so */
            end = STACK_COMPLETE;
            break;
        }
        walker.exact = kind == CFI_SIGNAL;
    }
    if (joined < 0) {
        stack->end = end;
        stack->check_count = 0;
    } else {
        stack->check_count = stack->frames[joined].checks;
    }
    unsigned count = (unsigned)(joined + 1) + walker.fresh_count;
    unsigned checks = stack->check_count;
    for (unsigned i = 0; i < walker.fresh_count; i++)
        checks += stack->fresh[i].check_count;
    if (UNLIKELY(count > stack->room || checks > stack->room * 2) &&
        !stack_make_room(stack, count > stack->room ? count : stack->room + 1)) {
        /* Full: what is outside is beyond every depth, or there is no memory for it. */
        bool again = stack->count > 0;
        stack->count = stack->kept = 0;
        stack->end = STACK_BROKEN;
        if (again)
            stack_walk(stack, frame, depth);
        return;
    }
    stack->count = stack->kept = (uint32_t)(joined + 1);
    for (unsigned i = walker.fresh_count; i-- > 0;)
        put(stack, &stack->fresh[i], joined < 0 && i + 1 == walker.fresh_count);
}
