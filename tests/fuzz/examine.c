/* SPDX-License-Identifier: MIT */
/* fuzz_examine() runs the rules of doctor on figures from the input, and drops what they print. */
#include "diagnosis/findings.h"
#include "fuzz.h"
#include "pages/holders.h"

void fuzz_examine(struct model *model) {
    struct memory_ledger ledger;
    struct samples samples;
    struct findings findings;
    const struct findings_input input = {
        .model = model, .ledger = &ledger, .samples = &samples, .target = "1"};
    struct holders holders;
    bool *members = cli_alloc(model->context_count, sizeof(*members));
    for (size_t i = 0; i < model->context_count; i += 2) {
        members[i] = true;
    }
    if (model->has_pages) {
        struct holder_partner partners[HOLDERS_PARTNERS_MAX];
        holders_make(&holders, model);
        holders_partners(model, members, partners);
        holders_isolate(model, members);
        holders_trim(model, members);
        holders_free_around(model, members);
    }
    memory_make_ledger(model, &ledger);
    struct samples_look look;
    samples_keep(&look, model);
    samples_make(&samples, model, &look, 1);
    findings_make(&findings, &input);
}
