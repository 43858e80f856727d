/* SPDX-License-Identifier: MIT */
/* generated_code - acts as an engine that makes code at run time and keeps a list of it, as V8 does
 * (src/path/v8.h), and as other code that was made at run time. Functions of this file and of made
 * code call each other; the last one, a leaf, allocates. */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* The library looks for V8 in large objects only. */
char engine_room[9 << 20];

enum { CODE = 4096, ROUNDS = 100, ISOLATE = 70000, KEPT = 16, RUNS_APART = 13 };
#define INTEGER 0x700000000 /* a small integer as V8 keeps it; the list has this address */

struct range {
    uintptr_t start;
    size_t bytes;
};
struct list {
    const struct range *first, *end, *room_end;
};
struct isolate {
    const struct list *code; /* NULL: the isolate is being made */
    struct list room;
    char rest[ISOLATE];
};
static struct isolate *current;
char *kept[KEPT * ROUNDS]; /* not static, so that the compiler keeps the stores */
static int kept_count;

void *current_isolate(void) __asm__("_ZN2v87Isolate13TryGetCurrentEv");
void *current_isolate(void) {
    return current;
}
const struct list *
code_of(const struct isolate *) __asm__("_ZNK2v88internal7Isolate12GetCodePagesEv");
const struct list *code_of(const struct isolate *isolate) {
    return isolate->code;
}

/* A call of a function, which calls `next`. */
struct call {
    void (*function)(struct call *);
    struct call *next;
};

__attribute__((noinline)) static void outer(struct call *call) {
    call->next->function(call->next);
    __asm__ volatile("" ::: "memory"); /* no tail call */
}
__attribute__((noinline)) static void middle(struct call *call) {
    call->next->function(call->next);
    __asm__ volatile("" ::: "memory");
}

#define LEAF(name, bytes)                                                                          \
    __attribute__((noinline)) static void name(struct call *call) {                                \
        (void)call;                                                                                \
        kept[kept_count++] = malloc(bytes);                                                        \
    }
LEAF(leaf_listed, 101)
LEAF(leaf_outside, 102)
LEAF(leaf_made, 103)
LEAF(leaf_destroyed, 104)
LEAF(leaf_other, 105)
LEAF(leaf_replaced, 106)
LEAF(leaf_wasm, 107)
LEAF(leaf_wasm_alone, 108)
LEAF(leaf_other_below, 109)
LEAF(leaf_integer, 110)
LEAF(leaf_pointer, 111)
LEAF(leaf_early, 112)
LEAF(leaf_far, 113)

/* Machine code of functions like `outer`. The calls of the first three end at one offset. */
#define CALL_NEXT "\x48\x8b\x7f\x08\xff\x17" /* mov 8(%rdi),%rdi; call *(%rdi) */
static const char script[] =                 /* as V8 makes it for a function of a script */
    "\x90\x90\x55\x48\x89\xe5\x57\x48\x83\xec\x08\x66\x90\x90" CALL_NEXT "\xc9\xc3";
static const char wasm[] = /* as V8 makes it for WebAssembly: the type of the frame is pushed */
    "\x90\x55\x48\x89\xe5\x6a\x1e\x48\x83\xec\x08\x66\x90\x90" CALL_NEXT "\xc9\xc3";
static const char other[] = /* keeps a number in rbp */
    "\x90\x90\x90\x90\x90\x90\x90\x90\x55\xbd\x01\x02\x03\x00" CALL_NEXT "\x5d\xc3";
static const char with_integer[] = /* mov $7,%eax; shl $32,%rax; push %rax; push %rbp; ... */
    "\xb8\x07\x00\x00\x00\x48\xc1\xe0\x20\x50\x55\x48\x89\xe5\x57\x90\x90\x90" CALL_NEXT
    "\xc9\x58\xc3";

static void (*make(const char *code, size_t bytes, void *at))(struct call *) {
    char *room = mmap(at, CODE, PROT_READ | PROT_WRITE | PROT_EXEC,
                      MAP_PRIVATE | MAP_ANONYMOUS | (at ? MAP_FIXED : 0), -1, 0);
    if (room == MAP_FAILED)
        exit(9);
    memcpy(room, code, bytes);
    return (void (*)(struct call *))(void *)room;
}
#define MAKE(code, at) make(code, sizeof(code), at)

/* Lets each function call the next one, ROUNDS times. Each run but the last one has its frames
 * elsewhere, so that no walk goes on from frames of the run before. */
__attribute__((noinline)) static void run(void (**functions)(struct call *), int count) {
    static int runs;
    struct call calls[8];
    volatile char moves[64 * (runs < RUNS_APART ? ++runs : runs)];
    moves[0] = (char)runs;
    (void)moves[0];
    for (int i = 0; i < count; i++)
        calls[i] = (struct call){functions[i], &calls[i + 1]};
    for (int i = 0; i < ROUNDS; i++)
        calls[0].function(calls);
}
#define RUN(...)                                                                                   \
    run((void (*[])(struct call *)){outer, __VA_ARGS__},                                           \
        sizeof((void (*[])(struct call *)){outer, __VA_ARGS__}) / sizeof(void *))

static void set_list(struct list list) {
    current->room = list;
    current->code = &current->room;
}

int main(void) {
    void (*one)(struct call *) = MAKE(script, NULL), (*two)(struct call *) = MAKE(script, NULL);
    void (*jit)(struct call *) = MAKE(other, NULL), (*web)(struct call *) = MAKE(wasm, NULL);
    void (*odd)(struct call *) = MAKE(with_integer, NULL),
                            (*far)(struct call *) = MAKE(script, NULL);
    struct range ranges[] = {{(uintptr_t)one, CODE},
                             {(uintptr_t)two, CODE},
                             {(uintptr_t)odd, CODE},
                             {INTEGER - CODE, 2 * CODE}};
    struct list list = {ranges, ranges + 4, ranges + 4}, later = {ranges + 1, ranges + 4, NULL};
    char *gone = mmap(NULL, CODE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct list lost = {(void *)gone, (void *)(gone + sizeof ranges), NULL};
    munmap(gone, CODE);

    RUN(one, leaf_outside);          /* the thread is not inside an isolate */
    static struct isolate elsewhere; /* not a chunk, as before the engine has begun */
    current = &elsewhere;
    set_list(list);
    RUN(one, leaf_early);
    current = calloc(1, sizeof *current);
    RUN(one, leaf_made);
    set_list(lost);
    RUN(one, leaf_destroyed);
    current->code = &list; /* outside of the isolate */
    RUN(one, leaf_far);
    set_list(list);
    RUN(one, two, middle, one, leaf_listed);
    RUN(jit, leaf_other);
    RUN(jit, one, leaf_other_below);
    RUN(web, one, leaf_wasm);
    RUN(web, leaf_wasm_alone); /* may be the code of anybody */
    RUN(odd, leaf_integer);
    RUN(far, one, leaf_pointer); /* `far` pushes a pointer, not a type */

    /* Other code takes the place of code that is gone with its isolate. */
    RUN(one, leaf_replaced);
    free(current);
    current = calloc(1, sizeof *current);
    set_list(later);
    MAKE(other, (void *)one);
    RUN(one, leaf_replaced);
    printf("%d allocations\n", kept_count);
    return 0;
}
