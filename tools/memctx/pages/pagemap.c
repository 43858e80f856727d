/* SPDX-License-Identifier: MIT */
/* pagemap.c - draws the map of pages in the terminal. */
#include "pages/pagemap.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/terminal.h"

#define ADDRESS_COLUMNS 16
#define COLUMNS_MAX 400

static size_t find_columns(void) {
    const char *text = getenv("COLUMNS");
    long columns = text ? strtol(text, NULL, 10) : 0;
    columns = columns > 0 ? columns : terminal_columns();
    columns = columns > COLUMNS_MAX ? COLUMNS_MAX : columns;
    return columns > ADDRESS_COLUMNS + 8 ? (size_t)columns - ADDRESS_COLUMNS : 8;
}

struct sum {
    int64_t touched, alive;
    bool any; /* some chunk is live */
};

static void add_page(struct sum *sum, const struct wire_page *page) {
    int64_t touched = model_tame((int64_t)page->touched_bytes);
    int64_t alive = model_tame((int64_t)page->live_bytes);
    sum->touched = model_tame(sum->touched + touched);
    sum->alive = model_tame(sum->alive + alive);
    sum->any = sum->any || page->live > 0;
}

/* Returns how many tenths of the touched bytes are live; 10 from 95 % on. */
static int tenths_of(const struct sum *sum) {
    int64_t per_cent = model_share(sum->alive, 100, sum->touched);
    return per_cent >= 95 ? 10 : (int)(per_cent / 10);
}

/* Colours of 256-colour terminals, from orange (empty) to blue (full). */
static const int colors[] = {202, 208, 214, 216, 223, 250, 153, 111, 75, 39, 33};

static void put_cell(const struct sum *sum, bool color) {
    int tenths = tenths_of(sum);
    char letter = !sum->any ? '.' : tenths == 10 ? '#' : (char)('0' + tenths);
    if (color && sum->any)
        printf("\033[30;48;5;%dm%c\033[0m", colors[tenths], letter);
    else
        putchar(letter);
}

void pagemap_print(const struct model *model, bool color, size_t rows) {
    size_t columns = find_columns();
    size_t group = (model->page_count + rows * columns - 1) / (rows * columns);
    group = group > 0 ? group : 1;
    printf(
        "%zu pages, %zu to a character; a digit: tenths of their bytes that are live; #: at least "
        "95 %%; .: no live chunk (kept for the next chunks)\n",
        model->page_count, group);
    for (size_t i = 0, column = 0; i < model->page_count; column++) {
        struct sum sum = {0};
        if (column % columns == 0)
            printf("%s%#14" PRIx64 "  ", column > 0 ? "\n" : "", model->pages[i].start);
        for (size_t k = 0; k < group && i < model->page_count; k++, i++)
            add_page(&sum, &model->pages[i]);
        put_cell(&sum, color);
    }
    printf("\n\n");
}
