/* SPDX-License-Identifier: MIT */
/*
 * versions CASE - compiled against memctx.h of version 0.1.0 (-DHEADER_0_1), of today, and of a
 * later version with more fields in its structs (-DHEADER_LATER). Exit status 0 and "done": every
 * check of the case holds.
 *
 * Each struct that the library reads or writes ends where an inaccessible page begins, so that one
 * byte too many ends the program with SIGSEGV. Bytes before the struct are canaries.
 */
#include <memctx.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "check.h"

enum { PAGE_BYTES = 4096, CANARY = 0xa5 };

/* Returns `bytes` bytes that end at an inaccessible page. These and the bytes before them are
 * filled with CANARY. */
static void *at_end_of_page(size_t bytes) {
    char *pages =
        mmap(NULL, 2 * PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(pages != MAP_FAILED && !mprotect(pages + PAGE_BYTES, PAGE_BYTES, PROT_NONE));
    memset(pages, CANARY, PAGE_BYTES);
    return pages + PAGE_BYTES - bytes;
}

static int all_are(const void *from, size_t bytes, unsigned char value) {
    for (size_t i = 0; i < bytes; i++)
        if (((const unsigned char *)from)[i] != value)
            return 0;
    return 1;
}

/* True if the canaries before a struct of at_end_of_page are unchanged. */
static int canaries_stand(const void *end_of_canaries) {
    return all_are((const char *)end_of_canaries - 256, 256, CANARY);
}

static int refuse(memctx_t context, size_t bytes, void *argument) {
    (void)context, (void)bytes;
    ++*(int *)argument;
    return 0;
}

static struct memctx_limit *new_limit(int *calls) {
    struct memctx_limit *limit = at_end_of_page(sizeof *limit);
    *limit = (struct memctx_limit){.bytes = 1000, .function = refuse, .argument = calls};
    return limit;
}

static struct memctx_options *new_options(const struct memctx_limit *limit) {
    struct memctx_options *options = at_end_of_page(sizeof *options);
    *options = (struct memctx_options){
        .flags = MEMCTX_ZERO_FREED, .limit = limit, .identifier = "structs"};
    return options;
}

/* Statistics, options and limits must work without touching a byte outside of the program's
 * structs. */
static void structs(void) {
    int calls = 0;
    memctx_t context =
        memctx_create_with(NULL, "structs", MEMCTX_ASET, new_options(new_limit(&calls)));
    CHECK(context && !strcmp(memctx_identifier(context), "structs"));
    CHECK(memctx_alloc(context, 600) && !memctx_alloc(context, 600) && calls == 1);

    struct memctx_stats *stats = at_end_of_page(sizeof *stats);
    memctx_get_stats(context, stats);
    CHECK(canaries_stand(stats));
    CHECK(stats->chunks == 1 && stats->requested_bytes == 600 && stats->allocs == 1);
    CHECK(stats->peak_bytes == 600 && stats->pages && !stats->children);
#ifndef HEADER_0_1
    CHECK(stats->limit_bytes == 1000);
#endif
#ifdef HEADER_LATER
    CHECK(all_are(stats->later, sizeof stats->later, 0));
#endif

    CHECK(!memctx_set_limit(context, NULL) && memctx_alloc(context, 600));
    CHECK(!memctx_set_limit(context, new_limit(&calls)));
    CHECK(!memctx_alloc(context, 600) && calls == 2);
    memctx_delete(context);
}

/* The functions of 0.1.0 take no size: they may touch only the bytes of 0.1.0's structs. */
static void functions_of_0_1(void) {
    enum { OPTIONS_BYTES = 24, STATS_BYTES = 64 };
    struct memctx_options *options = at_end_of_page(OPTIONS_BYTES);
    int calls = 0;
    struct memctx_options filled = {.limit = new_limit(&calls), .identifier = "old"};
    memcpy((void *)options, &filled, OPTIONS_BYTES);
    memctx_t context = memctx_do_create_with(NULL, "old", MEMCTX_ASET, options);
    CHECK(context && !strcmp(memctx_identifier(context), "old"));
    CHECK(memctx_alloc(context, 600) && !memctx_alloc(context, 600) && calls == 1);
    void *stats = at_end_of_page(STATS_BYTES);
    memctx_do_stats(context, stats);
    CHECK(canaries_stand(stats) && !all_are(stats, STATS_BYTES, CANARY));
}

#ifndef HEADER_0_1
/* The library writes as many bytes as the program's struct has: its own fields, then zeros. */
static void sizes(void) {
    memctx_t context = memctx_create(NULL, "sizes", MEMCTX_ASET);
    CHECK(context && memctx_alloc(context, 100));
    for (size_t bytes = 0; bytes <= 256; bytes += 8) {
        struct memctx_stats *stats = at_end_of_page(bytes);
        memctx_do_get_stats_sized(context, stats, bytes);
        CHECK(canaries_stand(stats) && (bytes < 8 || stats->requested_bytes == 100));
        if (bytes > sizeof *stats)
            CHECK(all_are((char *)stats + sizeof *stats, bytes - sizeof *stats, 0));
    }
}

static void version(void) {
    char text[40];
    int number = memctx_library_version_number();
    CHECK(memctx_is_active() && number == MEMCTX_VERSION_NUMBER);
    snprintf(text, sizeof text, "%d.%d.%d", MEMCTX_VERSION_MAJOR, MEMCTX_VERSION_MINOR,
             MEMCTX_VERSION_PATCH);
    CHECK(!strcmp(memctx_library_version(), text));
    CHECK(MEMCTX_VERSION_OF(1, 0, 0) > MEMCTX_VERSION_OF(0, 99, 99));
    CHECK(MEMCTX_VERSION_OF(0, 1, 0) < MEMCTX_VERSION_OF(0, 1, 1));
}

static void version_without_library(void) {
    CHECK(!memctx_is_active() && !memctx_library_version() && !memctx_library_version_number());
}

/* Runs with tests/named/library_0_1.c preloaded, which has only functions of 0.1.0. */
static void library_of_0_1(void) {
    CHECK(!strcmp(memctx_library_version(), "0.1.0"));
    CHECK(memctx_library_version_number() == MEMCTX_VERSION_OF(0, 1, 0));
    int calls = 0;
    memctx_t context = memctx_create_with(NULL, "old", MEMCTX_ASET, new_options(new_limit(&calls)));
    CHECK(context);
    struct memctx_stats *stats = at_end_of_page(sizeof *stats);
    memctx_get_stats(context, stats);
    CHECK(canaries_stand(stats) && stats->requested_bytes == 1 && stats->children == 9);
    CHECK(!stats->limit_bytes && !memctx_set_limit(context, new_limit(&calls)));
}

static void append(void *argument) {
    strcat(argument, "called");
}

/* The names of 0.1.0 for functions that were renamed later still work. */
static void old_names(void) {
    char text[16] = "";
    struct memctx_callback callback = {append, text, NULL};
    memctx_t context = memctx_create(NULL, "old", MEMCTX_ASET);
    memctx_identify(context, "identified");
    CHECK(!strcmp(memctx_identifier(context), "identified"));
    CHECK(!memctx_hand_over(context) && !memctx_take(context));
    memctx_call_on_reset(context, &callback);
    memctx_reset(context);
    CHECK(!strcmp(text, "called"));
}
#endif

#ifdef HEADER_LATER
/* A field that the library does not know must be 0. The library refuses other values, because it
 * cannot do what they ask for. */
static void later_fields(void) {
    int calls = 0;
    struct memctx_limit *limit = new_limit(&calls);
    struct memctx_options *options = new_options(limit);
    memctx_t context = memctx_create_with(NULL, "later", MEMCTX_ASET, options);
    CHECK(context);
    options->later[3] = 1;
    CHECK(!memctx_create_with(NULL, "later", MEMCTX_ASET, options));
    options->later[3] = 0;
    limit->later[0] = 1;
    CHECK(!memctx_create_with(NULL, "later", MEMCTX_ASET, options));
    CHECK(!memctx_set_limit(context, NULL) && memctx_set_limit(context, limit) == -1);
    CHECK(memctx_alloc(context, 2000)); /* the refused call has set no limit */
}
#endif

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*run)(void);
    } cases[] = {
        {"structs", structs},
        {"functions_of_0_1", functions_of_0_1},
#ifndef HEADER_0_1
        {"sizes", sizes},
        {"version", version},
        {"version_without_library", version_without_library},
        {"library_of_0_1", library_of_0_1},
        {"old_names", old_names},
#endif
#ifdef HEADER_LATER
        {"later_fields", later_fields},
#endif
    };
    for (size_t i = 0; argc == 2 && i < sizeof cases / sizeof cases[0]; i++)
        if (!strcmp(argv[1], cases[i].name)) {
            cases[i].run();
            puts("done");
            return 0;
        }
    return 2;
}
