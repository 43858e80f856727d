/* SPDX-License-Identifier: MIT */
/* Starts a thread that libc does not know of; see thread.h. */
#include "os/thread.h"

#include "os/libc.h"
#include "os/os.h"

#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/resource.h>

/* These are the flags of glibc's pthread_create; filters of system calls allow this combination. */
#define THREAD_FLAGS                                                                               \
    (CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SYSVSEM | CLONE_SIGHAND | CLONE_THREAD |            \
     CLONE_SETTLS | CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID)
/* Bytes below the variable that lies farthest below the thread pointer, errno or one of the
 * library's. The library's variables take fewer; a library of a compiler's checks
 * (AddressSanitizer) has variables of its own. */
#define VARIABLES_MORE 8192UL
#define STACK_LEAST (128UL << 10)
#define JOIN_WAIT_NS 100000000L

/* The head of glibc's descriptor of a thread. It stands at the thread pointer, and compiled code
 * uses its fields directly, so it is the same in all versions for x86-64. */
struct head {
    void *self;
    union vector *vector;
    void *self_too;
    uint32_t threads; /* not 0: this thread takes libc's locks by atomic operations */
    uint32_t scope;
    uint64_t sysinfo, stack_guard, pointer_guard;
};
_Static_assert(offsetof(struct head, stack_guard) == 0x28, "gcc reads the guard there");

/* An entry of glibc's vector of pointers to each object's thread-local variables (DTV), in which
 * dl_iterate_phdr looks. Entry -1 holds the number of further entries, here 0. Entry 0 holds a
 * generation that is never the present one. So libc finds no variables, as in a thread that has not
 * used an object's variables yet. */
union vector {
    uint64_t counter;
    struct {
        void *value, *to_free;
    } pointer;
};

/* The memory at the thread pointer. glibc's descriptor is smaller than `room`; the fields behind
 * its head are 0, except the thread's id. */
struct descriptor {
    union {
        struct head head;
        char room[4096];
    };
    union vector vectors[2];
    uint32_t id; /* the thread's id, if the offset of glibc's own field is not known */
} __attribute__((aligned(64)));

static struct head *own_head(void) {
    struct head *self;
    __asm__("movq %%fs:0, %0" : "=r"(self));
    return self;
}

/* Returns the bytes below the thread pointer that hold thread-local variables which the new thread
 * uses: errno, and those of this library. */
static size_t variable_bytes(const struct head *self) {
    uintptr_t pointer = (uintptr_t)self;
    size_t of_libc = pointer - (uintptr_t)&errno, of_library = pointer - lock_self();
    return align_up((of_libc > of_library ? of_libc : of_library) + VARIABLES_MORE, 64);
}

bool os_thread_start(struct os_thread *thread, char *stack, size_t bytes, int (*run)(void *)) {
    const struct head *self = own_head();
    size_t below = variable_bytes(self), needed = below + sizeof(struct descriptor);
    static char *mapped; /* for a program with many thread-local variables */
    static size_t mapped_bytes;
    char *variables = stack + bytes - needed;
    if (needed + STACK_LEAST > bytes) {
        if (mapped) /* of an earlier thread */
            os_unmap(mapped, mapped_bytes);
        mapped_bytes = align_up(needed, OS_PAGE_BYTES);
        if (!(mapped = os_map(mapped_bytes))) {
            errno = ENOMEM;
            return false;
        }
        variables = mapped;
    } else {
        __builtin_memset(variables, 0, needed);
        bytes -= needed;
    }
    struct descriptor *descriptor = (struct descriptor *)(void *)(variables + below);
    descriptor->head = (struct head){.self = descriptor,
                                     .vector = &descriptor->vectors[1],
                                     .self_too = descriptor,
                                     .threads = 1,
                                     .stack_guard = self->stack_guard,
                                     .pointer_guard = self->pointer_guard};
    descriptor->vectors[1].counter = UINT64_MAX;
    uint32_t offset = os_identity.tid_offset;
    thread->alive = offset ? (uint32_t *)(void *)(descriptor->room + offset) : &descriptor->id;
    uint64_t all = UINT64_MAX, before = 0;
    /* The new thread inherits this thread's signal mask. */
    os_syscall(SYS_rt_sigprocmask, SIG_BLOCK, (long)&all, (long)&before, sizeof all, 0, 0);
    int id = OS_TRY(clone(run, stack + bytes / 16 * 16, THREAD_FLAGS, NULL, thread->alive,
                          descriptor, thread->alive));
    os_syscall(SYS_rt_sigprocmask, SIG_SETMASK, (long)&before, 0, sizeof before, 0, 0);
    thread->id = id < 0 ? 0 : (uint32_t)id;
    return id >= 0;
}

void os_thread_join(const struct os_thread *thread) {
    const struct timespec wait = {.tv_nsec = JOIN_WAIT_NS};
    uint32_t id;
    /* The kernel wakes a futex that processes may share, so the wait must not be private. */
    while ((id = load_acquire(thread->alive)) != 0) {
        long error = OS_CALL(SYS_futex, thread->alive, FUTEX_WAIT, id, &wait, 0, 0);
        /* A copy of the process that the bare system call clone made has no such thread. */
        if (error == -ETIMEDOUT && !os_thread_exists(id))
            return;
    }
}

/* room for a set of 8192 processors; Linux on x86-64 has no more */
#define AFFINITY_WORDS 128
#define IO_CLASS_SHIFT 13
#define IO_REAL_TIME 1
#define IO_OF_PROCESS 1
#define ORDINARY_SLACK_NS 50000 /* the kernel's default: how late a timer may end a wait */

/* A thread of real time may spin on a processor of its own. A thread with an ordinary policy and
 * the processors of the first thread delays no such thread, and runs even while such a thread
 * spins. */
void os_thread_take_ordinary_place(void) {
    static const struct sched_param ordinary;
    unsigned long first[AFFINITY_WORDS] = {0}, own[AFFINITY_WORDS] = {0};
    long policy = os_syscall(SYS_sched_getscheduler, 0, 0, 0, 0, 0, 0);
    if (policy == SCHED_FIFO || policy == SCHED_RR)
        os_syscall(SYS_sched_setscheduler, 0, SCHED_OTHER, (long)&ordinary, 0, 0, 0);
    /* the system call returns 20 minus the nice value */
    if (os_syscall(SYS_getpriority, PRIO_PROCESS, 0, 0, 0, 0, 0) > 20)
        os_syscall(SYS_setpriority, PRIO_PROCESS, 0, 0, 0, 0, 0);
    if (os_syscall(SYS_ioprio_get, IO_OF_PROCESS, 0, 0, 0, 0, 0) >> IO_CLASS_SHIFT == IO_REAL_TIME)
        os_syscall(SYS_ioprio_set, IO_OF_PROCESS, 0, 0, 0, 0, 0);
    long slack_ns = os_syscall(SYS_prctl, PR_GET_TIMERSLACK, 0, 0, 0, 0, 0);
    if (slack_ns >= 0 && slack_ns < ORDINARY_SLACK_NS)
        os_syscall(SYS_prctl, PR_SET_TIMERSLACK, ORDINARY_SLACK_NS, 0, 0, 0, 0);
    long pid = os_process_id(), bytes = sizeof first;
    if (OS_FAILED(os_syscall(SYS_sched_getaffinity, pid, bytes, (long)first, 0, 0, 0)) ||
        OS_FAILED(os_syscall(SYS_sched_getaffinity, 0, bytes, (long)own, 0, 0, 0)))
        return;
    for (int i = 0; i < AFFINITY_WORDS; i++)
        if (first[i] != own[i]) {
            os_syscall(SYS_sched_setaffinity, 0, bytes, (long)first, 0, 0, 0);
            return;
        }
}
