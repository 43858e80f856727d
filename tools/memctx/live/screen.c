/* SPDX-License-Identifier: MIT */
/*
 * screen.c - the terminal and the loop of `memctx top`.
 *
 * Messages to standard error are kept in a file while the screen is open, and written when it is
 * closed.
 */
#include "live/screen.h"

#include <curses.h>
#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <term.h>
#include <unistd.h>

#include "base/clock.h"
#include "formats/render.h"
#include "live/replay.h"
#include "live/ui.h"

static struct {
    bool open;
    SCREEN *screen;
    /* kept_fd: file with the messages for standard error; error_fd: the real standard error */
    int kept_fd, error_fd;
} terminal;

static volatile sig_atomic_t ended_by;  /* signal that ends the command; 0: none came */
static volatile sig_atomic_t must_stop; /* SIGTSTP came */

/* --- the terminal ---------------------------------------------------------------------------- */

void screen_check(void) {
    int error;
    const char *name = getenv("TERM");
    if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO)) {
        cli_die(CLI_USAGE, "standard %s is no terminal; --batch N prints N frames as text",
                isatty(STDIN_FILENO) ? "output" : "input");
    }
    if (!name || name[0] == '\0')
        cli_die(CLI_USAGE, "TERM is not set; set it, or use --batch N, which prints N frames as "
                           "text");
    if (setupterm(NULL, STDOUT_FILENO, &error) != OK) {
        cli_die(CLI_USAGE,
                "this system knows no terminal called \"%s\"; set TERM, or use --batch N, which "
                "prints N frames as text",
                name);
    }
    if (!cursor_address) {
        cli_die(CLI_USAGE,
                "a terminal called \"%s\" cannot move its cursor; set TERM, or use --batch N, "
                "which prints N frames as text",
                name);
    }
}

/* Writes the messages that were kept while the screen was open to the real standard error. */
static void write_kept(void) {
    char text[4096];
    ssize_t length;
    if (terminal.kept_fd < 0)
        return;
    dup2(terminal.error_fd, STDERR_FILENO);
    lseek(terminal.kept_fd, 0, SEEK_SET);
    while ((length = read(terminal.kept_fd, text, sizeof text)) > 0)
        if (write(STDERR_FILENO, text, (size_t)length) < 0)
            break;
    close(terminal.kept_fd);
    close(terminal.error_fd);
}

static void close_screen(void) {
    if (!terminal.open)
        return;
    terminal.open = false;
    endwin();
    write_kept();
}

static void note_signal(int number) {
    if (number == SIGTSTP)
        must_stop = 1;
    else
        ended_by = number;
}

/* With SA_RESTART a signal interrupts only poll, not the reading of names. */
static void catch_signals(void) {
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP};
    struct sigaction action = {.sa_handler = note_signal, .sa_flags = SA_RESTART}, old;
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        if (sigaction(numbers[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
            sigaction(numbers[i], &action, NULL);
}

/* Restores the terminal and stops the command, as after Ctrl-Z. Curses' own handler of SIGTSTP
 * could do that in the middle of drawing or reading. */
static void stop(void) {
    struct sigaction standard = {.sa_handler = SIG_DFL}, own;
    must_stop = 0;
    endwin();
    sigemptyset(&standard.sa_mask);
    sigaction(SIGTSTP, &standard, &own);
    raise(SIGTSTP);
    sigaction(SIGTSTP, &own, NULL); /* the command goes on */
    clearok(curscr, TRUE);
    refresh();
}

static void open_screen(struct ui *ui) {
    setlocale(LC_CTYPE, "");
    ui->utf8 = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
    /* curses would prefer these variables to the size of the terminal, but they are often old */
    unsetenv("LINES");
    unsetenv("COLUMNS");
    catch_signals(); /* before newterm: curses installs no handler where the program has one */
    terminal.screen = newterm(NULL, stdout, stdin);
    if (!terminal.screen)
        cli_die(CLI_USAGE, "the terminal \"%s\" cannot be used; --batch N prints N frames as text",
                getenv("TERM"));
    terminal.open = true;
    terminal.kept_fd = memfd_create("memctx-stderr", MFD_CLOEXEC);
    terminal.error_fd = dup(STDERR_FILENO);
    if (terminal.kept_fd >= 0)
        dup2(terminal.kept_fd, STDERR_FILENO);
    atexit(close_screen);
    cbreak();
    noecho();
    nonl();
    keypad(stdscr, TRUE);
    nodelay(stdscr, TRUE);
    set_escdelay(50);
    curs_set(0);
    if (has_colors() && render_wants_color() && start_color() == OK) {
        use_default_colors();
        init_pair(1, COLOR_RED, -1);
        init_pair(2, COLOR_GREEN, -1);
        ui->colors = true;
    }
}

/* --- rows ------------------------------------------------------------------------------------ */

static void find_selected(struct ui *ui) {
    const struct rows *rows = &ui->rows;
    const struct model *model = &ui->watch->model;
    for (size_t i = 0; i < rows->count; i++) {
        const struct rows_line *line = &rows->list[i];
        if (line->kind == ui->selected_kind && line->kind != ROWS_REST &&
            model->contexts[line->context].id == ui->selected_id) {
            ui->selected = i;
            return;
        }
    }
}

/* Moves `selected` into the list of `count` lines, and `first` so that the selected line is on the
 * screen. */
static void scroll_to(size_t *selected, size_t *first, size_t count) {
    size_t page = ui_page();
    if (*selected >= count)
        *selected = count > 0 ? count - 1 : 0;
    if (*selected < *first)
        *first = *selected;
    if (*selected >= *first + page)
        *first = *selected - page + 1;
    if (*first + page > count)
        *first = count > page ? count - page : 0;
}

bool ui_lists_threads(const struct ui *ui) {
    return ui->watch && ui->by_thread == UI_THREADS_ALL;
}

/* Makes the list of all threads, and keeps the selected line on the screen. */
static void list_threads(struct ui *ui) {
    struct ui_threads *threads = &ui->threads;
    const struct threads_options options = {.counts = ui->has_regex ? ui->rows.counts : NULL,
                                            .sort = ui->options.sort,
                                            .limit = UI_PATHS,
                                            .wide = threads->wide,
                                            .wide_limit = UI_PATHS_WIDE};
    threads_make(&threads->read, ui->watch, &options);
    scroll_to(&threads->selected, &threads->first, threads->read.list_count);
}

void ui_make_rows(struct ui *ui) {
    if (!ui->watch || !ui->watch->loaded) {
        ui->rows.count = 0;
        return;
    }
    ui->options.search = ui->has_regex ? &ui->regex : NULL;
    rows_make(&ui->rows, &ui->watch->model, ui->watch->version, &ui->watch->rates, &ui->options);
    find_selected(ui);
    scroll_to(&ui->selected, &ui->first, ui->rows.count);
    if (ui->rows.count > 0) {
        const struct rows_line *line = &ui->rows.list[ui->selected];
        ui->selected_id = ui->watch->model.contexts[line->context].id;
        ui->selected_kind = line->kind;
    }
    if (ui_lists_threads(ui))
        list_threads(ui);
}

/* Adds the live bytes of each line on the screen to its history. */
static void push_histories(struct ui *ui) {
    struct watch *watch = ui->watch;
    for (size_t i = ui->first; i < ui->rows.count && i < ui->first + ui_page(); i++) {
        const struct rows_line *line = &ui->rows.list[i];
        uint32_t id = watch->model.contexts[line->context].id;
        struct ui_ring *ring = NULL, *oldest = &ui->rings[0];
        if (line->kind == ROWS_REST)
            continue;
        for (size_t k = 0; k < UI_RINGS && !ring; k++) {
            struct ui_ring *at = &ui->rings[k];
            if (at->used && at->id == id && at->kind == line->kind && at->tree == ui->options.tree)
                ring = at;
            else if (!at->used || (oldest->used && at->look < oldest->look))
                oldest = at;
        }
        if (!ring) {
            ring = oldest;
            *ring = (struct ui_ring){
                .id = id, .kind = line->kind, .tree = ui->options.tree, .used = true};
        }
        ring->look = watch->rates.look;
        rates_push(&ring->history,
                   rows_value(&watch->rates, line, ui->options.tree, RATES_LIVE, false));
    }
}

/* Reads the figures of threads in the contexts of the selected line. */
static void ask_threads_of_line(struct ui *ui) {
    struct ui_threads *threads = &ui->threads;
    struct watch *watch = ui->watch;
    uint32_t leaves[UI_LEAVES];
    const struct rows_line *line = &ui->rows.list[ui->selected];
    if (line->kind == ROWS_REST)
        return;
    if (threads->id != ui->selected_id || threads->read.all)
        threads_clear(&threads->read);
    threads->leaves = rows_leaves(&ui->rows, &watch->model, &watch->rates, line, ui->options.tree,
                                  leaves, UI_LEAVES);
    threads->id = ui->selected_id;
    size_t asked = threads->leaves < UI_LEAVES ? threads->leaves : UI_LEAVES;
    if (!threads_read(&threads->read, watch, leaves, asked))
        snprintf(ui->message, sizeof ui->message, "%.150s", watch->failure.text);
    const struct threads_options options = {.sort = RATES_LIVE, .wide = WIRE_NONE};
    threads_make(&threads->read, watch, &options);
}

void ui_ask_threads(struct ui *ui) {
    if (ui->by_thread == UI_THREADS_NONE || !ui->watch || ui->watch->state != WATCH_RUNS ||
        ui->rows.count == 0)
        return;
    if (ui->by_thread == UI_THREADS_LINE) {
        ask_threads_of_line(ui);
        return;
    }
    if (!threads_read_all(&ui->threads.read, ui->watch))
        snprintf(ui->message, sizeof ui->message, "%.150s", ui->watch->failure.text);
    list_threads(ui);
}

static void look(struct ui *ui) {
    if (!ui->watch) {
        const struct watch *chosen =
            ui->chosen < ui->herd->count ? ui->herd->watches[ui->chosen] : NULL;
        pid_t pid = chosen ? chosen->facts.pid : 0;
        herd_look(ui->herd, false);
        for (size_t i = 0; i < ui->herd->count; i++)
            if (ui->herd->watches[i]->facts.pid == pid)
                ui->chosen = i;
        if (ui->chosen >= ui->herd->count)
            ui->chosen = ui->herd->count > 0 ? ui->herd->count - 1 : 0;
        return;
    }
    if (!ui->watch->loaded) { /* the first look loads all contexts and names */
        snprintf(ui->message, sizeof ui->message, "reading call paths and names");
        ui_draw(ui);
        ui->message[0] = '\0';
    }
    if (ui->watch->replay) { /* a recording plays: show the next moment; at the last one, pause */
        size_t next = ui->watch->replay->at + 1, count = replay_count(ui->watch);
        replay_go(ui->watch, next < count ? next : 0);
        ui->paused = next + 1 == count;
        ui_make_rows(ui);
        return;
    }
    bool good = watch_look(ui->watch);
    if (ui->options.difference && !ui->watch->rates.has_base) {
        ui->options.difference = false;
        snprintf(ui->message, sizeof ui->message,
                 "the base is gone, as after an exec; m makes the present figures the base");
    }
    ui_make_rows(ui);
    if (good) {
        push_histories(ui);
        ui_ask_threads(ui);
    }
}

/* --- the loop -------------------------------------------------------------------------------- */

/* Waits for a key, a signal or the time of the next look. Returns false if the terminal is gone. */
static bool wait_for_key(const struct ui *ui) {
    double left = ui->next_s - clock_now_s();
    /* At most 1 s: a signal that comes just before poll does not interrupt it. */
    int wait_ms = ui->paused || left > 1 ? 1000 : left > 0 ? (int)(left * 1000) + 1 : 0;
    struct pollfd entry = {.fd = STDIN_FILENO, .events = POLLIN};
    int ready = poll(&entry, 1, wait_ms);
    return ready <= 0 || (entry.revents & (POLLHUP | POLLERR | POLLNVAL)) == 0;
}

static void run(struct ui *ui) {
    while (!ui->quit && !ended_by) {
        if (must_stop)
            stop();
        double now = clock_now_s();
        if (!ui->paused && now >= ui->next_s) {
            look(ui);
            ui->next_s += ui->interval_s;
            if (ui->next_s <= clock_now_s()) /* the look took long, or the command was stopped */
                ui->next_s = clock_now_s() + ui->interval_s;
        }
        ui_draw(ui);
        if (!wait_for_key(ui))
            return;
        for (int key; !ended_by && !must_stop && !ui->quit && (key = getch()) != ERR;)
            ui_key(ui, key);
    }
}

int screen_run(struct herd *herd, bool single, const struct screen_options *options) {
    static struct ui ui;
    ui = (struct ui){.herd = herd,
                     .single = single,
                     .interval_s = options->interval_s,
                     .options = options->rows,
                     .by_thread = options->threads ? UI_THREADS_ALL : UI_THREADS_NONE,
                     .threads = {.wide = WIRE_NONE}};
    ui.options.limit = 0;
    if (single) {
        ui.watch = herd->watches[0];
        ui.paused = ui.watch->replay != NULL;
        if (!ui.watch->replay &&
            !watch_look(ui.watch)) /* an error is reported before the screen opens */
            cli_die(CLI_REFUSED, "%s", ui.watch->how);
    } else {
        herd_look(herd, false);
    }
    ui.next_s = clock_now_s() + ui.interval_s;
    open_screen(&ui);
    ui_make_rows(&ui);
    ui_ask_threads(&ui);
    run(&ui);
    close_screen();
    if (ended_by) {
        signal(ended_by, SIG_DFL);
        raise(ended_by);
    }
    return CLI_DONE;
}
