/* SPDX-License-Identifier: MIT */
/* The rules of doctor, on figures that somebody made up. */
#include "findings.h"
#include "fuzz.h"

void fuzz_examine(const struct model *model) {
    struct memory_ledger ledger;
    struct samples samples;
    struct findings findings;
    const struct findings_input input = {
        .model = model, .ledger = &ledger, .samples = &samples, .target = "1"};
    memory_make_ledger(model, &ledger);
    samples_make(&samples, model, model, 1);
    findings_make(&findings, &input);
}
