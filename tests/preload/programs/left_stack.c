/* SPDX-License-Identifier: MIT */
/* left_stack - one coroutine begins another one as libdill does: only the stack pointer moves to
 * the new stack, and rbp still leads to the frame that began it. Then the first coroutine ends and
 * its stack is unmapped, while the second one goes on allocating. */
#define _GNU_SOURCE
#include <alloca.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>

enum { STACK = 128 << 10, GUARD = 4096, CHUNKS = 1000, ROUNDS = 4 };

static jmp_buf in_first, in_second, in_main;
static ucontext_t main_context, first_context;
static char *first_stack, *second_stack;
static volatile int rounds;

static char *make_stack(void) {
    char *start = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (start == MAP_FAILED || mprotect(start, GUARD, PROT_NONE))
        exit(1);
    return start;
}

__attribute__((noinline)) static void allocate(void) {
    char *volatile chunk = malloc(40);
    free(chunk);
}

__attribute__((noinline, noreturn)) static void second(void) {
    for (;;) {
        for (int i = 0; i < CHUNKS; i++)
            allocate();
        if (!_setjmp(in_second))
            longjmp(rounds++ ? in_main : in_first, 1);
    }
}

/* alloca makes the compiler find this function's caller by rbp. */
__attribute__((noinline)) static void begin_second(void) {
    volatile char *room = alloca(64);
    room[0] = 1;
    if (!_setjmp(in_first)) {
        __asm__ volatile("movq %0, %%rsp" ::"r"(second_stack + STACK - 256));
        second();
    }
}

int main(void) {
    first_stack = make_stack();
    second_stack = make_stack();
    getcontext(&first_context);
    first_context.uc_stack.ss_sp = first_stack;
    first_context.uc_stack.ss_size = STACK;
    first_context.uc_link = &main_context;
    makecontext(&first_context, begin_second, 0);
    swapcontext(&main_context, &first_context);
    munmap(first_stack, STACK);
    while (rounds < ROUNDS)
        if (!_setjmp(in_main))
            longjmp(in_second, 1);
    printf("%d rounds\n", rounds);
    return 0;
}
