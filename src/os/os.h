/* SPDX-License-Identifier: MIT */
/*
 * os.h - what the library asks of the kernel: memory, locks, the clock, messages.
 *
 * Every call here is a raw system call: errno stays as it is and no lock of libc's is taken. On
 * the malloc path only mmap, munmap, mremap, madvise and futex are used (clock_gettime
 * goes through the vDSO).
 */
#ifndef MEMCTX_OS_H
#define MEMCTX_OS_H

#include "base/text.h"

/* --- memory; NULL or false when the kernel refuses ---------------------------------------- */
void *os_map(size_t bytes); /* zeroed, readable and writable, not accounted until touched */
uint32_t os_refused(void);  /* how often the kernel gave none; it wraps around */
/* As os_map, with the start aligned to a power of two of at least an OS page. */
void *os_map_aligned(size_t bytes, size_t alignment);
/* Whether the kernel is to put huge pages under it. It may know none. */
void os_advise_huge(void *start, size_t bytes, bool huge);
void os_unmap(void *start, size_t bytes);
/* A forked child finds it zeroed; and whoever reads the kernel's map can tell it from others. Not before Linux 4.14. */
void os_wipe_on_fork(void *start, size_t bytes);
bool os_resize_in_place(void *start, size_t old_bytes, size_t new_bytes);
/* Moves a mapping's pages onto `target`, which must be mapped and is replaced. */
bool os_move(void *start, size_t old_bytes, void *target, size_t new_bytes);
/* Contents become zero; memory goes to the kernel, unless it is locked. */
void os_discard(void *start, size_t bytes);
/* Read-only memory of a loaded object: made writable, and read-only again. At the start only. */
bool os_protect(void *start, size_t bytes, bool writable);
/* Nobody may touch it, or again everybody; what is in it may be lost. False: nothing changed. */
bool os_forbid(void *start, size_t bytes, bool forbidden);
bool os_is_mapped(uintptr_t start, uintptr_t end);
/* Resident bytes of a mapped range; -1 when the kernel does not say. */
int64_t os_resident_bytes(const void *start, size_t bytes);

/* One byte an OS page of an aligned range, its lowest bit: resident. */
bool os_resident_vector(const void *start, size_t bytes, unsigned char *vector);

/* --- time and identity -------------------------------------------------------------------- */
uint64_t os_now_ns(void); /* monotonic, coarse (about 4 ms) */
uint64_t os_now_exact_ns(void);
/* From the constructor; before it, each call below asks the kernel. */
void os_identity_init(void);
void os_identity_fork_child(void);
uint32_t os_thread_id(void); /* in a vfork child: of the thread that it stands in for */
uint32_t os_process_id(void);
bool os_is_first_thread(uint32_t tid);
bool os_thread_exists(uint32_t tid); /* of this process; when in doubt, it does */
/* False: in a child that shares its parent's memory (vfork), whose state is not to be changed. */
bool os_memory_is_own(void);

/* Atomic. The process has restricted itself (a filter of system calls), or was started so: nothing is asked of the
 * kernel any more but mmap, munmap, mremap, madvise, futex, clock_gettime. Never reset but where a filter was refused. */
INTERNAL uint32_t os_restricted; /* enum os_restriction */
enum os_restriction { OS_FREE, OS_RESTRICTED, OS_RESTRICTED_STRICTLY };

/* --- files, for the control thread and for start-up --------------------------------------- */
/* Reads a whole small file into a buffer, 0-terminated; bytes read, or -1. */
int64_t os_read_file(const char *path, char *buffer, size_t capacity);
int64_t os_read_link(const char *path, char *buffer, size_t capacity);
int64_t os_rss_bytes(void); /* /proc/self/statm; -1 when it cannot be read */

/* --- messages ------------------------------------------------------------------------------ */
void os_print(const struct text *text); /* to standard error, one write, errors ignored */
__attribute__((noreturn, cold)) void os_abort(void);                    /* as abort, without libc */
__attribute__((noreturn, cold)) void os_panic(const struct text *text); /* print, then abort */

/* --- locks: a futex word; who holds it is known, so that a fork in a signal handler that
 * interrupted the holder passes ------------------------------------------------------------- */
enum lock_rank { /* a thread takes locks in this order only; checked in debug builds */
                 RANK_CONTROL = 1, /* start of the control thread, marks */
                 RANK_HEAPS,   /* list of heaps, parking and adopting them, folding their views */
                 RANK_PARKED,  /* one parked or shared heap */
                 RANK_REGION,  /* accounting of emergency chunks; named contexts */
                 RANK_TREE,    /* new nodes of the context tree */
                 RANK_RULES,   /* new unwind rules and modules */
                 RANK_SEGMENT, /* segments and their free slices */
                 RANK_UNMAP,   /* address space leaves only while no dump reads it */
                 RANK_META,    /* memory for the library's own tables */
                 RANK_COUNT
};
struct lock {
    uint64_t word; /* atomic: 0 free; else the holder, and notes: others may wait, it forks */
    uint32_t rank; /* enum lock_rank */
    uint32_t fork; /* the forking thread's: what it did with it before */
};
/* Of what every start writes, and every fork, in parent and child: it stands in one OS page, because each
 * page that is written costs a fault, after a fork two and a copy. */
#define FORK_PAGE __attribute__((section("memctx_fork")))
#define LOCK_INIT(r)                                                                               \
    { .rank = (r) }
void lock_take(struct lock *lock);
bool lock_try(struct lock *lock);
void lock_release(struct lock *lock);
bool lock_is_mine(const struct lock *lock);
/* The calling thread holds some lock of ours: a signal handler must not take any. */
bool lock_any_is_mine(void);
/* In a forked child: free, whoever held it. */
void lock_reset(struct lock *lock);
/* Before and after a fork, in the order of ranks and back. Interrupted: in a handler, the thread holds some of
 * them. False, in the child: somebody was just changing what the lock guards. */
void lock_fork_prepare(struct lock *lock, bool interrupted);
bool lock_fork_done(struct lock *lock, bool child);

#endif
