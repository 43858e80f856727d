/* SPDX-License-Identifier: MIT */
/* rules_request.c - requests about the rules of call paths (wire.h, WIRE_RULES), with the memory
 * that each rule's paths hold. */
#include "control/rules_request.h"
#include "context/tree.h"
#include "control/descriptors.h"
#include "figures/sums.h"
#include "region/terms.h"
#include "rules/resolved.h"
#include "rules/rules.h"

static void list_rules(struct text *text) {
    uint32_t count = policy_rules_count();
    int64_t contexts[POLICY_RULES_MAX + 1] = {0}, bytes[POLICY_RULES_MAX + 1] = {0};
    int64_t chunks[POLICY_RULES_MAX + 1] = {0};
    uint32_t nodes = tree_count();
    sums_begin();
    for (uint32_t i = 0; i < nodes; i++) {
        struct sum sum;
        unsigned rule = policy_rules_held(i);
        sums_pause(i);
        if (!rule || rule > count)
            continue;
        sums_read(i, &sum, NULL);
        if (!sum.allocs && !sum.frees)
            continue;
        contexts[rule]++;
        bytes[rule] += sum.live_bytes;
        chunks[rule] += sum.allocs - sum.frees;
    }
    sums_end();
    for (uint32_t i = 0; i < count; i++) {
        const struct terms *terms = &terms_table[i + 1];
        const int64_t figures[] = {contexts[i + 1],
                                   bytes[i + 1],
                                   chunks[i + 1],
                                   terms->limit,
                                   (int64_t)load_relaxed(&terms->passed),
                                   (int64_t)load_relaxed(&terms->guarded),
                                   (int64_t)load_relaxed(&terms->unguarded)};
        text_add(text, policy_rules_text(i + 1));
        for (size_t k = 0; k < sizeof figures / sizeof figures[0]; k++) {
            text_add(text, "\t");
            text_add_number(text, figures[k]);
        }
        text_add(text, "\n");
    }
}

uint32_t rules_run(const char *body, struct text *text) {
    bool may_open = descriptors_are_own;
    if (text_equal(body, "list")) {
        policy_rules_apply_all(may_open);
        list_rules(text);
        return WIRE_OK;
    }
    if (text_equal(body, "unresolved")) {
        resolved_list(text);
        return WIRE_OK;
    }
    if (text_equal(body, "clear")) {
        policy_rules_clear(may_open);
        text_add(text, "no rules");
        return WIRE_OK;
    }
    static const char check[] = "check\n";
    if (__builtin_strncmp(body, check, sizeof check - 1) == 0) {
        if (!policy_rules_check(body + sizeof check - 1, text))
            return WIRE_REFUSED;
        text_add(text, "checked");
        return WIRE_OK;
    }
    if (!policy_rules_add(body, text, may_open))
        return WIRE_REFUSED;
    text_add(text, "added");
    return WIRE_OK;
}
