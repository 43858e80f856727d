/* SPDX-License-Identifier: MIT */
/* A dump as a lying process may send it to the command: its head, then pieces of each part in
 * the order in which the command asks. The input holds each as a length (2 bytes) and that many
 * bytes. */
#include "fuzz.h"
#include "model/wire_load.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Returns the next answer in a chunk of its own, so that the sanitizer finds reads behind it. NULL:
 * the input has ended. */
static void *next_answer(const uint8_t **data, size_t *size, size_t *length) {
    if (*size < 2)
        return NULL;
    *length = (size_t)((*data)[0] | (*data)[1] << 8);
    *data += 2;
    *size -= 2;
    *length = *length < *size ? *length : *size;
    void *copy = malloc(*length ? *length : 1);
    memcpy(copy, *data, *length);
    *data += *length;
    *size -= *length;
    return copy;
}

/* Loads pieces of a part up to the one that says that it is the last. */
static bool load_part(struct loader *loader, enum wire_part part, const uint8_t **data,
                      size_t *size) {
    uint64_t next = 0;
    do {
        size_t length;
        void *answer = next_answer(data, size, &length);
        if (!answer)
            return false;
        bool loaded = loader_take_piece(loader, part, answer, length, &next);
        free(answer);
        if (!loaded)
            return false;
    } while (next);
    return true;
}

static bool load(struct loader *loader, const uint8_t *data, size_t size) {
    size_t length;
    void *head = next_answer(&data, &size, &length);
    bool loaded = head && loader_take_head(loader, head, length);
    free(head);
    if (!loaded || !load_part(loader, WIRE_PART_CONTEXTS, &data, &size) ||
        !load_part(loader, WIRE_PART_MODULES, &data, &size) || !loader_link(loader))
        return false;
    /* The loader accepts a dump without the following parts. */
    if (load_part(loader, WIRE_PART_THREADS, &data, &size) &&
        load_part(loader, WIRE_PART_REMOTES, &data, &size) &&
        load_part(loader, WIRE_PART_MARKS, &data, &size) &&
        load_part(loader, WIRE_PART_NOTES, &data, &size) && loader->model->mark_count > 0) {
        loader->mark = &loader->model->marks[0];
        loader->mark->has_entries = true;
        load_part(loader, WIRE_PART_ENTRIES, &data, &size);
    }
    load_part(loader, WIRE_PART_PAGES, &data, &size);
    load_part(loader, WIRE_PART_RESIZES, &data, &size);
    loader_finish(loader, MODEL_THREADS | MODEL_PINNED | MODEL_RESIDENT);
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct model model;
    struct loader loader;
    struct cli_failure failure = {0};
    loader_begin(&loader, &model, "the fuzzer", &failure);
    loader.keep_pages = size % 2;
    loader.lone_views = size % 4 < 2;
    if (load(&loader, data, size)) {
        for (uint32_t i = 1; i < model.context_count; i++)
            if (model.contexts[i].parent >= i)
                abort(); /* readers rely on parents that stand before their children */
        fuzz_examine(&model);
    }
    fuzz_forget();
    return 0;
}
