/* SPDX-License-Identifier: MIT */
/* who.c - decides which functions of a call path tell a reader something, and writes their
 * names. */
#include "model/who.h"

#include <fnmatch.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "model/folding.h"
#include "model/frames.h"
#include "model/shorten.h"
#include "model/tails.h"
#include "model/who_tables.h"

/* --- which functions mean something ---------------------------------------------------------- */

static const struct model_names *names_of(const struct model *model, struct who_step step) {
    const struct model_frame *frame = model->contexts[step.context].frame;
    return frame->kind == WIRE_KIND_PATH && frame->names && frame->names->count > 0 ? frame->names
                                                                                    : NULL;
}

static const char *name_of(const struct model *model, struct who_step step) {
    const struct model_names *names = names_of(model, step);
    return names ? names->functions[step.function].name : NULL;
}

bool who_has_name(const struct model *model, struct who_step step) {
    return name_of(model, step) != NULL;
}

/* Returns the source file of an inlined function; NULL if the function is not inlined, or its file
 * is not known. */
static const char *file_of(const struct model *model, struct who_step step) {
    const struct model_names *names = names_of(model, step);
    return names && step.function > 0 ? names->functions[step.function].file : NULL;
}

static const char *module_of(const struct model *model, struct who_step step) {
    uint32_t module = model->contexts[step.context].frame->module;
    return module != WIRE_NONE ? frames_module_name(model, module) : NULL;
}

enum who_kind who_kind_of(const struct model *model, struct who_step step) {
    const struct model_frame *frame = model->contexts[step.context].frame;
    const char *name = name_of(model, step), *module = module_of(model, step);
    if (frame->kind == WIRE_KIND_NAMED)
        return WHO_MEANS;
    if (frame->kind != WIRE_KIND_PATH)
        return WHO_RUNTIME;
    bool is_runtime = module && who_is_runtime(module);
    if (!name)
        return is_runtime ? WHO_RUNTIME : WHO_MEANS;
    const struct who_row *row = who_row_of(name);
    return row                                                       ? row->kind
           : is_runtime || who_is_library_file(file_of(model, step)) ? WHO_LIBRARY
                                                                     : WHO_MEANS;
}

/* --- steps ----------------------------------------------------------------------------------- */

struct who_step who_first(const struct model *model, uint32_t context) {
    struct who_step step = {context, 0};
    if (context != WIRE_NONE && model->contexts[context].parent == WIRE_NONE)
        step.context = WIRE_NONE; /* the root is no function */
    const struct model_names *names = step.context != WIRE_NONE ? names_of(model, step) : NULL;
    if (names && names->count > 1)
        step.function = 1;
    return step;
}

struct who_step who_next(const struct model *model, struct who_step step) {
    const struct model_names *names = names_of(model, step);
    if (names && step.function > 0) {
        step.function = step.function + 1 < names->count ? step.function + 1 : 0;
        return step;
    }
    return who_first(model, model->contexts[step.context].parent);
}

uint64_t who_key(const struct model *model, struct who_step step) {
    return who_function_key(model->contexts[step.context].frame, step.function);
}

/* True at the end of a function's own name: the compiler may move a part of a function elsewhere,
 * or make a copy of it, and names this "f.cold", "f.part.0" or, with parameters, "f() [clone
 * .cold]".
 */
static bool is_clone_suffix(const char *text) {
    static const char *const suffixes[] = {" [clone .", ".cold",       ".part.",
                                           ".isra.",    ".constprop.", ".lto_priv."};
    if (*text != ' ' && *text != '.')
        return false;
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++)
        if (strncmp(text, suffixes[i], strlen(suffixes[i])) == 0)
            return true;
    return false;
}

uint64_t who_function_key(const struct model_frame *frame, uint32_t function) {
    const struct model_names *names = frame->kind == WIRE_KIND_PATH ? frame->names : NULL;
    const char *name = names && function < names->count ? names->functions[function].name : NULL;
    uint64_t hash = folding_mix(4, frame->module);
    if (!name)
        return folding_function_key(frame);
    for (const char *at = name; *at != '\0' && (at == name || !is_clone_suffix(at)); at++)
        hash = folding_mix(hash, (unsigned char)*at);
    return hash;
}

struct who_part who_frames(const struct model *model, uint32_t context, uint32_t frames) {
    struct who_part part = {.from = who_first(model, context)};
    for (uint32_t i = 0; i < frames && context != WIRE_NONE; i++)
        context = model->contexts[context].parent;
    part.end = who_first(model, context);
    return part;
}

struct who_step who_find(const struct model *model, struct who_step from, struct who_step wanted) {
    uint64_t key = who_key(model, wanted);
    while (from.context != WIRE_NONE && who_key(model, from) != key)
        from = who_next(model, from);
    return from;
}

/* --- text ------------------------------------------------------------------------------------ */

static bool is_end(struct who_step step, struct who_step end) {
    return step.context == WIRE_NONE ||
           (step.context == end.context && step.function == end.function);
}

/* True if this part of the path has a frame of the step's module that has a name and is not
 * WHO_RUNTIME. Code that was generated at run time is in no module; for such code, a frame of any
 * module counts. */
static bool has_named_neighbour(const struct model *model, const struct who_part *part,
                                struct who_step step) {
    uint32_t module = model->contexts[step.context].frame->module;
    for (struct who_step at = part->from; !is_end(at, part->end); at = who_next(model, at))
        if ((module == WIRE_NONE || model->contexts[at.context].frame->module == module) &&
            name_of(model, at) && who_kind_of(model, at) != WHO_RUNTIME)
            return true;
    return false;
}

static enum who_kind kind_on(const struct model *model, const struct who_part *part,
                             struct who_step step) {
    enum who_kind kind = who_kind_of(model, step);
    bool nameless =
        model->contexts[step.context].frame->kind == WIRE_KIND_PATH && !name_of(model, step);
    return kind == WHO_MEANS && nameless && has_named_neighbour(model, part, step) ? WHO_NAMELESS
                                                                                   : kind;
}

/* Returns the last kind, in the order of enum who_kind, that is shown for a part of a path. */
static enum who_kind find_shown(const struct model *model, const struct who_part *part) {
    enum who_kind shown = WHO_RUNTIME;
    for (struct who_step at = part->from; !is_end(at, part->end); at = who_next(model, at)) {
        enum who_kind kind = kind_on(model, part, at);
        if (kind == WHO_MEANS)
            return WHO_MAIN;
        if (kind <= WHO_INTERPRETER)
            shown = WHO_INTERPRETER;
    }
    return shown;
}

bool who_means(const struct model *model, const struct who_part *part) {
    return find_shown(model, part) == WHO_MAIN;
}

/* True if a step is shown. `count`: the number of functions that are shown farther in. If there is
 * one, a wrapper of malloc is shown, too: it called that function, so it did more than call
 * malloc. */
static bool shows(const struct model *model, const struct who_part *part, struct who_step step,
                  enum who_kind shown, size_t count) {
    enum who_kind kind = kind_on(model, part, step);
    return kind <= shown || (kind == WHO_ALLOCATOR && count > 0) ||
           (part->keeps_first && step.context == part->from.context &&
            step.function == part->from.function);
}

/* Returns the word behind "via" for a function that was left out. The caller frees it. */
static char *write_via(const struct model *model, struct who_step step) {
    const char *name = name_of(model, step);
    const struct who_row *row = name ? who_row_of(name) : NULL;
    if (row && row->via)
        return cli_copy(row->via);
    char *plain = name ? shorten_to_name(name, true)
                       : frames_write(model, &model->contexts[step.context], false);
    if (row && row->kind == WHO_LIBRARY) {
        char *member = strstr(plain, "::"); /* std::vector::push_back: the class is enough */
        member = member ? strstr(member + 2, "::") : NULL;
        if (member)
            *member = '\0';
    }
    return plain;
}

/* True if a step farther in on the part is in the function of `step`, and is shown, too. */
static bool was_shown(const struct model *model, const struct who_part *part, struct who_step step,
                      enum who_kind shown) {
    uint64_t key = who_key(model, step);
    for (struct who_step at = part->from;
         at.context != step.context || at.function != step.function; at = who_next(model, at))
        if (kind_on(model, part, at) <= shown && who_key(model, at) == key)
            return true;
    return false;
}

/* True if both steps have one source line, or none. */
static bool share_line(const struct model *model, struct who_step a, struct who_step b) {
    const struct model_names *one = names_of(model, a), *other = names_of(model, b);
    return one && other && one->functions[a.function].line == other->functions[b.function].line;
}

/* True if a step farther out on the part is in the function of `step`, which called itself. A
 * compiler may divide a function in two, of which one calls the other or is inlined into it. Then
 * two neighbours have one function and line, but different addresses, or one frame; that is not
 * taken for recursion. */
static bool calls_itself(const struct model *model, const struct who_part *part,
                         struct who_step step) {
    const struct model_context *contexts = model->contexts;
    uint64_t key = who_key(model, step);
    struct who_step next = who_next(model, step);
    if (contexts[step.context].flags & WIRE_CONTEXT_RECURSIVE)
        return true;
    for (struct who_step at = next; !is_end(at, part->end); at = who_next(model, at)) {
        if (who_key(model, at) != key)
            continue;
        bool neighbours = at.context == next.context && at.function == next.function;
        bool inlined = at.context == step.context;
        bool differ = contexts[step.context].frame->address != contexts[at.context].frame->address;
        if (!neighbours || (!inlined && (!differ || !share_line(model, step, at))))
            return true;
    }
    return false;
}

/* Writes a function: "get (pool.c:10)", or "get, pool.c:10" if `brief`. */
static char *write_function(const struct model *model, struct who_step step, bool brief,
                            bool calls_itself) {
    const struct model_context *context = &model->contexts[step.context];
    const struct model_names *names = names_of(model, step);
    const struct model_function *function = names ? &names->functions[step.function] : NULL;
    const char *module = module_of(model, step);
    const char *recursive = calls_itself && !brief ? ", recursive" : "";
    if (!function || !function->name)
        return frames_write(model, context, false);
    char *name = shorten_to_name(function->name, false), *text;
    if (function->file && function->line > 0) {
        text = cli_format(brief ? "%s, %s:%" PRId64 "%s" : "%s (%s:%" PRId64 "%s)", name,
                          shorten_path(function->file), function->line, recursive);
    } else {
        text = cli_format(brief ? "%s, %s%s" : "%s (%s%s)", name, module ? module : "?", recursive);
    }
    free(name);
    return text;
}

/* The text that was written so far: functions, innermost first. */
struct written {
    char *text;
    size_t count, most;
    /* The outermost function without a name that was left out before the first function. Its
     * address tells paths apart that end at one function with a name. NULL: there is none. */
    const struct model_context *nameless;
};

static void write_next(struct written *written, char *function) {
    char *longer = cli_format("%s%s%s", written->text, written->count > 0 ? " < " : "", function);
    free(function);
    free(written->text);
    written->text = longer;
    written->count++;
}

/* Returns the kind of a function of a frame that ended in a tail call. The function is inlined if
 * its index is not 0. */
static enum who_kind kind_of_tail(const struct model *model, const struct model_frame *frame,
                                  uint32_t index) {
    const struct model_function *function = &frame->names->functions[index];
    const struct who_row *row = who_row_of(function->name);
    bool is_runtime =
        frame->module != WIRE_NONE && who_is_runtime(frames_module_name(model, frame->module));
    return row                                                                ? row->kind
           : is_runtime || (index > 0 && who_is_library_file(function->file)) ? WHO_LIBRARY
                                                                              : WHO_MEANS;
}

/* Returns the text of a function that ended in a tail call. */
static char *write_tail(const struct model_function *function, bool brief) {
    char *name = shorten_to_name(function->name, false), *text;
    if (function->file && function->line > 0)
        text = cli_format(brief ? "%s [tail call], %s:%" PRId64 : "%s [tail call] (%s:%" PRId64 ")",
                          name, shorten_path(function->file), function->line);
    else
        text = cli_format("%s [tail call]", name);
    free(name);
    return text;
}

static void write_tails(struct written *written, const struct model *model,
                        const struct model_tails *tails, enum who_kind shown, bool brief) {
    for (uint32_t i = 0; tails && i < tails->count; i++) {
        const struct model_names *names = tails->frames[i].names;
        /* The inlined functions come first: the function with index 0 contains them. */
        for (uint32_t k = 1; names && k <= names->count && written->count < written->most; k++) {
            uint32_t index = k % names->count;
            const struct model_function *function = &names->functions[index];
            if (function->name && kind_of_tail(model, &tails->frames[i], index) <= shown)
                write_next(written, write_tail(function, brief));
        }
    }
}

/* Writes the functions that ended in tail calls between a part of a path and malloc, if the part
 * begins at the innermost step of its context. */
static void write_tails_to_malloc(struct written *written, const struct model *model,
                                  const struct who_part *part, enum who_kind shown, bool brief) {
    uint32_t context = part->from.context;
    if (!part->without_tails && !is_end(part->from, part->end) &&
        part->from.function == who_first(model, context).function)
        write_tails(written, model, tails_to_malloc(model, &model->contexts[context]), shown,
                    brief);
}

/* Writes the functions of a part, innermost first, until the step `last` is reached or there are
 * enough functions. Writes a function that calls itself only once. Returns true if the function of
 * `last` was written. *via becomes the word for functions that were left out at the inner end. */
static bool write_part(struct written *written, const struct model *model,
                       const struct who_part *part, struct who_step last, char **via) {
    enum who_kind shown = find_shown(model, part);
    write_tails_to_malloc(written, model, part, shown, false);
    for (struct who_step at = part->from; !is_end(at, part->end) && written->count < written->most;
         at = who_next(model, at)) {
        bool is_shown = shows(model, part, at, shown, written->count);
        if (is_shown && written->count > 0 && was_shown(model, part, at, shown)) {
            continue;
        } else if (is_shown) {
            write_next(written, write_function(model, at, false, calls_itself(model, part, at)));
        } else if (written->count == 0) {
            enum who_kind kind = who_kind_of(model, at);
            if (kind == WHO_ALLOCATOR || kind == WHO_LIBRARY) {
                free(*via);
                *via = write_via(model, at);
            }
            if (shown == WHO_MAIN && module_of(model, at) &&
                kind_on(model, part, at) == WHO_NAMELESS)
                written->nameless = &model->contexts[at.context];
        }
        if (is_end(at, last))
            return is_shown;
        if (at.function == 0)
            write_tails(written, model, tails_before(model, &model->contexts[at.context]), shown,
                        false);
    }
    return false;
}

static bool is_in_program(const struct model *model, struct who_step step) {
    uint32_t module = model->contexts[step.context].frame->module;
    return module != WIRE_NONE && strcmp(model->modules[module].path, model->exe) == 0;
}

/* Source files of libraries that are compiled into a program: the crates of Rust's registry, and
 * headers that were installed. */
static const char *const dependency_files[] = {"*/.cargo/registry/src/*",
                                               "*/.cargo/git/checkouts/*", "/usr/include/*",
                                               "/usr/local/include/*"};

static bool is_of_dependency(const char *file) {
    for (size_t i = 0; file && i < sizeof dependency_files / sizeof dependency_files[0]; i++)
        if (fnmatch(dependency_files[i], file, 0) == 0)
            return true;
    return false;
}

/* True if the function has a line in a source file that is the program's own. */
static bool is_in_own_source(const struct model_function *function) {
    return function->line > 0 && !is_of_dependency(function->file);
}

static bool has_own_line(const struct model *model, struct who_step step) {
    const struct model_names *names = names_of(model, step);
    return names && is_in_own_source(&names->functions[step.function]);
}

bool who_is_programs_own(const struct model *model, struct who_step step) {
    const struct model_names *names = names_of(model, step);
    return has_own_line(model, step) ||
           (is_in_program(model, step) &&
            !(names && is_of_dependency(names->functions[step.function].file)));
}

/* True if this step, or one farther out on this part, is in the interpreter's loop of `module`, or
 * in code that was generated at run time. */
static bool is_interpreted(const struct model *model, const struct who_part *part,
                           struct who_step step, uint32_t module) {
    for (; !is_end(step, part->end); step = who_next(model, step)) {
        const struct model_frame *frame = model->contexts[step.context].frame;
        if ((frame->kind == WIRE_KIND_PATH && frame->module == WIRE_NONE) ||
            (frame->module == module && who_kind_of(model, step) == WHO_INTERPRETER))
            return true;
    }
    return false;
}

/* Finds a function of a C module that has source lines, if a script called the module and the
 * module called functions of the interpreter to allocate. The interpreter is the module of the
 * innermost function that tells something. */
static bool find_extension(const struct model *model, const struct who_part *part,
                           struct who_step *caller) {
    uint32_t inner = WIRE_NONE;
    for (struct who_step at = part->from; !is_end(at, part->end); at = who_next(model, at)) {
        enum who_kind kind = who_kind_of(model, at);
        uint32_t module = model->contexts[at.context].frame->module;
        if (kind == WHO_INTERPRETER)
            return false;
        if (kind != WHO_MEANS)
            continue;
        if (inner == WIRE_NONE && (has_own_line(model, at) || module == WIRE_NONE))
            return false;
        inner = inner == WIRE_NONE ? module : inner;
        if (module != inner && has_own_line(model, at)) {
            *caller = at;
            return is_interpreted(model, part, at, inner);
        }
    }
    return false;
}

bool who_find_caller(const struct model *model, const struct who_part *part,
                     struct who_step *caller) {
    bool in_library = false, found = false;
    if (find_extension(model, part, caller))
        return true;
    for (struct who_step at = part->from; !is_end(at, part->end); at = who_next(model, at)) {
        enum who_kind kind = found ? who_kind_of(model, at) : kind_on(model, part, at);
        if (kind == WHO_INTERPRETER)
            return false;
        if (found || (kind != WHO_MEANS && kind != WHO_MAIN))
            continue;
        found = who_is_programs_own(model, at);
        if (found && !in_library)
            return false;
        if (found)
            *caller = at;
        in_library = true;
    }
    return found;
}

/* Returns the text of the innermost of these functions that is in a source file of the program's
 * own; NULL: there is none. All others are taken for functions of the library. */
static char *write_own_tail(const struct model *model, const struct model_tails *tails) {
    for (uint32_t i = 0; tails && i < tails->count; i++) {
        const struct model_names *names = tails->frames[i].names;
        for (uint32_t k = 1; names && k <= names->count; k++) {
            const struct model_function *function = &names->functions[k % names->count];
            if (function->name && is_in_own_source(function) &&
                kind_of_tail(model, &tails->frames[i], k % names->count) <= WHO_MAIN)
                return write_tail(function, true);
        }
    }
    return NULL;
}

char *who_write_caller(const struct model *model, const struct who_part *part,
                       struct who_step caller) {
    char *text = NULL;
    uint32_t inner = part->from.context;
    while (inner != caller.context && model->contexts[inner].parent != caller.context)
        inner = model->contexts[inner].parent;
    if (inner != caller.context && caller.function == who_first(model, caller.context).function)
        text = write_own_tail(model, tails_before(model, &model->contexts[inner]));
    return cli_clean_bytes(text ? text : write_function(model, caller, true, false));
}

/* Adds the caller that who_find_caller finds, unless it was written already. */
static void write_caller(struct written *written, const struct model *model,
                         const struct who_part *part) {
    struct who_step caller;
    if (!who_find_caller(model, part, &caller))
        return;
    int64_t count = who_count_to(model, part, caller), most = (int64_t)written->most;
    if (count > most + 1)
        write_next(written, cli_copy("..."));
    if (count > most)
        write_next(written, write_function(model, caller, false, false));
}

char *who_write(const struct model *model, const struct who_part *part, int64_t most) {
    struct written written = {.text = cli_copy(""), .most = (size_t)most};
    char *via = NULL;
    write_part(&written, model, part, part->end, &via);
    write_caller(&written, model, part);
    char *nameless = written.nameless ? frames_write(model, written.nameless, false) : NULL;
    if (via || nameless) {
        char *longer = cli_format("%s, via %s%s%s", written.text, via ? via : "",
                                  via && nameless ? " < " : "", nameless ? nameless : "");
        free(written.text);
        free(via);
        free(nameless);
        written.text = longer;
    }
    return cli_clean_bytes(written.text);
}

int64_t who_count_to(const struct model *model, const struct who_part *part,
                     struct who_step wanted) {
    struct written written = {.text = cli_copy(""), .most = SIZE_MAX};
    char *via = NULL;
    bool found = write_part(&written, model, part, wanted, &via);
    free(written.text);
    free(via);
    return found ? (int64_t)written.count : 0;
}

/* Returns the innermost step of a part that is shown. If there is none, the step's context is
 * WIRE_NONE. Does not look at functions that ended in tail calls. */
static struct who_step find_first(const struct model *model, const struct who_part *part) {
    enum who_kind shown = find_shown(model, part);
    for (struct who_step at = part->from; !is_end(at, part->end); at = who_next(model, at))
        if (shows(model, part, at, shown, 0))
            return at;
    return (struct who_step){WIRE_NONE, 0};
}

char *who_write_short(const struct model *model, const struct who_part *part) {
    struct written written = {.text = cli_copy(""), .most = 1};
    enum who_kind shown = find_shown(model, part);
    write_tails_to_malloc(&written, model, part, shown, true);
    for (struct who_step at = part->from; !is_end(at, part->end) && written.count == 0;
         at = who_next(model, at))
        if (shows(model, part, at, shown, 0))
            write_next(&written, write_function(model, at, true, false));
        else if (at.function == 0) /* a function may end in a call of strdup */
            write_tails(&written, model, tails_before(model, &model->contexts[at.context]), shown,
                        true);
    if (written.count > 0)
        return cli_clean_bytes(written.text);
    free(written.text);
    return cli_copy("[no call path]");
}

bool who_begins_named(const struct model *model, const struct who_part *part) {
    struct who_step first = find_first(model, part);
    return first.context != WIRE_NONE && who_has_name(model, first);
}
