/* SPDX-License-Identifier: MIT */
/* Takes the unwind information of loaded objects out of the resident set; see frames.h. Cannot do
 * so for objects that dlopen loaded. */
#include "control/frames.h"
#include "os/os.h"
#include "path/unwind_rules.h"

/* Fewer new rules have made too few OS pages resident for a look at all objects, which takes some
 * 50 us. */
#define RULES_LEAST 16

bool frames_look(void) {
    static uint64_t count_known;
    static bool is_refused; /* the process may not read its own pagemap */
    uint64_t count = unwind_rules_count();
    /* a new generation empties the table of rules */
    uint64_t more = count < count_known ? count : count - count_known;
    if (is_refused || more < RULES_LEAST)
        return false;
    count_known = count;
    for (uint32_t i = 0; i < unwind_rules_module_count() && !is_refused; i++) {
        uintptr_t start, end;
        /* Any other object could be unloaded, and other memory mapped in its place, during the
         * look. */
        if (unwind_rules_module(i)->permanent && unwind_rules_frames(i, &start, &end))
            is_refused = !os_drop_file_pages(start, end);
    }
    return !is_refused;
}
