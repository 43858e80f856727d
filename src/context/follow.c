/* SPDX-License-Identifier: MIT */
/* Steps from one walked path to the next; see follow.h. */
#include "context/follow.h"
#include "context/tree.h"
#include "os/meta.h"

#define STEPS_PER_BLOCK 1024U
#define BLOCKS (VIEWS_PER_BLOCK * VIEW_BLOCKS / STEPS_PER_BLOCK)

/* From the path of this view; NULL: none is known, or, with `make`, no memory for one. */
static struct path_step *step_from(struct paths *paths, const struct view *view, bool make) {
    if (!paths->steps && make)
        paths->steps = meta_alloc(BLOCKS * sizeof *paths->steps);
    if (!paths->steps)
        return NULL;
    struct path_step **block = &paths->steps[view->index / STEPS_PER_BLOCK];
    if (!*block && make)
        *block = meta_alloc(STEPS_PER_BLOCK * sizeof **block);
    return *block ? &(*block)[view->index % STEPS_PER_BLOCK] : NULL;
}

NOINLINE struct path_step *follow_next(struct paths *paths, struct path_step *step) {
    step->next = step_from(paths, step->view, false);
    return step->next;
}

/* The frame's rbp is saved below the return address in it, and points below the caller's. */
NOINLINE bool follow_linked(struct stack *stack, const struct path_step *step,
                            const stack_word *words) {
    struct stack_check *check = &stack->checks[step->checks];
    unsigned count = step->frames - step->first;
    uint32_t outer = step->joint;
    if (check[-2].at != check[-1].at - 8)
        return false;
    for (unsigned i = 0; i < count; outer = step->word[i++])
        if (words[step->word[i] - 1] != (uintptr_t)&words[outer - 1])
            return false;
    if (!stack_holds_all(stack->checks, check))
        return false;
    outer = step->joint;
    for (unsigned i = 0; i < count; outer = step->word[i++]) {
        uintptr_t at = (uintptr_t)&words[step->word[i]];
        *check++ = (struct stack_check){at - 8, (uintptr_t)&words[outer - 1]};
        *check++ = (struct stack_check){at, step->address[i]}; /* the last one does not count */
    }
    return true;
}

/* Each pending frame has a check that tells where the next frame outwards is, and its address, and, if it is
 * linked, one for its own rbp. Their nodes are those of the path. */
void follow_settle(struct paths *paths) {
    const struct path_step *step = paths->step;
    struct stack *stack = &paths->stack;
    if (LIKELY(!step))
        return;
    unsigned there = paths->there;
    uint32_t id = step->view->context;
    for (unsigned i = step->frames; i-- > there; id = tree_node(id)->parent)
        stack->frames[i].node = id;
    uintptr_t leaf = stack->checks[step->checks - 1].at - step->joint * 8UL + 16;
    for (unsigned i = there; i < step->frames; i++) {
        struct stack_frame *frame = &stack->frames[i];
        frame->address = tree_node(frame->node)->address;
        frame->rule = rules_find(frame->address, false);
        bool linked = rule_kind(frame->rule) != CFI_SP;
        frame->checks = (uint16_t)(frame[-1].checks + 1 + linked);
        frame->rbp_use = linked ? (int16_t)(frame->checks - 1) : -1;
        frame->sp = i + 1U < step->frames ? stack->checks[frame->checks].at + 8 : leaf;
        frame->caller_rbp = rule_rbp(frame->rule) == CFI_RBP_AT_CFA
                                ? frame[-1].sp + (uintptr_t)(intptr_t)rule_rbp_offset(frame->rule)
                                : RBP_KEPT;
        frame->exact = false;
    }
    stack->count = paths->nodes_valid = step->frames;
    stack->check_count = stack->frames[step->frames - 1].checks;
    paths->walked = step->view;
    paths->step = NULL;
    paths->there = UINT32_MAX;
}

static bool is_plain(uint64_t rule) {
    return rule_kind(rule) == CFI_SP && rule_rbp(rule) <= CFI_RBP_AT_CFA &&
           !(rule_rbp(rule) == CFI_RBP_AT_CFA && !rule_rbp_offset(rule));
}

static bool is_linked(uint64_t rule) {
    return rule_kind(rule) == CFI_RBP && rule_cfa_offset(rule) == 16 &&
           rule_rbp(rule) == CFI_RBP_AT_CFA && rule_rbp_offset(rule) == -16;
}

/* Whether a step can lead to the frames from `first` on. */
static bool may_lead(struct stack *stack, unsigned first, bool *linked) {
    struct stack_frame *joint = &stack->frames[first - 1];
    const struct stack_frame *leaf = &stack->frames[stack->count - 1];
    *linked = joint->rbp_use >= 0;
    if (stack->count - first > STEP_FRAMES_MAX || joint->exact ||
        (joint->sp - leaf->sp) / 8 >= UINT16_MAX || (joint->sp - leaf->sp) % 8 ||
        joint->checks + 2 * STEP_FRAMES_MAX > stack->room * 2 ||
        (*linked && !is_linked(joint->rule)))
        return false;
    for (unsigned i = first; i < stack->count; i++) {
        uint64_t rule = stack->frames[i].rule;
        if (stack->frames[i].exact || !(*linked ? is_linked(rule) : is_plain(rule)))
            return false;
    }
    return true;
}

void follow_note(struct heap *heap, struct view *view, unsigned before, unsigned first, bool note) {
    struct paths *paths = paths_of(heap);
    struct stack *stack = &paths->stack;
    const struct view *last = paths->walked;
    paths->walked = view;
    /* Not before its second allocation, which comes yet: many paths are there once. */
    paths->next = step_from(paths, view, note && view->allocs);
    if (first == stack->count)
        first--; /* the same path again */
    /* The check of the last frame that stays is the next one's, which has to have been there too. */
    bool linked;
    if (!note || !last || !first || first >= before || !may_lead(stack, first, &linked))
        return;
    struct path_step *step = step_from(paths, last, last->allocs > 1);
    if (!step)
        return;
    const struct stack_frame *frame = &stack->frames[first - 1];
    uintptr_t base = stack->frames[stack->count - 1].sp - 16;
    step->view = view;
    step->next = paths->next;
    step->first = (uint16_t)first;
    step->frames = (uint16_t)stack->count;
    step->checks = (uint16_t)(frame->checks + 1);
    step->joint = (uint16_t)((frame->sp - 8 - base) / 8);
    step->linked = linked;
    for (unsigned i = 0; i < STEP_FRAMES_MAX; i++) {
        if (first + i < stack->count)
            frame++;
        step->address[i] = frame->address;
        step->word[i] = (uint16_t)((frame->sp - 8 - base) / 8);
    }
}

void follow_flush(struct paths *paths) {
    paths->walked = NULL;
    paths->step = paths->next = NULL;
    paths->there = UINT32_MAX;
    for (uint32_t i = 0; paths->steps && i < BLOCKS; i++)
        meta_free(paths->steps[i], STEPS_PER_BLOCK * sizeof **paths->steps);
    meta_free(paths->steps, BLOCKS * sizeof *paths->steps);
    paths->steps = NULL;
}
