/* SPDX-License-Identifier: MIT */
/*
 * stack.h - keeps the stack of one thread as it was last walked, and walks it again where it
 * changed.
 *
 * A walk from the innermost frame outwards steps by rules until it meets a frame of the last walk
 * in the same state (stack pointer, return address, and rbp if a frame further out depends on rbp).
 * From that frame on, the walk only compares the words that the last walk read to find its way:
 * return addresses, saved rbps that were used, pointers to realigned or interrupted stacks. Equal
 * words mean, by induction over the rules, that a fresh walk would take the same way. Where a word
 * differs, walking by rules goes on from that frame. There is one exception: if only a frame's
 * address differs, as after another call in the same function, and the rules of both addresses are
 * alike, the frame is changed in place and the comparison goes on. Each word is read only after the
 * words it depends on were compared, so a read is as safe as in a fresh walk.
 *
 * Threads: a struct stack belongs to the thread that owns the heap; while no thread uses the heap,
 * context/visit.c may free it.
 */
#ifndef MEMCTX_STACK_H
#define MEMCTX_STACK_H

#include "path/unwind_rules.h"
#include <memctx/options.h>

/* number of frames that there is room for at first: they and their checks take 5 KiB */
#define STACK_FRAMES_FIRST 64U
#define STACK_FRAMES_MAX 512U                   /* greatest room for frames */
#define STACK_DEPTH_MAX 256U                    /* greatest `depth` of a walk: a folded stack */
#define STACK_FRESH_MAX (STACK_DEPTH_MAX + 64U) /* most new frames of one walk */
#define STEP_CHECKS_MAX 4U                      /* greatest number of words that one step reads */
#define RBP_KEPT 0U /* value of caller_rbp: the caller's rbp is still in rbp */
#define RBP_LOST 1U /* value of caller_rbp: the caller's rbp is saved nowhere */

enum stack_end {                     /* kind of the outermost frame of a walk */
                 STACK_COMPLETE = 0, /* the outermost frame of the thread */
                 STACK_OPEN,         /* a frame beyond which the walk did not look */
                 STACK_NO_CFI,       /* a frame without usable unwind information */
                 STACK_BROKEN, /* a frame where the stack contradicts the unwind information */
};

struct stack_frame {
    uintptr_t address; /* return address, or the interrupted instruction */
    uintptr_t sp;
    /* address where this frame saved its caller's rbp, or RBP_KEPT, or RBP_LOST */
    uintptr_t caller_rbp;
    uint64_t rule; /* the packed unwind rule for `address` */
    /* For the layer `context`: node and hash of the frame's prefix; see context/prefix.h. */
    uint32_t node, hash;
    union {
        struct {
            /* for the layer `context`: length of the path up to this frame; 0: not known */
            uint16_t length;
            uint16_t exact : 1;   /* a signal interrupted the program at `address` */
            uint16_t before : 15; /* for `context`: see ADMIT_BEFORE_UNKNOWN */
            /* index of the check that proves this frame's rbp; -1: no further frame uses that
             * rbp */
            int16_t rbp_use;
            uint16_t checks; /* checks [0, checks) prove this frame and all frames further out */
        };
        /* all fields of the struct as one word. A plain frame (stack.c) gets the word of the
         * next frame outwards, changed by the macros below. */
        uint64_t proof;
    };
};
#define STACK_PROOF_FRESH(proof) ((proof) & ~0xffffffffUL)   /* makes length, exact and before 0 */
#define STACK_PROOF_NO_USE(proof) ((proof) | 0xffffUL << 32) /* makes rbp_use -1 */
/* makes rbp_use the index of the check after the frame's present ones */
#define STACK_PROOF_USE(proof) (((proof) & ~(0xffffUL << 32)) | (proof) >> 48 << 32)
#define STACK_PROOF_CHECK (1UL << 48) /* adding this to `proof` adds one to `checks` */
_Static_assert(offsetof(struct stack_frame, rbp_use) - offsetof(struct stack_frame, proof) == 4 &&
                   offsetof(struct stack_frame, checks) - offsetof(struct stack_frame, proof) == 6,
               "where these stand in `proof`");

/* A word of the stack that a walk read: its address and its value. */
struct stack_check {
    uintptr_t at;
    uint64_t value;
};

/* Compares the words of checks [first, end) with the stack, from the last check, which is the
 * innermost, to the first. A word is read only when all words further in were equal. Returns
 * `first` if all are equal; otherwise the check before the returned one differs. */
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
    /* frame.checks is the number of checks that the step from this frame made */
    struct stack_frame frame;
    struct stack_check checks[STEP_CHECKS_MAX]; /* in the order of reading */
};

#define STACK_RULES 256U
/* number of walks after which a thread gets copies of rules: most threads walk less often */
#define STACK_RULES_AFTER 1024U
/* The thread's own copies of rules, found by a hash of the address. */
struct stack_rules {
    uint32_t version; /* unwind_rules_version when the rules were copied */
    struct rule rules[STACK_RULES];
};

struct stack {
    uint32_t count, check_count; /* number of frames, and of checks */
    enum stack_end end;          /* of the outermost frame */
    uint32_t kept;               /* frames [0, kept) are the same as before the last walk */
    uintptr_t low, high; /* bounds of the memory known to be mapped around the stack pointer */
    /* number of frames that there is room for; there is room for twice as many checks */
    uint32_t room;
    uint16_t walks; /* number of walks, counted up to STACK_RULES_AFTER */
    /* The last walk read words outside the thread's present stack, such as those of a stack that a
     * signal interrupted, or of the coroutine that began the present one. That stack may be
     * unmapped before the next walk, so the caller has to forget the walked frames. */
    bool astray;
    struct stack_frame *frames; /* outermost first; frames and checks share one piece of memory */
    struct stack_check *checks;
    /* Memory for the frames of the walk that is under way: STACK_FRESH_MAX frames, innermost first.
     * The thread's struct stack_rules stands directly before them. The fresh frames do not stand on
     * the program's stack, which may be tiny. */
    struct stack_fresh *fresh;
};

/* Makes room for `frames` frames and keeps the present frames. False: out of memory, the budget is
 * used up, or `frames` exceeds STACK_FRAMES_MAX; nothing changed. */
bool stack_make_room(struct stack *stack, uint32_t frames);
/* Gives all memory of the stack back. */
void stack_end(struct stack *stack);

/* Walks the stack from the exported function whose frame pointer is `frame`. stack_make_room must
 * have been called before. The caller's rbp is saved at frame, the return address at frame + 8, and
 * the caller's stack pointer is frame + 16. Afterwards the innermost `depth` frames, or all if
 * there are fewer, are as the stack is now. Frames further out may be those of an earlier walk, and
 * may be out of date. Never fails: if memory for all frames is refused, keeps the innermost ones
 * that there is room for, and `end` is STACK_OPEN. */
void stack_walk(struct stack *stack, uintptr_t frame, unsigned depth);

#endif
