/* SPDX-License-Identifier: MIT */
/* Steps from one walked path to the next; see follow.h. */
#include "context/follow.h"
#include "os/meta.h"

#define NEW_MAX 3U
#define STEPS_PER_BLOCK 1024U
#define BLOCKS (VIEWS_PER_BLOCK * VIEW_BLOCKS / STEPS_PER_BLOCK)

/* One line. */
struct path_step {
    uint32_t view;         /* index of the next one; 0: not known */
    uint16_t first, count; /* frames that stay; new ones */
    struct {
        uintptr_t address;
        uint32_t node;
        uint16_t cfa;  /* of the rule: the caller's sp is so many words above */
        int16_t rbp;   /* words from there to where rbp is saved; 0: it is kept */
    } frames[NEW_MAX]; /* outermost first */
} __attribute__((aligned(CACHE_LINE)));
_Static_assert(sizeof(struct path_step) == CACHE_LINE, "as the header says");

INLINE struct path_step *step_from(const struct paths *paths, uint32_t view) {
    if (UNLIKELY(!paths->steps))
        return NULL;
    struct path_step *block = paths->steps[view / STEPS_PER_BLOCK];
    return LIKELY(block != NULL) ? &block[view % STEPS_PER_BLOCK] : NULL;
}

INLINE bool holds(const struct stack_check *check) {
    return LIKELY(*(const stack_word *)check->at == check->value);
}

/* Whether all these words are on the stack, the last, innermost one first. */
INLINE bool proven(const struct stack_check *first, const struct stack_check *end) {
    for (; end - first >= 4; end -= 4)
        if (!holds(end - 1) || !holds(end - 2) || !holds(end - 3) || !holds(end - 4))
            return false;
    while (end-- > first)
        if (!holds(end))
            return false;
    return true;
}

struct view *follow(struct heap *heap, uintptr_t frame) {
    struct paths *paths = paths_of(heap);
    struct stack *stack = &paths->stack;
    const struct path_step *step = step_from(paths, paths->walked_view);
    if (!step || !step->view || UNLIKELY(frame < stack->low))
        return NULL;
    uintptr_t sp = frame + 16, address = ((const stack_word *)frame)[1];
    for (unsigned i = step->count; i-- > 0;) {
        if (step->frames[i].address != address)
            return NULL;
        sp += step->frames[i].cfa * 8UL;
        if (UNLIKELY(sp > stack->high))
            return NULL;
        address = ((const stack_word *)sp)[-1];
    }
    struct stack_frame *top = &stack->frames[step->first - 1];
    if (UNLIKELY(step->first > paths->nodes_valid) || top->sp != sp || top->address != address ||
        UNLIKELY(top->rbp_use >= 0) || UNLIKELY(top->exact))
        return NULL;
    struct stack_check *check = &stack->checks[top->checks];
    if (UNLIKELY(!proven(stack->checks, check)))
        return NULL;
    for (unsigned i = 0; i < step->count; i++) {
        const struct stack_frame *outer = top++;
        intptr_t rbp = step->frames[i].rbp;
        *check++ = (struct stack_check){outer->sp - 8, outer->address};
        top->address = step->frames[i].address;
        top->sp = outer->sp - step->frames[i].cfa * 8UL;
        top->caller_rbp = rbp ? outer->sp + (uintptr_t)(rbp * 8) : RBP_KEPT;
        top->rule = STACK_RULE_LATER;
        top->node = step->frames[i].node;
        top->rbp_use = -1;
        top->checks = (uint16_t)(outer->checks + 1);
        top->exact = false;
    }
    stack->count = paths->nodes_valid = step->first + step->count;
    stack->check_count = top->checks;
    paths->walked_view = step->view;
    store_owner(&paths->followed, paths->followed + 1);
    return heap_view_at(heap, step->view);
}

static struct path_step *make_step(struct paths *paths, uint32_t view) {
    if (!paths->steps)
        paths->steps = meta_alloc(BLOCKS * sizeof *paths->steps);
    if (!paths->steps)
        return NULL;
    struct path_step **block = &paths->steps[view / STEPS_PER_BLOCK];
    if (!*block)
        *block = meta_alloc(STEPS_PER_BLOCK * sizeof **block);
    return *block ? &(*block)[view % STEPS_PER_BLOCK] : NULL;
}

void follow_note(struct heap *heap, const struct view *view, unsigned first) {
    struct paths *paths = paths_of(heap);
    const struct stack *stack = &paths->stack;
    uint32_t last = paths->walked_view;
    paths->walked_view = view->index;
    if (!last || !first || stack->count - first > NEW_MAX || stack->frames[first - 1].rbp_use >= 0)
        return;
    for (unsigned i = first; i < stack->count; i++) {
        uint64_t rule = stack_rule(&stack->frames[i]);
        if (stack->frames[i].exact || rule_kind(rule) != CFI_SP ||
            rule_rbp(rule) > CFI_RBP_AT_CFA || rule_cfa_offset(rule) / 8 > UINT16_MAX ||
            rule_cfa_offset(rule) % 8 ||
            (rule_rbp(rule) == CFI_RBP_AT_CFA && !rule_rbp_offset(rule)))
            return;
    }
    struct path_step *step = make_step(paths, last);
    if (!step)
        return;
    step->view = view->index;
    step->first = (uint16_t)first;
    step->count = (uint16_t)(stack->count - first);
    for (unsigned i = first; i < stack->count; i++) {
        step->frames[i - first].address = stack->frames[i].address;
        uint64_t rule = stack_rule(&stack->frames[i]);
        step->frames[i - first].cfa = (uint16_t)(rule_cfa_offset(rule) / 8);
        step->frames[i - first].rbp =
            rule_rbp(rule) == CFI_RBP_AT_CFA ? (int16_t)(rule_rbp_offset(rule) / 8) : 0;
        step->frames[i - first].node = stack->frames[i].node;
    }
}

void follow_flush(struct paths *paths) {
    paths->walked_view = 0;
    for (uint32_t i = 0; paths->steps && i < BLOCKS; i++)
        meta_free(paths->steps[i], STEPS_PER_BLOCK * sizeof **paths->steps);
    meta_free(paths->steps, BLOCKS * sizeof *paths->steps);
    paths->steps = NULL;
}
