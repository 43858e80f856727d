/* SPDX-License-Identifier: MIT */
/* Tests of src/os: mappings, locks, the library's own memory. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "os/meta.h"
#include "os/os.h"

Test(memory, aligned_mappings_are_aligned_and_zero) {
    for (size_t alignment = OS_PAGE_BYTES; alignment <= 64UL << 20; alignment *= 4) {
        unsigned char *start = os_map_aligned(3 * OS_PAGE_BYTES, alignment);
        cr_assert(start != NULL);
        cr_assert_eq((uintptr_t)start % alignment, 0);
        for (size_t i = 0; i < 3 * OS_PAGE_BYTES; i += 512)
            cr_assert_eq(start[i], 0);
        memset(start, 1, 3 * OS_PAGE_BYTES);
        cr_assert_eq(os_resident_bytes(start, 3 * OS_PAGE_BYTES), 3 * OS_PAGE_BYTES);
        os_discard(start, 3 * OS_PAGE_BYTES);
        cr_assert_eq(start[OS_PAGE_BYTES], 0, "discarded memory reads as zero");
        cr_assert(os_is_readable((uintptr_t)start, (uintptr_t)start + 3 * OS_PAGE_BYTES));
        os_unmap(start, 3 * OS_PAGE_BYTES);
        cr_assert_not(os_is_readable((uintptr_t)start, (uintptr_t)start + 3 * OS_PAGE_BYTES));
    }
}

/* Mapped pages may fault, too: guard pages, and pages behind the end of a file that has become
 * shorter. */
Test(memory, pages_that_a_read_would_fault_on_are_not_readable) {
    uintptr_t start = (uintptr_t)os_map(3 * OS_PAGE_BYTES);
    if (madvise((void *)start, OS_PAGE_BYTES, 22 /* MADV_POPULATE_READ */))
        cr_skip("needs Linux 5.14");
    uintptr_t guard = start + OS_PAGE_BYTES;
    cr_assert(os_forbid((void *)guard, OS_PAGE_BYTES, true));
    cr_assert(os_is_readable(start, guard));
    cr_assert_not(os_is_readable(guard, guard + 8));
    cr_assert_not(os_is_readable(start, start + 3 * OS_PAGE_BYTES));
    int file = memfd_create("short", 0);
    cr_assert_eq(ftruncate(file, (off_t)OS_PAGE_BYTES), 0);
    uintptr_t pages = (uintptr_t)mmap(NULL, 2 * OS_PAGE_BYTES, PROT_READ, MAP_SHARED, file, 0);
    cr_assert(os_is_readable(pages, pages + OS_PAGE_BYTES));
    cr_assert_not(os_is_readable(pages + OS_PAGE_BYTES, pages + 2 * OS_PAGE_BYTES));
    close(file);
}

Test(memory, locked_memory_that_is_discarded_reads_as_zero_too) {
    unsigned char *start = os_map(2 * OS_PAGE_BYTES);
    memset(start, 1, 2 * OS_PAGE_BYTES);
    cr_assert_eq(mlock(start, 2 * OS_PAGE_BYTES), 0);
    os_discard(start, 2 * OS_PAGE_BYTES);
    for (size_t i = 0; i < 2 * OS_PAGE_BYTES; i++)
        cr_assert_eq(start[i], 0, "byte %zu", i);
}

Test(memory, the_kernel_counts_by_kind) {
    struct os_kinds before = os_kinds();
    int64_t sum = before.anonymous_bytes + before.file_bytes + before.shared_bytes;
    cr_assert_lt(llabs(sum - os_rss_bytes()), 1 << 20);
    cr_assert_gt(before.file_bytes, 100000);
    size_t bytes = 8 << 20;
    char *private = os_map(bytes);
    memset(private, 1, bytes);
    char *shared = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    memset(shared, 1, bytes);
    os_map(bytes); /* never touched */
    struct os_kinds now = os_kinds();
    /* The kernel may count up to some hundred KiB late. */
    cr_assert_lt(llabs(now.anonymous_bytes - before.anonymous_bytes - (8 << 20)), 1 << 20);
    cr_assert_lt(llabs(now.shared_bytes - before.shared_bytes - (8 << 20)), 1 << 20);
    cr_assert_lt(llabs(now.file_bytes - before.file_bytes), 1 << 20);
    cr_assert_lt(llabs(now.data_bytes - before.data_bytes - (16 << 20)), 1 << 20);
    cr_assert_geq(now.swap_bytes, 0);
}

/* os_kinds reads /proc/self/status, in which the list of the process's groups precedes the figures.
 * 5 000 groups make that list longer than the piece of the file that os_kinds reads at a time. */
Test(os, figures_behind_many_groups) {
    enum { GROUPS = 5000 };
    gid_t groups[GROUPS];
    for (int i = 0; i < GROUPS; i++)
        groups[i] = (gid_t)i + 100000;
    if (setgroups(GROUPS, groups))
        cr_skip("only root may have many groups");
    cr_assert_gt(os_kinds().anonymous_bytes, 0);
    cr_assert_gt(os_kinds().data_bytes, 0);
}

Test(memory, a_refusal_is_null) {
    cr_assert_null(os_map((size_t)1 << 62));
    cr_assert_null(os_map_aligned((size_t)1 << 62, 1 << 22));
}

/* True when the OS page is mapped, as /proc/self/pagemap tells. */
static bool is_mapped(const char *at) {
    uint64_t entry = 0;
    int fd = open("/proc/self/pagemap", O_RDONLY);
    cr_assert_eq(pread(fd, &entry, sizeof entry, (off_t)((uintptr_t)at / 4096 * sizeof entry)),
                 (ssize_t)sizeof entry);
    close(fd);
    return entry >> 63;
}

Test(memory, pages_of_files_are_dropped_and_changed_ones_stay) {
    enum { COUNT = 600, CHANGED = 300 };
    char *pages;
    FILE *file = tmpfile();
    cr_assert(file && !ftruncate(fileno(file), COUNT * 4096));
    pages = mmap(NULL, COUNT * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, fileno(file), 0);
    cr_assert_neq(pages, MAP_FAILED);
    for (int i = 0; i < COUNT; i++)
        cr_assert_eq(((volatile char *)pages)[(size_t)i * 4096], 0);
    pages[CHANGED * 4096] = 7;
    os_drop_file_pages((uintptr_t)pages, (uintptr_t)pages + COUNT * 4096);
    for (int i = 0; i < COUNT; i++)
        cr_assert_eq(is_mapped(pages + (size_t)i * 4096), i == CHANGED, "page %d", i);
    cr_assert_eq(pages[CHANGED * 4096], 7);
    cr_assert_eq(pages[0], 0);
    munmap(pages, COUNT * 4096);
    fclose(file);
}

/* mincore and pagemap tell the same OS pages, also behind the part that one call reads. */
Test(memory, both_ways_tell_the_resident_pages) {
    enum { COUNT = 600 };
    unsigned char by_mincore[COUNT], by_pagemap[COUNT];
    char *pages = os_map(COUNT * OS_PAGE_BYTES);
    cr_assert_eq(madvise(pages, COUNT * OS_PAGE_BYTES, MADV_NOHUGEPAGE), 0);
    for (size_t i = 0; i < COUNT; i += 1 + i % 7)
        pages[i * OS_PAGE_BYTES] = 1;
    cr_assert(os_resident_vector(pages, COUNT * OS_PAGE_BYTES, by_mincore));
    cr_assert(os_pagemap_vector((uintptr_t)pages, COUNT * OS_PAGE_BYTES, by_pagemap));
    for (size_t i = 0; i < COUNT; i++)
        cr_assert_eq(by_mincore[i] & 1, by_pagemap[i], "page %zu", i);
    cr_assert_not(os_pagemap_vector(1UL << 60, OS_PAGE_BYTES, by_pagemap), "no such address");
}

Test(memory, only_a_whole_area_is_one_area) {
    char *pages = os_map(8 * OS_PAGE_BYTES);
    cr_assert(os_is_one_area(pages, 8 * OS_PAGE_BYTES));
    cr_assert(os_is_one_area(pages + OS_PAGE_BYTES, OS_PAGE_BYTES));
    os_protect(pages + 7 * OS_PAGE_BYTES, OS_PAGE_BYTES, false);
    cr_assert(os_is_one_area(pages, 7 * OS_PAGE_BYTES));
    cr_assert_not(os_is_one_area(pages, 8 * OS_PAGE_BYTES));
    os_unmap(pages, OS_PAGE_BYTES);
    cr_assert_not(os_is_one_area(pages, 2 * OS_PAGE_BYTES));
}

static void count_line(void *lengths, const char *line) {
    int *length = *(int **)lengths;
    *length = (int)strlen(line);
    *(int **)lengths = length + 1;
}

/* A long line is cut off, and the next one is whole. A file that cannot be opened says why. */
Test(memory, lines_of_a_file_are_cut_off) {
    char path[] = "/tmp/memctx-lines-XXXXXX";
    int lengths[4] = {-1, -1, -1, -1}, *next = lengths, fd = mkstemp(path);
    cr_assert(fd >= 0);
    dprintf(fd, "%063d\n%02000d\n\n%07d\nno end", 1, 2, 3);
    close(fd);
    cr_assert_eq(os_read_lines(path, count_line, &next), 0);
    cr_assert_eq(next, lengths + 4);
    cr_assert_eq(lengths[0], OS_LINE_BYTES - 1);
    cr_assert_eq(lengths[1], OS_LINE_BYTES - 1);
    cr_assert_eq(lengths[2], 0);
    cr_assert_eq(lengths[3], 7);
    unlink(path);
    cr_assert_eq(os_read_lines(path, count_line, &next), -ENOENT);
}

/* Returns the size of this process's address space in OS pages, and maps no memory. */
static long mapped_pages(void) {
    char text[64] = "";
    int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    cr_assert(read(fd, text, sizeof text - 1) > 0);
    close(fd);
    return strtol(text, NULL, 10);
}

/* The padding in front of aligned memory and behind it is unmapped. */
Test(memory, aligned_mappings_leave_no_padding) {
    enum { MAPPINGS = 8 };
    size_t bytes = 1 << 20, alignment = 4 << 20;
    long before = mapped_pages();
    for (int i = 0; i < MAPPINGS; i++)
        cr_assert_eq((uintptr_t)os_map_aligned(bytes, alignment) % alignment, 0);
    cr_assert_eq(mapped_pages() - before, (long)(MAPPINGS * bytes / OS_PAGE_BYTES));
}

/* The address space has room for the mapping, but not for the padding that aligns it. */
Test(memory, aligned_mapping_without_room_for_padding) {
    size_t bytes = 4 << 20;
    char *start = os_map(bytes);
    for (; (uintptr_t)start % bytes == 0; start = os_map(bytes)) {
        os_unmap(start, bytes);
        os_map(OS_PAGE_BYTES); /* moves the place of the next mapping */
    }
    struct rlimit before, tight;
    cr_assert_eq(getrlimit(RLIMIT_AS, &before), 0);
    rlim_t mapped = (rlim_t)mapped_pages() * OS_PAGE_BYTES;
    os_unmap(start, bytes);
    tight = (struct rlimit){mapped + (64 << 10), before.rlim_max};
    cr_assert_eq(setrlimit(RLIMIT_AS, &tight), 0);
    char *aligned = os_map_aligned(bytes, bytes);
    char *second = os_map_aligned(bytes, bytes);
    setrlimit(RLIMIT_AS, &before);
    cr_assert_not_null(aligned);
    cr_assert_eq((uintptr_t)aligned % bytes, 0);
    cr_assert_null(second, "the limit leaves room for one mapping");
    memset(aligned, 1, bytes);
}

Test(memory, moving_keeps_the_contents) {
    unsigned char *from = os_map(2 * OS_PAGE_BYTES), *to = os_map(4 * OS_PAGE_BYTES);
    memset(from, 7, 2 * OS_PAGE_BYTES);
    cr_assert(os_move(from, 2 * OS_PAGE_BYTES, to, 4 * OS_PAGE_BYTES));
    cr_assert_eq(to[0], 7);
    cr_assert_eq(to[2 * OS_PAGE_BYTES - 1], 7);
    cr_assert_eq(to[2 * OS_PAGE_BYTES], 0);
    cr_assert_not(os_is_readable((uintptr_t)from, (uintptr_t)from + OS_PAGE_BYTES));
}

Test(identity, threads_that_exist_and_that_do_not) {
    cr_assert(os_thread_exists(os_thread_id()));
    cr_assert_eq(os_process_id(), (uint32_t)getpid());
    cr_assert_not(os_thread_exists(0x3ffffffe));
    cr_assert_gt(os_rss_bytes(), 100000);
}

static struct lock counter_lock = LOCK_INIT(RANK_TREE);
static long counter;

static void *count_up(void *argument) {
    for (long i = 0; i < 20000; i++) {
        lock_take(&counter_lock);
        counter++;
        lock_release(&counter_lock);
    }
    return argument;
}

Test(lock, excludes_other_threads) {
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, count_up, NULL), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    cr_assert_eq(counter, 80000);
    cr_assert_eq(counter_lock.word, 0);
}

static void *try_to_take(void *got) {
    *(int *)got = lock_try(&counter_lock) ? 1 : 0;
    return NULL;
}

Test(lock, knows_its_holder) {
    int got = -1;
    pthread_t other;
    cr_assert_not(lock_is_mine(&counter_lock));
    cr_assert_not(lock_any_is_mine());
    lock_take(&counter_lock);
    cr_assert(lock_is_mine(&counter_lock));
    cr_assert(lock_any_is_mine());
    pthread_create(&other, NULL, try_to_take, &got);
    pthread_join(other, NULL);
    cr_assert_eq(got, 0, "another thread must not get it");
    lock_reset(&counter_lock); /* as a forked child does */
    cr_assert_not(lock_any_is_mine());
    cr_assert(lock_try(&counter_lock));
    lock_release(&counter_lock);
}

static void *take_and_hold(void *argument) {
    lock_take(&counter_lock);
    store_release((int *)argument, 1);
    while (load_acquire((int *)argument) == 1)
        usleep(1000);
    lock_release(&counter_lock);
    return NULL;
}

static int64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000 + now.tv_nsec;
}

/* A fork holds the lock while it waits for a thread that needs the lock. That thread takes the lock
 * from the fork after a while; otherwise both would wait for ever. */
Test(lock, who_waits_long_takes_it_from_a_fork) {
    int state = 0;
    pthread_t other;
    lock_fork_prepare(&counter_lock, false);
    cr_assert(lock_is_mine(&counter_lock));
    int64_t begun_ns = now_ns();
    pthread_create(&other, NULL, take_and_hold, &state);
    while (!load_acquire(&state) && now_ns() - begun_ns < 50e9)
        usleep(1000);
    cr_assert_eq(load_acquire(&state), 1, "the thread never got the lock");
    cr_assert_gt(now_ns() - begun_ns, 150e6, "the thread did not wait for the fork");
    cr_assert_not(lock_is_mine(&counter_lock));
    cr_assert_not(lock_fork_done(&counter_lock, false), "the thread may change what it guards");
    cr_assert_not(lock_any_is_mine());
    store_release(&state, 2);
    pthread_join(other, NULL);
    cr_assert_eq(counter_lock.word, 0);
    lock_take(&counter_lock); /* after that the lock works as before */
    lock_release(&counter_lock);
}

/* A signal handler forks while its thread holds the lock. The thread goes on in the child and
 * releases the lock there. */
Test(lock, a_fork_leaves_what_its_thread_held_before) {
    lock_take(&counter_lock);
    lock_fork_prepare(&counter_lock, true);
    cr_assert(lock_fork_done(&counter_lock, true));
    cr_assert(lock_is_mine(&counter_lock));
    lock_release(&counter_lock);
    lock_fork_prepare(&counter_lock, false);
    cr_assert(lock_fork_done(&counter_lock, true));
    cr_assert_eq(counter_lock.word, 0);
}

/* A signal handler forks. Its thread may hold a lock that the holder of counter_lock waits for, so
 * the fork goes on without counter_lock. */
Test(lock, a_fork_in_a_handler_does_not_wait_for_ever) {
    static struct lock inner = LOCK_INIT(RANK_META);
    int state = 0;
    pthread_t other;
    pthread_create(&other, NULL, take_and_hold, &state);
    while (!load_acquire(&state))
        usleep(1000);
    lock_take(&inner);
    lock_fork_prepare(&counter_lock, true);
    cr_assert_not(lock_is_mine(&counter_lock));
    cr_assert_not(lock_fork_done(&counter_lock, false));
    lock_release(&inner);
    cr_assert_not(lock_any_is_mine());
    store_release(&state, 2);
    pthread_join(other, NULL);
    cr_assert_eq(counter_lock.word, 0);
}

#ifdef MEMCTX_DEBUG
static struct lock low_lock = LOCK_INIT(RANK_HEAPS);

Test(lock, the_wrong_order_aborts_in_debug_builds, .signal = SIGABRT) {
    lock_take(&counter_lock);
    lock_take(&low_lock);
}
#endif

Test(meta, blocks_are_zero_distinct_and_used_again) {
    enum { COUNT = 2000 };
    static unsigned char *blocks[COUNT];
    static size_t sizes[COUNT];
    int64_t first = 0; /* bytes that the first round mapped */
    for (int round = 0; round < 3; round++) {
        srand(3); /* each round asks for blocks of the same sizes */
        for (int i = 0; i < COUNT; i++) {
            sizes[i] = (size_t)rand() % 6000 + 1;
            blocks[i] = meta_alloc(sizes[i]);
            cr_assert(blocks[i] != NULL);
            for (size_t k = 0; k < sizes[i]; k++)
                cr_assert_eq(blocks[i][k], 0);
            memset(blocks[i], i % 250 + 1, sizes[i]);
        }
        for (int i = 0; i < COUNT; i++) {
            cr_assert_eq(blocks[i][0], i % 250 + 1);
            cr_assert_eq(blocks[i][sizes[i] - 1], i % 250 + 1);
            meta_free(blocks[i], sizes[i]);
        }
        cr_assert_eq(meta_usage(false).used_bytes, 0);
        first = first ? first : meta_usage(false).mapped_bytes;
    }
    cr_assert_gt(first, COUNT * 1000);
    cr_assert_eq(meta_usage(false).mapped_bytes, first, "freed blocks were not used again");
}

Test(meta, freed_blocks_of_whole_pages_go_back_to_the_kernel) {
    enum { COUNT = 200, BYTES = 8 << 10 };
    static char *blocks[COUNT];
    for (int round = 0; round < 3; round++) {
        int64_t before = meta_usage(true).resident_bytes;
        for (int i = 0; i < COUNT; i++) {
            blocks[i] = meta_alloc(BYTES);
            for (int k = 0; k < BYTES; k++)
                cr_assert_eq(blocks[i][k], 0);
            memset(blocks[i], 1, BYTES);
        }
        int64_t full = meta_usage(true).resident_bytes;
        cr_assert_geq(full - before, COUNT * BYTES - 2 * 4096);
        for (int i = 0; i < COUNT; i++)
            meta_free(blocks[i], BYTES);
        int64_t left = meta_usage(true).resident_bytes - before;
        cr_assert_lt(left, COUNT * 128 + 4 * 4096, "%ld bytes are left", (long)left);
    }
    cr_assert_lt(meta_usage(false).mapped_bytes, 3 * COUNT * BYTES, "no block was used again");
}

Test(meta, large_blocks_have_mappings_of_their_own) {
    char *block = meta_alloc(10 << 20);
    cr_assert(block != NULL);
    block[(10 << 20) - 1] = 1;
    cr_assert_geq(meta_usage(false).mapped_bytes, 10 << 20);
    meta_free(block, 10 << 20);
    cr_assert_lt(meta_usage(false).mapped_bytes, 10 << 20);
    cr_assert_null(meta_alloc((size_t)1 << 62));
}
