/* SPDX-License-Identifier: MIT */
/* jumps - calls longjmp out of deep recursion that allocates, and siglongjmp out of a handler of
 * SIGSEGV on an alternate stack. After each jump it allocates on the former call paths again. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static jmp_buf escape;
static sigjmp_buf fault_escape;
static char *kept[20000];
static int kept_count;
static volatile int jumping = 1;

__attribute__((noinline)) static int dive(int depth, int turn) {
    char *local = malloc((size_t)(16 + depth));
    memset(local, turn, (size_t)(16 + depth));
    kept[kept_count++ % 20000] = local;
    if (depth == 0 && jumping) {
        longjmp(escape, turn);
    }
    int below = depth > 0 ? dive(depth - 1, turn) : 0;
    return below + local[0];
}

static void handler(int signal_number) {
    char *text = malloc(64);
    snprintf(text, 64, "signal %d", signal_number);
    free(text);
    siglongjmp(fault_escape, 1);
}

int main(void) {
    volatile int jumps = 0, faults = 0;
    for (volatile int turn = 1; turn <= 400; turn++) {
        if (setjmp(escape) == 0) {
            dive(turn % 45, turn);
        } else {
            jumps++;
        }
        if (kept_count > 19000) {
            break;
        }
    }
    stack_t stack = {.ss_size = 64 * 1024};
    stack.ss_sp = malloc(stack.ss_size);
    sigaltstack(&stack, NULL);
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK | SA_NODEFER};
    sigaction(SIGSEGV, &action, NULL);
    char *nothing = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (volatile int i = 0; i < 500; i++) {
        if (sigsetjmp(fault_escape, 1) == 0) {
            *(volatile char *)nothing = 1;
        } else {
            faults++;
        }
        free(malloc((size_t)(i + 1)));
    }
    unsigned long sum = 0;
    for (int i = 0; i < kept_count && i < 20000; i++) {
        sum += (unsigned char)kept[i][5];
        free(kept[i]);
    }
    printf("%d jumps, %d faults, %d kept, sum %lu\n", jumps, faults, kept_count, sum);
    return 0;
}
