/* SPDX-License-Identifier: MIT */
/* keys.c - what each key does. */
#include <curses.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "live/replay.h"
#include "live/ui.h"

#define KEY_ESCAPE 27

static void say(struct ui *ui, const char *text) {
    snprintf(ui->message, sizeof ui->message, "%s", text);
}

/* --- the search ------------------------------------------------------------------------------ */

static void end_search(struct ui *ui) {
    if (ui->has_regex)
        regfree(&ui->regex);
    ui->has_regex = false;
    ui->search[0] = '\0';
    ui->options.search_number++;
}

static void begin_search(struct ui *ui) {
    char reason[120], text[UI_SEARCH_BYTES];
    snprintf(text, sizeof text, "%s", ui->typed);
    end_search(ui);
    if (text[0] == '\0')
        return;
    int error = regcomp(&ui->regex, text, REG_EXTENDED | REG_NOSUB | REG_ICASE);
    if (error != 0) {
        regerror(error, &ui->regex, reason, sizeof reason);
        snprintf(ui->message, sizeof ui->message, "not a regular expression: %s", reason);
        return;
    }
    ui->has_regex = true;
    ui->first = ui->selected = 0;
    snprintf(ui->search, sizeof ui->search, "%s", text);
}

static void type_key(struct ui *ui, int key) {
    size_t length = strlen(ui->typed);
    if (key == KEY_ENTER || key == '\r' || key == '\n') {
        ui->typing = false;
        begin_search(ui);
    } else if (key == KEY_ESCAPE) {
        ui->typing = false;
    } else if ((key == KEY_BACKSPACE || key == 127 || key == 8) && length > 0) {
        ui->typed[length - 1] = '\0';
    } else if (key >= ' ' && key < 256 && key != 127 && length + 1 < sizeof ui->typed) {
        ui->typed[length] = (char)key;
        ui->typed[length + 1] = '\0';
    }
}

/* --- lines ----------------------------------------------------------------------------------- */

static size_t line_count(const struct ui *ui) {
    if (ui_lists_threads(ui))
        return ui->threads.read.list_count;
    return ui->watch ? ui->rows.count : ui->herd->count;
}

/* Returns a pointer to the index of the selected line in the list on the screen: of threads, rows
 * or processes. */
static size_t *selected_line(struct ui *ui) {
    if (ui_lists_threads(ui))
        return &ui->threads.selected;
    return ui->watch ? &ui->selected : &ui->chosen;
}

static void select_line(struct ui *ui, size_t line) {
    size_t count = line_count(ui);
    *selected_line(ui) = line = line < count ? line : count > 0 ? count - 1 : 0;
    if (!ui->watch || ui_lists_threads(ui))
        return;
    if (count == 0)
        return;
    ui->selected_id = ui->watch->model.contexts[ui->rows.list[line].context].id;
    ui->selected_kind = ui->rows.list[line].kind;
    ui_ask_threads(ui);
}

static bool go(struct ui *ui, int key) {
    size_t at = *selected_line(ui), page = ui_page();
    switch (key) {
    case KEY_UP:
    case 'k': at -= at > 0; break;
    case KEY_DOWN:
    case 'j': at++; break;
    case KEY_PPAGE: at = at > page ? at - page : 0; break;
    case KEY_NPAGE: at += page; break;
    case KEY_HOME:
    case 'g': at = 0; break;
    case KEY_END:
    case 'G': at = line_count(ui); break;
    default: return false;
    }
    select_line(ui, at);
    return true;
}

/* Folds the selected line. If the line is not open, selects its parent line instead. */
static void fold_line(struct ui *ui) {
    const struct rows_line *line = &ui->rows.list[ui->selected];
    if (line->fold == ROWS_OPEN) {
        rows_fold(&ui->rows, &ui->watch->model, line, ROWS_FOLDED, false);
        return;
    }
    for (size_t i = ui->selected; i-- > 0;) {
        if (ui->rows.list[i].depth < line->depth) {
            select_line(ui, i);
            return;
        }
    }
}

/* Right opens the selected thread, Left closes it, Enter does either. An open thread shows up to
 * UI_PATHS_WIDE call paths, other threads UI_PATHS. */
static void open_thread(struct ui *ui, int key) {
    struct ui_threads *threads = &ui->threads;
    if (threads->selected >= threads->read.list_count)
        return;
    uint32_t tid = threads->read.list[threads->selected].tid;
    bool open = key == KEY_RIGHT || (key != KEY_LEFT && threads->wide != tid);
    threads->wide = open ? tid : WIRE_NONE;
    while (threads->selected > 0 && !threads->read.list[threads->selected].is_thread)
        threads->selected--;
}

static bool fold(struct ui *ui, int key) {
    bool all = key == '+' || key == '-';
    if (!all && key != KEY_LEFT && key != KEY_RIGHT && key != '\r' && key != '\n' &&
        key != KEY_ENTER)
        return false;
    if (!ui->watch || ui->rows.count == 0)
        return false;
    if (ui_lists_threads(ui)) {
        if (all)
            say(ui, "Enter shows more call paths of a thread");
        else
            open_thread(ui, key);
        return true;
    }
    if (!ui->options.tree) {
        if (all)
            say(ui, "only the tree can be folded; v shows the tree");
        else
            ui->whole_path = key == KEY_RIGHT || (key != KEY_LEFT && !ui->whole_path);
        return true;
    }
    const struct rows_line *line = &ui->rows.list[ui->selected];
    if (key == KEY_LEFT)
        fold_line(ui);
    else if (line->kind != ROWS_CONTEXT || line->fold == ROWS_LEAF)
        return true;
    else if (all)
        rows_fold(&ui->rows, &ui->watch->model, line, key == '+' ? ROWS_OPEN : ROWS_FOLDED, true);
    else if (key == KEY_RIGHT)
        rows_fold(&ui->rows, &ui->watch->model, line, ROWS_OPEN, false);
    else
        rows_fold(&ui->rows, &ui->watch->model, line,
                  line->fold == ROWS_OPEN ? ROWS_FOLDED : ROWS_OPEN, false);
    return true;
}

/* --- processes ------------------------------------------------------------------------------- */

static void forget_lines(struct ui *ui) {
    end_search(ui);
    rows_free(&ui->rows);
    memset(ui->rings, 0, sizeof ui->rings);
    threads_clear(&ui->threads.read);
    ui->threads = (struct ui_threads){.wide = WIRE_NONE};
    ui->selected = ui->first = 0;
    ui->selected_id = 0;
    ui->selected_kind = ROWS_CONTEXT;
    ui->options.difference = false;
    ui->axis = (struct ui_axis){0};
}

/* Shows a process of the list in place of the list. */
static void enter(struct ui *ui, struct watch *watch) {
    forget_lines(ui);
    ui->watch = watch;
    ui->paused = false;
    ui->next_s = clock_now_s();
}

/* Shows the recording of the process on the screen. Returns false if the process has no recording.
 */
static bool go_back_in_time(struct ui *ui) {
    struct watch *now = ui->watch;
    if (!replay_begin_of(&ui->past, now, ui->message, sizeof ui->message))
        return false;
    enter(ui, &ui->past);
    ui->by_thread = UI_THREADS_NONE;
    ui->now = now;
    return true;
}

/* Shows the process again in place of its recording. */
static void go_to_now(struct ui *ui) {
    struct watch *now = ui->now;
    enter(ui, now);
    ui->now = NULL;
    replay_end(&ui->past);
}

static bool change_process(struct ui *ui, int key) {
    if (!ui->watch && (key == '\r' || key == '\n' || key == KEY_ENTER || key == KEY_RIGHT)) {
        if (ui->chosen < ui->herd->count)
            enter(ui, ui->herd->watches[ui->chosen]);
        return true;
    }
    if (key != 'b')
        return false;
    if (ui->now)
        go_to_now(ui);
    else if (ui->single)
        say(ui, "there is only this process; memctx top --all shows all");
    else if (ui->watch)
        enter(ui, NULL);
    return true;
}

/* --- all keys -------------------------------------------------------------------------------- */

/* For the keys [ ] { }: shows another moment of the recording. Returns false for other keys. */
static bool go_in_time(struct ui *ui, int key) {
    if (!ui->watch || !strchr("[]{}", key) || key <= 0 || key > 127)
        return false;
    if (!ui->watch->replay && !go_back_in_time(ui))
        return true;
    size_t at = ui->watch->replay->at, tenth = replay_count(ui->watch) / 10;
    size_t step = key == '[' || key == ']' || tenth == 0 ? 1 : tenth;
    bool back = key == '[' || key == '{';
    replay_go(ui->watch, back ? (at > step ? at - step : 0) : at + step);
    ui->paused = true;
    return true;
}

static void mark(struct ui *ui) {
    if (!ui->watch || !ui->watch->loaded)
        return;
    watch_mark(ui->watch);
    say(ui, "the figures now are the base; d shows the differences");
}

static void show_difference(struct ui *ui) {
    if (!ui->watch)
        return;
    if (ui_lists_threads(ui))
        say(ui, "the list of threads shows no differences; T goes back");
    else if (!ui->watch->rates.has_base)
        say(ui, "there is no base yet; m makes the present figures the base");
    else
        ui->options.difference = !ui->options.difference;
}

/* Shows the threads of the selected line or of all call paths (`which`); hides them if they are
 * shown already. */
static void show_threads(struct ui *ui, enum ui_by_thread which) {
    if (ui->watch && ui->watch->replay) {
        say(ui, "a recording has no figures of threads");
        return;
    }
    ui->by_thread = ui->by_thread == which ? UI_THREADS_NONE : which;
    threads_clear(&ui->threads.read);
    ui_ask_threads(ui);
}

static void sort_by(struct ui *ui, int column) {
    ui->options.sort = (enum rates_column)((column + RATES_COLUMNS) % RATES_COLUMNS);
}

static void command_key(struct ui *ui, int key) {
    switch (key) {
    case 'q': ui->quit = true; break;
    case '?':
    case 'h': ui->help = true; break;
    case 'p':
    case ' ':
        ui->paused = !ui->paused;
        ui->next_s = clock_now_s();
        break;
    case 'v':
    case '\t': ui->options.tree = !ui->options.tree; break;
    case '>':
    case 's': sort_by(ui, (int)ui->options.sort + 1); break;
    case '<': sort_by(ui, (int)ui->options.sort - 1); break;
    case 't': show_threads(ui, UI_THREADS_LINE); break;
    case 'T': show_threads(ui, UI_THREADS_ALL); break;
    case 'm': mark(ui); break;
    case 'd': show_difference(ui); break;
    case '/':
        ui->typing = ui->watch != NULL;
        snprintf(ui->typed, sizeof ui->typed, "%s", ui->search);
        break;
    case KEY_ESCAPE: end_search(ui); break;
    case KEY_RESIZE: clearok(curscr, TRUE); break;
    default:
        if (key >= '1' && key < '1' + RATES_COLUMNS)
            sort_by(ui, key - '1');
    }
}

void ui_key(struct ui *ui, int key) {
    ui->message[0] = '\0';
    if (ui->help && key != KEY_RESIZE)
        ui->help = false;
    else if (ui->typing && key != KEY_RESIZE)
        type_key(ui, key);
    else if (!go(ui, key) && !change_process(ui, key) && !fold(ui, key) && !go_in_time(ui, key))
        command_key(ui, key);
    ui_make_rows(ui);
}
