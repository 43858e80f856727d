/* SPDX-License-Identifier: MIT */
/* Tests of src/path/loaded.c: the table of loaded objects, which serves where glibc has no
 * _dl_find_object, gives the results of _dl_find_object. */
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <link.h>
#include <string.h>

#include "path/loaded.h"

static unsigned objects, compared;

/* Compares the table's entries of an object's segments with the results of _dl_find_object. */
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
            compared++;
        }
    }
    return 0;
}

Test(loaded, the_table_agrees_with_the_loader) {
    loaded_update();
    dl_iterate_phdr(compare_object, NULL);
    cr_assert_gt(objects, 4);
    cr_assert_geq(compared, 3 * 4, "%u addresses", compared);
    struct loaded_range range;
    cr_assert_not(loaded_find((uintptr_t)&range, &range), "the stack is no object");
    cr_assert_not(loaded_find(16, &range));
}

Test(loaded, nothing_is_read_twice_when_the_loader_did_nothing) {
    loaded_update();
    cr_assert_not(loaded_update());
}

/* A small library of glibc that this program does not load at its start, and a function of it. Not
 * libthread_db: where that is bound at once (Debian 13), it needs functions of a debugger. */
#define LIBRARY "libBrokenLocale.so.1"
#define FUNCTION "__ctype_get_mb_cur_max"

Test(loaded, a_library_comes_and_goes) {
    struct loaded_range range, again;
    loaded_update();
    for (int round = 0; round < 3; round++) {
        void *library = dlopen(LIBRARY, RTLD_LAZY | RTLD_LOCAL);
        cr_assert(library, "%s", dlerror());
        uintptr_t code = (uintptr_t)dlsym(library, FUNCTION);
        cr_assert(code);
        cr_assert_not(loaded_find(code, &range),
                      "not known before the table is brought up to date");
        cr_assert(loaded_update());
        cr_assert(loaded_find(code, &range));
        cr_assert_str_eq(strrchr(((const struct link_map *)range.link_map)->l_name, '/') + 1,
                         LIBRARY);
        dlclose(library);
        if (round) /* loaded_closed tells of the dlclose; in round 0 loaded_update must notice it */
            loaded_closed(range.link_map);
        else
            cr_assert(loaded_update(), "a closed library changes the table");
        cr_assert_not(loaded_find(code, &again), "closed code must not be found");
        loaded_update();
    }
}

/* The table lists only objects of the program's own namespace: dl_iterate_phdr does not show the
 * objects that dlmopen loads. */
Test(loaded, other_namespaces_change_nothing) {
    struct loaded_range range;
    loaded_update();
    void *library = dlmopen(LM_ID_NEWLM, LIBRARY, RTLD_LAZY);
    cr_assert(library, "%s", dlerror());
    uintptr_t code = (uintptr_t)dlsym(library, FUNCTION);
    cr_assert(code);
    loaded_update();
    cr_assert_not(loaded_find(code, &range));
}
