/* SPDX-License-Identifier: MIT */
/* A snapshot file that was damaged, or made up. */
#include "fuzz.h"
#include "model.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static int file = -1;
    char path[64];
    struct model model = {0};
    struct cli_failure failure = {0};
    if (file < 0)
        file = memfd_create("snapshot", 0);
    if (ftruncate(file, 0) || pwrite(file, data, size, 0) != (ssize_t)size)
        abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    if (model_load_snapshot(&model, path, &failure)) {
        for (uint32_t i = 1; i < model.context_count; i++)
            if (model.contexts[i].parent >= i)
                abort();
        fuzz_examine(&model);
    }
    fuzz_forget();
    return 0;
}
