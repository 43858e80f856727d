/* SPDX-License-Identifier: MIT */
/*
 * ui.h - the state of the screen, shared by drawing (draw.c), keys (keys.c) and the loop
 * (screen.c).
 */
#ifndef MEMCTX_UI_H
#define MEMCTX_UI_H

#include "live/herd.h"
#include "live/rows.h"
#include "live/threads.h"

#define UI_HEAD 5    /* lines above the rows */
#define UI_RINGS 256 /* lines that have a history */
/* greatest number of contexts of a line for which figures of threads are read */
#define UI_LEAVES 64
#define UI_PATHS 3         /* greatest number of call paths that are listed below a thread */
#define UI_PATHS_WIDE 500  /* greatest number of call paths below a thread that was opened */
#define UI_SEARCH_BYTES 80 /* length of the text of a search, with its final 0 */

/* The live bytes of one line over time. */
struct ui_ring {
    uint32_t id;
    uint8_t kind;
    bool tree, used;
    uint32_t look; /* number of the look that last showed the line */
    struct rates_history history;
};

/* Which figures of threads are shown. */
enum ui_by_thread {
    UI_THREADS_NONE,
    UI_THREADS_LINE, /* the threads of the selected line, below that line */
    UI_THREADS_ALL,  /* a list of all threads, with their call paths */
};

/* The figures of threads that are shown: in the selected line, or of all call paths. */
struct ui_threads {
    struct threads read;
    uint32_t id;   /* id of the context of the line for which `read` was read */
    size_t leaves; /* number of contexts of that line */
    /* in the list of all threads: indices of the selected line and of the first line on the screen
     */
    size_t selected, first;
    uint32_t wide; /* tid of the thread that the user opened; WIRE_NONE: none */
};

/* The time axis of a recording: the totals and the selected line, as wide as the screen. */
struct ui_axis {
    struct rates_history total, line;
    size_t width; /* 0: the axis is not made yet */
    uint32_t id;  /* context id of the line whose history is in `line` */
    uint8_t kind;
    bool tree;
};

struct ui {
    struct herd *herd;
    bool single;         /* one process is shown; there is no list of processes */
    struct watch *watch; /* NULL: the list of processes is shown */
    /* the process whose recording `watch` shows; NULL: `watch` shows no recording */
    struct watch *now;
    struct watch past; /* `watch` points here while it shows the recording of `now` */
    size_t chosen;     /* index of the selected process in the list */
    /* next_s: when the next look is due (clock_now_s) */
    double interval_s, next_s;
    struct rows rows;
    struct rows_options options;
    /* indices in rows.list of the selected line and of the first line on the screen */
    size_t selected, first;
    uint32_t selected_id;
    uint8_t selected_kind;
    enum ui_by_thread by_thread;
    bool paused, help, typing, quit;
    bool whole_path; /* the flat list shows every frame of the selected line */
    /* search: the text of the present search; typed: the text that the user is typing */
    char search[UI_SEARCH_BYTES], typed[UI_SEARCH_BYTES];
    regex_t regex;
    bool has_regex;
    char message[160];
    struct ui_ring rings[UI_RINGS];
    struct ui_axis axis;
    struct ui_threads threads;
    bool utf8, colors;
};

/* draw.c */
void ui_draw(struct ui *ui);
/* Returns how many rows fit on the screen. */
size_t ui_page(void);

/* keys.c */
/* Does what a key stands for, and makes the rows again. */
void ui_key(struct ui *ui, int key);

/* screen.c */
/* Makes the rows again, and keeps the selected line. */
void ui_make_rows(struct ui *ui);
/* Reads the figures of threads, if the screen shows any. */
void ui_ask_threads(struct ui *ui);
/* Returns true if the list of all threads is shown. */
bool ui_lists_threads(const struct ui *ui);

#endif
