/* SPDX-License-Identifier: MIT */
/* Alignment: that of every block, and larger alignments that a call asks for. */
#include "check.h"

#include <malloc.h>
#include <stdalign.h>
#include <unistd.h>

#define SENTINEL 77
#define ALIGNMENT_MAX ((size_t)4 << 20)

static void expect_aligned(const void *block, size_t alignment, size_t size, const char *what) {
    CHECK(block, "%s: no block of %zu aligned to %zu", what, size, alignment);
    CHECK((uintptr_t)block % alignment == 0, "%s: %p is not aligned to %zu (size %zu)", what, block,
          alignment, size);
}

/* Writes the first and last byte of a block, so that memory that is not mapped faults. */
static void touch(void *block, size_t size) {
    volatile unsigned char *bytes = block;
    if (size) {
        bytes[0] = 1;
        bytes[size - 1] = 2;
        bytes[malloc_usable_size(block) - 1] = 3;
    }
}

static void expect_natural(size_t size) {
    enum { COUNT = 5 };
    void *blocks[COUNT];
    for (int i = 0; i < COUNT; i++) {
        blocks[i] = malloc(size);
        expect_aligned(blocks[i], size >= 16 ? 16 : 8, size, "malloc");
        CHECK(malloc_usable_size(blocks[i]) >= size, "usable %zu of %zu",
              malloc_usable_size(blocks[i]), size);
        touch(blocks[i], size);
    }
    for (int i = 0; i < COUNT; i++)
        free(blocks[i]);
    void *zeroed = calloc(1, size);
    expect_aligned(zeroed, size >= 16 ? 16 : 8, size, "calloc");
    zeroed = realloc(zeroed, size + size / 2 + 1);
    expect_aligned(zeroed, size >= 16 ? 16 : 8, size, "realloc");
    free(zeroed);
}

static void every_block(void) {
    for (size_t size = 0; size <= 4096; size++)
        expect_natural(size);
    for (size_t power = 8192; power <= (size_t)1 << 30; power *= 2)
        for (int delta = -17; delta <= 17; delta += power < 1 << 22 ? 1 : 16)
            expect_natural(power + (size_t)delta);
}

/* The standard allows a smaller alignment for sizes below 16, but programs rely on glibc's 16. */
static void tiny_block(void) {
    for (size_t size = 0; size < 16; size++)
        for (int i = 0; i < 100; i++) {
            void *block = malloc(size);
            expect_aligned(block, alignof(max_align_t), size, "malloc");
            touch(block, size);
            if (i % 3 == 0)
                free(block);
        }
}

static const size_t probe_sizes[] = {0,    1,    8,    16,    17,     100,
                                     1000, 4096, 5000, 65536, 100000, 3 << 20};
#define PROBE_COUNT (sizeof probe_sizes / sizeof probe_sizes[0])

static void every_alignment(void) {
    void *blocks[PROBE_COUNT * 5];
    for (size_t alignment = 1; alignment <= ALIGNMENT_MAX; alignment *= 2) {
        size_t count = 0;
        for (size_t i = 0; i < PROBE_COUNT; i++) {
            size_t size = probe_sizes[i];
            blocks[count] = memalign(alignment, size);
            expect_aligned(blocks[count++], alignment, size, "memalign");
            blocks[count] = aligned_alloc(alignment, size);
            expect_aligned(blocks[count++], alignment, size, "aligned_alloc");
            size_t whole = (size + alignment - 1) / alignment * alignment;
            blocks[count] = aligned_alloc(alignment, whole);
            expect_aligned(blocks[count++], alignment, size, "aligned_alloc, whole multiple");
            blocks[count] = NULL;
            if (alignment >= sizeof(void *)) {
                CHECK(posix_memalign(&blocks[count], alignment, size) == 0, "posix_memalign");
                expect_aligned(blocks[count], alignment, size, "posix_memalign");
            }
            count++;
            for (size_t j = count - 4; j < count; j++)
                if (blocks[j])
                    touch(blocks[j], size);
        }
        for (size_t i = 0; i < count; i++)
            for (size_t j = 0; j < i; j++)
                CHECK(!blocks[i] || blocks[i] != blocks[j], "one block twice");
        for (size_t i = 0; i < count; i++)
            free(blocks[i]);
    }
}

static size_t next_power(size_t value) {
    size_t power = 1;
    while (power < value)
        power *= 2;
    return power;
}

/* An alignment that is no power of two: glibc's memalign rounds it up to the next power of two.
 * aligned_alloc rounds up, too, until glibc 2.37; since 2.38 it fails with EINVAL. The test accepts
 * both. */
static void odd_alignment(void) {
    static const size_t odd[] = {0,
                                 3,
                                 5,
                                 6,
                                 7,
                                 9,
                                 12,
                                 15,
                                 17,
                                 24,
                                 31,
                                 33,
                                 48,
                                 63,
                                 65,
                                 100,
                                 1000,
                                 4095,
                                 4097,
                                 10000,
                                 65535,
                                 65537,
                                 100000,
                                 (1 << 20) - 1,
                                 (1 << 20) + 1,
                                 (3 << 20)};
    for (size_t a = 0; a < sizeof odd / sizeof odd[0]; a++)
        for (size_t i = 0; i < PROBE_COUNT; i++) {
            size_t alignment = opaque(odd[a]), size = probe_sizes[i];
            void *block = memalign(alignment, size);
            expect_aligned(block, next_power(alignment), size, "memalign");
            touch(block, size);
            free(block);
            errno = SENTINEL;
            block = aligned_alloc(alignment, size);
            if (block)
                expect_aligned(block, next_power(alignment), size, "aligned_alloc");
            else
                CHECK(errno == EINVAL, "aligned_alloc(%zu): errno is %d", alignment, errno);
            free(block);
        }
}

static void impossible_alignment(void) {
    static const size_t huge[] = {SIZE_MAX, SIZE_MAX - 1, SIZE_MAX / 2 + 2, SIZE_MAX - 4095};
    for (size_t i = 0; i < sizeof huge / sizeof huge[0]; i++) {
        errno = SENTINEL;
        CHECK(!memalign(opaque(huge[i]), 100), "memalign(%zu)", huge[i]);
        CHECK(errno == EINVAL, "memalign(%zu): errno is %d", huge[i], errno);
        errno = SENTINEL;
        CHECK(!aligned_alloc(opaque(huge[i]), 100), "aligned_alloc(%zu)", huge[i]);
        CHECK(errno == EINVAL, "aligned_alloc(%zu): errno is %d", huge[i], errno);
    }
    /* Powers of two from 2^48 on are valid alignments, but the address space has no room for such
     * blocks. */
    for (size_t alignment = (size_t)1 << 48; alignment; alignment *= 2) {
        errno = SENTINEL;
        CHECK(!memalign(opaque(alignment), 100), "memalign(%zu)", alignment);
        CHECK(errno == ENOMEM, "memalign(%zu): errno is %d", alignment, errno);
        void *untouched = &errno;
        CHECK(posix_memalign(&untouched, opaque(alignment), 100) == ENOMEM, "%zu", alignment);
        CHECK(untouched == &errno, "posix_memalign(%zu) wrote its result", alignment);
    }
}

/* Alignments up to 256 MiB must work: the address space has room for such blocks. */
static void great_alignment(void) {
    for (size_t alignment = ALIGNMENT_MAX; alignment <= (size_t)1 << 28; alignment *= 4) {
        void *blocks[3];
        for (int i = 0; i < 3; i++) {
            blocks[i] = memalign(alignment, 100);
            expect_aligned(blocks[i], alignment, 100, "memalign");
            touch(blocks[i], 100);
        }
        for (int i = 0; i < 3; i++)
            free(blocks[i]);
    }
}

static void posix_memalign_invalid(void) {
    static const size_t wrong[] = {0,
                                   1,
                                   2,
                                   3,
                                   4,
                                   5,
                                   6,
                                   7,
                                   9,
                                   12,
                                   15,
                                   17,
                                   24,
                                   40,
                                   100,
                                   4095,
                                   4097,
                                   SIZE_MAX,
                                   SIZE_MAX - 7,
                                   (size_t)3 << 60};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        for (size_t j = 0; j < PROBE_COUNT; j++) {
            void *untouched = &errno;
            errno = SENTINEL;
            int error = posix_memalign(&untouched, opaque(wrong[i]), probe_sizes[j]);
            CHECK(error == EINVAL, "posix_memalign(%zu) is %d", wrong[i], error);
            CHECK(errno == SENTINEL, "posix_memalign(%zu) set errno to %d", wrong[i], errno);
            CHECK(untouched == &errno, "posix_memalign(%zu) wrote its result", wrong[i]);
        }
    void *block = NULL;
    errno = SENTINEL;
    CHECK(posix_memalign(&block, 8, 0) == 0 && errno == SENTINEL, "size 0: errno %d", errno);
    free(block);
}

static void page_aligned(void) {
    size_t os_page = (size_t)sysconf(_SC_PAGESIZE);
    for (size_t i = 0; i < PROBE_COUNT; i++) {
        size_t size = probe_sizes[i], rounded = (size + os_page - 1) / os_page * os_page;
        void *block = valloc(size), *whole = pvalloc(size);
        expect_aligned(block, os_page, size, "valloc");
        expect_aligned(whole, os_page, size, "pvalloc");
        CHECK(malloc_usable_size(block) >= size, "valloc(%zu)", size);
        CHECK(malloc_usable_size(whole) >= rounded, "pvalloc(%zu) has %zu usable bytes", size,
              malloc_usable_size(whole));
        touch(block, size);
        memset(whole, 7, rounded);
        free(block);
        free(whole);
    }
    errno = SENTINEL;
    CHECK(!pvalloc(opaque(SIZE_MAX)) && errno == ENOMEM, "pvalloc(-1): errno is %d", errno);
    errno = SENTINEL;
    CHECK(!pvalloc(opaque(SIZE_MAX - 4094)) && errno == ENOMEM, "pvalloc: errno is %d", errno);
}

/* A program of audio, video or matrix code: it replaces buffers of many sizes, all of which are
 * aligned, so that an aligned buffer often takes the memory of a buffer with another alignment. */
static void aligned_replaced(void) {
    enum { SLOTS = 2000, STEPS = 60000 };
    static struct {
        unsigned char *bytes;
        size_t size;
    } slots[SLOTS];
    uint64_t random = 11;
    for (int step = 0; step < STEPS + SLOTS; step++) {
        unsigned slot = step < STEPS ? check_random(&random) % SLOTS : (unsigned)(step - STEPS);
        unsigned char *old = slots[slot].bytes, tag = (unsigned char)slot;
        size_t had = slots[slot].size;
        CHECK(!had || (old[0] == tag && old[had / 2] == tag && old[had - 1] == tag),
              "two blocks share memory: %p, %zu bytes", (void *)old, had);
        free(old);
        slots[slot].bytes = NULL;
        slots[slot].size = 0;
        if (step >= STEPS)
            continue;
        size_t alignment = (size_t)32 << check_random(&random) % 8; /* 32 to 4 096 */
        size_t size = check_random(&random) % (slot % 16 ? 12000 : 60000) + 1;
        if (check_random(&random) % 2) /* most callers ask for whole multiples */
            size = (size + alignment - 1) / alignment * alignment;
        slots[slot].bytes = memalign(alignment, size);
        slots[slot].size = size;
        expect_aligned(slots[slot].bytes, alignment, size, "memalign");
        memset(slots[slot].bytes, tag, size);
    }
}

/* All other functions of the malloc family must accept aligned blocks. */
static void aligned_mixed_use(void) {
    uint64_t random = 7;
    for (int round = 0; round < 3000; round++) {
        size_t alignment = (size_t)1 << (check_random(&random) % 17);
        size_t size = check_random(&random) % 20000 + 1;
        unsigned char *block = memalign(alignment, size);
        expect_aligned(block, alignment, size, "memalign");
        size_t usable = malloc_usable_size(block);
        CHECK(usable >= size, "usable %zu of %zu", usable, size);
        memset(block, round & 0xff, usable);
        size_t grown = size + check_random(&random) % 60000;
        block = realloc(block, grown);
        CHECK(block, "no memory");
        for (size_t i = 0; i < size; i++)
            CHECK(block[i] == (round & 0xff), "byte %zu lost in realloc to %zu", i, grown);
        free(block);
    }
}

CHECK_MAIN({"every-block", every_block}, {"tiny-block", tiny_block},
           {"every-alignment", every_alignment}, {"odd-alignment", odd_alignment},
           {"impossible-alignment", impossible_alignment}, {"great-alignment", great_alignment},
           {"posix-memalign-invalid", posix_memalign_invalid}, {"page-aligned", page_aligned},
           {"aligned-mixed-use", aligned_mixed_use}, {"aligned-replaced", aligned_replaced})
