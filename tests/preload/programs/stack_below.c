/* SPDX-License-Identifier: MIT */
/* stack_below - a thread's alternate stack lies directly below the guard page of the thread's own
 * stack; the handler of a signal allocates there. At last, a function calls a null pointer, and the
 * handler of the fault allocates. */
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { STACK = 64 * 1024, GUARD = 4096, OWN = 256 * 1024, ROUNDS = 100 };

char *kept[ROUNDS + 1]; /* not static, so that the compiler keeps the stores */
static int kept_count;
static sigjmp_buf back;

__attribute__((noinline)) static void below_handler(int number) {
    (void)number;
    kept[kept_count++] = strdup("on the stack below");
}

__attribute__((noinline)) static void null_handler(int number) {
    (void)number;
    kept[kept_count++] = malloc(4321);
    siglongjmp(back, 1);
}

__attribute__((noinline)) static void raise_above(int depth) {
    volatile char frame[64] = {(char)depth};
    if (depth) {
        raise_above(depth - 1);
    } else {
        raise(SIGUSR1);
    }
    frame[1] = frame[0];
}

static void *above(void *below) {
    sigaltstack(&(stack_t){.ss_sp = below, .ss_size = STACK}, NULL);
    for (int i = 0; i < ROUNDS; i++) {
        raise_above(3);
    }
    return below;
}

__attribute__((noinline)) static void call_nothing(void (*volatile function)(void)) {
    if (!sigsetjmp(back, 1)) {
        function();
    }
}

int main(void) {
    struct sigaction action = {.sa_handler = below_handler, .sa_flags = SA_ONSTACK};
    pthread_attr_t attributes;
    pthread_t thread;
    /* one mapping: the alternate stack, the guard page, the thread's own stack */
    char *below =
        mmap(NULL, STACK + GUARD + OWN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (below == MAP_FAILED || mprotect(below + STACK, GUARD, PROT_NONE)) {
        perror("mmap");
        return 1;
    }
    pthread_attr_init(&attributes);
    pthread_attr_setstack(&attributes, below + STACK + GUARD, OWN);
    sigaction(SIGUSR1, &action, NULL);
    pthread_create(&thread, &attributes, above, below);
    pthread_join(thread, NULL);
    sigaction(SIGSEGV, &(struct sigaction){.sa_handler = null_handler}, NULL);
    call_nothing(NULL);
    printf("%d\n", kept_count);
    return kept_count == ROUNDS + 1 ? 0 : 1;
}
