/* SPDX-License-Identifier: MIT */
/* Memory, clock and files through raw system calls; see os.h. */
#include "os/os.h"
#include "os/syscall.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/kcmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <time.h>

/* The headers of an older glibc do not define MADV_POPULATE_READ. */
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif
#ifndef MADV_GUARD_REMOVE
#define MADV_GUARD_REMOVE 103
#endif

/* With MAP_NORESERVE the kernel does not merge a mapping of the library with a .bss that ends where
 * the mapping begins, so /proc/PID/smaps shows the two apart. Nor does the kernel refuse a fork
 * because adjacent mappings together have more bytes than the machine. */
#define MAP_FLAGS (MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE)
#define ASK_BYTES (64UL << 20)

static uint32_t refused; /* atomic */
uint32_t os_restricted FORK_PAGE;
uint32_t os_counter_forbidden FORK_PAGE;
uint32_t os_mincore_forbidden FORK_PAGE;

uint32_t os_refused(void) {
    return load_relaxed(&refused);
}

static void *map_at(void *place, size_t bytes, int protection, int extra) {
    long result = OS_CALL(SYS_mmap, place, bytes, protection, MAP_FLAGS | extra, -1, 0);
    if (LIKELY(!OS_FAILED(result)))
        return (void *)result;
    add_relaxed(&refused, 1);
    return NULL;
}

/* With MAP_NORESERVE the kernel maps even more memory than the machine has. A program that asks
 * malloc for so much expects NULL, as glibc returns. So for ASK_BYTES or more, this function first
 * asks the kernel for a mapping without that flag. */
static bool kernel_grants(size_t bytes) {
    if (LIKELY(bytes < ASK_BYTES))
        return true;
    long probe =
        OS_CALL(SYS_mmap, NULL, bytes, PROT_READ | PROT_WRITE, MAP_FLAGS & ~MAP_NORESERVE, -1, 0);
    if (OS_FAILED(probe)) {
        add_relaxed(&refused, 1);
        return false;
    }
    OS_CALL(SYS_munmap, probe, bytes, 0, 0, 0, 0);
    return true;
}

/* The thread sanitizer does not see the library's system calls. This tells it that memory which one
 * thread unmaps, and another one then maps, has passed from one to the other. */
static void memory_passes(void) {
#ifdef __SANITIZE_THREAD__
    static uint32_t passed;
    exchange_acq_rel(&passed, 0);
#endif
}

void *os_map(size_t bytes) {
    memory_passes();
    return map_at(NULL, bytes, PROT_READ | PROT_WRITE, 0);
}

void os_unmap(void *start, size_t bytes) {
    memory_passes();
    /* The kernel refuses to unmap the middle of a mapping if the process has too many mappings. The
     * memory then goes back to the kernel, and the addresses stay mapped. */
    if (OS_FAILED(OS_CALL(SYS_munmap, start, bytes, 0, 0, 0, 0)))
        OS_CALL(SYS_madvise, start, bytes, MADV_DONTNEED, 0, 0, 0);
}

bool os_map_anew(void *start, size_t bytes) {
    return map_at(start, bytes, PROT_READ | PROT_WRITE, MAP_FIXED) != NULL;
}

void os_wipe_on_fork(void *start, size_t bytes) {
    OS_CALL(SYS_madvise, start, bytes, MADV_WIPEONFORK, 0, 0, 0);
}

/* Maps `bytes` at an aligned address at or below `start`, without padding, or returns NULL. The
 * kernel has just placed a mapping of this size at `start`; below it the addresses are mostly free.
 * Where a limit of the address space leaves no room for padding, this still finds a place. */
static void *map_aligned_below(char *start, size_t bytes, size_t alignment) {
    uintptr_t wanted = (uintptr_t)start & ~(alignment - 1);
    for (int tries = 0; tries < 4 && wanted > alignment; tries++, wanted -= alignment) {
        /* Without MAP_FIXED, the kernel takes another place if this range is in use. */
        char *got = map_at((void *)wanted, bytes, PROT_READ | PROT_WRITE, 0);
        if (!got || !((uintptr_t)got & (alignment - 1)))
            return got;
        os_unmap(got, bytes);
    }
    return NULL;
}

void *os_map_aligned(size_t bytes, size_t alignment) {
    /* The kernel places a mapping next to the last one, below it. So after one aligned segment, the
     * next mapping of the same size is mostly aligned without trimming. */
    char *start = kernel_grants(bytes) ? os_map(bytes) : NULL;
    if (!start || !((uintptr_t)start & (alignment - 1)))
        return start;
    os_unmap(start, bytes);
    size_t padded = bytes + alignment - OS_PAGE_BYTES;
    if (padded < bytes)
        return NULL;
    char *unaligned = start;
    /* Inaccessible memory counts towards no limit but RLIMIT_AS. */
    start = map_at(NULL, padded, PROT_NONE, 0);
    if (!start)
        return map_aligned_below(unaligned, bytes, alignment);
    char *aligned = (char *)align_up((uintptr_t)start, alignment);
    if (aligned > start)
        os_unmap(start, (size_t)(aligned - start));
    size_t behind = padded - (size_t)(aligned - start) - bytes;
    if (behind)
        os_unmap(aligned + bytes, behind);
    /* A filter of system calls may forbid mprotect, so a restricted process uses MAP_FIXED. If the
     * kernel refuses MAP_FIXED, it may have unmapped the range, and another thread may have mapped
     * memory there since. So after such a refusal, this function does not unmap the range. */
    long result = UNLIKELY(load_relaxed(&os_restricted))
                      ? -EPERM
                      : OS_CALL(SYS_mprotect, aligned, bytes, PROT_READ | PROT_WRITE, 0, 0, 0);
    if (!OS_FAILED(result))
        return aligned;
    if (result != -ENOMEM)
        return map_at(aligned, bytes, PROT_READ | PROT_WRITE, MAP_FIXED);
    add_relaxed(&refused, 1);
    os_unmap(aligned, bytes);
    return NULL;
}

int os_resize_in_place(void *start, size_t old_bytes, size_t new_bytes) {
    if (new_bytes > old_bytes && !kernel_grants(new_bytes - old_bytes))
        return -ENOMEM;
    long result = OS_CALL(SYS_mremap, start, old_bytes, new_bytes, 0, 0, 0);
    return OS_FAILED(result) ? (int)result : 0;
}

void *os_grow_elsewhere(void *start, size_t old_bytes, size_t new_bytes) {
    if (!kernel_grants(new_bytes - old_bytes))
        return NULL;
    long result = OS_CALL(SYS_mremap, start, old_bytes, new_bytes, MREMAP_MAYMOVE, 0, 0);
    if (LIKELY(!OS_FAILED(result)))
        return (void *)result;
    add_relaxed(&refused, 1);
    return NULL;
}

/* More bytes than the kernel has addresses from any start on: below the end of the address space it
 * keeps one OS page free. With 57-bit addresses, the stack is in the way of so many bytes. */
#define BEYOND_ADDRESSES ((1UL << 47) - 2 * OS_PAGE_BYTES)

/* mremap extends one area only, and fails with EFAULT if the old bytes are more than one area.
 * Only after that does it look for room behind them (ENOMEM), and at the limits of locked memory
 * (EAGAIN). There is never room for BEYOND_ADDRESSES. */
bool os_is_one_area(void *start, size_t bytes) {
    long result = OS_CALL(SYS_mremap, start, bytes, BEYOND_ADDRESSES, 0, 0, 0);
    return result == -ENOMEM || result == -EAGAIN;
}

/* From Linux 6.17 on, mremap moves several areas, one after the other. It stops at an area with a
 * userfaultfd, and has moved only those before it then. */
bool os_move(void *start, size_t old_bytes, void *target, size_t new_bytes) {
    if (!os_is_one_area(start, old_bytes)) {
        os_unmap(target, new_bytes);
        return false;
    }
    return !OS_FAILED(
        OS_CALL(SYS_mremap, start, old_bytes, new_bytes, MREMAP_MAYMOVE | MREMAP_FIXED, target, 0));
}

/* Whether MADV_DONTNEED, when it succeeds, makes the memory zero. */
enum discards { DISCARDS_UNKNOWN, DISCARDS_ZERO, DISCARDS_NOTHING };

/* Tries MADV_DONTNEED on an OS page of its own. qemu's user mode says in old versions, such as 5.2,
 * that the call succeeded, but leaves the memory as it is. Where the kernel refuses the call
 * (mlockall), it at least does not say that it succeeded. */
static enum discards try_discard(void) {
    volatile char *page = map_at(NULL, OS_PAGE_BYTES, PROT_READ | PROT_WRITE, 0);
    if (!page)
        return DISCARDS_UNKNOWN;
    *page = 1;
    bool failed = OS_FAILED(OS_CALL(SYS_madvise, page, OS_PAGE_BYTES, MADV_DONTNEED, 0, 0, 0));
    enum discards found = !failed && *page ? DISCARDS_NOTHING : DISCARDS_ZERO;
    os_unmap((void *)(uintptr_t)page, OS_PAGE_BYTES);
    return found;
}

void os_discard(void *start, size_t bytes) {
    static uint8_t known; /* atomic: an enum discards */
    /* The kernel refuses this call for locked memory (mlockall), and a filter of system calls may
     * refuse it, too. */
    bool failed = OS_FAILED(OS_CALL(SYS_madvise, start, bytes, MADV_DONTNEED, 0, 0, 0));
    if (UNLIKELY(!load_relaxed(&known)) && !failed)
        store_owner(&known, try_discard());
    if (failed || UNLIKELY(load_relaxed(&known) == DISCARDS_NOTHING))
        __builtin_memset(start, 0, bytes);
}

void os_give_back(void *start, size_t bytes) {
    OS_CALL(SYS_madvise, start, bytes, MADV_DONTNEED, 0, 0, 0);
}

void os_advise_huge(void *start, size_t bytes, bool huge) {
    OS_CALL(SYS_madvise, start, bytes, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE, 0, 0, 0);
}

bool os_protect(void *start, size_t bytes, bool writable) {
    int protection = PROT_READ | (writable ? PROT_WRITE : 0);
    return !OS_FAILED(OS_CALL(SYS_mprotect, start, bytes, protection, 0, 0, 0));
}

void os_remove_guards(void *start, size_t bytes) {
    OS_CALL(SYS_madvise, start, bytes, MADV_GUARD_REMOVE, 0, 0, 0);
}

bool os_make_plain(void *start, size_t bytes) {
    /* MADV_WIPEONFORK is refused for a range with a hole, and for memory that is not anonymous. */
    static const int advice[] = {MADV_WIPEONFORK, MADV_KEEPONFORK, MADV_DOFORK};
    for (unsigned i = 0; i < sizeof advice / sizeof advice[0]; i++)
        if (OS_FAILED(OS_CALL(SYS_madvise, start, bytes, advice[i], 0, 0, 0)))
            return false;
    os_remove_guards(start, bytes);
    return os_protect(start, bytes, true);
}

bool os_forbid(void *start, size_t bytes, bool forbidden) {
    int protection = forbidden ? PROT_NONE : PROT_READ | PROT_WRITE;
    /* A filter of system calls may forbid mprotect, so a new mapping replaces the range. */
    if (UNLIKELY(load_relaxed(&os_restricted)))
        return map_at(start, bytes, protection, MAP_FIXED) != NULL;
    return !OS_FAILED(OS_CALL(SYS_mprotect, start, bytes, protection, 0, 0, 0));
}

static bool is_advisable(uintptr_t start, size_t bytes, int advice) {
    return !OS_FAILED(OS_CALL(SYS_madvise, start, bytes, advice, 0, 0, 0));
}

static bool is_known_to_mincore(uintptr_t start, size_t bytes) {
    unsigned char vector[64];
    for (size_t done = 0; done < bytes; done += sizeof vector * OS_PAGE_BYTES) {
        size_t part = bytes - done;
        if (part > sizeof vector * OS_PAGE_BYTES)
            part = sizeof vector * OS_PAGE_BYTES;
        if (OS_FAILED(OS_CALL(SYS_mincore, start + done, part, vector, 0, 0, 0)))
            return false;
    }
    return true;
}

#define NEVER_MAPPED OS_PAGE_BYTES

/* The system call that tells whether a range may be read. */
enum probe { PROBE_UNKNOWN, PROBE_POPULATE, PROBE_NORMAL, PROBE_MINCORE };

/* Chooses the best probe that this kernel has. A filter of system calls that is made for allocators
 * allows madvise. Some kernels (gVisor) accept any advice without looking at the range. Such a
 * kernel also accepts advice for the page NEVER_MAPPED, and is recognised by that. */
static enum probe choose_probe(void) {
    uintptr_t own_page = (uintptr_t)__builtin_frame_address(0) & ~(OS_PAGE_BYTES - 1);
    if (is_advisable(NEVER_MAPPED, OS_PAGE_BYTES, MADV_NORMAL))
        return PROBE_MINCORE;
    /* Linux knows MADV_POPULATE_READ since 5.14. */
    return is_advisable(own_page, OS_PAGE_BYTES, MADV_POPULATE_READ) ? PROBE_POPULATE
                                                                     : PROBE_NORMAL;
}

/* MADV_POPULATE_READ reads a byte of each page, and fails where a read would raise a signal.
 * MADV_NORMAL and mincore find only holes in the range. MADV_NORMAL is the advice that a stack has
 * already, so the call changes nothing, but it fails with ENOMEM if there is a hole. */
bool os_is_readable(uintptr_t start, uintptr_t end) {
    static uint8_t known; /* atomic: an enum probe */
    start &= ~(OS_PAGE_BYTES - 1);
    size_t bytes = align_up(end, OS_PAGE_BYTES) - start;
    if (UNLIKELY(!load_relaxed(&known)))
        store_owner(&known, choose_probe());
    switch (load_relaxed(&known)) {
    case PROBE_POPULATE: return is_advisable(start, bytes, MADV_POPULATE_READ);
    case PROBE_NORMAL: return is_advisable(start, bytes, MADV_NORMAL);
    default: return is_known_to_mincore(start, bytes);
    }
}

bool os_resident_vector(const void *start, size_t bytes, unsigned char *vector) {
    if (UNLIKELY(load_relaxed(&os_mincore_forbidden)))
        return os_pagemap_vector((uintptr_t)start, bytes, vector);
    return !OS_FAILED(OS_CALL(SYS_mincore, start, bytes, vector, 0, 0, 0));
}

int64_t os_resident_bytes(const void *start, size_t bytes) {
    unsigned char vector[1024] = {0};
    int64_t resident = 0;
    uintptr_t at = (uintptr_t)start & ~(OS_PAGE_BYTES - 1);
    uintptr_t end = align_up((uintptr_t)start + bytes, OS_PAGE_BYTES);
    while (at < end) {
        size_t part = end - at;
        if (part > sizeof vector * OS_PAGE_BYTES)
            part = sizeof vector * OS_PAGE_BYTES;
        if (!os_resident_vector((const void *)at, part, vector))
            return -1;
        for (size_t i = 0; i < part / OS_PAGE_BYTES; i++)
            resident += (vector[i] & 1) * (int64_t)OS_PAGE_BYTES;
        at += part;
    }
    return resident;
}

/* Libraries such as libfaketime define clock_gettime. Their function may take a lock and then
 * allocate. If malloc called it, malloc would wait for this lock for ever. So the constructor
 * stores the address of libc's function here (os_clock_init). */
static int (*read_clock)(clockid_t clock, struct timespec *now) START_PAGE = clock_gettime;

void os_clock_init(uintptr_t function) {
    if (function)
        read_clock = (int (*)(clockid_t, struct timespec *))function;
}

static uint64_t clock_ns(clockid_t clock) {
#ifdef MEMCTX_MODEL
    if (clock)
        return model_now_ns();
#endif
    /* clock_gettime uses the vDSO, leaves errno alone when it succeeds, and every filter of system
     * calls allows it. */
    struct timespec now = {0};
    read_clock(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec;
}

uint64_t os_now_ns(void) {
    return clock_ns(CLOCK_MONOTONIC_COARSE);
}

/* True if reading the processor's counter, which exact clocks need, would end the process. Strict
 * mode also forbids reading the counter. */
static bool is_counter_forbidden(void) {
    return UNLIKELY(load_relaxed(&os_counter_forbidden)) ||
           UNLIKELY(load_relaxed(&os_restricted) == OS_RESTRICTED_STRICTLY);
}

uint64_t os_now_exact_ns(void) {
    return clock_ns(is_counter_forbidden() ? CLOCK_MONOTONIC_COARSE : CLOCK_MONOTONIC);
}

uint64_t os_thread_cpu_ns(void) {
    return clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

#define CLOCK_OF_A_THREAD 4U /* bits of the kernel's clock ids; see clock_getcpuclockid(3) */
#define CLOCK_OF_SCHEDULER 2U

uint64_t os_other_cpu_ns(uint32_t tid) {
    return clock_ns((clockid_t)(~tid << 3 | CLOCK_OF_A_THREAD | CLOCK_OF_SCHEDULER));
}

uint64_t os_slept_ns(void) {
    if (is_counter_forbidden())
        return 0;
    uint64_t awake = clock_ns(CLOCK_MONOTONIC), all = clock_ns(CLOCK_BOOTTIME);
    /* whole ms, because the two clocks are not read at the same time */
    return all > awake ? (all - awake) / 1000000 * 1000000 : 0;
}

/* glibc keeps a thread's id in its descriptor of the thread, which starts at the thread pointer.
 * The id is the first number behind the descriptor's head, whose size is fixed because programs use
 * fields of the head directly. Reading the id there has two advantages. A thread's first allocation
 * makes no system call, which a filter might forbid. And a vfork child, which uses its parent's
 * memory, sees the id of the thread that called vfork, not its own. */
#define DESCRIPTOR_HEAD 704U
#define DESCRIPTOR_BYTES 2048U /* smaller than the descriptor of any glibc version */

struct os_identity os_identity FORK_PAGE;

/* The instruction is spelled out, because gcc has __builtin_thread_pointer only from 11 on. */
static uint32_t descriptor_word(uint64_t offset) {
    uint32_t word;
    __asm__ volatile("movl %%fs:(%1), %0" : "=r"(word) : "r"(offset));
    return word;
}

void os_identity_init(void) {
    uint32_t tid = (uint32_t)OS_CALL(SYS_gettid, 0, 0, 0, 0, 0, 0), offset = DESCRIPTOR_HEAD;
    while (offset < DESCRIPTOR_BYTES && descriptor_word(offset) != tid)
        offset += sizeof tid;
    os_identity.tid_offset = offset < DESCRIPTOR_BYTES ? offset : 0;
    os_identity.process = os_process_id();
}

void os_identity_fork_child(void) {
    os_identity.process = os_thread_id(); /* the id of the child's only thread is its process id */
}

uint32_t os_thread_id(void) {
    uint32_t offset = os_identity.tid_offset;
    return offset ? descriptor_word(offset) : (uint32_t)OS_CALL(SYS_gettid, 0, 0, 0, 0, 0, 0);
}

uint32_t os_process_id(void) {
    return (uint32_t)OS_CALL(SYS_getpid, 0, 0, 0, 0, 0, 0);
}

bool os_thread_exists(uint32_t tid) {
    if (load_relaxed(&os_restricted)) /* a filter of system calls may forbid tgkill */
        return true;
    uint32_t process = os_identity.process ? os_identity.process : os_process_id();
    if (OS_CALL(SYS_tgkill, process, tid, 0, 0, 0, 0) != -ESRCH)
        return true;
    /* ESRCH proves nothing if this process is not `process`, but a process in the same memory or a
     * copy that was made without running the fork handlers. Then the kernel does not find the
     * calling thread in `process` either. */
    long self = OS_CALL(SYS_gettid, 0, 0, 0, 0, 0, 0);
    return OS_CALL(SYS_tgkill, process, self, 0, 0, 0, 0) == -ESRCH;
}

bool os_process_is_known(void) {
    return os_process_id() == os_identity.process;
}

/* os_identity.process is the process id at the start or after the last fork. A process with another
 * id is a vfork child, which shares its parent's memory, or a clone that no fork handler saw, which
 * has a copy. kcmp tells the two apart. If the kernel does not answer (no such system call, or no
 * permission), this function assumes a copy. */
bool os_memory_is_own(void) {
    uint32_t pid = os_process_id();
    return pid == os_identity.process ||
           OS_CALL(SYS_kcmp, pid, os_identity.process, KCMP_VM, 0, 0, 0) != 0;
}

int64_t os_read_file(const char *path, char *buffer, size_t capacity) {
    long fd = OS_CALL(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0, 0, 0);
    if (OS_FAILED(fd))
        return -1;
    size_t length = 0;
    while (length < capacity - 1) {
        long got = OS_CALL(SYS_read, fd, buffer + length, capacity - 1 - length, 0, 0, 0);
        if (got == -EINTR)
            continue;
        if (OS_FAILED(got) || !got)
            break;
        length += (size_t)got;
    }
    buffer[length] = 0;
    OS_CALL(SYS_close, fd, 0, 0, 0, 0, 0);
    return (int64_t)length;
}

int64_t os_read_link(const char *path, char *buffer, size_t capacity) {
    long length = OS_CALL(SYS_readlinkat, AT_FDCWD, path, buffer, capacity - 1, 0, 0);
    if (OS_FAILED(length))
        return -1;
    buffer[length] = 0;
    return length;
}

static int64_t read_rss_bytes(const char *path) {
    char line[128];
    if (os_read_file(path, line, sizeof line) <= 0)
        return -1;
    const char *at = line;
    while (*at && *at != ' ')
        at++;
    int64_t pages = 0;
    for (at += *at == ' '; *at >= '0' && *at <= '9'; at++)
        pages = pages * 10 + (*at - '0');
    return pages * (int64_t)OS_PAGE_BYTES;
}

/* /proc/self shows the first thread. Once that thread has ended, it has no memory, and the file of
 * the calling thread has the figure. */
int64_t os_rss_bytes(void) {
    int64_t bytes = read_rss_bytes("/proc/self/statm");
    return bytes != 0 ? bytes : read_rss_bytes("/proc/thread-self/statm");
}

bool os_is_momentary(long error) {
    return error == -EMFILE || error == -ENFILE || error == -ENOMEM || error == -EAGAIN;
}

/* Reads the file in pieces, because the list of groups in a status file may have thousands of
 * numbers. Maps no memory: a signal handler may leave this function by a jump. */
long os_read_lines(const char *path, void (*take)(void *context, const char *line), void *context) {
    char piece[512] = {0}, line[OS_LINE_BYTES];
    size_t length = 0;
    long fd = OS_CALL(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0, 0, 0), got;
    if (OS_FAILED(fd))
        return fd;
    while ((got = OS_CALL(SYS_read, fd, piece, sizeof piece, 0, 0, 0)) > 0 || got == -EINTR)
        for (long i = 0; i < got; i++) {
            if (piece[i] != '\n') {
                if (length < sizeof line - 1)
                    line[length++] = piece[i];
                continue;
            }
            line[length] = 0;
            take(context, line);
            length = 0;
        }
    OS_CALL(SYS_close, fd, 0, 0, 0, 0, 0);
    return got;
}

/* Takes a line such as "RssAnon:\t 120 kB" of /proc/PID/status. Other lines change nothing. */
static void take_kind(void *context, const char *line) {
    struct os_kinds *kinds = context;
    const struct {
        char name[12];
        int64_t *bytes;
    } figures[] = {{"RssAnon:", &kinds->anonymous_bytes},
                   {"RssFile:", &kinds->file_bytes},
                   {"RssShmem:", &kinds->shared_bytes},
                   {"VmData:", &kinds->data_bytes},
                   {"VmSwap:", &kinds->swap_bytes}};
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++) {
        const char *at = line, *name = figures[i].name;
        for (; *name && *at == *name; at++)
            name++;
        if (*name)
            continue;
        int64_t kib = 0;
        for (; *at == ' ' || *at == '\t'; at++)
            ;
        for (; *at >= '0' && *at <= '9'; at++)
            kib = kib * 10 + (*at - '0');
        *figures[i].bytes = kib * 1024;
    }
}

static struct os_kinds read_kinds(const char *path) {
    struct os_kinds kinds = {
        .anonymous_bytes = -1, .file_bytes = -1, .shared_bytes = -1, .data_bytes = -1};
    (void)os_read_lines(path, take_kind, &kinds);
    return kinds;
}

/* As for os_rss_bytes, the file of the calling thread has the figures once the first thread has
 * ended. */
struct os_kinds os_kinds(void) {
    struct os_kinds kinds = read_kinds("/proc/self/status");
    return kinds.anonymous_bytes >= 0 ? kinds : read_kinds("/proc/thread-self/status");
}

void os_print(const struct text *text) {
    OS_CALL(SYS_write, 2, text->bytes, text->length, 0, 0, 0);
}

void os_panic(const struct text *text) {
    os_print(text);
    os_abort();
}

/* Unblocks and raises SIGABRT. If the program's handler returns, restores the default action and
 * raises SIGABRT again. */
void os_abort(void) {
    struct {
        void *handler;
        unsigned long flags;
        void *restorer;
        unsigned long mask;
    } default_action = {0};
    /* os_thread_id returns a wrong id in a vfork child */
    long self = OS_CALL(SYS_gettid, 0, 0, 0, 0, 0, 0);
    unsigned long set = 1UL << (SIGABRT - 1);
    OS_CALL(SYS_rt_sigprocmask, SIG_UNBLOCK, &set, NULL, 8, 0, 0);
    OS_CALL(SYS_tgkill, os_process_id(), self, SIGABRT, 0, 0, 0);
    OS_CALL(SYS_rt_sigaction, SIGABRT, &default_action, NULL, 8, 0, 0);
    OS_CALL(SYS_tgkill, os_process_id(), self, SIGABRT, 0, 0, 0);
    __builtin_trap();
}
