/* SPDX-License-Identifier: MIT */
/*
 * Each test is one misuse of the heap. The suite checks the exact signal and the exact message. A
 * program that survives its misuse says so and exits 0.
 */
#include "check.h"

#include <malloc.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

static void survived(const char *after) {
    /* The heap must still work: silent damage by the misuse would be noticed here. */
    for (int i = 0; i < 20000; i++) {
        size_t size = (size_t)i % 3000 + 1;
        unsigned char *block = malloc(size), *other = malloc(size);
        CHECK(block && other && block != other, "one block twice");
        memset(block, 1, size);
        memset(other, 2, size);
        CHECK(block[0] == 1 && block[size - 1] == 1, "blocks overlap");
        free(block);
        free(other);
    }
    printf("survived %s\n", after);
}

static void *make(size_t size) {
    void *block = malloc(size);
    CHECK(block, "no memory");
    fprintf(stderr, "block %p\n", block); /* the suite looks for this address in the message */
    return block;
}

static void misuse_free(void *block) {
    fprintf(stderr, "free %p\n", block);
    free(opaque_pointer(block));
}

static void double_free(size_t size) {
    void *neighbours[3] = {malloc(size), NULL, NULL};
    char *block = make(size);
    neighbours[1] = malloc(size);
    free(block);
    misuse_free(block);
    survived("a double free");
    free(neighbours[0]);
    free(neighbours[1]);
}

static void double_free_small(void) {
    double_free(40);
}
static void double_free_medium(void) {
    double_free(3000);
}
static void double_free_large(void) {
    double_free(300000);
}
static void double_free_huge(void) {
    double_free(40 << 20);
}

/* Other chunks are freed between the two frees, so comparing with the head of the free list does
 * not find the second one. */
static void double_free_later(void) {
    enum { COUNT = 50 };
    void *blocks[COUNT];
    for (int i = 0; i < COUNT; i++)
        blocks[i] = malloc(40);
    void *block = make(40);
    void *after = malloc(40);
    free(block);
    for (int i = 0; i < COUNT; i += 2)
        free(blocks[i]);
    misuse_free(block);
    survived("a late double free");
    free(after);
}

static void interior(size_t size, size_t offset) {
    char *block = make(size);
    misuse_free(block + offset);
    survived("a free inside a block");
}

static void interior_small(void) {
    interior(40, 16);
}
static void interior_odd(void) {
    interior(40, 3);
}
static void interior_medium(void) {
    interior(3000, 1024);
}
static void interior_large(void) {
    interior(300000, 4096);
}
static void interior_huge(void) {
    interior(40 << 20, 8 << 20);
}

static void stack_pointer(void) {
    char array[200] = {0};
    misuse_free(array + 64);
    survived("a free of the stack");
}

static void global_pointer(void) {
    static char array[200];
    misuse_free(array + 64);
    survived("a free of a global");
}

static void literal_pointer(void) {
    misuse_free((void *)(uintptr_t) "a literal in read-only memory");
    survived("a free of a literal");
}

static void foreign_mapping(void) {
    char *mapping = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(mapping, 0x41, 1 << 20);
    misuse_free(mapping + 4096);
    for (int i = 0; i < 1 << 20; i++)
        CHECK(mapping[i] == 0x41, "a foreign byte was written");
    survived("a free of a foreign mapping");
}

/* The memory around the pointer cannot be read: an allocator that looks for a header before it gets
 * SIGSEGV. */
static void unreadable_pointer(void) {
    char *mapping = mmap(NULL, 16 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    misuse_free(mapping + (8 << 20));
    survived("a free of unreadable memory");
}

static void unmapped_pointer(void) {
    misuse_free((void *)0x123456780);
    survived("a free of an address where nothing is");
}

static void noncanonical_pointer(void) {
    misuse_free((void *)0xdead000000000010);
    survived("a free of an address that no machine has");
}

static void low_pointer(void) {
    misuse_free((void *)16);
    survived("a free of address 16");
}

static void realloc_foreign(void) {
    static char array[200];
    fprintf(stderr, "realloc %p\n", (void *)(array + 64));
    char *block = realloc(opaque_pointer(array + 64), 400);
    CHECK(!block, "realloc of a foreign pointer gave %p", (void *)block);
    survived("a realloc of a foreign pointer");
}

/* A macro, because the report must name the function that calls malloc. */
#define REALLOC_FREED(name, had, size)                                                             \
    static void name(void) {                                                                       \
        char *block = make(had);                                                                   \
        void *beside = malloc(had);                                                                \
        free(block);                                                                               \
        fprintf(stderr, "realloc %p\n", (void *)block);                                            \
        block = realloc(opaque_pointer(block), size);                                              \
        CHECK(!block, "realloc of a freed pointer gave %p", (void *)block);                        \
        survived("a realloc of a freed block");                                                    \
        free(beside);                                                                              \
    }
REALLOC_FREED(realloc_freed, 100, 400)
REALLOC_FREED(realloc_freed_stays, 100, 101) /* would fit into the old block */
REALLOC_FREED(realloc_freed_wide, 2000, 2001)

static void usable_foreign(void) {
    static char array[200];
    fprintf(stderr, "usable %p\n", (void *)(array + 64));
    size_t usable = malloc_usable_size(opaque_pointer(array + 64));
    CHECK(usable == 0, "usable size of a foreign pointer is %zu", usable);
    survived("a usable size of a foreign pointer");
}

/* No process gets as much memory as the new size, so the misuse must be found before realloc
 * allocates. */
static void checked_realloc_freed(void) {
    char *block = make(20);
    free(block);
    fprintf(stderr, "realloc %p\n", (void *)block);
    block = realloc(opaque_pointer(block), (size_t)1 << 46);
    survived("a realloc of a freed block");
    free(block);
}

static void *free_it(void *block) {
    free(block);
    return NULL;
}

/* Chunks with this alignment start inside their blocks. So the library has to tell a pointer into a
 * chunk from the start of a chunk. */
static void interior_of_aligned(void) {
    char *block = aligned_alloc(4096, 100);
    CHECK(block, "no memory");
    fprintf(stderr, "block %p\n", (void *)block);
    misuse_free(block + 16);
    survived("a free inside an aligned block");
}

/* The first 32 KiB of each aligned piece of 4 MiB of the library's memory hold the headers of its
 * pages. In the second 16 KiB, the header that a pointer leads to has other contents: maps of free
 * memory, in which the freed chunks set bits. */
static void in_the_headers(void) {
    enum { CHUNKS = 600 };
    char *chunks[CHUNKS];
    for (int i = 0; i < CHUNKS; i++)
        memset(chunks[i] = make(15000), 1, 15000);
    char *piece = chunks[CHUNKS / 6] - ((uintptr_t)chunks[CHUNKS / 6] & ((4UL << 20) - 1));
    for (int i = 0; i < CHUNKS; i++)
        if (i % 3)
            free(chunks[i]);
    misuse_free(piece + (20 << 10));
    survived("a free in the headers");
}

/* A rule zeroes the freed chunks of the next paths. The second of two blocks of 112 bytes plus 16
 * is a multiple of 32, where a chunk with that alignment could stand in a larger block. */
static void interior_zeroed(void) {
    char *blocks[2];
    for (volatile int i = 0; i < 2; i++) /* not unrolled: the blocks have one call path */
        blocks[i] = make(100);
    misuse_free(blocks[1] + 16);
    survived("a free inside a block");
    free(blocks[0]);
}
static void interior_zeroed_odd(void) {
    interior(3000, 8);
}
static void interior_zeroed_threads(void) {
    pthread_t thread;
    char *block = make(100);
    fprintf(stderr, "free %p\n", (void *)(block + 16));
    CHECK(pthread_create(&thread, NULL, free_it, block + 16) == 0, "no thread");
    pthread_join(thread, NULL);
    survived("a free inside a block");
}

/* The first free leaves the only page of the path empty, so the page is used from its start
 * again. */
static void double_free_rewound(void) {
    char *block = make(100);
    free(opaque_pointer(block));
    misuse_free(block);
    survived("a double free");
}

/* The first free is by another thread. */
static void double_free_threads(void) {
    pthread_t thread;
    void *before = malloc(100), *block = make(100), *after = malloc(100);
    CHECK(pthread_create(&thread, NULL, free_it, block) == 0, "no thread");
    pthread_join(thread, NULL);
    misuse_free(block);
    survived("a double free by two threads");
    free(before);
    free(after);
}

/* --- found with MEMCTX_CHECK=1 ------------------------------------------------------------ */

static void write_byte(char *at) {
    *(volatile char *)opaque_pointer(at) = 0;
}

static void overflow(size_t size) {
    char *block = make(size);
    write_byte(block + size);
    misuse_free(block);
    survived("an overflow");
}

static void overflow_small(void) {
    overflow(40);
}
static void overflow_nothing(void) {
    overflow(0);
}
static void overflow_whole_block(void) {
    overflow(64);
}
static void overflow_medium(void) {
    overflow(3000);
}
static void overflow_large(void) {
    overflow(4 * 16384);
}
static void overflow_huge(void) {
    overflow(40 << 20);
}

static void overflow_far(void) { /* writes to the last byte of the slack */
    char *block = make(1000);
    write_byte(block + 1000 + 15);
    misuse_free(block);
    survived("an overflow");
}

static void overflow_realloc(void) {
    char *block = make(500);
    write_byte(block + 500);
    fprintf(stderr, "realloc %p\n", (void *)block);
    block = realloc(opaque_pointer(block), 501);
    survived("an overflow");
    free(block);
}

static void overflow_threads(void) {
    pthread_t thread;
    char *block = make(70);
    write_byte(block + 70);
    CHECK(pthread_create(&thread, NULL, free_it, block) == 0, "no thread");
    pthread_join(thread, NULL);
    survived("an overflow");
}

/* All chunks have one call path. Its context gets pages of its own, so no other context reuses the
 * freed block. */
static void write_after_free(size_t size, size_t offset) {
    for (int i = 0; i < 1000; i++) {
        char *block = malloc(size);
        if (i) {
            write_byte(block);
            continue;
        }
        fprintf(stderr, "block %p\n", (void *)(block + offset));
        free(opaque_pointer(block));
        write_byte(block + offset);
    }
    survived("a write after free");
}

static void write_after_free_small(void) {
    write_after_free(40, 20);
}
static void write_after_free_medium(void) {
    write_after_free(5000, 4999);
}
static void write_after_free_begin(void) {
    char *first = NULL;
    for (int i = 0; i < 1000; i++) {
        char *block = malloc(200);
        if (i == 0)
            first = block;
        if (i != 1) {
            write_byte(block);
            continue;
        }
        fprintf(stderr, "block %p\n", (void *)block);
        free(opaque_pointer(first));
        free(opaque_pointer(block)); /* the block that was freed last links to the first */
        write_byte(block + 5);
    }
    survived("a write after free");
}

CHECK_MAIN({"double-free-small", double_free_small}, {"double-free-medium", double_free_medium},
           {"double-free-large", double_free_large}, {"double-free-huge", double_free_huge},
           {"double-free-later", double_free_later}, {"double-free-threads", double_free_threads},
           {"interior-small", interior_small}, {"interior-odd", interior_odd},
           {"interior-medium", interior_medium}, {"interior-large", interior_large},
           {"interior-huge", interior_huge}, {"stack-pointer", stack_pointer},
           {"global-pointer", global_pointer}, {"literal-pointer", literal_pointer},
           {"foreign-mapping", foreign_mapping}, {"unreadable-pointer", unreadable_pointer},
           {"unmapped-pointer", unmapped_pointer}, {"noncanonical-pointer", noncanonical_pointer},
           {"low-pointer", low_pointer}, {"realloc-foreign", realloc_foreign},
           {"realloc-freed", realloc_freed}, {"realloc-freed-stays", realloc_freed_stays},
           {"realloc-freed-wide", realloc_freed_wide}, {"usable-foreign", usable_foreign},
           {"interior-of-aligned", interior_of_aligned}, {"in-the-headers", in_the_headers},
           {"interior-zeroed", interior_zeroed}, {"interior-zeroed-odd", interior_zeroed_odd},
           {"interior-zeroed-threads", interior_zeroed_threads},
           {"double-free-rewound", double_free_rewound},
           {"checked-realloc-freed", checked_realloc_freed}, {"overflow-small", overflow_small},
           {"overflow-nothing", overflow_nothing}, {"overflow-whole-block", overflow_whole_block},
           {"overflow-medium", overflow_medium}, {"overflow-large", overflow_large},
           {"overflow-huge", overflow_huge}, {"overflow-far", overflow_far},
           {"overflow-realloc", overflow_realloc}, {"overflow-threads", overflow_threads},
           {"write-after-free-small", write_after_free_small},
           {"write-after-free-medium", write_after_free_medium},
           {"write-after-free-begin", write_after_free_begin})
