/* SPDX-License-Identifier: MIT */
/* generated_code - acts as an engine that makes code at run time and keeps a list of it, as V8 does
 * (src/path/v8.h), and as other code that was made at run time. Functions of this file and of made
 * code call each other; the last one, a leaf, allocates. */
#define _GNU_SOURCE
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* The library looks for V8 in large objects only. */
char engine_room[9 << 20];

enum { CODE = 4096, ROUNDS = 100, ISOLATE = 70000, RUNS = 600 };
enum { AFTER_CALL = 20 };                                  /* where the call of `script` ends */
enum { RANGES_TOO_MANY = 70000, ISOLATES_TOO_MANY = 140 }; /* for src/path/v8.c */
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
char *kept[RUNS * ROUNDS]; /* not static, so that the compiler keeps the stores */
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
LEAF(leaf_interior, 114)
LEAF(leaf_long, 115)
LEAF(leaf_odd, 116)
LEAF(leaf_edge, 117)
LEAF(leaf_behind, 118)
LEAF(leaf_jumped, 119)
LEAF(leaf_near, 120)
LEAF(leaf_nowhere, 121)
LEAF(leaf_odd_type, 122)
LEAF(leaf_no_type, 123)
LEAF(leaf_wasm_below, 124)
LEAF(leaf_many, 125)
LEAF(leaf_crowded, 126)
LEAF(leaf_one_by_one, 127)
LEAF(leaf_before, 128)

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

/* keeps an address where nothing is mapped; like with_integer */
static const char with_address[] =
    "\x48\xb8\x00\x10\x00\x00\x00\x10\x00\x00\x50\x55\x48\x89\xe5\x57\x90\x90" CALL_NEXT
    "\xc9\x58\xc3";
static const char wasm_odd[] = /* pushes an odd number instead of a type */
    "\x90\x55\x48\x89\xe5\x6a\x1f\x48\x83\xec\x08\x66\x90\x90" CALL_NEXT "\xc9\xc3";
static const char wasm_zero[] = /* pushes 0 instead of a type */
    "\x90\x55\x48\x89\xe5\x6a\x00\x48\x83\xec\x08\x66\x90\x90" CALL_NEXT "\xc9\xc3";
/* pushes the return address and jumps: lea 11(%rip),%rax; push %rax; jmp *(%rdi) */
static const char wasm_jumps[] =
    "\x55\x48\x89\xe5\x6a\x1e\x48\x83\xec\x08\x48\x8b\x7f\x08\x48\x8d\x05\x0b\x00\x00\x00"
    "\x50\xff\x27\x90\x90\x90\x90\x90\x90\x90\x90\xc9\xc3";
static const char wasm_near[] = /* calls the jump at its end: call .+2; leave; ret; jmp *(%rdi) */
    "\x90\x55\x48\x89\xe5\x6a\x1e\x48\x83\xec\x08\x48\x8b\x7f\x08\xe8\x02\x00\x00\x00\xc9\xc3"
    "\xff\x27";

static void (*make(const char *code, size_t bytes, void *at))(struct call *) {
    char *room = mmap(at, CODE, PROT_READ | PROT_WRITE | PROT_EXEC,
                      MAP_PRIVATE | MAP_ANONYMOUS | (at ? MAP_FIXED : 0), -1, 0);
    if (room == MAP_FAILED)
        exit(9);
    memcpy(room, code, bytes);
    return (void (*)(struct call *))(void *)room;
}
#define MAKE(code, at) make(code, sizeof(code), at)

/* Lets each function call the next one, ROUNDS times. `apart`: the frames are elsewhere than those
 * of the run before, so that no walk goes on from these. */
__attribute__((noinline)) static void run(bool apart, void (**functions)(struct call *),
                                          int count) {
    static int runs;
    struct call calls[8];
    volatile char moves[64 * (runs = runs + apart)];
    moves[0] = (char)runs;
    (void)moves[0];
    for (int i = 0; i < count; i++)
        calls[i] = (struct call){functions[i], &calls[i + 1]};
    for (int i = 0; i < ROUNDS; i++)
        calls[0].function(calls);
}
#define RUN_AS(apart, ...)                                                                         \
    run(apart, (void (*[])(struct call *)){outer, __VA_ARGS__},                                    \
        sizeof((void (*[])(struct call *)){outer, __VA_ARGS__}) / sizeof(void *))
#define RUN(...) RUN_AS(true, __VA_ARGS__)

static void set_list(struct list list) {
    current->room = list;
    current->code = &current->room;
}

/* Makes an isolate whose list is one range. */
static void begin_isolate(const struct range *range) {
    current = calloc(1, sizeof *current);
    set_list((struct list){range, range + 1, NULL});
}

/* One isolate with many functions. */
static void run_many_functions(void) {
    static struct range ranges[ISOLATES_TOO_MANY];
    void (*made[ISOLATES_TOO_MANY])(struct call *);
    for (int i = 0; i < ISOLATES_TOO_MANY; i++) {
        made[i] = MAKE(script, NULL);
        ranges[i] = (struct range){(uintptr_t)made[i], CODE};
    }
    begin_isolate(ranges);
    current->room.end = ranges + ISOLATES_TOO_MANY;
    for (int i = 0; i < ISOLATES_TOO_MANY - 1; i++)
        RUN(made[i], leaf_before);
    RUN(made[ISOLATES_TOO_MANY - 1], leaf_many);
    free(current);
}

/* Many isolates, one after the other or all at a time. */
static void run_many_isolates(bool at_a_time, void (*last)(struct call *)) {
    static struct isolate *isolates[ISOLATES_TOO_MANY];
    static struct range ranges[ISOLATES_TOO_MANY];
    for (int i = 0; i < ISOLATES_TOO_MANY; i++) {
        void (*made)(struct call *) = MAKE(script, NULL);
        ranges[i] = (struct range){(uintptr_t)made, CODE};
        begin_isolate(&ranges[i]);
        isolates[i] = current;
        RUN(made, i + 1 < ISOLATES_TOO_MANY ? leaf_before : last);
        if (!at_a_time) {
            free(current);
            isolates[i] = malloc(sizeof *current); /* where the next isolate would be */
        }
    }
    for (int i = 0; i < ISOLATES_TOO_MANY; i++)
        free(isolates[i]);
}

int main(void) {
    void (*one)(struct call *) = MAKE(script, NULL), (*two)(struct call *) = MAKE(script, NULL);
    void (*jit)(struct call *) = MAKE(other, NULL), (*web)(struct call *) = MAKE(wasm, NULL);
    void (*odd)(struct call *) = MAKE(with_integer, NULL),
                            (*far)(struct call *) = MAKE(script, NULL);
    void (*nowhere)(struct call *) = MAKE(with_address, NULL);
    void (*edge)(struct call *) = MAKE(script, NULL), (*behind)(struct call *) = MAKE(script, NULL);
    struct range ranges[] = {
        {(uintptr_t)one, CODE},        {(uintptr_t)two, CODE},
        {(uintptr_t)odd, CODE},        {(uintptr_t)nowhere, CODE},
        {(uintptr_t)edge, AFTER_CALL}, {(uintptr_t)behind + AFTER_CALL, CODE - AFTER_CALL},
        {INTEGER - CODE, 2 * CODE}};
    enum { COUNT = sizeof ranges / sizeof *ranges };
    struct list list = {ranges, ranges + COUNT, NULL}, later = {ranges + 1, ranges + COUNT, NULL};
    char *gone = mmap(NULL, CODE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct list lost = {(void *)gone, (void *)(gone + sizeof ranges), NULL};
    munmap(gone, CODE);
    static char misplaced[sizeof ranges + 8];
    memcpy(misplaced + 4, ranges, sizeof ranges);
    static struct range many[RANGES_TOO_MANY];
    memcpy(many, ranges, sizeof ranges);

    RUN(one, leaf_outside);          /* the thread is not inside an isolate */
    static struct isolate elsewhere; /* not a chunk, as before the engine has begun */
    current = &elsewhere;
    set_list(list);
    RUN(one, leaf_early);
    char *room = calloc(1, sizeof *current + 64);
    current = (void *)(room + 64); /* inside a chunk */
    set_list(list);
    RUN(one, leaf_interior);
    current = calloc(1, sizeof *current);
    RUN(one, leaf_made);
    set_list(lost);
    RUN(one, leaf_destroyed);
    set_list((struct list){(void *)(misplaced + 4), (void *)(misplaced + 4 + sizeof ranges), NULL});
    RUN(one, leaf_odd);
    set_list((struct list){many, many + RANGES_TOO_MANY, NULL});
    RUN(one, leaf_long);
    current->code = &list; /* outside of the isolate */
    RUN(one, leaf_far);
    set_list(list);
    RUN(one, two, middle, one, leaf_listed);
    RUN(edge, leaf_edge);     /* its call is the last instruction of the range */
    RUN(behind, leaf_behind); /* its call ends where the range begins */
    RUN(jit, leaf_other);
    RUN(jit, one, leaf_other_below);
    RUN(web, one, leaf_wasm);
    RUN(web, MAKE(wasm, NULL), one, leaf_wasm_below);
    RUN(web, leaf_wasm_alone); /* may be the code of anybody */
    RUN(MAKE(wasm_odd, NULL), one, leaf_odd_type);
    RUN(MAKE(wasm_zero, NULL), one, leaf_no_type);
    RUN(MAKE(wasm_jumps, NULL), one, leaf_jumped);
    RUN(MAKE(wasm_near, NULL), one, leaf_near);
    RUN(odd, leaf_integer);
    RUN(web, nowhere, leaf_nowhere);
    RUN(far, one, leaf_pointer); /* `far` pushes a pointer, not a type */

    /* Other code takes the place of code that is gone with its isolate. */
    RUN(one, leaf_replaced);
    free(current);
    current = calloc(1, sizeof *current);
    set_list(later);
    MAKE(other, (void *)one);
    RUN_AS(false, one, leaf_replaced);
    free(current);

    run_many_functions();
    run_many_isolates(false, leaf_one_by_one);
    run_many_isolates(true, leaf_crowded);
    current = NULL;
    printf("%d allocations\n", kept_count);
    return 0;
}
