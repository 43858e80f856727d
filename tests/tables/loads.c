/* SPDX-License-Identifier: MIT */
/*
 * loads - loads one library after another (DIRECTORY/0.so, 1.so ...), lets each allocate at its
 * twenty sites, frees all but one chunk in forty and unloads the library. The program stands still
 * after each third of them. With "same" as third argument it loads 0.so each time.
 */
#include "books.h"

#include <dlfcn.h>

enum { PLUG_SITES = 20 };

static struct books books;

static FRAME void load_one(const char *directory, unsigned number, bool same) {
    char path[200];
    struct chunk chunks[PLUG_SITES];
    snprintf(path, sizeof path, "%s/%u.so", directory, same ? 0 : number);
    void *library = dlopen(path, RTLD_NOW);
    if (!library)
        die(dlerror());
    void *(*const *sites)(void) = dlsym(library, "plug_sites");
    if (!sites)
        die("no table of sites");
    for (unsigned i = 0; i < PLUG_SITES; i++) {
        chunks[i] = (struct chunk){sites[i](), 40 + i, 0, (uint16_t)i};
        book_made(&books, &chunks[i]);
    }
    for (unsigned i = 0; i < PLUG_SITES; i++)
        if (number % 2 == 0 || i != number / 2 % PLUG_SITES)
            chunk_free(&books, &chunks[i]);
    dlclose(library);
}

int main(int argc, char **argv) {
    static char names[PLUG_SITES][16];
    char answer[64];
    unsigned count = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : 0;
    bool same = argc > 3 && strcmp(argv[3], "same") == 0;
    if (count < 3)
        die("usage: loads DIRECTORY COUNT [same]");
    phase_names[0] = "load_one";
    for (unsigned i = 0; i < PLUG_SITES; i++) {
        snprintf(names[i], sizeof names[i], "plug_%u", i);
        site_names[i] = names[i];
    }
    if (!stand(&books, answer, sizeof answer))
        return 0;
    for (unsigned i = 0; i < count; i++) {
        load_one(argv[1], i, same);
        if ((i + 1) % (count / 3) == 0 && !stand(&books, answer, sizeof answer))
            return 0;
    }
    return 0;
}
