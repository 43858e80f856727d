/* SPDX-License-Identifier: MIT */
/*
 * follow.h - the short way from one walked path to the next.
 *
 * Where paths are ever new to the table of traces, a program that builds or searches a tree mostly comes
 * from one path to the same next one as before. A *step* notes, for a view that was walked to, how the
 * stack changed until the next walk: the checks that stayed, where the return addresses of the few new
 * frames stand, and the view of the path. It is a guess: these return addresses are compared with the
 * stack, and then all words that prove the frames that stayed. So it is right for the same reason as a
 * walk is, but nothing has to be searched, and no branch depends on which frames or which children
 * these are. All that a step changes of the last walk are the checks of the new frames; the frames
 * themselves are *pending* until a walk needs them.
 *
 * Only for paths that are not cut off, and whose new frames either all find their caller by the stack pointer,
 * or all are linked by frame pointers, as compilers do it: rbp is saved below the return address, and points at
 * where the caller's is saved. Owned by one heap's thread; one line a view, made at its second
 * allocation when walks are followed by walks.
 */
#ifndef MEMCTX_FOLLOW_H
#define MEMCTX_FOLLOW_H

#include "path/cache.h"

#define STEP_FRAMES_MAX 3U
#define STEPS_JUDGED 1024U /* at a time */

/* From one view's path to the next. Words are counted outwards from the exported function's frame pointer. */
struct path_step {
    struct view *view;      /* NULL: not known */
    struct path_step *next; /* from there; NULL: none was known */
    uint16_t first, frames; /* of the stack that stay; in all */
    uint16_t checks, joint; /* that stay; where the last of them is */
    bool linked;            /* by frame pointers */
    /* Where the new frames' return addresses are, and these: outermost first, and the innermost one again
     * where they are fewer. */
    uint16_t word[STEP_FRAMES_MAX];
    uintptr_t address[STEP_FRAMES_MAX];
} __attribute__((aligned(CACHE_LINE)));
_Static_assert(sizeof(struct path_step) == CACHE_LINE, "as the header says");

INLINE bool stack_holds(const struct stack_check *check) {
    return LIKELY(*(const stack_word *)check->at == check->value);
}

/* Whether all these words are on the stack, the last, innermost one first. */
INLINE bool stack_holds_all(const struct stack_check *first, const struct stack_check *end) {
    for (; end - first >= 4; end -= 4)
        if (!stack_holds(end - 1) || !stack_holds(end - 2) || !stack_holds(end - 3) ||
            !stack_holds(end - 4))
            return false;
    while (end-- > first)
        if (!stack_holds(end))
            return false;
    return true;
}

/* The rest of a step whose frames are linked. */
bool follow_linked(struct stack *stack, const struct path_step *step, const stack_word *words);

/* The step from where that one leads; NULL: none. */
struct path_step *follow_next(struct paths *paths, struct path_step *step);

/* The view of the stack's path, if it is the one that followed the last walked one before; NULL: walk. */
INLINE struct view *follow(struct paths *paths, uintptr_t frame) {
    struct path_step *step = paths->next;
    const struct stack *stack = &paths->stack;
    const stack_word *words = (const stack_word *)frame;
    if (UNLIKELY(!step) || UNLIKELY(!step->view))
        return NULL;
    struct stack_check *check = &stack->checks[step->checks];
    uintptr_t joint = (uintptr_t)&words[step->joint];
    if (UNLIKELY(frame < stack->low) || UNLIKELY(joint + 8 > stack->high) || check[-1].at != joint)
        return NULL;
    for (unsigned i = STEP_FRAMES_MAX; i-- > 0;)
        if (words[step->word[i]] != step->address[i])
            return NULL;
    if (step->linked) {
        if (!follow_linked(&paths->stack, step, words))
            return NULL;
    } else {
        if (!stack_holds_all(stack->checks, check))
            return NULL;
        for (unsigned i = 0; i + 1 < STEP_FRAMES_MAX; i++)
            check[i] = (struct stack_check){(uintptr_t)&words[step->word[i]], step->address[i]};
    }
    if (paths->there > step->first)
        paths->there = step->first;
    paths->step = step;
    paths->next = LIKELY(step->next != NULL) ? step->next : follow_next(paths, step);
    return step->view;
}

/* Before the stack is looked at: makes the frames that are pending. */
void follow_settle(struct paths *paths);
/* After a walk to `view`: `before` frames were there, those from `first` on were looked up in the tree, and
 * all nodes are known. Notes the step from the last such walk, if `note`. */
void follow_note(struct heap *heap, struct view *view, unsigned before, unsigned first, bool note);
/* The stack's path has no view. */
INLINE void follow_nothing(struct paths *paths) {
    paths->walked = NULL;
    paths->next = NULL;
}
/* Forgets all steps; what is pending is lost, and with it the stack. */
void follow_flush(struct paths *paths);

#endif
