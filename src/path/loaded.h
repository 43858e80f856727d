/* SPDX-License-Identifier: MIT */
/*
 * loaded.h - a table of the loaded objects, for a glibc that has no _dl_find_object (before 2.35).
 *
 * Looking an address up takes no lock and is async-signal-safe. Bringing the table up to date calls
 * dl_iterate_phdr, which takes a lock of the loader's. Another thread may hold that lock in a
 * callback of its own, and wait there for something that a thread in malloc holds. So an allocation
 * brings the table up to date only while no other thread of the process has ever allocated.
 * Otherwise the allocation notes that an address was not found. The control thread brings the table
 * up to date within OBJECTS_POLL_MS (control/server.c); it holds no other lock of the library then.
 * Until then, call paths end at code that dlopen has just loaded. A process with threads and
 * without a control thread keeps the table that it has.
 *
 * A child that a process with several threads forked never brings the table up to date. The fork
 * may have copied the loader's lock as held, and the thread that held it does not exist in the
 * child.
 *
 * dlclose: the page with the loader's description of an object is watched (blocks_watch), and the
 * free of the description removes the object at once. Objects of other namespaces (dlmopen) are not
 * in the table.
 */
#ifndef MEMCTX_LOADED_H
#define MEMCTX_LOADED_H

#include "os/os.h"
#include "path/cfi.h"

struct loaded_range { /* a part of an object that is mapped in one piece */
    uintptr_t start, end;
    const void *link_map;
    const void *eh_frame_header; /* of the whole object; NULL: it has none */
};

INTERNAL struct lock loaded_lock; /* held while the table is brought up to date */

/* True when glibc lacks _dl_find_object, so that look-ups use the table. */
bool loaded_is_used(void);
/* Finds the part of an object that holds the address. False: the table has no such part. */
bool loaded_find(uintptr_t pc, struct loaded_range *range);
/* Called when an address was not found. Brings the table up to date if that is safe in this thread;
 * otherwise asks the control thread to bring the table up to date. True: the caller has to search
 * once more, because the table may have changed. False: the table has not changed, or is not
 * used. */
bool loaded_missed(void);
/* For the constructor and the control thread: brings the table up to date if an address was not
 * found since the last time, or if there is no table yet. True: paths that ended at an unknown
 * address may be whole now. */
bool loaded_look(void);
/* Called by any thread when the loader has freed its description of an object. Removes the
 * object. */
void loaded_closed(const void *link_map);
void loaded_fork_child(void);

/* Brings the table up to date whether it is used or not. True: the table has changed. False: it has
 * not changed, another thread brings it up to date at this moment, or a fork forbids it. Also for
 * tests. */
bool loaded_update(void);

#endif
