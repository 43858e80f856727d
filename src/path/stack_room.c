/* SPDX-License-Identifier: MIT */
/* The memory for the frames and checks of a thread's stack; see stack.h. */
#include "os/meta.h"
#include "path/stack.h"
#include "region/tables.h"

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
