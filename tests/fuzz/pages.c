/* SPDX-License-Identifier: MIT */
/* Pages as a lying process may send them, in two answers. */
#include "fuzz.h"
#include "model/wire_load.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct model_context contexts[4] = {
        {.id = 0, .parent = WIRE_NONE, .first_child = 1},
        {.id = 1, .next_sibling = 2},
        {.id = 2, .next_sibling = WIRE_NONE, .first_child = 3},
        {.id = 3, .parent = 2, .next_sibling = WIRE_NONE}};
    struct model model;
    model_begin(&model, "the fuzzer");
    model.contexts = contexts;
    model.context_count = 4;
    for (int i = 0; i < 4; i++) {
        struct model_frame frame = {.module = WIRE_NONE,
                                    .kind = i ? WIRE_KIND_PATH : WIRE_KIND_ROOT,
                                    .address = (uint64_t)i};
        contexts[i].frame = model_find_frame(&model, &frame);
        contexts[i].recursive_from = WIRE_NONE;
        contexts[i].figures = model_figures_at(&model, 0);
    }
    struct cli_failure failure = {0};
    struct loader loader = {.model = &model, .failure = &failure, .keep_pages = true};
    uint64_t next;
    size_t half = size ? data[0] * (size - 1) / 255 : 0;
    const uint8_t *parts[] = {data + (size > 0), data + (size > 0) + half};
    size_t sizes[] = {half, size ? size - 1 - half : 0};
    contexts[1].first_child = contexts[3].first_child = contexts[0].next_sibling = WIRE_NONE;
    for (int i = 0; i < 2; i++) {
        void *copy = malloc(sizes[i] ? sizes[i] : 1);
        memcpy(copy, parts[i], sizes[i]);
        bool loaded = loader_take_piece(&loader, WIRE_PART_PAGES, copy, sizes[i], &next);
        free(copy);
        if (!loaded)
            break;
        model_add_up(&model);
        fuzz_examine(&model);
    }
    fuzz_forget();
    return 0;
}
