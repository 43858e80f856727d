/* SPDX-License-Identifier: MIT */
/* overflow_in_start - the stack overflows in a wait that starts the control thread, and the program
 * recovers by a jump out of its handler of SIGSEGV. A child for each number of bytes that are left
 * on the stack when the wait begins. Prints how many children a signal ended, recovered from an
 * overflow, and had stack enough. */
#include <alloca.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { STACK_BYTES = 1 << 20, GUARD_BYTES = 8192, LEFT_LEAST = 512, LEFT_MOST = 4096, STEP = 64 };
enum { ENOUGH, OVERFLOW };

static sigjmp_buf home;
static char *stack;
static size_t left;

static void go_home(int number) {
    siglongjmp(home, number);
}

static void leave(int number) {
    (void)number;
    _exit(ENOUGH);
}

static __attribute__((noinline)) void wait_deep(void) {
    char here;
    volatile char *room = alloca((size_t)(&here - stack) - left);
    room[0] = 1;
    sleep(1);
    room[1] = 1;
}

static void *thread_main(void *nothing) {
    static char apart[65536];
    sigaltstack(&(stack_t){.ss_sp = apart, .ss_size = sizeof apart}, NULL);
    if (sigsetjmp(home, 1))
        _exit(OVERFLOW);
    ualarm(100000, 0); /* ends a wait */
    wait_deep();
    return nothing;
}

static void child_main(void) {
    struct sigaction action = {.sa_handler = go_home, .sa_flags = SA_ONSTACK};
    pthread_attr_t attributes;
    pthread_t thread;
    char *area =
        mmap(NULL, GUARD_BYTES + STACK_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    stack = area + GUARD_BYTES;
    mprotect(stack, STACK_BYTES, PROT_READ | PROT_WRITE);
    sigaction(SIGSEGV, &action, NULL);
    action.sa_handler = leave;
    sigaction(SIGALRM, &action, NULL);
    pthread_attr_init(&attributes);
    pthread_attr_setstack(&attributes, stack, STACK_BYTES);
    pthread_create(&thread, &attributes, thread_main, NULL);
    pthread_join(thread, NULL);
    _exit(ENOUGH);
}

int main(void) {
    int ended = 0, counts[2] = {0};
    sleep(0); /* finds libc's function, which takes more stack than the start */
    for (left = LEFT_LEAST; left < LEFT_MOST; left += STEP) {
        int status;
        pid_t child = fork();
        if (!child)
            child_main();
        waitpid(child, &status, 0);
        if (WIFEXITED(status) && WEXITSTATUS(status) <= OVERFLOW)
            counts[WEXITSTATUS(status)]++;
        else
            ended++;
    }
    printf("%d ended, %d recovered, %d enough\n", ended, counts[OVERFLOW], counts[ENOUGH]);
    return 0;
}
