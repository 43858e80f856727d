/* SPDX-License-Identifier: MIT */
/*
 * invariant - programs for the tests of the invariants in docs/architecture.md.
 *
 * The first argument names the program's behaviour. It prints "ready" when it stands still, and
 * waits for a line or the end of stdin.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../lib/repeat.h"

static void *volatile sink;
static _Atomic int stopping;

/* Prints `word` and waits for a line. False: stdin has ended. */
static int stand_still(const char *word) {
    char byte;
    dprintf(1, "%s\n", word);
    do {
        if (read(0, &byte, 1) <= 0)
            return 0;
    } while (byte != '\n');
    return 1;
}

__attribute__((noinline)) static void *allocate_a(size_t size) {
    void *block = malloc(size);
    __asm__ volatile("# a" : : : "memory");
    return block;
}

__attribute__((noinline)) static void *allocate_b(size_t size) {
    void *block = calloc(1, size);
    __asm__ volatile("# b" : : : "memory");
    return block;
}

/* --- 1: sums ------------------------------------------------------------------------------ */

static _Atomic unsigned long turns; /* of all threads */

static void *allocate_and_free(void *argument) {
    void *blocks[100] = {NULL};
    unsigned long state = (unsigned long)argument;
    while (!stopping) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        unsigned slot = (unsigned)(state >> 33) % 100;
        free(blocks[slot]);
        blocks[slot] = state >> 60 & 1 ? allocate_a(state >> 52) : allocate_b(state >> 50);
        turns++;
        if (slot == 0)
            usleep(100);
    }
    for (int i = 0; i < 100; i++)
        free(blocks[i]);
    return NULL;
}

/* Threads allocate and free until the first line comes. Then nothing changes, and allocate_a has
 * exactly 1000 live chunks of 100 bytes. */
static int sums(void) {
    pthread_t threads[4];
    for (unsigned long i = 0; i < 4; i++)
        if (pthread_create(&threads[i], NULL, allocate_and_free, (void *)(i + 1)))
            return 1;
    while (turns < 4000)
        usleep(1000);
    if (!stand_still("busy"))
        return 1;
    stopping = 1;
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < 1000; i++)
        sink = allocate_a(100);
    stand_still("ready");
    return 0;
}

/* --- 3: chunks without a call path --------------------------------------------------------- */

/* Calls malloc(rdi) through rsi from a function written into memory at run time, so its frame has
 * no unwind information. */
static int no_unwind_info(void) {
    static const unsigned char code[] = {
        0x48, 0x83, 0xec, 0x28,                               /* sub $40, %rsp */
        0x48, 0xc7, 0x44, 0x24, 0x20, 0xff, 0xff, 0xff, 0xff, /* movq $-1, 32(%rsp) */
        0xff, 0xd6,                                           /* call *%rsi */
        0x48, 0x83, 0xc4, 0x28,                               /* add $40, %rsp */
        0xc3,                                                 /* ret */
    };
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(page, code, sizeof code);
    if (mprotect(page, 4096, PROT_READ | PROT_EXEC))
        return 1;
    void *(*call)(size_t, void *(*)(size_t)) =
        (void *(*)(size_t, void *(*)(size_t)))(unsigned long)page;
    for (int i = 0; i < 1000; i++) {
        char *block = call(123, malloc);
        if (!block)
            return 1;
        memset(block, 1, 123);
    }
    stand_still("ready");
    return 0;
}

/* Calls malloc from the function that this is inlined into, with this value in rbp. */
__attribute__((always_inline)) static inline void *malloc_with_rbp(unsigned long rbp) {
    void *block;
    __asm__ volatile("push %%rbp\n\t"
                     "mov %1, %%rbp\n\t"
                     "mov %%rsp, %%r12\n\t"
                     "and $-16, %%rsp\n\t"
                     "mov $77, %%edi\n\t"
                     "call malloc@PLT\n\t"
                     "mov %%r12, %%rsp\n\t"
                     "pop %%rbp"
                     : "=a"(block)
                     : "r"(rbp)
                     : "rdi", "rsi", "rdx", "rcx", "r8", "r9", "r10", "r11", "r12", "memory", "cc");
    return block;
}

/* The unwind information of this function, which aligns its stack, says that a word near the
 * address in rbp tells where the function's frame is. */
__attribute__((noinline)) static void *allocate_with_rbp(int bytes, unsigned long rbp, ...) {
    char aligned[64] __attribute__((aligned(64))), *varying = __builtin_alloca((size_t)bytes);
    memset(aligned, bytes, sizeof aligned);
    memset(varying, 1, (size_t)bytes);
    void *block = malloc_with_rbp(rbp);
    return aligned[bytes] + varying[1] ? block : NULL;
}

/* Calls malloc with garbage in rbp: the unwinder must not follow it. */
static int garbage_frame_pointer(void) {
    for (unsigned long rbp = 0; rbp < 64; rbp += 8) {
        void *first = allocate_with_rbp(17, rbp), *second = allocate_with_rbp(17, -rbp);
        if (!first || !second)
            return 1;
        free(first);
        free(second);
    }
    for (int i = 0; i < 1000; i++)
        if (!(sink = malloc_with_rbp(0x10)))
            return 1;
    stand_still("ready");
    return 0;
}

/* Switches to another stack without unwind information, so that an unwinder looks for the caller's
 * return address in the guard page behind that stack. */
void *call_on(char *top);
__asm__(".pushsection .text\n"
        ".type call_on, @function\n"
        "call_on:\n\t"
        ".cfi_startproc\n\t"
        "push %r12\n\t"
        ".cfi_adjust_cfa_offset 8\n\t"
        ".cfi_rel_offset %r12, 0\n\t"
        "mov %rsp, %r12\n\t"
        "mov %rdi, %rsp\n\t"
        "mov $77, %edi\n\t"
        "call malloc@PLT\n\t"
        "mov %r12, %rsp\n\t"
        "pop %r12\n\t"
        ".cfi_adjust_cfa_offset -8\n\t"
        "ret\n\t"
        ".cfi_endproc\n"
        ".size call_on, . - call_on\n"
        ".popsection");

static int stack_before_a_guard(void) {
    const size_t bytes = 1 << 17;
    char *stack =
        mmap(NULL, bytes + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (stack == MAP_FAILED || mprotect(stack + bytes, 4096, PROT_NONE))
        return 1;
    for (int i = 0; i < 1000; i++)
        if (!(sink = call_on(stack + bytes)))
            return 1;
    stand_still("ready");
    return 0;
}

/* Allocates on one of 2^15 call paths: two call sites on each of 15 levels. The tables start much
 * smaller. */
__attribute__((noinline)) static void *descend(unsigned bits, unsigned depth) {
    void *block;
    if (depth == 0)
        return malloc(32);
    if (bits & 1) {
        block = descend(bits >> 1, depth - 1);
        __asm__ volatile("# one" : : : "memory");
    } else {
        block = descend(bits >> 1, depth - 1);
        __asm__ volatile("# other" : : : "memory");
    }
    return block;
}

static int many_paths(void) {
    for (unsigned i = 0; i < 1u << 15; i++) {
        sink = descend(i, 15);
        if (!sink)
            return 1;
    }
    stand_still("ready");
    return 0;
}

/* --- 5: the waste cap ----------------------------------------------------------------------- */

#define WAY(n)                                                                                     \
    __attribute__((noinline)) static void *way_##n(size_t size) {                                  \
        void *block = malloc(size);                                                                \
        __asm__ volatile("# way " #n : : : "memory");                                              \
        return block;                                                                              \
    }
HUNDRED(WAY, 1)
HUNDRED(WAY, 2)
HUNDRED(WAY, 3)
#define WAY_ENTRY(n) way_##n,
static void *(*const ways[300])(size_t) = {HUNDRED(WAY_ENTRY, 1) HUNDRED(WAY_ENTRY, 2)
                                               HUNDRED(WAY_ENTRY, 3)};

#define CALLER(n)                                                                                  \
    __attribute__((noinline)) static void *caller_##n(int way, size_t size) {                      \
        void *block = ways[way](size);                                                             \
        __asm__ volatile("# caller " #n : : : "memory");                                           \
        return block;                                                                              \
    }
#define CALLER_ENTRY(n) caller_##n,
TEN(CALLER, 1)
static void *(*const callers[10])(int, size_t) = {TEN(CALLER_ENTRY, 1)};

/* 3000 contexts, each with 20 KiB in eight sizes: if all had pages of their own, these would waste
 * more bytes than the chunks have. */
static int waste(void) {
    for (int way = 0; way < 3000; way++)
        for (int size = 1; size <= 8; size++)
            for (int i = 0; i < 6; i++)
                sink = memset(callers[way % 10](way / 10, (size_t)size * 96 - 13), 1,
                              (size_t)size * 96 - 13);
    stand_still("ready");
    return 0;
}

/* Half of the contexts fill pages of their own and free all but each 20th chunk, so that the waste
 * exceeds its cap. Then each context of the other half grows to 20 KiB. */
static int holes(void) {
    enum { COUNT = 128 };
    static void *blocks[150][COUNT];
    for (int way = 0; way < 150; way++)
        for (int i = 0; i < COUNT; i++)
            blocks[way][i] = memset(ways[way](500), 1, 500);
    for (int way = 0; way < 150; way++)
        for (int i = 0; i < COUNT; i++)
            if (i % 20)
                free(blocks[way][i]);
    for (int way = 150; way < 300; way++)
        for (int i = 0; i < 40; i++)
            sink = memset(ways[way](500), 1, 500);
    stand_still("ready");
    return 0;
}

/* 64 MiB of small blocks come and go: the freelist must keep at most its bound. */
static int freelist(void) {
    enum { COUNT = 1 << 17 };
    static void *blocks[COUNT];
    for (int i = 0; i < COUNT; i++)
        blocks[i] = memset(allocate_a(500), 1, 500);
    if (!stand_still("full"))
        return 1;
    for (int i = 0; i < COUNT; i++)
        free(blocks[i]);
    stand_still("ready");
    return 0;
}

/* --- 6: reset never frees -------------------------------------------------------------------- */

static int reset(void) {
    enum { COUNT = 5000 };
    static unsigned char *blocks[COUNT];
    for (int i = 0; i < COUNT; i++) {
        blocks[i] = allocate_a((size_t)i % 700 + 1);
        memset(blocks[i], i & 0xff, (size_t)i % 700 + 1);
    }
    while (stand_still("ready")) {
        for (int i = 0; i < 20000; i++)
            /* would overwrite chunks that a reset has wrongly freed */
            free(allocate_b((size_t)i % 900));
        for (int i = 0; i < COUNT; i++)
            for (int at = 0; at <= i % 700; at++)
                if (blocks[i][at] != (i & 0xff)) {
                    dprintf(2, "chunk %d was given to somebody else\n", i);
                    return 1;
                }
    }
    for (int i = 0; i < COUNT; i++)
        free(blocks[i]);
    return 0;
}

/* --- 8: signals, never stopped ---------------------------------------------------------------- */

static _Atomic unsigned long signals_seen, wrong_thread;
static pid_t main_tid;

static void on_signal(int number) {
    (void)number;
    signals_seen++;
    wrong_thread += gettid() != main_tid;
}

/* A process of one thread handles each catchable signal: signals sent to the process must arrive,
 * and on this thread. */
static int signals(void) {
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    char line[100];
    main_tid = gettid();
    for (int number = 1; number <= SIGRTMAX; number++)
        if (number != SIGKILL && number != SIGSTOP && number != SIGABRT && number != SIGSEGV)
            sigaction(number, &action, NULL); /* glibc refuses two signals that it uses itself */
    for (;;) {
        snprintf(line, sizeof line, "seen %lu wrong %lu", signals_seen, wrong_thread);
        if (!stand_still(line))
            return 0;
    }
}

static void *allocate_steadily(void *unused) {
    while (!stopping) {
        for (int i = 0; i < 100; i++)
            free(allocate_a((size_t)i * 10));
        usleep(200);
    }
    return unused;
}

/* A thread allocates beside 4000 contexts. The suite makes dumps and looks whether the threads ever
 * stop. */
static int steady(void) {
    pthread_t thread;
    for (unsigned i = 0; i < 4000; i++)
        sink = descend(i, 12);
    if (pthread_create(&thread, NULL, allocate_steadily, NULL))
        return 1;
    stand_still("ready");
    stopping = 1;
    pthread_join(thread, NULL);
    return 0;
}

/* --- names ------------------------------------------------------------------------------------ */

/* Prints which library the unwinder's functions and backtrace come from. The suite compares that
 * with a run without memctx. */
static int unwinder(void) {
    static const char *const names[] = {
        "backtrace",     "_Unwind_RaiseException", "_Unwind_Backtrace", "_Unwind_Resume",
        "_Unwind_GetIP", "_Unwind_Find_FDE",       "__register_frame",  "unw_step",
        "_Ux86_64_step", "unw_init_local",         "dl_iterate_phdr",   "lzma_stream_decoder"};
    sink = malloc(100);
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
            Dl_info info = {NULL, NULL, NULL, NULL};
            void *address = dlsym(RTLD_DEFAULT, names[i]);
            if (address)
                dladdr(address, &info);
            dprintf(1, "%s %s\n", names[i], address ? info.dli_fname : "none");
        }
        if (!dlopen("libgcc_s.so.1", RTLD_NOW | RTLD_GLOBAL))
            return 1;
    }
    return 0;
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        int (*run)(void);
    } behaviours[] = {
        {"sums", sums},
        {"no-unwind-info", no_unwind_info},
        {"garbage-frame-pointer", garbage_frame_pointer},
        {"stack-before-a-guard", stack_before_a_guard},
        {"many-paths", many_paths},
        {"waste", waste},
        {"holes", holes},
        {"freelist", freelist},
        {"reset", reset},
        {"signals", signals},
        {"steady", steady},
        {"unwinder", unwinder},
    };
    for (size_t i = 0; argc > 1 && i < sizeof behaviours / sizeof behaviours[0]; i++)
        if (strcmp(argv[1], behaviours[i].name) == 0)
            return behaviours[i].run();
    return 2;
}
