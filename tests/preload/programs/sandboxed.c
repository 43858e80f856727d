/* SPDX-License-Identifier: MIT */
/*
 * sandboxed HOW MS [stay] - allocates for MS milliseconds, restricts its system calls, and goes on
 * to allocate on new call paths and in new sizes. With "stay" it then waits for the end of standard
 * input. HOW is
 * - none: no restriction
 * - strict: seccomp's strict mode, which allows only read, write and exit. From then on, the
 *   program uses only sizes of which it has freed chunks
 * - counter: a read of the processor's counter raises SIGSEGV, also a read of the clock
 * - short: a filter, set by prctl, that kills the process at all but a few calls
 * - late: a filter for the calling thread that kills the process at calls which a new thread and
 *   a socket need; a second thread has no filter
 * - thread: like late, but the second thread has the filter
 * - all: the filter of late for all threads, set by syscall(SYS_seccomp)
 * - children: the filter of short in four forked children, one after the other; then a filter
 *   against ptrace in a vfork child that becomes /bin/true
 * - question: asks the kernel whether it knows filters, which changes nothing
 * Prints the number of threads if it can still count them, and "all in order" at the end.
 */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef SYS_close_range /* kernel headers before 5.9 do not define it */
#define SYS_close_range 436
#endif
#define COUNT(array) (sizeof(array) / sizeof *(array))

static const int allowed[] = {SYS_read,    SYS_write,         SYS_exit,           SYS_brk,
                              SYS_mmap,    SYS_munmap,        SYS_mremap,         SYS_mprotect,
                              SYS_madvise, SYS_futex,         SYS_close,          SYS_getpid,
                              SYS_gettid,  SYS_clock_gettime, SYS_rt_sigprocmask, SYS_sched_yield};
static const int forbidden[] = {SYS_socket,      SYS_connect, SYS_bind,     SYS_listen,
                                SYS_accept4,     SYS_sendto,  SYS_recvfrom, SYS_rt_sigaction,
                                SYS_clone,       SYS_clone3,  SYS_unshare,  SYS_poll,
                                SYS_close_range, SYS_rename,  SYS_unlink,   SYS_openat,
                                SYS_mincore,     SYS_tgkill,  SYS_stat,     SYS_newfstatat};

/* Makes a filter that kills the process at these calls (allow: 0) or at all other calls (allow:
 * 1). */
static void filter_make(struct sock_fprog *program, const int *calls, size_t count, int allow) {
    static struct sock_filter code[64];
    size_t length = 0;
    code[length++] =
        (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (size_t i = 0; i < count; i++) {
        code[length++] =
            (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)calls[i], 0, 1);
        code[length++] = (struct sock_filter)BPF_STMT(
            BPF_RET | BPF_K, allow ? SECCOMP_RET_ALLOW : SECCOMP_RET_KILL_PROCESS);
    }
    code[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, allow ? SECCOMP_RET_KILL_PROCESS
                                                                         : SECCOMP_RET_ALLOW);
    *program = (struct sock_fprog){.len = (unsigned short)length, .filter = code};
}

static int restrict_self(const char *how) {
    struct sock_fprog program;
    int is_short = strcmp(how, "short") == 0;
    if (strcmp(how, "none") == 0)
        return 0;
    if (strcmp(how, "strict") == 0)
        return prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT, 0, 0, 0);
    if (strcmp(how, "counter") == 0)
        return prctl(PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0);
    if (strcmp(how, "question") == 0)
        return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, NULL, 0, 0) == 0 || errno != EFAULT ||
               syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, NULL) == 0 || errno != EFAULT ||
               syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 1UL << 30, "") == 0;
    filter_make(&program, is_short ? allowed : forbidden,
                is_short ? COUNT(allowed) : COUNT(forbidden), is_short);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return 1;
    if (strcmp(how, "all") == 0)
        return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) !=
               0;
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0);
}

static unsigned threads_count(void) {
    struct stat tasks;
    return stat("/proc/self/task", &tasks) == 0 ? (unsigned)tasks.st_nlink - 2 : 0;
}

static double now_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

__attribute__((noinline)) static void *path_make(unsigned depth, size_t bytes) {
    void *block = depth > 0 ? path_make(depth - 1, bytes) : malloc(bytes);
    __asm__ volatile("" : "+r"(block));
    return block;
}

/* Allocates and frees for some time. Returns the number of chunks with wrong content. */
static unsigned long allocate_for(double seconds, unsigned seed, int few) {
    static _Thread_local unsigned char *kept[1000];
    unsigned long wrong = 0;
    double end = now_s() + seconds;
    for (unsigned i = seed; now_s() < end; i += 7) {
        unsigned char **place = &kept[i % COUNT(kept)];
        size_t bytes = few ? 64 : i % 97 == 0 ? 50000 + i % 300000 : i % 2000 + 8;
        wrong += *place != NULL && **place != (unsigned char)((size_t)(place - kept));
        free(*place);
        *place = path_make(few ? 1 : i % 120, bytes);
        if (!few && i % 5 == 0)
            *place = realloc(*place, bytes + i % 3000);
        if (*place == NULL)
            return wrong + 1;
        **place = (unsigned char)((size_t)(place - kept));
    }
    return wrong;
}

/* Allocates chunks of 64 bytes, of which several pages have free ones, without reading the clock,
 * which strict mode forbids. The last chunk stays, so that the C library's allocator gives no
 * memory back. */
static unsigned long allocate_same(unsigned rounds) {
    static void *blocks[6000];
    unsigned long wrong = 0;
    for (unsigned round = 0; round < rounds; round++) {
        for (size_t i = 0; i < COUNT(blocks); i++)
            if (blocks[i] == NULL)
                wrong += (blocks[i] = path_make(1, 64)) == NULL;
        for (size_t i = 0; i + 1 < COUNT(blocks); i++) {
            free(blocks[i]);
            blocks[i] = NULL;
        }
    }
    return wrong;
}

static atomic_ulong others_wrong;
static atomic_int begun, stop, stopped;

/* When glibc's malloc shrinks the heap of a thread for the first time, it opens
 * /proc/sys/vm/overcommit_memory, which the filter forbids. */
static void shrink_heap(void) {
    void *blocks[10];
    for (size_t i = 0; i < COUNT(blocks); i++)
        blocks[i] = malloc(100000);
    for (size_t i = 0; i < COUNT(blocks); i++)
        free(blocks[i]);
}

static void *other_thread(void *how) {
    shrink_heap();
    others_wrong += how && restrict_self(how) != 0;
    while (!atomic_load(&stop)) {
        others_wrong += allocate_for(0.05, 3, 0);
        atomic_store(&begun, 1);
    }
    atomic_store(&stopped, 1);
    for (;;) { /* the end of a thread needs system calls that the filter forbids */
        struct timespec pause = {.tv_nsec = 100000000};
        nanosleep(&pause, NULL);
    }
    return NULL;
}

static void say(const char *text) {
    if (write(1, text, strlen(text)) < 0)
        syscall(SYS_exit, 4);
}

static int children_run(void) {
    for (int i = 0; i < 4; i++) {
        pid_t child = fork();
        if (child == 0) {
            /* long enough for the start of the control thread, or too short */
            unsigned long wrong = allocate_for(0.1 * i, 1, 0);
            wrong += (unsigned long)restrict_self("short") + allocate_for(0.4, 2, 0);
            syscall(SYS_exit, wrong != 0);
        }
        int ending = -1;
        if (child < 0 || waitpid(child, &ending, 0) != child || ending != 0) {
            printf("a child ended with %x\n", (unsigned)ending);
            return 1;
        }
    }
    return 0;
}

static int vfork_run(void) {
    struct sock_fprog program;
    int tracing[] = {SYS_ptrace};
    filter_make(&program, tracing, COUNT(tracing), 0);
    pid_t child = vfork();
    if (child == 0) {
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
            prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0)
            execl("/bin/true", "true", (char *)NULL);
        _exit(1);
    }
    int ending;
    return child < 0 || waitpid(child, &ending, 0) != child || ending != 0;
}

int main(int argc, char **argv) {
    const char *how = argc > 2 ? argv[1] : "";
    double before_s = argc > 2 ? atof(argv[2]) / 1000 : 0;
    int other_only = strcmp(how, "thread") == 0;
    int with_other = other_only || strcmp(how, "late") == 0 || strcmp(how, "all") == 0;
    int clockless = strcmp(how, "strict") == 0 || strcmp(how, "counter") == 0;
    int free_after = strcmp(how, "none") == 0 || strcmp(how, "question") == 0 ||
                     strcmp(how, "children") == 0; /* this process has no filter in the end */
    pthread_t other;
    if (with_other && pthread_create(&other, NULL, other_thread, other_only ? "late" : NULL) != 0)
        return 2;
    free(path_make(1, 1)); /* at its first allocation the C library calls getrandom */
    unsigned long wrong = allocate_for(before_s, 1, clockless);
    wrong += clockless ? allocate_same(2) : 0;
    while (with_other && !atomic_load(&begun))
        usleep(1000);
    if (strcmp(how, "children") == 0) {
        wrong += (unsigned long)children_run() + (unsigned long)vfork_run();
        how = "none";
    }
    if (other_only)
        how = "none";
    else if (with_other && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return 3;
    unsigned threads = threads_count(); /* counted now, because the filter forbids stat */
    for (int i = 0; with_other && threads > 2 && i < 5000; i++) {
        /* the library's thread has ended at PR_SET_NO_NEW_PRIVS; the kernel still counts it */
        usleep(1000);
        threads = threads_count();
    }
    if (restrict_self(how) != 0)
        return 3;
    wrong += clockless ? allocate_same(1000) : allocate_for(0.6, 2, 0);
    for (char byte; argc > 3 && strcmp(argv[3], "stay") == 0 && read(0, &byte, 1) > 0;) {
    }
    atomic_store(&stop, 1);
    while (with_other && !atomic_load(&stopped))
        allocate_for(0.01, 1, 0);
    wrong += others_wrong;
    if (free_after)
        threads = threads_count();
    if (free_after || with_other) {
        char line[] = "threads: 0\n";
        line[9] = (char)('0' + threads % 10);
        say(line);
    }
    say(wrong == 0 ? "all in order\n" : "something is wrong\n");
    syscall(with_other ? SYS_exit_group : SYS_exit, wrong != 0);
}
