/* SPDX-License-Identifier: MIT */
/* See frames.h. */
#include "control/frames.h"
#include "os/os.h"
#include "path/unwind_rules.h"
#include "segment/segment.h"

/* So many new rules have read enough OS pages for a look at all objects, which takes some 50 us. */
#define RULES_LEAST 16

bool frames_look(void) {
    static uint64_t count_known;
    uint64_t count = unwind_rules_count();
    /* a new generation empties the table of rules */
    uint64_t more = count < count_known ? count : count - count_known;
    if (more < RULES_LEAST)
        return false;
    count_known = count;
    for (uint32_t i = 0; i < unwind_rules_module_count(); i++) {
        uintptr_t start, end;
        /* Only an object that was loaded before the program began is never unloaded. The loader's
         * description of any other object is a chunk of this library. Such an object could be
         * unloaded, and other memory mapped in its place, during the look. */
        if (!segment_page_of(unwind_rules_module(i)->link_map) &&
            unwind_rules_frames(i, &start, &end))
            os_drop_file_pages(start, end);
    }
    return true;
}
