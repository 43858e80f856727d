/* SPDX-License-Identifier: MIT */
/*
 * loads - loads one library after another (DIRECTORY/0.so, 1.so ...), lets each allocate at its
 * twenty sites, frees all but one chunk in forty and unloads the library. The program stands still
 * after each third of them. With "same" as third argument it loads 0.so each time.
 *
 * With "turns" as third argument it calls plug_turn of 0.so on very many paths, closes 0.so and
 * stands still. Then it loads 1.so, calls plug_turn of that library on one path, and stands still.
 * Then it calls plug_turn of 1.so on very many paths, closes 1.so, calls plug_turn of 0.so on one
 * path, and stands still.
 */
#include "books.h"

#include <dlfcn.h>

enum { PLUG_SITES = 20, SITE_TURN = PLUG_SITES, TURNS = 13, TURNS_ONCE = 5 };

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

static void *(*load_turn(const char *directory, unsigned number, void **library))(unsigned,
                                                                                  unsigned) {
    char path[200];
    snprintf(path, sizeof path, "%s/%u.so", directory, number);
    *library = dlopen(path, RTLD_NOW);
    void *(*turn)(unsigned, unsigned) = *library ? dlsym(*library, "plug_turn") : NULL;
    if (!turn)
        die("no plug_turn");
    return turn;
}

static FRAME void *turn_often(const char *directory, unsigned number) {
    struct chunk chunk = {NULL, 40, 0, SITE_TURN};
    void *library;
    void *(*turn)(unsigned, unsigned) = load_turn(directory, number, &library);
    for (unsigned turns = 0; turns < 1U << TURNS; turns++) {
        chunk.pointer = turn(TURNS, turns);
        book_made(&books, &chunk);
        chunk_free(&books, &chunk);
    }
    dlclose(library);
    return (void *)(uintptr_t)turn;
}

/* Keeps the chunk of the single path while the program stands still. */
static FRAME void turn_once(const char *directory, unsigned number, const void *place, char *answer,
                            size_t answer_bytes) {
    struct chunk chunk = {NULL, 40, 0, SITE_TURN};
    void *library;
    void *(*turn)(unsigned, unsigned) = load_turn(directory, number, &library);
    if ((void *)(uintptr_t)turn != place)
        die("the library has other addresses");
    chunk.pointer = turn(TURNS_ONCE, 0);
    book_made(&books, &chunk);
    stand(&books, answer, answer_bytes);
    chunk_free(&books, &chunk);
    dlclose(library);
}

int main(int argc, char **argv) {
    static char names[PLUG_SITES][16];
    bool turns = argc > 3 && strcmp(argv[3], "turns") == 0;
    char answer[64];
    unsigned count = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : 0;
    bool same = argc > 3 && strcmp(argv[3], "same") == 0;
    if (count < 3)
        die("usage: loads DIRECTORY COUNT [same|turns]");
    phase_names[0] = "load_one";
    for (unsigned i = 0; i < PLUG_SITES; i++) {
        snprintf(names[i], sizeof names[i], "plug_%u", i);
        site_names[i] = names[i];
    }
    site_names[SITE_TURN] = "plug_turn";
    if (!stand(&books, answer, sizeof answer))
        return 0;
    if (turns) {
        const void *place = turn_often(argv[1], 0);
        stand(&books, answer, sizeof answer);
        turn_once(argv[1], 1, place, answer, sizeof answer);
        turn_often(argv[1], 1);
        turn_once(argv[1], 0, place, answer, sizeof answer);
        return 0;
    }
    for (unsigned i = 0; i < count; i++) {
        load_one(argv[1], i, same);
        if ((i + 1) % (count / 3) == 0 && !stand(&books, answer, sizeof answer))
            return 0;
    }
    return 0;
}
