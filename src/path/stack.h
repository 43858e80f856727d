/* SPDX-License-Identifier: MIT */
/*
 * stack.h - the stack of one thread as it was last walked, and walking it again where it changed.
 *
 * A walk from the innermost frame outwards steps by rules until it meets a frame of the last walk
 * in the same state (stack pointer, return address, and rbp where a further frame depends on it).
 * From there it only compares the words that the last walk read to find its way: return addresses,
 * saved rbps that were used, pointers to realigned or interrupted stacks. Equal words mean, by
 * induction over the rules, that a fresh walk would take the same way. Where a word differs,
 * walking by rules goes on from that frame; but where it is only a frame's address that differs, as after
 * another call in the same function, and the rules of both are alike, the frame is changed in place and
 * the comparison goes on. Each word is read only after those it depends on were compared, so a read is as
 * safe as in a fresh walk.
 *
 * Owned by one heap's thread.
 */
#ifndef MEMCTX_STACK_H
#define MEMCTX_STACK_H

#include "path/rules.h"
#include <memctx/options.h>

#define STACK_FRAMES_FIRST 32U /* with their checks, and some fresh ones, in one OS page */
#define STACK_FRAMES_MAX 512U
#define STACK_DEPTH_MAX 256U /* of a walk */
#define STACK_FRESH_MAX (STACK_DEPTH_MAX + 64U)
#define STEP_CHECKS_MAX 4U
#define RBP_KEPT 0U /* for caller_rbp: the caller's rbp is still in rbp */
#define RBP_LOST 1U /* or nowhere */

enum stack_end {                     /* what the outermost walked frame is */
                 STACK_COMPLETE = 0, /* the outermost frame of the thread */
                 STACK_OPEN,         /* not looked beyond */
                 STACK_NO_CFI,       /* a frame without usable unwind information */
                 STACK_BROKEN,       /* the stack does not hold what the information says */
};

struct stack_frame {
    uintptr_t address; /* return address, or the interrupted instruction */
    uintptr_t sp;
    uintptr_t caller_rbp; /* where this frame saved its caller's rbp, or one of the above */
    uint64_t rule;        /* packed */
    /* For the layer above, of the path up to here: see context/admit.h. */
    uint32_t node, hash;
    union {
        struct {
            uint16_t length;      /* 0: not known */
            uint16_t exact : 1;   /* address was interrupted by a signal */
            uint16_t before : 15; /* of the layer above, too */
            int16_t rbp_use;      /* check that tells rbp as this frame has it; -1: no further frame
                              * uses it */
            uint16_t checks;      /* checks [0, checks) prove everything from this frame outwards */
        };
        uint64_t proof; /* all of these, which a plain frame has of the one further out but for: */
    };
};
#define STACK_PROOF_FRESH(proof) ((proof) & ~0xffffffffUL) /* length, exact and before are 0 */
#define STACK_PROOF_NO_USE(proof) ((proof) | 0xffffUL << 32)
#define STACK_PROOF_CHECK (1UL << 48) /* one more of them */
_Static_assert(offsetof(struct stack_frame, rbp_use) - offsetof(struct stack_frame, proof) == 4 &&
                   offsetof(struct stack_frame, checks) - offsetof(struct stack_frame, proof) == 6,
               "where these stand in `proof`");

/* A word of the stack that the walk read. */
struct stack_check {
    uintptr_t at;
    uint64_t value;
};

/* Compares words with what a walk read there, the innermost first, and each only when those further
 * in were equal. Returns `first` if all are; else the one before what is returned differs. */
INLINE struct stack_check *stack_compare(struct stack_check *end, const struct stack_check *first) {
#define EQUAL(i) LIKELY(*(const volatile uint64_t *)end[-(i)].at == end[-(i)].value)
    while (end - first >= 4 && EQUAL(1) && EQUAL(2) && EQUAL(3) && EQUAL(4))
        end -= 4;
    while (end > first && EQUAL(1))
        end--;
#undef EQUAL
    return end;
}

/* A frame of the walk under way. */
struct stack_fresh {
    struct stack_frame frame;                   /* checks: how many its step made */
    struct stack_check checks[STEP_CHECKS_MAX]; /* in the order of reading */
};

#define STACK_RULES 256U
#define STACK_RULES_AFTER 1024U /* walks: most threads never use the memory */
/* Rules that the thread met last, by address. */
struct stack_rules {
    uint32_t version; /* rules_version */
    struct rule rules[STACK_RULES];
};

struct stack {
    uint32_t count, check_count;
    enum stack_end end;
    uint32_t kept;       /* after a walk: frames [0, kept) are as the walk before left them */
    uintptr_t low, high; /* memory known to be mapped around the stack pointer */
    uint32_t room;       /* frames there is room for, and for twice as many checks */
    uint32_t walks;      /* at most STACK_RULES_AFTER */
    struct stack_frame *frames; /* outermost first; one piece of memory with the next */
    struct stack_check *checks;
    /* Innermost first, STACK_FRESH_MAX, and then struct stack_rules; here, because programs' stacks
     * may be tiny. */
    struct stack_fresh *fresh;
};

/* Room for `frames` frames; those that there are stay. False: out of memory, nothing changed. */
bool stack_make_room(struct stack *stack, uint32_t frames);
/* All of it is given back. */
void stack_end(struct stack *stack);

/* Walks, after stack_make_room, from the exported function whose frame pointer is `frame`: the caller's rbp is saved at
 * frame, the return address at frame + 8, the caller's stack pointer is frame + 16. Afterwards the
 * innermost `depth` frames, or all there are, are true; those further out may be of earlier walks.
 */
void stack_walk(struct stack *stack, uintptr_t frame, unsigned depth);

#endif
