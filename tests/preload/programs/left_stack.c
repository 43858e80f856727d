/* SPDX-License-Identifier: MIT */
/* left_stack - one coroutine begins another one as libdill does: only the stack pointer moves to
 * the new stack, and rbp still leads to the frame that began it. Then the first coroutine ends and
 * its stack is unmapped, while the second one goes on allocating. Then a signal handler on an
 * alternate stack does the same with the stack that the signal interrupted. */
#define _GNU_SOURCE
#include <alloca.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>

enum { STACK = 128 << 10, GUARD = 4096, CHUNKS = 1000, ROUNDS = 4 };

static jmp_buf in_first, in_second, in_main;
static ucontext_t main_context, first_context;
static char *first_stack, *second_stack, *interrupted_stack;
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

static void handler(int number) {
    char here;
    (void)number;
    allocate();
    if (&here < interrupted_stack || &here >= interrupted_stack + STACK) {
        munmap(interrupted_stack, STACK);
        allocate();
        longjmp(in_main, 1);
    }
}

/* The first signal finds the handler on the interrupted stack, and the second one, which interrupts
 * the same call, on the alternate stack. */
__attribute__((noinline)) static void interrupt(void) {
    static char alternate[STACK];
    stack_t stack = {.ss_sp = alternate, .ss_size = sizeof alternate};
    sigaltstack(&stack, NULL);
    for (int i = 0; i < 2; i++) {
        struct sigaction action = {.sa_handler = handler, .sa_flags = i ? SA_ONSTACK : 0};
        sigaction(SIGUSR1, &action, NULL);
        raise(SIGUSR1);
    }
}

static void run_on(char *stack, void (*function)(void)) {
    getcontext(&first_context);
    first_context.uc_stack.ss_sp = stack;
    first_context.uc_stack.ss_size = STACK;
    first_context.uc_link = &main_context;
    makecontext(&first_context, function, 0);
    swapcontext(&main_context, &first_context);
}

int main(void) {
    first_stack = make_stack();
    second_stack = make_stack();
    run_on(first_stack, begin_second);
    munmap(first_stack, STACK);
    while (rounds < ROUNDS)
        if (!_setjmp(in_main))
            longjmp(in_second, 1);
    interrupted_stack = make_stack();
    if (!_setjmp(in_main))
        run_on(interrupted_stack, interrupt);
    printf("%d rounds\n", rounds);
    return 0;
}
