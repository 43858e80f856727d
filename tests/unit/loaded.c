/* SPDX-License-Identifier: MIT */
/* Tests of path/loaded.c, the table of loaded objects for an older glibc, held against the loader
 * of this one. */
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <link.h>
#include <string.h>

#include "path/loaded.h"

static unsigned objects, segments;

/* Compares what the table says of an object's segments with what _dl_find_object says. */
static int compare_object(struct dl_phdr_info *info, size_t size, void *context) {
    (void)size, (void)context;
    objects++;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        if (segment->p_type != PT_LOAD || !(segment->p_flags & PF_X))
            continue;
        uintptr_t first = info->dlpi_addr + segment->p_vaddr;
        uintptr_t places[] = {first, first + segment->p_memsz / 2, first + segment->p_memsz - 1};
        for (unsigned k = 0; k < sizeof places / sizeof places[0]; k++) {
            struct dl_find_object found;
            struct loaded_range range;
            cr_assert_eq(_dl_find_object((void *)places[k], &found), 0);
            cr_assert(loaded_find(places[k], &range), "%s is not in the table", info->dlpi_name);
            cr_assert_eq(range.link_map, found.dlfo_link_map, "%s", info->dlpi_name);
            cr_assert_eq(range.eh_frame_header, found.dlfo_eh_frame, "%s", info->dlpi_name);
            cr_assert(range.start <= places[k] && places[k] < range.end);
            cr_assert_leq(range.end, align_up((uintptr_t)found.dlfo_map_end, OS_PAGE_BYTES));
            segments++;
        }
    }
    return 0;
}

Test(loaded, the_table_agrees_with_the_loader) {
    loaded_update();
    dl_iterate_phdr(compare_object, NULL);
    cr_assert_gt(objects, 4);
    cr_assert_geq(segments, 3 * 4);
    struct loaded_range range;
    cr_assert_not(loaded_find((uintptr_t)&range, &range), "the stack is no object");
    cr_assert_not(loaded_find(16, &range));
}

Test(loaded, nothing_is_read_twice_when_the_loader_did_nothing) {
    loaded_update();
    cr_assert_not(loaded_update());
}

/* A library that this program does not have, in Debian's libc6. */
#define LIBRARY "libthread_db.so.1"

Test(loaded, a_library_comes_and_goes) {
    struct loaded_range range, again;
    loaded_update();
    for (int round = 0; round < 3; round++) {
        void *library = dlopen(LIBRARY, RTLD_LAZY | RTLD_LOCAL);
        cr_assert(library, "%s", dlerror());
        uintptr_t code = (uintptr_t)dlsym(library, "td_init");
        cr_assert(code);
        cr_assert_not(loaded_find(code, &range),
                      "not known before the table is brought up to date");
        cr_assert(loaded_update());
        cr_assert(loaded_find(code, &range));
        cr_assert_str_eq(strrchr(((const struct link_map *)range.link_map)->l_name, '/') + 1,
                         LIBRARY);
        dlclose(library);
        if (round) /* the free of the description is told; else the next look has to notice */
            loaded_closed(range.link_map);
        else
            cr_assert(loaded_update(), "a closed library changes the table");
        cr_assert_not(loaded_find(code, &again), "closed code must not be found");
        loaded_update();
    }
}

/* The loader does not tell this namespace of objects in another one. */
Test(loaded, other_namespaces_change_nothing) {
    struct loaded_range range;
    loaded_update();
    void *library = dlmopen(LM_ID_NEWLM, LIBRARY, RTLD_LAZY);
    cr_assert(library, "%s", dlerror());
    uintptr_t code = (uintptr_t)dlsym(library, "td_init");
    loaded_update();
    cr_assert_not(loaded_find(code, &range));
}
