/* SPDX-License-Identifier: MIT */
/*
 * causes.c - programs in which one cause makes several call paths hold memory, or several causes.
 *
 *     causes sessions   1 of 50 sessions stays; each has four chunks, made in four functions
 *     causes requests   parts of requests, made below one function, are never freed
 *     causes buffers    buffers stay; each has a small header beside it
 *     causes frames     frames stay; each owns two buffers, made in one function
 *     causes titles     buffers stay, too, and of seven calls, three keep a title
 *     causes main       main itself makes the chunks of orders, of which 1 in 50 stays
 *     causes two        two independent containers grow
 *     causes shared     two functions keep 1 of 500 small chunks each, in the same pages
 *
 * It prints "look" and waits for a line, as planted.cc does.
 */
#include "looks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NOINLINE __attribute__((noinline))

static void *volatile kept;

NOINLINE static void *xmalloc(size_t bytes) {
    void *chunk = malloc(bytes);
    if (!chunk)
        abort();
    memset(chunk, 1, bytes);
    return chunk;
}

NOINLINE static void *body_parse(void) {
    char *body = xmalloc(700);
    body[0] = 'b';
    return body;
}

/* --- sessions -------------------------------------------------------------------------------- */

struct session {
    char *name, *buffer, *cookie;
    char rest[200];
};

NOINLINE static char *name_make(void) {
    char *name = xmalloc(120);
    name[0] = 'n';
    return name;
}

NOINLINE static char *buffer_make(void) {
    char *buffer = xmalloc(400);
    buffer[0] = 'b';
    return buffer;
}

NOINLINE static char *cookie_make(void) {
    char *cookie = malloc(64);
    memset(cookie, 'c', 64);
    return cookie;
}

NOINLINE static struct session *session_open(void) {
    struct session *session = xmalloc(sizeof *session);
    session->name = name_make();
    session->buffer = buffer_make();
    session->cookie = cookie_make();
    return session;
}

static void sessions(void) {
    enum { COUNT = 100000 };
    static struct session *all[COUNT];
    for (int i = 0; i < COUNT; i++)
        all[i] = session_open();
    for (int i = 0; i < COUNT; i++) {
        if (i % 50 == 0)
            continue;
        free(all[i]->name);
        free(all[i]->buffer);
        free(all[i]->cookie);
        free(all[i]);
    }
    look();
    /* If a trim found this thread busy, the thread gives its part back with its next malloc. */
    for (int i = 0; i < 1000; i++)
        kept = body_parse();
    look();
}

/* --- requests -------------------------------------------------------------------------------- */

NOINLINE static void *header_parse(void) {
    char *header = strdup("Content-Type: text/plain; charset=utf-8; and more of it, and more");
    header[0] = 'c';
    return header;
}

NOINLINE static void *route_find(void) {
    char *route = calloc(1, 300);
    route[0] = 'r';
    return route;
}

NOINLINE static void request_handle(void) {
    kept = header_parse();
    kept = body_parse();
    kept = route_find();
}

NOINLINE static void requests_serve(int count) {
    for (int i = 0; i < count; i++)
        request_handle();
}

static void requests(void) {
    for (int round = 0; round < 4; round++) {
        requests_serve(20000);
        look();
    }
}

/* --- buffers with headers -------------------------------------------------------------------- */

NOINLINE static void *header_make(void) {
    char *header = malloc(40);
    header[0] = 'h';
    return header;
}

NOINLINE static void *data_make(void) {
    char *data = xmalloc(6000);
    data[0] = 'd';
    return data;
}

NOINLINE static void picture_load(void) {
    kept = header_make();
    kept = data_make();
}

NOINLINE static void pictures_show(int count) {
    for (int i = 0; i < count; i++)
        picture_load();
}

static void buffers(void) {
    for (int round = 0; round < 4; round++) {
        pictures_show(4000);
        look();
    }
}

/* --- frames that own two buffers ------------------------------------------------------------- */

struct frame {
    char *left, *right;
    char rest[32];
};

NOINLINE static char *plane_make(void) {
    char *plane = xmalloc(3000);
    plane[0] = 'p';
    return plane;
}

NOINLINE static struct frame *frame_open(void) {
    struct frame *frame = xmalloc(sizeof *frame);
    frame->left = plane_make();
    frame->right = plane_make();
    return frame;
}

NOINLINE static void frames_play(int count) {
    for (int i = 0; i < count; i++)
        kept = frame_open();
}

static void frames(void) {
    for (int round = 0; round < 4; round++) {
        frames_play(2000);
        look();
    }
}

NOINLINE static void show_title(int number) {
    kept = number % 7 < 3 ? xmalloc(60) : kept;
    kept = plane_make();
    kept = plane_make();
}

static void titles(void) {
    for (int round = 0; round < 4; round++) {
        for (int i = 0; i < 2000; i++)
            show_title(i);
        look();
    }
}

/* --- two causes ------------------------------------------------------------------------------ */

NOINLINE static void *cache_fill(int round) {
    char *entry = xmalloc(500);
    entry[0] = (char)round;
    return entry;
}

NOINLINE static void *log_keep(int round) {
    char *line = malloc(300);
    line[0] = (char)round;
    return line;
}

/* --- two functions whose chunks stand in the same pages --------------------------------------- */

NOINLINE static void *name_keep(void) {
    char *name = xmalloc(48);
    name[0] = 'n';
    return name;
}

NOINLINE static void *label_keep(void) {
    char *label = xmalloc(48);
    label[0] = 'l';
    return label;
}

/* --- cases in main itself: no other function of the program is common to all their paths ---- */

struct order {
    char *customer, *items[2];
    char rest[300];
};

enum { ORDERS = 60000, PASSING = 1000000 };

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*run)(void);
    } cases[] = {{"sessions", sessions},
                 {"requests", requests},
                 {"buffers", buffers},
                 {"frames", frames},
                 {"titles", titles}};
    const char *what = argc > 1 ? argv[1] : "";
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (strcmp(what, cases[i].name) == 0) {
            cases[i].run();
            return 0;
        }
    }
    if (strcmp(what, "main") == 0) {
        static struct order *all[ORDERS];
        for (int i = 0; i < ORDERS; i++) {
            all[i] = xmalloc(sizeof *all[i]);
            all[i]->customer = xmalloc(200);
            for (int k = 0; k < 2; k++)
                all[i]->items[k] = xmalloc(150);
        }
        for (int i = 0; i < ORDERS; i++) {
            if (i % 50 == 0)
                continue;
            free(all[i]->customer);
            free(all[i]->items[0]);
            free(all[i]->items[1]);
            free(all[i]);
        }
        look();
        return 0;
    }
    if (strcmp(what, "two") == 0) {
        for (int round = 0; round < 4; round++) {
            for (int i = 0; i < 30000; i++)
                kept = cache_fill(round);
            for (int i = 0; i < 40000; i++)
                kept = log_keep(round);
            look();
        }
        return 0;
    }
    if (strcmp(what, "shared") == 0) {
        static void *passing[PASSING];
        for (int i = 0; i < PASSING; i++) {
            passing[i] = xmalloc(48);
            kept = i % 500 == 0 ? name_keep() : i % 500 == 7 ? label_keep() : kept;
        }
        for (int i = 0; i < PASSING; i++)
            free(passing[i]);
        look();
        return 0;
    }
    fprintf(stderr, "causes: no such case\n");
    return 2;
}
