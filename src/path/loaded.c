/* SPDX-License-Identifier: MIT */
/*
 * The table of loaded objects; see loaded.h.
 *
 * The table is a list of parts, each one OS page; the list only grows. An entry has a version: odd
 * while the entry is free or being written. A reader copies an entry, and then checks that the
 * version has not changed. Entries are written under loaded_lock; any thread may free one
 * (loaded_closed).
 */
#include "path/loaded.h"
#include "os/libc.h"
#include "os/meta.h"
#include "region/blocks.h"
#include "region/heap.h"

#include <link.h>

struct entry {
    uint32_t version; /* atomic; odd: free */
    /* value of table.pass when dl_iterate_phdr last met the object; under loaded_lock */
    uint32_t seen;
    struct loaded_range range;
};

#define PART_ENTRIES ((OS_PAGE_BYTES - 16) / sizeof(struct entry))
struct part {
    struct part *next; /* atomic */
    uint32_t used;     /* atomic: entries from here on were never used */
    struct entry entries[PART_ENTRIES];
};
_Static_assert(sizeof(struct part) <= OS_PAGE_BYTES, "a part is one OS page");

struct lock loaded_lock START_PAGE = LOCK_INIT(RANK_LOADED);

static struct {
    struct part *parts; /* atomic */
    bool missed;        /* atomic: since the last loaded_look an address was not found */
    bool grown;         /* atomic: the table has changed since loaded_look last returned true */
    bool complete;      /* the table holds all objects as of `adds` and `subs`; under loaded_lock */
    bool forbidden;     /* a fork may have copied the loader's lock as held */
    uint32_t pass;      /* under loaded_lock */
    /* how many objects the loader had ever loaded, and unloaded; under loaded_lock */
    uint64_t adds, subs;
} table START_PAGE;

static bool entry_holds(const struct entry *entry, uintptr_t pc, struct loaded_range *range) {
    uint32_t version = load_acquire(&entry->version);
    if (version & 1 || pc < load_relaxed(&entry->range.start) ||
        pc >= load_relaxed(&entry->range.end))
        return false;
    range->start = load_relaxed(&entry->range.start);
    range->end = load_relaxed(&entry->range.end);
    range->link_map = load_relaxed(&entry->range.link_map);
    range->eh_frame_header = load_relaxed(&entry->range.eh_frame_header);
    fence_acquire();
    return load_relaxed(&entry->version) == version;
}

#define EACH_ENTRY(entry)                                                                          \
    for (struct part *part = load_acquire(&table.parts); part; part = load_acquire(&part->next))   \
        for (struct entry *entry = part->entries,                                                  \
                          *entries_end = entry + load_acquire(&part->used);                        \
             entry < entries_end; entry++)

bool loaded_find(uintptr_t pc, struct loaded_range *range) {
    EACH_ENTRY(entry)
    if (entry_holds(entry, pc, range))
        return true;
    return false;
}

static void entry_free(struct entry *entry) {
    or_release(&entry->version, 1);
}

void loaded_closed(const void *link_map) {
    EACH_ENTRY(entry)
    if (load_relaxed(&entry->range.link_map) == link_map)
        entry_free(entry);
}

/* --- bringing the table up to date, under loaded_lock ---------------------------------------- */

struct look {
    const struct link_map *map; /* the loader's list, from the object that was met last */
    uint64_t adds, subs;
    bool begun, changed;
    /* since the table was last complete, the loader has loaded and unloaded no object */
    bool unchanged;
    bool full; /* there was no place for an entry */
};

/* Returns a free entry; NULL: there is none. If the entry was never used, sets *untouched to the
 * part that holds it, else to NULL. */
static struct entry *free_entry(struct part **untouched) {
    *untouched = NULL;
    EACH_ENTRY(entry)
    if (load_relaxed(&entry->version) & 1)
        return entry;
    for (struct part *part = table.parts; part; part = part->next)
        if (part->used < PART_ENTRIES) {
            *untouched = part;
            return &part->entries[part->used];
        }
    return NULL;
}

/* Notes that the loader still has this range, and adds the range to the table if it is new. */
static void note_range(struct look *look, const struct loaded_range *range) {
    EACH_ENTRY(entry)
    if (!(load_relaxed(&entry->version) & 1) && entry->range.link_map == range->link_map &&
        entry->range.start == range->start) {
        entry->seen = table.pass;
        return;
    }
    struct part *untouched;
    struct entry *entry = free_entry(&untouched);
    if (!entry) {
        look->full = true;
        return;
    }
    uint32_t version = load_relaxed(&entry->version) | 1;
    /* an entry counts as free until all its fields are written */
    store_release(&entry->version, version);
    fence_release();
    store_owner(&entry->range.start, range->start);
    store_owner(&entry->range.end, range->end);
    store_owner(&entry->range.link_map, range->link_map);
    store_owner(&entry->range.eh_frame_header, range->eh_frame_header);
    entry->seen = table.pass;
    store_release(&entry->version, version + 1);
    if (untouched)
        store_release(&untouched->used, untouched->used + 1);
    look->changed = true;
}

/* Returns the loader's description of the object; NULL: not found. The loader's lock is held.
 * dl_iterate_phdr visits the objects in the order of the loader's list, so each search continues
 * where the last search ended. */
static const struct link_map *find_map(struct look *look, const struct dl_phdr_info *info) {
    for (int round = 0; round < 2; round++) {
        for (const struct link_map *map = look->map; map; map = map->l_next)
            if (map->l_addr == info->dlpi_addr && map->l_name == info->dlpi_name) {
                look->map = map;
                return map;
            }
        look->map = _r_debug.r_map;
    }
    return NULL;
}

/* Adds the object's segments to the table. Segments without a gap between them are one range. */
static void note_object(struct look *look, const struct dl_phdr_info *info,
                        const struct link_map *map) {
    struct loaded_range range = {.link_map = map};
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_GNU_EH_FRAME)
            range.eh_frame_header = (const void *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        if (segment->p_type != PT_LOAD)
            continue;
        uintptr_t start = (info->dlpi_addr + segment->p_vaddr) & ~(OS_PAGE_BYTES - 1);
        uintptr_t end =
            align_up(info->dlpi_addr + segment->p_vaddr + segment->p_memsz, OS_PAGE_BYTES);
        if (range.end && start > range.end) {
            note_range(look, &range);
            range.end = 0;
        }
        if (!range.end)
            range.start = start;
        range.end = end;
    }
    if (range.end)
        note_range(look, &range);
}

/* The loader calls this function for each object, while it holds its own lock. An object whose
 * description can be freed is watched before that lock is free again, so no free of the description
 * is missed. */
static int take_object(struct dl_phdr_info *info, size_t size, void *context) {
    struct look *look = context;
    if (!look->begun) {
        bool counted = size >= offsetof(struct dl_phdr_info, dlpi_subs) + sizeof info->dlpi_subs;
        look->begun = true;
        look->adds = info->dlpi_adds;
        look->subs = info->dlpi_subs;
        look->unchanged =
            counted && table.complete && look->adds == table.adds && look->subs == table.subs;
        if (look->unchanged)
            return 1;
    }
    const struct link_map *map = find_map(look, info);
    if (!map)
        return 0;
    note_object(look, info, map);
    struct page *page = segment_page_of(map);
    if (page)
        blocks_watch(page);
    return 0;
}

/* Frees the entries of objects that the last dl_iterate_phdr did not meet. */
static bool drop_unseen(void) {
    bool dropped = false;
    EACH_ENTRY(entry)
    if (!(load_relaxed(&entry->version) & 1) && entry->seen != table.pass) {
        entry_free(entry);
        dropped = true;
    }
    return dropped;
}

/* Adds a part with free entries to the list. False: out of memory. */
static bool add_part(void) {
    struct part *part = meta_alloc(sizeof *part);
    if (!part)
        return false;
    part->next = table.parts;
    store_release(&table.parts, part);
    return true;
}

bool loaded_update(void) {
    bool changed = false;
    struct look look;
    if (table.forbidden || !lock_try(&loaded_lock))
        return false;
    do {
        look = (struct look){.map = _r_debug.r_map};
        table.pass++;
        dl_iterate_phdr(take_object, &look);
        changed |= look.changed;
    } while (look.full && add_part());
    if (!look.unchanged) {
        if (!look.full)
            changed |= drop_unseen();
        table.complete = !look.full;
        table.adds = look.adds;
        table.subs = look.subs;
    }
    if (changed)
        store_release(&table.grown, true);
    lock_release(&loaded_lock);
    return changed;
}

bool loaded_look(void) {
    /* While libc knows one thread only, glibc 2.34 takes its locks without atomic instructions, and
     * the control thread, which libc does not know, must not take them. The allocations of that one
     * thread update the table. */
    bool missed = load_relaxed(&table.missed) && load_relaxed(&heap_global.threads_seen) > 1;
    if (!loaded_is_used() || (load_relaxed(&table.parts) && !missed))
        return false;
    (void)exchange_full(&table.missed, false);
    loaded_update();
    return exchange_relaxed(&table.grown, false);
}

/* In a process with threads, the caller searches again after `missed` is set. If this search fails,
 * too, the control thread changes the table later, and then starts a new generation, which forgets
 * the path that the caller is about to keep. */
bool loaded_missed(void) {
    if (!loaded_is_used() || table.forbidden)
        return false;
    if (!lock_any_is_mine() && load_relaxed(&heap_global.threads_seen) <= 1)
        return loaded_update();
    if (!load_full(&table.missed))
        (void)exchange_full(&table.missed, true);
    return true;
}

void loaded_fork_child(void) {
    if (loaded_is_used() && load_relaxed(&heap_global.threads_seen) > 1)
        table.forbidden = true;
}
