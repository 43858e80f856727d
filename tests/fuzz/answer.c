/* SPDX-License-Identifier: MIT */
/* A dump as a target that lies may send it to the command. */
#include "fuzz.h"
#include "model.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct model model = {0};
    struct cli_failure failure = {0};
    void *copy = malloc(size ? size : 1);
    memcpy(copy, data, size);
    if (model_load_wire(&model, copy, size, "the fuzzer", &failure)) {
        model_load_mark(&model, "mark", copy, size, &failure);
        for (uint32_t i = 1; i < model.context_count; i++)
            if (model.contexts[i].parent >= i)
                abort(); /* what the readers rely on */
        fuzz_examine(&model);
    }
    fuzz_forget();
    free(copy);
    return 0;
}
