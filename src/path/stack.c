/* SPDX-License-Identifier: MIT */
/* Walks the stack, mostly over plain frames alone, until the walk joins the frames of the last
 * walk; see stack.h. Other frames: stack_rules.c. */
#include "path/stack_walk.h"

#define PLAIN_MAX 48 /* greatest number of new frames of a walk over plain frames */

/* The usual walk meets some new frames and then old ones, and its new frames are *plain*. The rule
 * of a plain frame finds the CFA at a distance from the stack pointer or from rbp. The caller's rbp
 * is still in rbp, or was saved at a distance from the CFA. struct plain_frame is a new frame of
 * such a walk. */
struct plain_frame {
    uintptr_t address, sp;
    uint64_t rule;
    /* where the frame's rbp was read; set only if the frame finds its caller by rbp */
    uintptr_t rbp_at;
};
struct plain {
    struct stack *stack;
    uintptr_t frame, address, sp; /* frame: where the walk began; address, sp: where it is now */
    unsigned by_rbp;              /* number of new frames that find their callers by rbp */
    /* bound for sp: the stack pointer of the outermost old frame, or the end of the memory known to
     * be mapped if that is lower. So while sp is not above `end`, an old frame stands at sp or
     * further out, and all words below sp can be read. */
    uintptr_t end;
    struct plain_frame *first, *next; /* the new frames are [first, next), innermost first */
    struct stack_frame *old;          /* the innermost old frame that the walk can still meet */
    unsigned depth;
};

/* True if the rule is that of a plain frame, and its CFA is found from the stack pointer
 * (plain_by_sp) or from rbp (plain_by_rbp). */
#define PLAIN_BITS 0x17 /* the kind, and the higher bit of enum cfi_rbp */
_Static_assert(CFI_SP == 3 && CFI_RBP == 4 && CFI_RBP_AT_CFA == 1, "plain rules have these bits");
INLINE bool plain_by_sp(uint64_t rule) {
    return LIKELY((rule & PLAIN_BITS) == CFI_SP);
}
INLINE bool plain_by_rbp(uint64_t rule) {
    return (rule & PLAIN_BITS) == CFI_RBP;
}

/* True if a plain frame saved its caller's rbp. */
INLINE bool plain_saves_rbp(uint64_t rule) {
    return rule & 8;
}
/* Returns where a plain frame saved its caller's rbp. */
INLINE uintptr_t plain_rbp(uint64_t rule, uintptr_t cfa) {
    return cfa + (uintptr_t)(intptr_t)rule_rbp_offset(rule);
}

/* Returns the address of the word with the rbp of the frame that the walk has come to. `next` is
 * the end of the new frames, and `sp` is the stack pointer of the frame. */
INLINE uintptr_t plain_rbp_at(const struct plain *plain, const struct plain_frame *next,
                              uintptr_t sp) {
    for (uintptr_t cfa = sp; next-- > plain->first; cfa = next->sp)
        if (plain_saves_rbp(next->rule))
            return plain_rbp(next->rule, cfa);
    return plain->frame;
}

/* For a frame that finds its caller by rbp: returns the caller's stack pointer minus `sp`. This
 * number may be wrong, and plain_bytes checks it. 0: the frame is not plain, its rbp was not saved
 * in the known part of the stack, or an address is not aligned. */
INLINE uintptr_t bytes_by_rbp(struct plain *plain, struct plain_frame *next, uintptr_t sp,
                              uint64_t rule) {
    uintptr_t at = plain_rbp_at(plain, next, sp);
    if (UNLIKELY(!plain_by_rbp(rule)) || UNLIKELY(at - plain->frame >= plain->end - plain->frame) ||
        UNLIKELY(at & 7))
        return 0;
    uintptr_t bytes = word_at(at) + (uintptr_t)(intptr_t)rule_cfa_offset(rule) - sp;
    next->rbp_at = at;
    plain->by_rbp++;
    return LIKELY(!(bytes & 7)) ? bytes : 0;
}

/* Returns the distance from the stack pointer of a frame to its caller's. 0: the frame is not
 * plain, or the distance is larger than `room`. */
INLINE uintptr_t plain_bytes(struct plain *plain, struct plain_frame *next, uintptr_t sp,
                             uint64_t rule, uintptr_t room) {
    uintptr_t bytes = (uintptr_t)(intptr_t)rule_cfa_offset(rule);
    if (!plain_by_sp(rule))
        bytes = bytes_by_rbp(plain, next, sp, rule);
    return LIKELY(bytes - 1 < room) ? bytes : 0;
}

INLINE void plain_add(struct plain_frame *next, uintptr_t address, uintptr_t sp, uint64_t rule) {
    next->address = address;
    next->sp = sp;
    next->rule = rule;
}

/* JOIN_DONE: the walk has met an old frame, and all wanted frames from there outwards are right.
 * JOIN_FURTHER_OUT: the walk goes on at plain->address. JOIN_FAILED: stack_walk has to walk by all
 * rules. */
enum plain_join { JOIN_DONE, JOIN_FURTHER_OUT, JOIN_FAILED };

/* Makes new frames of the old frames from plain->old outwards, up to but not including `outer`.
 * These old frames are unchanged, but the last of them may have another caller now. The walk then
 * goes on at that caller, and `outer` is the next old frame that the walk may meet. */
static enum plain_join take_over_plainly(struct plain *plain, struct stack_frame *outer) {
    for (; plain->old > outer; plain->old--) {
        const struct stack_frame *old = plain->old;
        if (UNLIKELY(old->exact) || plain->next == plain->first + PLAIN_MAX)
            return JOIN_FAILED;
        uintptr_t room = plain->end - old->sp;
        uintptr_t bytes = plain_bytes(plain, plain->next, old->sp, old->rule, room);
        if (UNLIKELY(!bytes))
            return JOIN_FAILED;
        plain_add(plain->next++, old->address, old->sp, old->rule);
        plain->sp = old->sp + bytes;
        plain->address = word_at(plain->sp - 8);
    }
    return JOIN_FURTHER_OUT;
}

/* The walk came to an old frame, plain->old. `rule`, the rule of the address that is there now,
 * makes the same step as the old frame's rule. Checks the old frames from there outwards. If only
 * some of them are unchanged, takes these over, and the walk goes on at the caller of the last
 * one. */
static NOINLINE enum plain_join plain_join(struct plain *plain, uint64_t rule) {
    struct stack *stack = plain->stack;
    struct stack_frame *old = plain->old, *outer = old;
    unsigned count = (unsigned)(plain->next - plain->first);
    unsigned wanted = plain->depth > count ? plain->depth - count : 1;
    int at = (int)(old - stack->frames);
    uintptr_t rbp_at = 0;
    if (UNLIKELY(old->exact) || UNLIKELY((unsigned)at + 1 < wanted && stack->end == STACK_OPEN))
        return JOIN_FAILED;
    if (old->rbp_use >= 0) {
        rbp_at = plain_rbp_at(plain, plain->next, plain->sp);
        if (UNLIKELY(!readable(stack, rbp_at)))
            return JOIN_FAILED;
    }
    if (old->address != plain->address)
        change_address(stack, at, plain->address, rule);
    int k = join_at(stack, at, wanted, rbp_at);
    if (LIKELY(k < 0))
        return JOIN_DONE;
    do
        if (outer-- == stack->frames)
            return JOIN_FAILED;
    while (outer->checks > k);
    return take_over_plainly(plain, outer);
}

/* Ends a walk that met the old frame plain->old: the new frames replace all old frames further
 * in. */
INLINE void plain_put(const struct plain *plain) {
    struct stack *stack = plain->stack;
    struct stack_frame *top = plain->old;
    uint32_t kept = (uint32_t)(top - stack->frames) + 1;
    struct stack_check *check = &stack->checks[top->checks];
    const struct plain_frame *fresh = plain->next;
    uintptr_t sp = top->sp, address = top->address;
    uint64_t proof = STACK_PROOF_FRESH(top->proof);
    while (fresh-- > plain->first) {
        top++;
        top->rule = fresh->rule;
        top->caller_rbp = RBP_KEPT;
        if (plain_saves_rbp(fresh->rule)) {
            top->caller_rbp = plain_rbp(fresh->rule, sp);
            proof = STACK_PROOF_NO_USE(proof);
        }
        *check++ = (struct stack_check){sp - 8, address};
        if (plain_by_rbp(fresh->rule)) {
            uintptr_t rbp = sp - (uintptr_t)(intptr_t)rule_cfa_offset(fresh->rule);
            *check++ = (struct stack_check){fresh->rbp_at, rbp};
            proof += STACK_PROOF_CHECK;
            proof = STACK_PROOF_USE(proof);
        }
        top->address = address = fresh->address;
        top->sp = sp = fresh->sp;
        top->proof = proof += STACK_PROOF_CHECK;
    }
    stack->count = (uint32_t)(top - stack->frames) + 1;
    stack->check_count = top->checks;
    if (stack->kept > kept)
        stack->kept = kept;
}

/* Looks up a rule in the table of the process, and copies a plain rule to the thread's own
 * rules. */
static NOINLINE uint64_t rule_to_hand(struct rule *place, uintptr_t address) {
    uint64_t packed = unwind_rules_find(address, false);
    if (plain_by_sp(packed) || plain_by_rbp(packed))
        *place = (struct rule){address, packed};
    return packed;
}

/* Returns the rule of an address. Looks among the thread's own rules first, because the table of
 * the process is slower. */
INLINE uint64_t rule_at_hand(struct stack_rules *rules, uintptr_t address) {
    if (UNLIKELY(!rules))
        return unwind_rules_find(address, false);
    struct rule *place = &rules->rules[(address ^ address >> 9) % STACK_RULES];
    return LIKELY(place->key == address) ? place->packed : rule_to_hand(place, address);
}

/* Returns the thread's own rules. NULL: the thread has not walked often enough to have any. */
static struct stack_rules *rules_at_hand(struct stack *stack) {
    uint32_t version = load_acquire(&unwind_rules_version);
    if (LIKELY(stack->walks < STACK_RULES_AFTER)) {
        stack->walks++;
        return NULL;
    }
    struct stack_rules *rules = (struct stack_rules *)(void *)stack->fresh - 1;
    if (UNLIKELY(rules->version != version)) {
        __builtin_memset(rules, 0, sizeof *rules);
        rules->version = version;
    }
    return rules;
}

/* Returns the next old frame outwards if `pass` is true, else `frame` itself. The code has no
 * branch: where many frames are new, the processor cannot predict how many old frames the walk has
 * to pass. */
INLINE struct stack_frame *outer_if(struct stack_frame *frame, bool pass) {
    return (struct stack_frame *)((char *)frame - (-(uintptr_t)pass & sizeof *frame));
}

/* Makes new frames until the walk comes to an old frame, plain->old, whose rule makes the same step
 * as the rule of the address that is there now. Returns the rule of this address. 0: a frame is not
 * plain, or there is no room. */
INLINE uint64_t plain_steps(struct plain *plain, struct stack_rules *rules) {
    struct stack_frame *old = plain->old;
    struct plain_frame *next = plain->next, *last = plain->first + PLAIN_MAX;
    uintptr_t address = plain->address, sp = plain->sp, end = plain->end;
    uint64_t rule;
    for (;;) {
        old = outer_if(old, old->sp < sp);
        old = outer_if(old, old->sp < sp);
        while (UNLIKELY(old->sp < sp))
            old--;
        rule = rule_at_hand(rules, address);
        /* One branch tests both conditions, because the processor cannot predict either of them. */
        if (!((old->sp ^ sp) | rule_difference(rule, old->rule)))
            break;
        uintptr_t bytes = LIKELY(next != last) ? plain_bytes(plain, next, sp, rule, end - sp) : 0;
        if (UNLIKELY(!bytes))
            return 0;
        plain_add(next++, address, sp, rule);
        sp += bytes;
        address = word_at(sp - 8);
    }
    plain->old = old;
    plain->next = next;
    plain->address = address;
    plain->sp = sp;
    return rule;
}

/* Walks over plain frames only. False: some frame is not plain, there is no room, or the last walk
 * is of no use: it left no frames or a broken stack, or was on another stack. The caller then walks
 * by all rules; old frames that this walk has changed in place are right. */
static bool walk_plainly(struct stack *stack, uintptr_t frame, unsigned depth) {
    struct plain_frame fresh[PLAIN_MAX];
    if (UNLIKELY(!stack->count) || UNLIKELY(frame < stack->low) || UNLIKELY(frame & 7) ||
        UNLIKELY(stack->end == STACK_BROKEN))
        return false;
    uintptr_t outermost = stack->frames[0].sp;
    struct stack_rules *rules = rules_at_hand(stack);
    struct plain plain = {.stack = stack,
                          .frame = frame,
                          .address = word_at(frame + 8),
                          .sp = frame + 16,
                          .end = outermost < stack->high ? outermost : stack->high,
                          .first = fresh,
                          .next = fresh,
                          .old = stack->frames + stack->count - 1,
                          .depth = depth};
    if (UNLIKELY(plain.sp > plain.end))
        return false;
    for (;;) {
        uint64_t rule = plain_steps(&plain, rules);
        if (UNLIKELY(!rule))
            return false;
        enum plain_join join = plain_join(&plain, rule);
        if (LIKELY(join == JOIN_DONE))
            break;
        if (UNLIKELY(join == JOIN_FAILED))
            return false;
    }
    unsigned count = (unsigned)(plain.next - plain.first);
    unsigned at = (unsigned)(plain.old - stack->frames);
    if (UNLIKELY(at + 1 + count > stack->room) ||
        UNLIKELY(plain.old->checks + count + plain.by_rbp > stack->room * 2))
        return false;
    plain_put(&plain);
    return true;
}

void stack_walk(struct stack *stack, uintptr_t frame, unsigned depth) {
    stack->kept = stack->count;
    if (UNLIKELY(!walk_plainly(stack, frame, depth)))
        stack_walk_by_rules(stack, frame, depth);
}
