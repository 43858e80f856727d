/* SPDX-License-Identifier: MIT */
/*
 * stack.h - keeps the stack of one thread as it was last walked, and walks it again where it
 * changed.
 *
 * A walk from the innermost frame outwards steps by rules until it meets a frame of the last walk
 * in the same state (stack pointer, return address, and rbp where a further frame depends on it).
 * From there it only compares the words that the last walk read to find its way: return addresses,
 * saved rbps that were used, pointers to realigned or interrupted stacks. Equal words mean, by
 * induction over the rules, that a fresh walk would take the same way. Where a word differs,
 * walking by rules goes on from that frame. There is one exception: if only a frame's address
 * differs, as after another call in the same function, and the rules of both addresses are alike,
 * the frame is changed in place and the comparison goes on. Each word is read only after the words
 * it depends on were compared, so a read is as safe as in a fresh walk.
 *
 * Threads: one heap's thread owns it.
 */
#ifndef MEMCTX_STACK_H
#define MEMCTX_STACK_H

#include "path/rules.h"
#include <memctx/options.h>

/* these frames, their checks and some fresh frames fit in one OS page */
#define STACK_FRAMES_FIRST 64U
#define STACK_FRAMES_MAX 512U
#define STACK_DEPTH_MAX 256U /* greatest depth of a walk */
#define STACK_FRESH_MAX (STACK_DEPTH_MAX + 64U)
#define STEP_CHECKS_MAX 4U
#define RBP_KEPT 0U /* for caller_rbp: the caller's rbp is still in rbp */
#define RBP_LOST 1U /* value of caller_rbp: the caller's rbp is saved nowhere */

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
    /* For the layer above, about the path up to this frame: see context/admit.h. */
    uint32_t node, hash;
    union {
        struct {
            uint16_t length;      /* 0: not known */
            uint16_t exact : 1;   /* address was interrupted by a signal */
            uint16_t before : 15; /* for the layer above, too */
            /* the check that proves this frame's rbp; -1: no further frame uses it */
            int16_t rbp_use;
            uint16_t checks; /* checks [0, checks) prove everything from this frame outwards */
        };
        /* all fields of the struct; a plain frame has those of the next frame outwards, changed
         * by: */
        uint64_t proof;
    };
};
#define STACK_PROOF_FRESH(proof) ((proof) & ~0xffffffffUL) /* length, exact and before are 0 */
#define STACK_PROOF_NO_USE(proof) ((proof) | 0xffffUL << 32)
#define STACK_PROOF_CHECK (1UL << 48) /* adds one to `checks` */
_Static_assert(offsetof(struct stack_frame, rbp_use) - offsetof(struct stack_frame, proof) == 4 &&
                   offsetof(struct stack_frame, checks) - offsetof(struct stack_frame, proof) == 6,
               "where these stand in `proof`");

/* A word of the stack that the walk read. */
struct stack_check {
    uintptr_t at;
    uint64_t value;
};

/* Compares words with those that a walk read there, the innermost first; each word is compared only
 * when those further in were equal. Returns `first` if all are equal; otherwise the check before
 * the returned one differs. */
INLINE struct stack_check *stack_compare(struct stack_check *end, const struct stack_check *first) {
#define EQUAL(i) LIKELY(*(const volatile uint64_t *)end[-(i)].at == end[-(i)].value)
    while (end - first >= 4 && EQUAL(1) && EQUAL(2) && EQUAL(3) && EQUAL(4))
        end -= 4;
    while (end > first && EQUAL(1))
        end--;
#undef EQUAL
    return end;
}

/* A frame of the walk that is under way. */
struct stack_fresh {
    struct stack_frame frame;                   /* in `checks`: how many checks its step made */
    struct stack_check checks[STEP_CHECKS_MAX]; /* in the order of reading */
};

#define STACK_RULES 256U
#define STACK_RULES_AFTER 1024U /* walks before the memory is taken: most threads never use it */
/* Rules that the thread met last, by address. */
struct stack_rules {
    uint32_t version; /* rules_version */
    struct rule rules[STACK_RULES];
};

struct stack {
    uint32_t count, check_count;
    enum stack_end end;
    uint32_t kept;       /* after a walk: frames [0, kept) are as the walk before left them */
    uintptr_t low, high; /* bounds of the memory known to be mapped around the stack pointer */
    uint32_t room;       /* frames there is room for, with room for twice as many checks */
    uint32_t walks;      /* at most STACK_RULES_AFTER */
    struct stack_frame *frames; /* outermost first; one piece of memory with `checks` */
    struct stack_check *checks;
    /* STACK_FRESH_MAX frames, innermost first. struct stack_rules stands before them. They are here
     * because programs' stacks may be tiny. */
    struct stack_fresh *fresh;
};

/* Makes room for `frames` frames and keeps the frames that there are. False: out of memory, nothing
 * changed. */
bool stack_make_room(struct stack *stack, uint32_t frames);
/* Gives all its memory back. */
void stack_end(struct stack *stack);

/* Walks the stack from the exported function whose frame pointer is `frame`; stack_make_room comes
 * first. The caller's rbp is saved at frame, the return address at frame + 8, and the caller's
 * stack pointer is frame + 16. Afterwards the innermost `depth` frames, or all there are, are true;
 * those further out may be of earlier walks. */
void stack_walk(struct stack *stack, uintptr_t frame, unsigned depth);

#endif
