/* SPDX-License-Identifier: MIT */
/* draw.c - draws the screen of `memctx top`. */
#include <curses.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#include "base/clock.h"
#include "live/frame.h"
#include "live/replay.h"
#include "live/ui.h"
#include "model/frames.h"

#define TOO_SMALL "the terminal is too small"
#define ROWS_LEAST 1
#define COLUMNS_LEAST 40
#define SPARK_LEVELS 8
#define FIGURE(value, units, sign) frame_short((char[FRAME_NUMBER_BYTES]){0}, value, units, sign)
#define BYTES(value) FIGURE(value, true, false)
#define GROWTH(value) FIGURE(value, true, true) /* bytes with a sign */
#define COUNT(value) FIGURE(value, false, false)

static const struct column {
    const char *name, *difference;
    int width;
    bool units, sign;
} columns[RATES_COLUMNS] = {
    [RATES_LIVE] = {"LIVE", "+LIVE", 8, true, false},
    [RATES_GROWTH] = {"GROWTH/S", "GROWTH/S", 10, true, true},
    [RATES_WASTE] = {"WASTE", "+WASTE", 8, true, false},
    [RATES_ALLOCS] = {"ALLOCS/S", "+ALLOCS", 10, false, false},
    [RATES_CHUNKS] = {"CHUNKS", "+CHUNKS", 9, false, false},
};

static const char *const help_lines[] = {
    "Up Down j k PgUp PgDn Home End   go to another line",
    "v, Tab       the tree of call paths, or the flat list",
    "1 2 3 4 5    sort by live, growth/s, waste, allocs/s, chunks",
    "< >          sort by the column to the left, to the right",
    "Enter        open or fold the line; in the flat list: show the whole path",
    "Right Left   open, fold the line; + - with all lines below it",
    "/            search: only call paths with a frame that matches",
    "Esc          end the search",
    "t            split the selected line by thread",
    "T            all threads, each with its call paths; Enter shows more call paths",
    "m            make the present figures the base",
    "d            show the differences to the base",
    "p, Space     pause, and go on",
    "[ ] { }      in a recording: back or on by one moment, or by a tenth of them.",
    "             If a process records, [ shows its recording, b the process again",
    "b            back to the list of processes",
    "?            this text",
    "q            quit",
    "",
    "LIVE   bytes of chunks that are alive",
    "WASTE  bytes held beyond LIVE: rounding and free blocks",
};

/* --- text ------------------------------------------------------------------------------------ */

/* Writes text into at most `width` columns. Characters that the terminal cannot show become '?'. */
static void put(int y, int x, int width, const char *text, bool utf8) {
    char line[1024];
    size_t used = 0;
    int left = width;
    mbstate_t state = {0};
    for (const char *at = text; *at != '\0' && used + MB_LEN_MAX < sizeof line;) {
        wchar_t wide = L'?';
        size_t bytes = utf8 ? mbrtowc(&wide, at, MB_LEN_MAX, &state) : 1;
        int columns_taken = utf8 && bytes <= MB_LEN_MAX ? wcwidth(wide) : 1;
        bool plain = !utf8 && (unsigned char)*at < 0x80;
        if (bytes == 0 || bytes > MB_LEN_MAX || columns_taken < 0 || (!utf8 && !plain)) {
            state = (mbstate_t){0};
            bytes = bytes == 0 || bytes > MB_LEN_MAX ? 1 : bytes;
            columns_taken = 1;
            if (left < 1)
                break;
            line[used++] = '?';
        } else {
            if (columns_taken > left)
                break;
            memcpy(line + used, at, bytes);
            used += bytes;
        }
        at += bytes;
        left -= columns_taken;
    }
    if (width > 0)
        mvaddnstr(y, x, line, (int)used);
}

/* Draws a sparkline. `column`: place of the cursor of a time axis; -1: no cursor. */
static void put_spark(const struct ui *ui, int y, int x, int width,
                      const struct rates_history *history, int column) {
    static const char *const blocks[SPARK_LEVELS] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    static const char *const letters[SPARK_LEVELS] = {"_", ".", ":", "-", "=", "+", "*", "#"};
    int levels[RATES_HISTORY];
    if (width > RATES_HISTORY)
        width = RATES_HISTORY;
    if (!history || width < 1)
        return;
    rates_levels(history, levels, (size_t)width, SPARK_LEVELS);
    move(y, x);
    for (int i = 0; i < width; i++) {
        if (i == column)
            attron(A_REVERSE);
        addstr(levels[i] < 0 ? " " : (ui->utf8 ? blocks : letters)[levels[i]]);
        attroff(A_REVERSE);
    }
}

static int history_width(void) {
    /* 7 columns for the name before the sparkline, 18 for the range behind it */
    int width = COLS - 7 - 18;
    return width > RATES_HISTORY ? RATES_HISTORY : width;
}

/* Draws a sparkline with its least and its highest value. */
static void put_history(const struct ui *ui, int y, const char *name,
                        const struct rates_history *history) {
    int64_t low = INT64_MAX, high = INT64_MIN, value;
    int width = history_width();
    put(y, 0, COLS, name, ui->utf8);
    for (int back = 0; history && back < width; back++) {
        if ((value = rates_past(history, (size_t)back)) == WIRE_UNKNOWN)
            continue;
        low = value < low ? value : low;
        high = value > high ? value : high;
    }
    if (low > high)
        return;
    bool replays = ui->watch->replay && width > 0;
    put_spark(ui, y, 7, width, history,
              replays ? (int)replay_column(ui->watch, (size_t)width) : -1);
    char range[40];
    snprintf(range, sizeof range, " %s to %s", BYTES(low), BYTES(high));
    put(y, 7 + width, COLS - 7 - width, range, ui->utf8);
}

size_t ui_page(void) {
    int rows = LINES - UI_HEAD - 1;
    return rows > 0 ? (size_t)rows : 1;
}

/* Returns the history of the selected line; NULL: it has none. */
static const struct rates_history *history_of_line(const struct ui *ui) {
    for (size_t i = 0; i < UI_RINGS; i++) {
        const struct ui_ring *ring = &ui->rings[i];
        if (ring->used && ring->id == ui->selected_id && ring->kind == ui->selected_kind &&
            ring->tree == ui->options.tree)
            return &ring->history;
    }
    return NULL;
}

/* --- one process ----------------------------------------------------------------------------- */

/* Makes the time axis of a recording again if the selected line or the width has changed. */
static void make_axis(struct ui *ui) {
    struct ui_axis *axis = &ui->axis;
    size_t width = history_width() > 0 ? (size_t)history_width() : 1;
    bool has_line = ui->rows.count > 0 && ui->selected_kind != ROWS_REST;
    if (axis->width != width)
        replay_fill_history(ui->watch, NULL, false, &axis->total, width);
    else if (axis->id == ui->selected_id && axis->kind == ui->selected_kind &&
             axis->tree == ui->options.tree)
        return;
    axis->width = width;
    axis->id = ui->selected_id;
    axis->kind = ui->selected_kind;
    axis->tree = ui->options.tree;
    axis->line = (struct rates_history){0};
    if (has_line)
        replay_fill_history(ui->watch, &ui->rows.list[ui->selected], axis->tree, &axis->line,
                            width);
}

static void draw_replay_head(const struct ui *ui, const char *more) {
    const struct watch *watch = ui->watch;
    char line[400];
    snprintf(line, sizeof line, "memctx top: moment %zu of %zu, %s, up %.1f s%s; %s (%s)",
             watch->replay->at + 1, replay_count(watch),
             frame_clock((char[FRAME_CLOCK_BYTES]){0}, watch), watch->totals.uptime_s, more,
             watch->model.source, watch->program);
    put(0, 0, COLS, line, ui->utf8);
}

static void draw_head(struct ui *ui) {
    const struct watch *watch = ui->watch;
    const struct watch_totals *totals = &watch->totals;
    char line[400], more[160] = "";
    size_t used = 0;
    if (ui->paused != (watch->replay != NULL))
        used += (size_t)snprintf(more, sizeof more, ui->paused ? "  PAUSED" : "  PLAYS");
    if (ui->options.difference && watch->replay)
        used += (size_t)snprintf(more + used, sizeof more - used, "  DIFFERENCES to %.1f s",
                                 watch->base.uptime_s);
    else if (ui->options.difference)
        used += (size_t)snprintf(more + used, sizeof more - used, "  DIFFERENCES to %.0f s ago",
                                 totals->uptime_s - watch->base.uptime_s);
    if (ui->has_regex)
        snprintf(more + used, sizeof more - used, "  /%s", ui->search);
    snprintf(line, sizeof line, "memctx top: pid %d (%s), up %.0f s%s%s", (int)watch->facts.pid,
             watch->program, totals->uptime_s, watch->client.outside ? ", from outside" : "", more);
    attron(A_BOLD);
    if (watch->replay)
        draw_replay_head(ui, more);
    else
        put(0, 0, COLS, line, ui->utf8);
    attroff(A_BOLD);
    snprintf(line, sizeof line,
             "resident %s  live %s in %s chunks  growth %s/s  allocs %s/s  paths %s",
             BYTES(totals->rss_bytes), BYTES(totals->live_bytes), COUNT(totals->live_chunks),
             GROWTH(totals->growth), COUNT(totals->alloc_rate), COUNT(totals->contexts));
    put(1, 0, COLS, line, ui->utf8);
    if (watch->replay)
        make_axis(ui);
    put_history(ui, 2, "total", watch->replay ? &ui->axis.total : &watch->history);
    if (!ui_lists_threads(ui))
        put_history(ui, 3, "line", watch->replay ? &ui->axis.line : history_of_line(ui));
}

static void draw_titles(const struct ui *ui) {
    char line[200];
    int used = 0;
    bool threads = ui_lists_threads(ui), difference = ui->options.difference && !threads;
    for (int i = 0; i < RATES_COLUMNS; i++) {
        const struct column *column = &columns[i];
        const char *name = difference ? column->difference : column->name;
        char title[24];
        snprintf(title, sizeof title, "%s%s", (int)ui->options.sort == i ? ">" : "", name);
        used += snprintf(line + used, sizeof line - (size_t)used, "%*s", column->width, title);
    }
    snprintf(line + used, sizeof line - (size_t)used, " %s",
             threads            ? "THREADS AND THEIR CALL PATHS"
             : ui->options.tree ? "TREE OF CALL PATHS"
                                : "CALL PATH");
    attron(A_REVERSE);
    mvhline(UI_HEAD - 1, 0, ' ', COLS);
    put(UI_HEAD - 1, 0, COLS, line, ui->utf8);
    attroff(A_REVERSE);
}

static int draw_numbers(const struct ui *ui, int y, const int64_t *values, bool difference) {
    int x = 0;
    for (int i = 0; i < RATES_COLUMNS; i++) {
        const struct column *column = &columns[i];
        char text[40];
        snprintf(text, sizeof text, "%*s", column->width,
                 FIGURE(values[i], column->units, column->sign || difference));
        bool colored =
            ui->colors && i == RATES_GROWTH && values[i] != 0 && values[i] != WIRE_UNKNOWN;
        if (colored)
            attron(COLOR_PAIR(values[i] > 0 ? 1 : 2));
        put(y, x, COLS - x, text, ui->utf8);
        if (colored)
            attroff(COLOR_PAIR(values[i] > 0 ? 1 : 2));
        x += column->width;
    }
    return x + 1;
}

/* Draws the figures themselves, not differences from the base. */
static int draw_sums(const struct ui *ui, int y, const struct rates_sums *sums) {
    int64_t values[RATES_COLUMNS];
    for (int i = 0; i < RATES_COLUMNS; i++)
        values[i] = rates_figure(sums, (enum rates_column)i);
    return draw_numbers(ui, y, values, false);
}

static void draw_line(const struct ui *ui, int y, size_t at) {
    static const char marks[] = {[ROWS_LEAF] = ' ', [ROWS_OPEN] = '-', [ROWS_FOLDED] = '+'};
    const struct rows_line *line = &ui->rows.list[at];
    const struct watch *watch = ui->watch;
    int64_t values[RATES_COLUMNS];
    int x = 0;
    bool tree = ui->options.tree;
    for (int i = 0; i < RATES_COLUMNS; i++)
        values[i] =
            rows_value(&watch->rates, line, tree, (enum rates_column)i, ui->options.difference);
    if (at == ui->selected) {
        attron(A_REVERSE);
        mvhline(y, 0, ' ', COLS);
    }
    if (line->kind != ROWS_REST)
        x = draw_numbers(ui, y, values, ui->options.difference);
    char *name = rows_name(&watch->model, line, tree), *shown;
    int indent = tree ? 2 * line->depth : 0;
    if (indent > (COLS - x) / 2)
        indent = (COLS - x) / 2;
    shown = tree ? cli_format("%*s%c %s", indent, "", marks[line->fold], name) : cli_copy(name);
    put(y, x, COLS - x, shown, ui->utf8);
    attroff(A_REVERSE);
    free(shown);
    free(name);
}

/* Draws the threads of the selected line, from line `y` on. Returns the line behind them. */
static int draw_threads(const struct ui *ui, int y) {
    const struct ui_threads *threads = &ui->threads;
    char text[120];
    if (ui->by_thread != UI_THREADS_LINE || threads->id != ui->selected_id)
        return y;
    for (size_t i = 0; i < threads->read.list_count && y < LINES - 1; i++, y++) {
        const struct threads_line *line = &threads->read.list[i];
        int x = draw_sums(ui, y, &line->sums);
        snprintf(text, sizeof text, "    %s", line->name);
        put(y, x, COLS - x, text, ui->utf8);
    }
    if (threads->leaves > UI_LEAVES && y < LINES - 1) {
        snprintf(text, sizeof text, "    threads of the %d largest of %zu call paths", UI_LEAVES,
                 threads->leaves);
        put(y++, 0, COLS, text, ui->utf8);
    }
    return y;
}

/* Draws the list of all threads. */
static void draw_all_threads(const struct ui *ui) {
    const struct threads *read = &ui->threads.read;
    int y = UI_HEAD;
    for (size_t i = ui->threads.first; i < read->list_count && y < LINES - 1; i++, y++) {
        const struct threads_line *line = &read->list[i];
        const struct rows_line path = {.context = line->context, .frames = 1};
        if (i == ui->threads.selected) {
            attron(A_REVERSE);
            mvhline(y, 0, ' ', COLS);
        }
        if (line->is_thread)
            attron(A_BOLD);
        int x = draw_sums(ui, y, &line->sums);
        char *name =
            line->is_thread ? cli_copy(line->name) : rows_name(&ui->watch->model, &path, false);
        char *more = line->left_out > 0 ? cli_format(", %zu more path%s", line->left_out,
                                                     line->left_out == 1 ? "" : "s")
                                        : cli_copy("");
        char *shown = cli_format("%s%s%s", line->is_thread ? "" : "  ", name, more);
        put(y, x, COLS - x, shown, ui->utf8);
        attroff(A_REVERSE | A_BOLD);
        free(shown);
        free(more);
        free(name);
    }
}

/* Draws the frames of the selected line of the flat list, from line `y` on, innermost first.
 * Returns the line behind them. */
static int draw_path(const struct ui *ui, int y, const struct rows_line *line) {
    struct frames_path path;
    if (!ui->whole_path || ui->options.tree || line->kind == ROWS_REST)
        return y;
    frames_make_path(&path, &ui->watch->model, line->context, -1);
    for (size_t i = 0; i < path.count && y < LINES - 1; i++) {
        char *text = cli_format("    %s %s", i > 0 ? "<" : " ", path.steps[i]);
        put(y++, 0, COLS, text, ui->utf8);
        free(text);
    }
    frames_free_path(&path);
    return y;
}

static void draw_rows(const struct ui *ui) {
    int y = UI_HEAD;
    if (ui_lists_threads(ui) && ui->rows.count > 0) {
        draw_all_threads(ui);
        return;
    }
    for (size_t i = ui->first; i < ui->rows.count && y < LINES - 1; i++) {
        draw_line(ui, y++, i);
        if (i != ui->selected)
            continue;
        y = draw_threads(ui, y);
        y = draw_path(ui, y, &ui->rows.list[i]);
    }
    if (ui->rows.count == 0 && ui->watch->loaded)
        put(y, 0, COLS,
            ui->has_regex ? "no call path matches; Esc ends the search"
                          : "no call path has allocated anything yet",
            ui->utf8);
}

/* --- several processes ----------------------------------------------------------------------- */

static void draw_processes(const struct ui *ui) {
    char line[400];
    size_t page = ui_page(), first = ui->chosen >= page ? ui->chosen - page + 1 : 0;
    snprintf(line, sizeof line, "memctx top: %zu processes%s", ui->herd->count,
             ui->paused ? "  PAUSED" : "");
    attron(A_BOLD);
    put(0, 0, COLS, line, ui->utf8);
    attroff(A_BOLD);
    snprintf(line, sizeof line, "%8s %8s %8s %9s %9s %8s %s", "PID", "RESIDENT", "LIVE", "GROWTH/S",
             "ALLOCS/S", "PATHS", "PROGRAM");
    attron(A_REVERSE);
    mvhline(UI_HEAD - 1, 0, ' ', COLS);
    put(UI_HEAD - 1, 0, COLS, line, ui->utf8);
    attroff(A_REVERSE);
    for (size_t i = first; i < ui->herd->count && i < first + page; i++) {
        const struct watch *watch = ui->herd->watches[i];
        const struct watch_totals *totals = &watch->totals;
        if (watch->state == WATCH_RUNS)
            snprintf(line, sizeof line, "%8d %8s %8s %9s %9s %8s %s", (int)watch->facts.pid,
                     BYTES(totals->rss_bytes), BYTES(totals->live_bytes), GROWTH(totals->growth),
                     COUNT(totals->alloc_rate), COUNT(totals->contexts), watch->program);
        else
            snprintf(line, sizeof line, "%8d %.380s", (int)watch->facts.pid, watch->how);
        if (i == ui->chosen)
            attron(A_REVERSE);
        mvhline(UI_HEAD + (int)(i - first), 0, ' ', COLS);
        put(UI_HEAD + (int)(i - first), 0, COLS, line, ui->utf8);
        attroff(A_REVERSE);
    }
    if (ui->herd->count == 0)
        put(UI_HEAD, 0, COLS, "no process of this user runs with libmemctx.so", ui->utf8);
}

/* --- the whole screen ------------------------------------------------------------------------ */

static void draw_foot(const struct ui *ui) {
    char line[420];
    const struct watch *watch = ui->watch;
    if (ui->typing)
        snprintf(line, sizeof line, "/%s_", ui->typed);
    else if (ui->message[0] != '\0')
        snprintf(line, sizeof line, "%s", ui->message);
    else if (watch && watch->state == WATCH_ENDED)
        snprintf(line, sizeof line, "%.400s; q quits", watch->how);
    else if (watch && watch->state == WATCH_SILENT)
        snprintf(line, sizeof line, "no answer: %.400s", watch->how);
    else if (watch && watch_not_loaded(watch) > 0)
        snprintf(line, sizeof line, "new call paths with %s are not loaded yet",
                 BYTES(watch_not_loaded(watch)));
    else if (watch && watch->replay)
        snprintf(line, sizeof line,
                 "? keys  q quit  %s[ ] { } move  p play  v tree  1-5 sort  / find  m d diff",
                 ui->now ? "b now  " : "");
    else
        snprintf(line, sizeof line, "%s",
                 watch
                     ? "? keys  q quit  v tree  1-5 sort  / search  t T threads  m d diff  p pause"
                     : "? keys  q quit  Enter goes into the process");
    bool alarming = watch && !ui->typing && ui->message[0] == '\0' && watch->state >= WATCH_SILENT;
    if (alarming)
        attron(A_BOLD);
    put(LINES - 1, 0, COLS - 1, line, ui->utf8); /* the last cell would scroll some terminals */
    attroff(A_BOLD);
}

static void draw_help(const struct ui *ui) {
    int count = (int)(sizeof help_lines / sizeof help_lines[0]);
    for (int i = 0; i < count && i < LINES - 1; i++)
        put(i, 0, COLS, help_lines[i], ui->utf8);
    put(LINES - 1, 0, COLS - 1, "any key goes back", ui->utf8);
}

void ui_draw(struct ui *ui) {
    erase();
    if (LINES < UI_HEAD + ROWS_LEAST + 1 || COLS < COLUMNS_LEAST) {
        put(0, 0, COLS, TOO_SMALL, ui->utf8);
    } else if (ui->help) {
        draw_help(ui);
    } else if (ui->watch) {
        draw_head(ui);
        draw_titles(ui);
        draw_rows(ui);
        draw_foot(ui);
    } else {
        draw_processes(ui);
        draw_foot(ui);
    }
    refresh();
}
