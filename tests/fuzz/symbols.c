/* SPDX-License-Identifier: MIT */
/* A damaged file of a module, in which names are looked up as the command's child process does. The
 * target is not libdw, but the code between libdw and the answer: a crash in libdw ends only the
 * child. */
#include "fuzz.h"
#include "model/model.h"
#include "names/elf_names.h"

#include <elfutils/libdwfl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { ADDRESSES = 64, PAIRS = ADDRESSES - 1 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static Dwfl *opened;

/* Replaces dwfl_begin in elf_names.c, which never calls dwfl_end; notes the result so that the
 * target can call dwfl_end. */
Dwfl *fuzz_dwfl_begin(const Dwfl_Callbacks *callbacks);
Dwfl *fuzz_dwfl_begin(const Dwfl_Callbacks *callbacks) {
    return opened = dwfl_begin(callbacks);
}

static uint64_t functions, ends, tails, frames;

void answer_put_function(FILE *answer, const char *name, const char *file, int64_t line) {
    (void)answer;
    functions += (name ? strlen(name) : 0) + (file ? strlen(file) : 0) + (uint64_t)line;
}

void answer_put_end(FILE *answer) {
    (void)answer;
    ends++;
}

void answer_put_tails(FILE *answer, size_t count) {
    (void)answer;
    tails++;
    frames += count;
}

void answer_put_address(FILE *answer, uint32_t module, uint64_t address) {
    (void)answer;
    (void)module;
    (void)address;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct symbols_pair pairs[PAIRS];
    static int file = -1;
    static FILE *answer;
    static uint64_t addresses[ADDRESSES];
    static char path[64];
    if (file < 0) {
        file = memfd_create("module", 0);
        answer = fopen("/dev/null", "w");
        snprintf(path, sizeof path, "/proc/self/fd/%d", file);
        for (unsigned i = 0; i < ADDRESSES; i++)
            addresses[i] = 0x1000 + i * 16;
        for (unsigned i = 0; i < PAIRS; i++)
            pairs[i] =
                (struct symbols_pair){addresses[i], i % 2 ? addresses[i + 1] : SYMBOLS_ALLOCATOR};
    }
    if (ftruncate(file, 0) || pwrite(file, data, size, 0) != (ssize_t)size)
        abort();
    struct model_module module = {.path = path};
    struct symbols_request request = {.module = &module,
                                      .addresses = addresses,
                                      .count = ADDRESSES,
                                      .pairs = pairs,
                                      .pair_count = PAIRS,
                                      .modules = &module,
                                      .module_count = 1};
    uint64_t ends_before = ends, tails_before = tails, frames_before = frames;
    elf_names_answer(&request, answer);
    if (ends - ends_before != ADDRESSES + frames - frames_before || tails - tails_before != PAIRS)
        abort();
    if (opened)
        dwfl_end(opened);
    opened = NULL;
    fuzz_forget();
    return 0;
}
