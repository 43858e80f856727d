/* SPDX-License-Identifier: MIT */
/* Tests of tools/memctx/model/samples.c: rows of an earlier look whose ids the library has given to
 * other paths since. */
#include <criterion/criterion.h>

#include "model/samples.h"

#define COUNT 4

static struct model_frame root = {.kind = WIRE_KIND_ROOT, .module = WIRE_NONE};
static struct model_frame frames[3] = {{.kind = WIRE_KIND_PATH, .address = 0x100},
                                       {.kind = WIRE_KIND_PATH, .address = 0x200},
                                       {.kind = WIRE_KIND_PATH, .address = 0x300}};

/* Makes a model of the paths root > 0x100 > 0x200 > 0x300. Each context has `bytes` bytes. */
static void make_model(struct model *model, int64_t bytes, double uptime_s) {
    model_begin(model, "test");
    model->uptime_s = uptime_s;
    model->contexts = cli_alloc(COUNT, sizeof *model->contexts);
    model->context_count = COUNT;
    for (uint32_t i = 0; i < COUNT; i++) {
        struct model_context *context = &model->contexts[i];
        *context = (struct model_context){
            .frame = i > 0 ? &frames[i - 1] : &root, .id = i, .parent = i > 0 ? i - 1 : WIRE_NONE};
        const struct model_figures figures = {.self = {.requested_bytes = bytes}};
        model_set_figures(model, context, &figures);
    }
}

/* Returns the bytes that a context of the second look had at the first. */
static int64_t bytes_before(struct model *now, const struct samples_look *look, uint32_t context) {
    struct samples samples;
    samples_make(&samples, now, look, 1);
    cr_assert_eq(samples.count, 2);
    uint32_t number = now->contexts[context].figures->number;
    cr_assert_eq(samples.samples[1].rows[number].requested_bytes, 700);
    return samples.samples[0].rows[number].requested_bytes;
}

Test(samples, an_id_that_names_another_path_has_no_row) {
    struct model before, now;
    struct samples_look look;
    make_model(&before, 100, 1);
    samples_keep(&look, &before);
    make_model(&now, 700, 2);
    cr_assert_eq(bytes_before(&now, &look, 2), 100, "the path is the same");
    now.contexts[2].frame = &frames[2];
    cr_assert_eq(bytes_before(&now, &look, 2), 0, "another frame has the id");
    now.contexts[3].parent = 1;
    cr_assert_eq(bytes_before(&now, &look, 3), 0, "another parent has the frame");
    cr_assert_eq(bytes_before(&now, &look, 1), 100, "this path is still the same");
}
