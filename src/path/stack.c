/* SPDX-License-Identifier: MIT */
/* Walks the stack by unwind rules until it joins the frames of the last walk; see stack.h. */
#include "path/stack.h"
#include "os/meta.h"
#include "region/tables.h"

/* A word less than this many bytes beyond the known part of the stack extends the known part. A
 * word further out may belong to another stack, so only the word's own OS page is tested. */
#define GROW_MAX (1UL << 20)

/* Values of rbp_use in fresh frames. */
#define USES_RBP 0
#define NO_USE (-1)
#define PLAIN_MAX 48 /* greatest number of new frames of a walk over plain frames */

struct walker {
    struct stack *stack;
    uintptr_t address, sp, rbp_at; /* rbp_at: where to read the frame's rbp; 0: not known */
    bool exact;                    /* a signal interrupted the program at `address` */
    unsigned count, check_count;   /* number of frames in stack->fresh, and of all their checks */
};

/* True if a word may be read. The unwind information of file-backed code led to the word, so it is
 * nearly always readable. But a fault must not happen even if the information is wrong, or if
 * assembly code changed the stack pointer without unwind information for this. */
static NOINLINE bool may_read(struct stack *stack, uintptr_t address) {
    uintptr_t page_end = (address & ~(OS_PAGE_BYTES - 1)) + OS_PAGE_BYTES;
    if (!os_is_readable(address, page_end))
        return false;
    uintptr_t gap = address - stack->high;
    if (address >= stack->high && gap < GROW_MAX &&
        (gap < OS_PAGE_BYTES || os_is_readable(stack->high, page_end)))
        stack->high = page_end;
    return true;
}

/* An aligned word lies within one OS page. So it is readable if its first byte is. */
INLINE bool readable(struct stack *stack, uintptr_t address) {
    if (UNLIKELY(address & 7))
        return false;
    return LIKELY(address - stack->low < stack->high - stack->low) || may_read(stack, address);
}

INLINE uint64_t word_at(uintptr_t address) {
    return *(const volatile uint64_t *)address;
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
    /* the interrupted code may have run on another stack */
    walker->sp = check(walker, fresh, saved + CFI_SIGNAL_SP);
    walker->address = check(walker, fresh, saved + CFI_SIGNAL_PC);
    fresh->frame.caller_rbp = saved + CFI_SIGNAL_RBP;
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

/* True if the walker has reached this old frame in the state in which the last walk reached the
 * frame. The caller still has to compare the frame's address and the value of rbp. */
INLINE bool reaches(const struct walker *walker, const struct stack_frame *old) {
    return old->sp == walker->sp && old->exact == walker->exact &&
           (old->rbp_use < 0 || (walker->rbp_at && readable(walker->stack, walker->rbp_at)));
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
        int i = k < join ? k : join - 1; /* the step that read check k leads to frame i */
        while (stack->frames[i].checks > k)
            i--;
        if (k != stack->frames[i].checks || !word || !adjust(stack, i, word))
            return k;
        check->value = word;
    }
    return -1;
}

/* Copies of adjust and join_at that are not inlined, so that a forked child runs little code. */
static NOINLINE bool adjust_not_inlined(struct stack *stack, int frame, uintptr_t address) {
    return adjust(stack, frame, address);
}
static NOINLINE int join_at_not_inlined(struct stack *stack, int join, unsigned wanted,
                                        uintptr_t rbp_at) {
    return join_at(stack, join, wanted, rbp_at);
}

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
    if ((plain_by_sp(packed) || plain_by_rbp(packed)) && rule_module(packed) != MODULE_NONE)
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

/* Adds a new frame to the stack, as its innermost frame. */
INLINE void put(struct stack *stack, const struct stack_fresh *fresh, bool outermost) {
    struct stack_frame *frame = &stack->frames[stack->count];
    *frame = fresh->frame;
    frame->rbp_use = -1;
    if (!outermost) {
        /* The checks go in reverse order, because they are compared from the last to the first. */
        for (unsigned i = fresh->frame.checks; i-- > 0;)
            stack->checks[stack->check_count++] = fresh->checks[i];
        if (fresh->frame.rbp_use == USES_RBP)
            frame->rbp_use = (int16_t)(stack->check_count - 1);
        else if (fresh->frame.caller_rbp == RBP_KEPT)
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
    *walker = (struct walker){
        .stack = stack, .address = word_at(frame + 8), .sp = frame + 16, .rbp_at = frame};
}

static size_t frame_bytes(uint32_t room) { /* bytes of the frames and their checks */
    return room * (sizeof(struct stack_frame) + 2 * sizeof(struct stack_check));
}

/* Bytes of the first piece of memory. Behind the frames and checks it holds the thread's own rules
 * and the fresh frames. The first piece stays when the frames and checks move to a larger piece.
 * The fresh frames stand last, because a walk touches only the first few of them. */
#define FIRST_BYTES                                                                                \
    (frame_bytes(STACK_FRAMES_FIRST) + STACK_FRESH_MAX * sizeof(struct stack_fresh) +              \
     sizeof(struct stack_rules))

static void put_room(struct stack *stack, char *memory, uint32_t room) {
    stack->room = room;
    stack->frames = (struct stack_frame *)memory;
    stack->checks = (struct stack_check *)(stack->frames + room);
}

static bool make_first(struct stack *stack) {
    char *memory = meta_alloc(FIRST_BYTES);
    if (!memory)
        return false;
    put_room(stack, memory, STACK_FRAMES_FIRST);
    memory += frame_bytes(STACK_FRAMES_FIRST) + sizeof(struct stack_rules);
    stack->fresh = (struct stack_fresh *)(void *)memory;
    return true;
}

/* Returns the bytes that are taken from the tables budget. The first piece is part of
 * TABLES_HEAP_BYTES, so it is not taken. */
static int64_t counted_bytes(uint32_t room) {
    return room > STACK_FRAMES_FIRST ? (int64_t)meta_block_bytes(frame_bytes(room)) : 0;
}

/* Frees the piece of memory to which frames and checks have moved, if there is one, and gives its
 * bytes of the budget back. */
static void free_grown(const struct stack *stack) {
    if (stack->room > STACK_FRAMES_FIRST)
        meta_free(stack->frames, frame_bytes(stack->room));
    tables_add(-counted_bytes(stack->room));
}

bool stack_make_room(struct stack *stack, uint32_t frames) {
    if (frames > STACK_FRAMES_MAX || (!stack->room && !make_first(stack)))
        return false;
    uint32_t room = stack->room;
    while (room < frames)
        room *= 2;
    if (room == stack->room)
        return true;
    struct stack old = *stack;
    bool may = tables_take(counted_bytes(room), TABLES_STACK);
    char *memory = may ? meta_alloc(frame_bytes(room)) : NULL;
    if (!memory) {
        tables_add(may ? -counted_bytes(room) : 0);
        return false;
    }
    put_room(stack, memory, room);
    __builtin_memcpy(stack->frames, old.frames, old.count * sizeof *old.frames);
    __builtin_memcpy(stack->checks, old.checks, old.check_count * sizeof *old.checks);
    free_grown(&old);
    return true;
}

void stack_end(struct stack *stack) {
    free_grown(stack);
    if (stack->room)
        meta_free((char *)stack->fresh - sizeof(struct stack_rules) -
                      frame_bytes(STACK_FRAMES_FIRST),
                  FIRST_BYTES);
    *stack = (struct stack){0};
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
    for (unsigned i = walker->count; i-- > 0;)
        put(stack, &stack->fresh[i], joined < 0 && i + 1 == walker->count);
    return true;
}

void stack_walk(struct stack *stack, uintptr_t frame, unsigned depth) {
    struct walker walker;
    stack->kept = stack->count;
    if (LIKELY(walk_plainly(stack, frame, depth)))
        return;
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
        uint64_t rule = unwind_rules_find(walker.address, walker.exact);
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
        /* The kernel and makecontext end some stacks by a return address of 0. A signal at address
         * 0 means that the program called a null pointer. */
        if (UNLIKELY(!walker.address)) {
            end = kind == CFI_SIGNAL ? STACK_NO_CFI : STACK_COMPLETE;
            break;
        }
        walker.exact = kind == CFI_SIGNAL;
    }
    if (UNLIKELY(!end_walk(&walker, joined, end)))
        stack_walk(stack, frame, depth);
}
