/* SPDX-License-Identifier: MIT */
/* filtered [brk|frame] - allocates in every way under a seccomp filter that kills the process at
 * any system call that an allocator does not need. Threads do so, too, as their first allocation.
 * With the argument brk, the filter allows brk and there are no threads, so that the C library's
 * allocator can be tested: with threads it would ask for the number of processors. With the
 * argument frame, the filter forbids mremap, too, and the program only allocates below a frame of
 * 2 MiB. */
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../../lib/filter.h"

#define ALLOW(number)                                                                              \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (number), 0, 1),                                           \
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

static int allow_few(int brk_allowed, int mremap_allowed) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        ALLOW(SYS_mmap),
        ALLOW(SYS_munmap),
        ALLOW(mremap_allowed ? SYS_mremap : SYS_write),
        ALLOW(SYS_madvise),
        ALLOW(SYS_futex),
        ALLOW(SYS_clock_gettime),
        ALLOW(SYS_write),
        ALLOW(SYS_exit_group),
        ALLOW(brk_allowed ? SYS_brk : SYS_write),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    };
    return filter_install(filter, sizeof filter / sizeof *filter);
}

__attribute__((noinline)) static void *path_make(unsigned depth, size_t bytes) {
    void *block = depth > 0 ? path_make(depth - 1, bytes) : malloc(bytes);
    __asm__ volatile("" : "+r"(block));
    return block;
}

/* Threads that start before the filter and allocate first under it, deep in a stack whose bounds
 * the library does not know yet. */
enum { THREADS = 100 };
static pthread_barrier_t done;

static void *late_thread(void *argument) {
    if (allow_few(0, 1) != 0) { /* a filter holds for one thread */
        _exit(2);
    }
    for (unsigned i = 0; i < 100; i++) {
        free(path_make(i * 5, 10 + i * 100));
    }
    pthread_barrier_wait(&done);
    while (argument == NULL) { /* the end of a thread needs system calls that the filter forbids */
        pthread_barrier_wait(&done);
    }
    return argument;
}

/* Allocates below a frame of 2 MiB. The library does not know yet that the frame is mapped. */
__attribute__((noinline)) static int allocate_below_frame(void) {
    volatile char frame[2 << 20];
    frame[0] = 0;
    frame[sizeof frame - 1] = 0;
    if (allow_few(0, 0) != 0) {
        return 2;
    }
    for (unsigned i = 0; i < 100; i++) {
        free(path_make(i % 60, 10 + i * 100));
    }
    static const char good[] = "below a large frame\n";
    return write(1, good, sizeof good - 1) < 0;
}

int main(int argc, char **argv) {
    static char *kept[3000];
    unsigned long wrong = 0;
    if (argc > 1 && strcmp(argv[1], "frame") == 0) {
        path_make(1, 1); /* at its first allocation the C library calls getrandom */
        _exit(allocate_below_frame());
    }
    int brk = argc > 1 && strcmp(argv[1], "brk") == 0, threads = brk ? 0 : THREADS;
    pthread_t thread;
    pthread_barrier_init(&done, NULL, (unsigned)threads + 1);
    for (int i = 0; i < threads; i++) {
        if (pthread_create(&thread, NULL, late_thread, NULL) != 0) {
            return 3;
        }
    }
    path_make(1, 1); /* at its first allocation the C library calls getrandom */
    usleep(300000);  /* by then the control thread has started */
    if (allow_few(brk, 1) != 0) {
        return 2;
    }
    pthread_barrier_wait(&done);
    for (unsigned i = 0; i < 3000; i++) { /* call paths and sizes that were not used before */
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
