/* SPDX-License-Identifier: MIT */
/*
 * os.h - memory, locks, the clock and messages, as the library gets them from the kernel.
 *
 * Every call here is a raw system call: it leaves errno as it is and takes no lock of libc. Only
 * the clock is read with libc's clock_gettime, which mostly needs no system call (vDSO). In a
 * process that restricted its system calls, malloc and free use only mmap, munmap, mremap, madvise
 * and futex (os_restricted). In other processes they use a few more, such as mprotect and mincore.
 */
#ifndef MEMCTX_OS_H
#define MEMCTX_OS_H

#include "base/text.h"

/* --- memory; NULL or false when the kernel refuses ---------------------------------------- */
void *os_map(size_t bytes); /* zeroed, readable and writable */
uint32_t os_refused(void);  /* number of mappings that the kernel refused; wraps around */
/* Maps memory for chunks. The start is aligned to `alignment`, which is a power of two and at least
 * an OS page. NULL, too, if the kernel would refuse `bytes` because the machine has less memory. */
void *os_map_aligned(size_t bytes, size_t alignment);
/* Asks the kernel for huge pages in this range, or for none. A kernel without huge pages ignores
 * the advice. */
void os_advise_huge(void *start, size_t bytes, bool huge);
void os_unmap(void *start, size_t bytes);
/* Replaces whatever is mapped in the range by new memory. False: the kernel refused. */
bool os_map_anew(void *start, size_t bytes);
/* Makes a forked child find the range zeroed. Has no effect before Linux 4.14. */
void os_wipe_on_fork(void *start, size_t bytes);
/* Extends or shortens a mapping without moving it. 0: done; else a negative error number, and
 * nothing changed. -ENOMEM: there is no room behind the mapping, or too little memory. After any
 * other error the kernel would not move the mapping either: the program locked a part of it, or
 * gave a part other properties. */
int os_resize_in_place(void *start, size_t old_bytes, size_t new_bytes);
/* Moves a mapping's OS pages to `target`, and replaces the mapping that must be there. False: the
 * mapping is where it was, because the kernel refused or the mapping is more than one area. But the
 * target may be unmapped, and another thread may have mapped memory there since. */
bool os_move(void *start, size_t old_bytes, void *target, size_t new_bytes);
/* Grows a mapping, and moves it to a place that the kernel chooses. NULL: nothing changed. */
void *os_grow_elsewhere(void *start, size_t old_bytes, size_t new_bytes);
/* Makes the contents zero. Gives the memory back to the kernel, unless the memory is locked. */
void os_discard(void *start, size_t bytes);
/* Gives memory, of which the contents are zero or do not matter, back to the kernel. Where the
 * kernel refuses, nothing happens. */
void os_give_back(void *start, size_t bytes);
/* Makes memory writable, or read-only again: the memory of a loaded object (only at the start), or
 * of a freed mapping. */
bool os_protect(void *start, size_t bytes, bool writable);
/* Makes anonymous memory writable again, without guard pages, and part of forked children, whatever
 * the program has done to it by mprotect and madvise. Its contents may be lost in a child that is
 * forked meanwhile. False: a part of the range is not mapped, or belongs to a file or to shared
 * memory. */
bool os_make_plain(void *start, size_t bytes);
/* Removes guard pages (MADV_GUARD_INSTALL) from the range. Linux before 6.13 has no guards, and
 * refuses this advice. */
void os_remove_guards(void *start, size_t bytes);
/* True if the range is one area of the kernel (VMA), so that all its OS pages have the same
 * properties. */
bool os_is_one_area(void *start, size_t bytes);
/* Makes the range inaccessible (PROT_NONE), or accessible again; its contents may be lost. False:
 * nothing changed. */
bool os_forbid(void *start, size_t bytes, bool forbidden);
/* True when every OS page of [start, end) is mapped, and on Linux 5.14 and newer also readable. */
bool os_is_readable(uintptr_t start, uintptr_t end);
/* Resident bytes of a mapped range; -1: the kernel does not report them. */
int64_t os_resident_bytes(const void *start, size_t bytes);

/* Fills one byte for each OS page of an aligned range. The byte's lowest bit says that the OS page
 * is resident. False: the kernel does not report the pages. */
bool os_resident_vector(const void *start, size_t bytes, unsigned char *vector);
/* Does what os_resident_vector does, by /proc/self/pagemap instead of mincore. */
bool os_pagemap_vector(uintptr_t start, size_t bytes, unsigned char *vector);

/* Takes the OS pages of [start, end), which are aligned, out of the resident set, if they belong to
 * a mapped file. OS pages that the process has changed stay. A later read maps the OS pages again.
 * For the control thread. False: /proc/self/pagemap cannot be read. */
bool os_drop_file_pages(uintptr_t start, uintptr_t end);

/* --- time and identity -------------------------------------------------------------------- */
/* The constructor passes the address of libc's clock_gettime; 0: not found. */
void os_clock_init(uintptr_t function);
uint64_t os_now_ns(void); /* monotonic, coarse (about 4 ms) */
/* Monotonic; as coarse as os_now_ns in strict mode (OS_RESTRICTED_STRICTLY), and after
 * os_counter_forbidden was set. */
uint64_t os_now_exact_ns(void);
uint64_t os_thread_cpu_ns(void); /* processor time of the calling thread */
/* Processor time of another thread of this process; 0: not known. */
uint64_t os_other_cpu_ns(uint32_t tid);
/* Returns how long the machine has slept (was suspended) since it was booted: the monotonic clock
 * does not count that time. 0 in seccomp's strict mode and after os_counter_forbidden was set: then
 * the library may read no clock that counts the time. */
uint64_t os_slept_ns(void);
/* Called by the constructor. Before this call, os_thread_id asks the kernel each time. */
void os_identity_init(void);
/* Called in a forked child, because its process id has changed. */
void os_identity_fork_child(void);
uint32_t os_thread_id(void); /* in a vfork child: the id of the parent's thread that called vfork */
uint32_t os_process_id(void);
INTERNAL struct os_identity {
    uint32_t process;    /* process id; 0: not read yet */
    uint32_t tid_offset; /* bytes from the thread pointer to the thread's id; 0: not known */
} os_identity;
/* Returns the process id at the start or after the last fork, without a system call; 0: not known
 * yet. A child that no fork handler saw gets its parent's id. */
INLINE uint32_t os_process_recorded(void) {
    return os_identity.process;
}
bool os_thread_exists(uint32_t tid); /* true also if the kernel cannot be asked */
/* False in a child that shares its parent's memory (vfork): the child must not change the library's
 * state. */
bool os_memory_is_own(void);
/* False in every child that no fork handler saw: in a child of vfork, and in a copy made by the
 * system call clone. Needs only getpid. os_memory_is_own also needs kcmp, which Docker's default
 * filter of system calls refuses. */
bool os_process_is_known(void);

/* Atomic. Set when the process restricted itself with a filter of system calls (seccomp), or was
 * started under one. From then on the library makes no system calls except mmap, munmap, mremap,
 * madvise, futex and clock_gettime. Reset only when the kernel refused the filter.
 * OS_RESTRICTED_STRICTLY: seccomp's strict mode, in which the processor's counter cannot be read
 * either. */
INTERNAL uint32_t os_restricted; /* enum os_restriction */
enum os_restriction { OS_FREE, OS_RESTRICTED, OS_RESTRICTED_STRICTLY };
/* Atomic. Set when a thread of the process asked the kernel for a SIGSEGV at each read of the
 * processor's counter (prctl, PR_SET_TSC). Threads that this thread makes inherit the setting. */
INTERNAL uint32_t os_counter_forbidden;
/* Atomic. Set where a filter of system calls was there before the program, and
 * MEMCTX_CONTROL=always started the control thread unasked: such a filter may kill the process for
 * mincore, which few lists of permitted calls have (systemd's @system-service does not). The
 * control thread then reads /proc/self/pagemap instead. Threads of the program do not ask which OS
 * pages are resident. */
INTERNAL uint32_t os_mincore_forbidden;

/* --- files, for the control thread and for start-up --------------------------------------- */
/* Reads up to capacity - 1 bytes of a file into a buffer, and ends them with a 0. Returns the
 * number of bytes read; -1: the file cannot be opened. */
int64_t os_read_file(const char *path, char *buffer, size_t capacity);
/* Calls `take` for each line of a file, without its end. Only the first OS_LINE_BYTES - 1 bytes of
 * a longer line are passed. Returns 0, or the negative error number of a call that failed. */
#define OS_LINE_BYTES 64
long os_read_lines(const char *path, void (*take)(void *context, const char *line), void *context);
/* True for the negative error numbers of a call that may succeed a moment later: the process or
 * the machine has no descriptor left, no memory, or no room for a further thread or process. */
bool os_is_momentary(long error);
/* Reads the target of a symbolic link, terminated with 0. Returns its length; -1: the link cannot
 * be read. */
int64_t os_read_link(const char *path, char *buffer, size_t capacity);
int64_t os_rss_bytes(void); /* resident bytes, from statm in /proc; -1: the file cannot be read */
/* Resident bytes by kind, bytes in swap, and size of mappings, from status in /proc. */
struct os_kinds {
    int64_t anonymous_bytes; /* -1: the kernel does not tell, and the other figures mean nothing */
    int64_t file_bytes, shared_bytes, swap_bytes;
    int64_t data_bytes; /* size of the private, writable mappings, resident or not */
};
struct os_kinds os_kinds(void);

/* --- messages ------------------------------------------------------------------------------ */
void os_print(const struct text *text); /* one write to standard error; ignores errors */
/* Aborts as abort() does, without libc. */
__attribute__((noreturn, cold)) void os_abort(void);
/* prints the text by os_print, then calls os_abort */
__attribute__((noreturn, cold)) void os_panic(const struct text *text);

/* --- locks -------------------------------------------------------------------------------- */
/* The word of a lock names the holder. So a fork in a signal handler can tell whether the
 * interrupted thread holds the lock. A thread takes locks only in the order of their ranks; debug
 * builds check that. */
enum lock_rank {
    RANK_LOADED = 1, /* the table of loaded objects, for an older glibc (path/loaded.h) */
    RANK_CONTROL,    /* start and end of the control thread; control_follow_begin */
    RANK_HEAPS,      /* the list of heaps; parking a heap, adopting it, folding its views */
    RANK_PARKED,     /* one parked heap, or the shared heap */
    RANK_REGION,     /* emergency and guarded chunks; named contexts; terms of programs */
    RANK_VISIT,      /* a heap of a sleeping thread, while another thread changes it */
    RANK_TREE,       /* new nodes of the context tree; the placement rules in force */
    RANK_UNWIND,     /* new unwind rules and modules */
    RANK_SEGMENT,    /* segments and their free slices */
    RANK_UNMAP,      /* held to unmap segments, and by a dump while it reads segments */
    RANK_META,       /* memory for the library's own tables */
};
struct lock {
    /* atomic; 0: the lock is free; else the holder and two flags: another thread may wait, the
     * holder is forking */
    uint64_t word;
    uint32_t rank; /* enum lock_rank */
    /* FORK_... bits (lock.c): what forks did with the lock; only the forking thread writes the
     * field */
    uint32_t fork;
};
/* Places a variable in one OS page with all other variables that every start of a program writes,
 * or that every fork writes in parent and child. Each OS page written costs a start one page fault,
 * and a fork two page faults and a copy. */
#define FORK_PAGE __attribute__((section("memctx_fork")))
#define LOCK_INIT(r)                                                                               \
    { .rank = (r) }
/* Waits until the lock is free. A lock is not recursive. */
void lock_take(struct lock *lock);
/* Takes the lock if it is free, and never waits. False: another thread holds it. */
bool lock_try(struct lock *lock);
void lock_release(struct lock *lock);
/* Returns after every other thread of the process has passed a full memory barrier. A thread that
 * writes a word and then reads another word needs no barrier of its own: either the thread reads
 * what the caller wrote before the call, or the caller sees the thread's write. False: no barrier
 * was made, because the kernel does not offer one, or because the process restricted its system
 * calls. */
bool os_barrier_in_threads(void);
/* True when the calling thread holds the lock. */
bool lock_is_mine(const struct lock *lock);
/* True when the calling thread holds a lock of the library. A signal handler must then take no
 * lock: it could wait for ever for the thread that it interrupted. */
bool lock_any_is_mine(void);
/* Returns the address of a thread-local variable of this library, which identifies the thread. */
uintptr_t lock_self(void);
/* Writes to as much stack as a thread uses while it walks its stack under a lock. So a stack that
 * is too small overflows now, and not while the thread holds the lock. */
void lock_reach_for_walk(void);
/* Writes to as much stack as the start of the control thread uses, which runs with all signals
 * blocked. */
void lock_reach_for_control(void);
/* Makes the lock free in a forked child, whichever thread held it. */
void lock_reset(struct lock *lock);
/* Called for the locks that a fork takes, before and after the fork: lock_fork_prepare in the order
 * of ranks, lock_fork_done in reverse order. `interrupted`: fork was called in a signal handler,
 * and the interrupted thread holds some of the locks. lock_fork_done returns false in the child if
 * another thread was changing the guarded data at the fork. */
void lock_fork_prepare(struct lock *lock, bool interrupted);
bool lock_fork_done(struct lock *lock, bool child);

#endif
