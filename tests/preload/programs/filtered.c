/* SPDX-License-Identifier: MIT */
/* filtered [brk] - allocates in every way under a filter that kills the process at any system call
 * but the few that an allocator may make; in threads too, whose first allocation it is. With brk
 * that is allowed as well and there are no threads: the C library's allocator would ask for the
 * processors then. */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ALLOW(number)                                                                              \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (number), 0, 1),                                           \
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

static int filter_install(int brk_allowed) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        ALLOW(SYS_mmap),
        ALLOW(SYS_munmap),
        ALLOW(SYS_mremap),
        ALLOW(SYS_madvise),
        ALLOW(SYS_futex),
        ALLOW(SYS_clock_gettime),
        ALLOW(SYS_write),
        ALLOW(SYS_exit_group),
        ALLOW(brk_allowed ? SYS_brk : SYS_write),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    };
    struct sock_fprog program = {.len = sizeof filter / sizeof *filter, .filter = filter};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, 2, &program, 0, 0);
}

__attribute__((noinline)) static void *path_make(unsigned depth, size_t bytes) {
    void *block = depth > 0 ? path_make(depth - 1, bytes) : malloc(bytes);
    __asm__ volatile("" : "+r"(block));
    return block;
}

/* A thread that was there before, but allocates for the first time under the filter: on a stack
 * that nobody has looked at, and deep in it. */
enum { THREADS = 100 };
static pthread_barrier_t done;

static void *late_thread(void *argument) {
    if (filter_install(0) != 0) { /* each thread has its own */
        _exit(2);
    }
    for (unsigned i = 0; i < 100; i++) {
        free(path_make(i * 5, 10 + i * 100));
    }
    pthread_barrier_wait(&done);
    while (argument == NULL) { /* its end would take more calls */
        pthread_barrier_wait(&done);
    }
    return argument;
}

int main(int argc, char **argv) {
    static char *kept[3000];
    unsigned long wrong = 0;
    int brk = argc > 1 && strcmp(argv[1], "brk") == 0, threads = brk ? 0 : THREADS;
    pthread_t thread;
    pthread_barrier_init(&done, NULL, (unsigned)threads + 1);
    for (int i = 0; i < threads; i++) {
        if (pthread_create(&thread, NULL, late_thread, NULL) != 0) {
            return 3;
        }
    }
    path_make(1, 1); /* the C library asks for a random number at its first */
    usleep(300000);  /* what starts late has started */
    if (filter_install(brk) != 0) {
        return 2;
    }
    pthread_barrier_wait(&done);
    for (unsigned i = 0; i < 3000; i++) { /* many paths and sizes, seen for the first time */
        kept[i] = path_make(i % 60, i % 100 == 0 ? i * 1000 : i * 3 + 1);
        kept[i][0] = (char)i;
    }
    for (unsigned i = 0; i < 3000; i++) {
        kept[i] = realloc(kept[i], i % 50 == 0 ? i * 2000 + 1 : i * 5 + 1);
        wrong += kept[i][0] != (char)i;
    }
    void *aligned = memalign(65536, 100);
    wrong += (size_t)aligned % 65536;
    free(aligned);
    for (unsigned i = 0; i < 3000; i++) {
        free(kept[(i * 7) % 3000]);
    }
    free(calloc(1000, 1000));
    wrong += malloc((size_t)1 << 60) != NULL || errno != ENOMEM;
    static const char good[] = "all in order\n", bad[] = "something is wrong\n";
    ssize_t written = wrong ? write(1, bad, sizeof bad - 1) : write(1, good, sizeof good - 1);
    _exit(written < 0 || wrong != 0);
}
