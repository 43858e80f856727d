/* SPDX-License-Identifier: MIT */
/* Walks the stack by all unwind rules until it joins the frames of the last walk; see stack_walk.h.
 */
#include "path/stack_walk.h"
#include "path/v8.h"

/* Values of rbp_use in fresh frames. */
#define USES_RBP 0
#define NO_USE (-1)

struct walker {
    struct stack *stack;
    uintptr_t address, sp, rbp_at; /* rbp_at: where to read the frame's rbp; 0: not known */
    bool exact;                    /* a signal interrupted the program at `address` */
    unsigned count, check_count;   /* number of frames in stack->fresh, and of all their checks */
};

/* To test a range of more bytes than this, is_of_stack does not read it: that might make much
 * memory of other mappings resident. */
#define GROW_MAX (1UL << 20)

/* True if all memory from the known part of the stack to `end`, further out, is mapped and can be
 * read. In a restricted process, false if this is more than GROW_MAX: a filter of system calls may
 * kill a process that calls mremap in malloc. */
static bool is_of_stack(const struct stack *stack, uintptr_t end) {
    uintptr_t known = stack->high - OS_PAGE_BYTES;
    if (end - stack->high <= GROW_MAX)
        return os_is_readable(stack->high, end);
    return !load_relaxed(&os_restricted) && os_is_one_area((void *)known, end - known);
}

/* A word that is mapped in one piece with the known part of the stack extends that part. Any other
 * word belongs to another stack, of which its OS page is now the known part. */
NOINLINE bool stack_may_read(struct stack *stack, uintptr_t address) {
    uintptr_t page_end = (address & ~(OS_PAGE_BYTES - 1)) + OS_PAGE_BYTES;
    if (!os_is_readable(address, page_end))
        return false;
    if (address < stack->high ||
        (address - stack->high >= OS_PAGE_BYTES && !is_of_stack(stack, page_end))) {
        stack->low = page_end - OS_PAGE_BYTES;
        stack->astray = true;
    }
    stack->high = page_end;
    return true;
}

/* Reads a word of the stack and notes it among the checks of the step. */
INLINE uint64_t check(struct walker *walker, struct stack_fresh *fresh, uintptr_t at) {
    uint64_t value = word_at(at);
    fresh->checks[fresh->frame.checks++] = (struct stack_check){at, value};
    walker->check_count++;
    return value;
}

/* Reads the frame's rbp, and notes that the frame's proof needs it. False: it is not known where
 * the rbp was saved, or the word cannot be read. */
static bool check_rbp(struct walker *walker, struct stack_fresh *fresh, uintptr_t *rbp) {
    if (!walker->rbp_at || !readable(walker->stack, walker->rbp_at))
        return false;
    fresh->frame.rbp_use = USES_RBP; /* the check of rbp is always the step's first one */
    *rbp = check(walker, fresh, walker->rbp_at);
    return true;
}

/* Goes to the caller, whose stack pointer is `cfa`. False: the stack contradicts the rule, because
 * callers stand at higher addresses, or the return address cannot be read. */
INLINE bool step_to(struct walker *walker, struct stack_fresh *fresh, uintptr_t cfa) {
    if (UNLIKELY(cfa <= walker->sp) || UNLIKELY(!readable(walker->stack, cfa - 8)))
        return false;
    walker->address = check(walker, fresh, cfa - 8);
    walker->sp = cfa;
    return true;
}

/* Steps from a signal frame to the interrupted code. */
static bool step_signal(struct walker *walker, struct stack_fresh *fresh) {
    uintptr_t saved = walker->sp;
    struct stack *stack = walker->stack;
    if (!readable(stack, saved + CFI_SIGNAL_SP) || !readable(stack, saved + CFI_SIGNAL_PC))
        return false;
    walker->sp = check(walker, fresh, saved + CFI_SIGNAL_SP);
    walker->address = check(walker, fresh, saved + CFI_SIGNAL_PC);
    fresh->frame.caller_rbp = saved + CFI_SIGNAL_RBP;
    /* The interrupted code may have run on another stack. The walk is astray then, also if it joins
     * old frames of that stack before it reads a word there. After a stack overflow, there may be
     * nothing to read at the stack pointer. */
    (void)readable(stack, walker->sp & ~7UL);
    return true;
}

static NOINLINE bool step_any_rule(struct walker *walker, uint64_t packed,
                                   struct stack_fresh *fresh) {
    enum cfi_kind kind = rule_kind(packed);
    enum cfi_rbp saved = rule_rbp(packed);
    uintptr_t cfa = walker->sp + (uintptr_t)(intptr_t)rule_cfa_offset(packed), rbp = 0;
    if (kind == CFI_SIGNAL)
        return step_signal(walker, fresh);
    if ((kind != CFI_SP || saved == CFI_RBP_AT_RBP) && !check_rbp(walker, fresh, &rbp))
        return false;
    if (kind != CFI_SP)
        cfa = rbp + (uintptr_t)(intptr_t)rule_cfa_offset(packed);
    if (kind == CFI_RBP_DEREF) {
        if (!readable(walker->stack, cfa))
            return false;
        cfa = check(walker, fresh, cfa);
    }
    if (!step_to(walker, fresh, cfa))
        return false;
    uintptr_t offset = (uintptr_t)(intptr_t)rule_rbp_offset(packed);
    switch (saved) {
    case CFI_RBP_SAME: break;
    case CFI_RBP_LOST: fresh->frame.caller_rbp = RBP_LOST; break;
    case CFI_RBP_AT_CFA: fresh->frame.caller_rbp = cfa + offset; break;
    case CFI_RBP_AT_RBP: fresh->frame.caller_rbp = rbp + offset; break;
    }
    return true;
}

INLINE void follow_rbp(struct walker *walker, uintptr_t caller_rbp) {
    if (caller_rbp != RBP_KEPT)
        walker->rbp_at = caller_rbp == RBP_LOST ? 0 : caller_rbp;
}

/* Steps from the walker's frame to its caller. False: the stack contradicts the rule. */
INLINE bool step(struct walker *walker, uint64_t packed, struct stack_fresh *fresh) {
    if (LIKELY(rule_kind(packed) == CFI_SP) && LIKELY(rule_rbp(packed) <= CFI_RBP_AT_CFA)) {
        uintptr_t cfa = walker->sp + (uintptr_t)(intptr_t)rule_cfa_offset(packed);
        if (!step_to(walker, fresh, cfa))
            return false;
        if (rule_rbp(packed) == CFI_RBP_AT_CFA)
            fresh->frame.caller_rbp = cfa + (uintptr_t)(intptr_t)rule_rbp_offset(packed);
    } else if (!step_any_rule(walker, packed, fresh)) {
        return false;
    }
    follow_rbp(walker, fresh->frame.caller_rbp);
    return true;
}

INLINE struct stack_fresh *add_fresh(struct walker *walker, uint64_t rule) {
    struct stack_fresh *fresh = &walker->stack->fresh[walker->count++];
    fresh->frame = (struct stack_frame){.address = walker->address,
                                        .sp = walker->sp,
                                        .caller_rbp = RBP_KEPT,
                                        .rule = rule,
                                        .rbp_use = NO_USE,
                                        .exact = walker->exact};
    return fresh;
}

/* Returns the rule of an address for which the table of rules has none. The address may be in code
 * that V8 made; v8_calls tells this from the frame that this code called. */
static NOINLINE uint64_t rule_by_called(const struct walker *walker, uint64_t rule) {
    struct stack *stack = walker->stack;
    if (!v8_is_loaded() || rule_module(rule) != MODULE_NONE || walker->exact || !walker->count ||
        !walker->rbp_at || !readable(stack, walker->rbp_at))
        return rule;
    uintptr_t type_at = word_at(walker->rbp_at) - 8;
    /* not by `readable`, because the type is no word that proves a frame */
    bool may_read = !(type_at & 7) && (type_at - stack->low < stack->high - stack->low ||
                                       os_is_readable(type_at, type_at + sizeof type_at));
    bool by_v8 = may_read && v8_calls(&stack->fresh[walker->count - 1].frame, walker->address,
                                      word_at(type_at));
    return by_v8 ? v8_rule(MODULE_NONE) : rule;
}

INLINE uint64_t find_rule(const struct walker *walker) {
    uint64_t rule = unwind_rules_find(walker->address, walker->exact);
    return LIKELY(rule_kind(rule) != CFI_NONE) ? rule : rule_by_called(walker, rule);
}

/* True if the walker has reached this old frame in the state in which the last walk reached the
 * frame. The caller still has to compare the frame's address and the value of rbp. */
INLINE bool reaches(const struct walker *walker, const struct stack_frame *old) {
    return old->sp == walker->sp && old->exact == walker->exact &&
           (old->rbp_use < 0 || (walker->rbp_at && readable(walker->stack, walker->rbp_at)));
}

/* Copies of adjust and join_at that are not inlined, so that a forked child runs little code. */
static NOINLINE bool adjust_not_inlined(struct stack *stack, int frame, uintptr_t address) {
    return adjust(stack, frame, address);
}
static NOINLINE int join_at_not_inlined(struct stack *stack, int join, unsigned wanted,
                                        uintptr_t rbp_at) {
    return join_at(stack, join, wanted, rbp_at);
}

/* The old frames from `join` outwards are right, up to the frame whose step made the check
 * `different`. Makes fresh frames of all of them but this last one, and puts the walker on the last
 * one. Returns its index. */
static int take_over(struct walker *walker, int join, int different) {
    struct stack *stack = walker->stack;
    for (int i = join;; i--) {
        struct stack_frame *old = &stack->frames[i];
        int first = i ? stack->frames[i - 1].checks : 0;
        walker->sp = old->sp;
        walker->address = old->address;
        walker->exact = old->exact;
        if (different >= first || walker->count >= STACK_FRESH_MAX - 1)
            return i;
        struct stack_fresh *fresh = add_fresh(walker, old->rule);
        fresh->frame.caller_rbp = old->caller_rbp;
        fresh->frame.rbp_use = old->rbp_use >= first ? USES_RBP : NO_USE;
        for (int k = old->checks; k-- > first;)
            fresh->checks[fresh->frame.checks++] = stack->checks[k];
        walker->check_count += fresh->frame.checks;
        follow_rbp(walker, old->caller_rbp);
    }
}

/* Adds a new frame to the stack, as its innermost frame. `open`: the walk stopped at this frame and
 * did not look further out, so the words that the frame's step read prove nothing. */
INLINE void put(struct stack *stack, const struct stack_fresh *fresh, bool open) {
    struct stack_frame *frame = &stack->frames[stack->count];
    *frame = fresh->frame;
    frame->rbp_use = -1;
    if (!open) {
        /* The checks go in reverse order, because they are compared from the last to the first. */
        for (unsigned i = fresh->frame.checks; i-- > 0;)
            stack->checks[stack->check_count++] = fresh->checks[i];
        if (fresh->frame.rbp_use == USES_RBP)
            frame->rbp_use = (int16_t)(stack->check_count - 1);
        else if (fresh->frame.caller_rbp == RBP_KEPT && stack->count)
            frame->rbp_use = frame[-1].rbp_use;
    }
    frame->checks = (uint16_t)stack->check_count;
    stack->count++;
}

/* Begins a walk at the caller of the exported function. If the thread is on another stack than
 * before, only the OS page of the frame is known to be mapped. */
static void begin(struct walker *walker, struct stack *stack, uintptr_t frame) {
    uintptr_t page = frame & ~(OS_PAGE_BYTES - 1);
    if (frame + 16 < stack->low || frame + 16 >= stack->high) {
        stack->low = page;
        stack->high = page + OS_PAGE_BYTES;
    } else if (frame < stack->low) {
        stack->low = page;
    }
    stack->astray = false;
    *walker = (struct walker){
        .stack = stack, .address = word_at(frame + 8), .sp = frame + 16, .rbp_at = frame};
}

/* Keeps the innermost frames that there is room for. The outermost frame that stays needs no
 * checks. */
static void cut_outer(struct walker *walker) {
    uint32_t room = walker->stack->room, checks = 0;
    unsigned count = 1;
    while (count < walker->count && count < room &&
           (checks += walker->stack->fresh[count - 1].frame.checks) <= 2 * room)
        count++;
    walker->count = count;
}

/* Ends a walk: puts its fresh frames behind the old frames [0, joined]. `joined` is -1, and `end`
 * is the kind of the outermost frame, if the walk met no old frame. False: there is no room beside
 * the old frames; they are forgotten, and the caller walks once more. */
static bool end_walk(struct walker *walker, int joined, enum stack_end end) {
    struct stack *stack = walker->stack;
    uint32_t checks = 0;
    if (joined < 0)
        stack->end = end;
    else
        checks = stack->frames[joined].checks;
    stack->check_count = checks;
    uint32_t count = (uint32_t)(joined + 1) + walker->count;
    if (UNLIKELY(count > stack->room || checks + walker->check_count > stack->room * 2) &&
        !stack_make_room(stack, count > stack->room ? count : stack->room + 1)) {
        /* There is no room: there are more than STACK_FRAMES_MAX frames, because old frames beyond
         * every depth are kept, or there is no memory for more frames. */
        if (stack->count) {
            stack->count = stack->kept = 0;
            return false;
        }
        cut_outer(walker);
        stack->end = STACK_OPEN;
    }
    stack->count = (uint32_t)(joined + 1);
    if (stack->kept > stack->count)
        stack->kept = stack->count;
    bool open = joined < 0 && stack->end == STACK_OPEN; /* holds for the outermost fresh frame */
    for (unsigned i = walker->count; i-- > 0; open = false)
        put(stack, &stack->fresh[i], open);
    return true;
}

void stack_walk_by_rules(struct stack *stack, uintptr_t frame, unsigned depth) {
    struct walker walker;
    if (UNLIKELY(stack->end == STACK_BROKEN))
        stack->count = 0; /* the stack may be whole again by now */
    int old = (int)stack->count - 1, joined = -1;
    enum stack_end end = stack->end;
    begin(&walker, stack, frame);
    for (;;) {
        while (old >= 0 && stack->frames[old].sp < walker.sp)
            old--;
        if (old >= 0 && reaches(&walker, &stack->frames[old])) {
            unsigned wanted = depth > walker.count ? depth - walker.count : 1;
            if (UNLIKELY((unsigned)old + 1 < wanted && stack->end == STACK_OPEN)) {
                /* the old frames are too few for the depth, and the frames beyond them are not
                 * known */
                old = -1;
            } else if (adjust_not_inlined(stack, old, walker.address)) {
                int different = join_at_not_inlined(stack, old, wanted, walker.rbp_at);
                if (LIKELY(different < 0)) {
                    joined = old;
                    break;
                }
                old = take_over(&walker, old, different) - 1;
            }
        }
        /* Up to twice the wanted frames are walked: when the stack has become shallower, the next
         * walk wants frames beyond the present depth. */
        if (UNLIKELY(walker.count >= 2 * depth) || UNLIKELY(walker.count >= STACK_FRESH_MAX - 1)) {
            end = STACK_OPEN;
            break;
        }
        uint64_t rule = find_rule(&walker);
        struct stack_fresh *fresh = add_fresh(&walker, rule);
        enum cfi_kind kind = rule_kind(rule);
        if (UNLIKELY(kind == CFI_END || kind == CFI_NONE)) {
            end = kind == CFI_END ? STACK_COMPLETE : STACK_NO_CFI;
            break;
        }
        if (UNLIKELY(!step(&walker, rule, fresh))) {
            end = STACK_BROKEN;
            break;
        }
        /* The kernel and makecontext end some stacks by a return address of 0. This word is a check
         * of the outermost frame: another frame may stand in its place later, where a program
         * copies stacks (greenlets). A signal at address 0 means that the program called a null
         * pointer. */
        if (UNLIKELY(!walker.address)) {
            end = kind == CFI_SIGNAL ? STACK_NO_CFI : STACK_COMPLETE;
            break;
        }
        walker.exact = kind == CFI_SIGNAL;
    }
    if (UNLIKELY(!end_walk(&walker, joined, end)))
        stack_walk(stack, frame, depth);
}
