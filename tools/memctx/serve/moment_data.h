/* SPDX-License-Identifier: MIT */
/* moment_data.h - the figures of a kept moment, and the changes since an earlier moment. */
#ifndef MEMCTX_MOMENT_DATA_H
#define MEMCTX_MOMENT_DATA_H

#include "serve/moments.h"
#include "target/process.h"

struct moment_wish {
    struct moment moment, before;      /* before.id is 0: the moment is compared with no other */
    const struct process_facts *facts; /* the process of these snapshots */
    bool ended;                        /* the process has ended: names are looked up in its files */
    bool gzip;                         /* the JSON is compressed */
};

/* Writes the JSON that formats/page/model.js reads. Runs in a child process of the server, which
 * ends with a message if a snapshot cannot be read. `wish` is a struct moment_wish. */
void moment_data_write(int fd, const void *wish);

#endif
