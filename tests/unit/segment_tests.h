/* SPDX-License-Identifier: MIT */
/* What the tests of src/segment share: a freelist that keeps memory. */
#ifndef TESTS_UNIT_SEGMENT_TESTS_H
#define TESTS_UNIT_SEGMENT_TESTS_H

#include "base/options.h"
#include "segment/internal.h"

/* Lets the freelist keep freed memory for a minute, and learn what the program takes again, as if a
 * control thread gave memory back to the kernel. The tests have no control thread. */
INLINE void keep_what_is_freed(void) {
    options.decay_ms = 60000;
    os_identity_init();
    segment_purger = os_process_id();
}

#endif
