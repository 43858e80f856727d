/* SPDX-License-Identifier: MIT */
/* The functions of jemalloc that the library has, too (src/api/jemalloc.c), in a program that is
 * linked with another library that has them (next_mallocx.c). */
#include "check.h"
#include "next_mallocx.h"

#include <malloc.h>

#define ARENA MALLOCX_ARENA(3)

static void expect_filled(const unsigned char *chunk, size_t from, size_t to, int byte) {
    for (size_t i = from; i < to; i++)
        CHECK(chunk[i] == byte, "byte %zu of %zu is %d instead of %d", i, to, chunk[i], byte);
}

static void mallocx_sizes(void) {
    for (int power = 0; power <= 16; power++)
        for (size_t size = 1; size < (size_t)3 << 20; size = size * 3 + 5) {
            int flags = MALLOCX_LG_ALIGN(power) | MALLOCX_TCACHE_NONE;
            unsigned char *chunk = mallocx(size, flags);
            CHECK(chunk && (uintptr_t)chunk % ((size_t)1 << power) == 0, "size %zu, 1 << %d", size,
                  power);
            CHECK(sallocx(chunk, flags) >= size, "%zu of %zu", sallocx(chunk, flags), size);
            size_t told = nallocx(size, flags); /* a program may write as many bytes */
            CHECK(told >= size && told <= sallocx(chunk, flags), "%zu of %zu", told, size);
            CHECK(xallocx(chunk, size, 0, flags) >= size, "size %zu", size);
            memset(chunk, 1, sallocx(chunk, flags));
            if (size % 2)
                sdallocx(chunk, size, flags);
            else
                dallocx(chunk, flags);
        }
}

static void mallocx_zero(void) {
    for (int power = 0; power <= 12; power += 4)
        for (size_t size = 1; size < 200000; size = size * 2 + 3)
            for (int round = 0; round < 3; round++) {
                int flags = MALLOCX_LG_ALIGN(power) | MALLOCX_ZERO;
                unsigned char *chunk = mallocx(size, flags);
                expect_filled(chunk, 0, sallocx(chunk, flags), 0);
                size_t had = sallocx(chunk, flags);
                memset(chunk, 7, had);
                chunk = rallocx(chunk, size * 3, flags);
                expect_filled(chunk, 0, had < size * 3 ? had : size * 3, 7);
                expect_filled(chunk, had, sallocx(chunk, flags), 0);
                memset(chunk, 7, sallocx(chunk, flags));
                dallocx(chunk, flags);
            }
}

static void rallocx_content(void) {
    uint64_t random = 11;
    size_t size = 100;
    unsigned char *chunk = mallocx(size, 0);
    memset(chunk, 0, size);
    for (int round = 1; round < 3000; round++) {
        int power = (int)(check_random(&random) % 13);
        size_t next = check_random(&random) % (round % 50 ? 5000 : 3000000) + 1;
        chunk = rallocx(chunk, next, MALLOCX_LG_ALIGN(power));
        CHECK(chunk && (uintptr_t)chunk % ((size_t)1 << power) == 0, "round %d", round);
        expect_filled(chunk, 0, next < size ? next : size, (round - 1) & 0xff);
        size = next;
        memset(chunk, round & 0xff, size);
    }
    sdallocx(chunk, size, 0);
}

static void impossible_size(void) {
    CHECK(!mallocx(opaque(SIZE_MAX / 2), 0));
    CHECK(!mallocx(opaque(SIZE_MAX / 2), MALLOCX_LG_ALIGN(12)));
    char *chunk = mallocx(10, 0);
    memcpy(chunk, "123456789", 10);
    CHECK(!rallocx(chunk, opaque(SIZE_MAX / 2), 0));
    CHECK(strcmp(chunk, "123456789") == 0);
    dallocx(chunk, 0);
}

/* The program may have given its arena functions that map memory. So each request for an arena goes
 * to the next library, as does each chunk of that library. */
static void mallocx_arena(void) {
    for (size_t size = 1; size < 2000000; size = size * 3 + 1) {
        int before = next_live();
        unsigned char *chunk = mallocx(size, ARENA | MALLOCX_TCACHE_NONE);
        CHECK(next_live() == before + 1, "size %zu", size);
        CHECK(sallocx(chunk, ARENA) == size, "%zu of %zu", sallocx(chunk, ARENA), size);
        CHECK(xallocx(chunk, size, 0, ARENA) == size);
        memset(chunk, 5, size);
        chunk = rallocx(chunk, 2 * size, ARENA);
        CHECK(next_live() == before + 1, "size %zu", size);
        expect_filled(chunk, 0, size, 5);
        if (size % 2)
            dallocx(chunk, ARENA);
        else
            sdallocx(chunk, 2 * size, 0);
        CHECK(next_live() == before, "size %zu", size);
    }
}

/* Without an arena, the library serves mallocx and counts the chunk. All functions of jemalloc and
 * of the malloc family take each other's chunks. */
static void mallocx_counted(void) {
    enum { COUNT = 1000, SIZE = 3000 };
    char *chunks[COUNT];
    int next = next_live();
    size_t before = mallinfo2().uordblks;
    for (size_t i = 0; i < COUNT; i++)
        chunks[i] = mallocx(SIZE, MALLOCX_TCACHE_NONE);
    size_t counted = mallinfo2().uordblks - before;
    CHECK(next_live() == next, "%d chunks of the next library", next_live() - next);
    CHECK(counted >= (size_t)COUNT * SIZE && counted < (size_t)COUNT * SIZE * 2, "%zu", counted);
    for (size_t i = 0; i < COUNT; i++)
        if (i % 2)
            free(chunks[i]);
        else
            free(realloc(chunks[i], SIZE * 2));
    for (size_t i = 0; i < COUNT; i++)
        chunks[i] = malloc(SIZE);
    for (size_t i = 0; i < COUNT; i++)
        if (i % 2)
            dallocx(chunks[i], 0);
        else
            dallocx(rallocx(chunks[i], SIZE * 2, 0), 0);
    CHECK(mallinfo2().uordblks < before + SIZE, "%zu", mallinfo2().uordblks - before);
}

/* dallocx leaves errno alone, as free does. */
static void dallocx_keeps_errno(void) {
    for (int i = 0; i < 1000; i++) {
        void *chunk = mallocx((size_t)i * 100 + 1, 0);
        errno = EXDEV;
        dallocx(chunk, 0);
        CHECK(errno == EXDEV, "%d", errno);
    }
}

CHECK_MAIN({"mallocx-sizes", mallocx_sizes}, {"mallocx-zero", mallocx_zero},
           {"rallocx-content", rallocx_content}, {"impossible-size", impossible_size},
           {"mallocx-arena", mallocx_arena}, {"!mallocx-counted", mallocx_counted},
           {"dallocx-keeps-errno", dallocx_keeps_errno})
