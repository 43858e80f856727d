/* SPDX-License-Identifier: MIT */
/* The content of MEMCTX_RULE_RANGES: the input is the lines behind the one that names this
 * program. */
#include "rules/objects.h"
#include "rules/resolved.h"
#include "rules/rules.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint32_t begin(char *head, size_t bytes) {
    char said[300];
    struct text warnings = {.bytes = said, .capacity = sizeof said};
    struct text text = {.bytes = head, .capacity = bytes - 1};
    policy_rules_init("f=aset;regex:x=slab;file:y=bump", true, &warnings);
    uint32_t module = rule_module(unwind_rules_find((uintptr_t)&LLVMFuzzerTestOneInput, true));
    const struct module *mapped = unwind_rules_module(module);
    if (!mapped || !mapped->build_id_bytes)
        abort();
    text_add(&text, "1\n=file:y=bump\n=regex:x=slab\n=f=aset\n@b ");
    for (uint32_t i = 0; i < mapped->build_id_bytes; i++) {
        text_add_bytes(&text, &"0123456789abcdef"[mapped->build_id[i] >> 4], 1);
        text_add_bytes(&text, &"0123456789abcdef"[mapped->build_id[i] & 15], 1);
    }
    text_add(&text, "\n");
    head[text.length] = 0;
    return module;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static char head[200];
    static uint32_t module;
    if (!*head)
        module = begin(head, sizeof head);
    size_t length = strlen(head);
    char *text = malloc(length + size + 1);
    memcpy(text, head, length);
    memcpy(text + length, data, size);
    text[length + size] = 0;
    objects_drop_resolved(module);
    resolved_read(text);
    if (objects_resolved_count(module) > WIRE_RULE_RANGES_MAX)
        abort();
    struct tree_node node = {.module = (uint16_t)module, .exact = true};
    for (unsigned i = 0; i < 64; i++) {
        node.address = unwind_rules_module(module)->start + i * 16;
        if (objects_rule_of(&node) > rule_list.count)
            abort();
    }
    free(text);
    return 0;
}
