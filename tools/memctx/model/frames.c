/* SPDX-License-Identifier: MIT */
/* frames.c - writes a frame, a step of a path and a whole path as text. */
#include "model/frames.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text_file.h"
#include "model/folding.h"
#include "model/shorten.h"
#include "model/tails.h"

#define LOOP_SHOWN 4 /* greatest number of functions of a loop that are shown */
/* greatest number of inlined functions that are shown: the outermost and the innermost */
#define INLINED_SHOWN 2

/* True if the file is an interpreter. The user may then know the program by the name of a script,
 * but the frames are in the code of the interpreter. */
static bool runs_scripts(const char *file) {
    static const char *const interpreters[] = {
        "python", "pypy", "perl", "ruby", "node", "php",   "lua",   "bash", "dash",
        "zsh",    "ksh",  "sh",   "gawk", "mawk", "guile", "tclsh", "wish", "Rscript"};
    for (size_t i = 0; i < sizeof interpreters / sizeof interpreters[0]; i++) {
        size_t length = strlen(interpreters[i]);
        if (strncmp(file, interpreters[i], length) == 0 &&
            file[length + strspn(file + length, "0123456789.-")] == '\0')
            return true;
    }
    return false;
}

const char *frames_module_name(const struct model *model, uint32_t module) {
    const char *path = model->modules[module].path, *file = shorten_path(path);
    bool named = model->program && strcmp(path, model->exe) == 0 && !runs_scripts(file);
    return named ? model->program : file;
}

/* Writes the name of a function with its file and line, or else with its module. `mark`: a word to
 * put in brackets behind the name, or NULL. */
static void put_function(FILE *text, const struct model_function *function, const char *module,
                         const char *mark, bool whole) {
    const char *name = function->name ? function->name : "?";
    char *short_name = whole ? NULL : shorten_function(name);
    fputs(whole ? name : short_name, text);
    free(short_name);
    if (mark)
        fprintf(text, " [%s]", mark);
    if (function->file && function->line > 0) {
        fprintf(text, " (%s:%" PRId64 ")", whole ? function->file : shorten_path(function->file),
                function->line);
    } else if (module) {
        fprintf(text, " (%s)", module);
    }
}

/* Writes the inlined functions, outermost first. The short form leaves out the middle of a long
 * chain. */
static void put_inlined(FILE *text, const struct model_names *names, bool whole) {
    uint32_t inlined = names->count - 1;
    for (uint32_t i = inlined; i > 0; i--) {
        if (!whole && inlined > INLINED_SHOWN && i != inlined && i != 1) {
            if (i == 2)
                fprintf(text, " > ...%u more", inlined - INLINED_SHOWN);
            continue;
        }
        fputs(" > ", text);
        put_function(text, &names->functions[i], NULL, "inlined", whole);
    }
}

static const char *module_of(const struct model *model, const struct model_frame *frame,
                             bool whole) {
    return frame->module == WIRE_NONE ? NULL
           : whole                    ? model->modules[frame->module].path
                                      : frames_module_name(model, frame->module);
}

static void put_frame(FILE *text, const struct model *model, const struct model_frame *frame,
                      const char *mark, bool whole) {
    const struct model_names *names = frame->names;
    const char *module = module_of(model, frame, whole);
    if (frame->kind == WIRE_KIND_ROOT) {
        fputs("[no call path]", text);
    } else if (frame->kind != WIRE_KIND_PATH) {
        fputs(frame->label ? frame->label : "[unnamed]", text);
    } else if (names && names->functions[0].name) {
        put_function(text, &names->functions[0], module, mark, whole);
        put_inlined(text, names, whole);
    } else if (module) {
        fprintf(text, "%s+0x%" PRIx64, module, frame->address - model->modules[frame->module].bias);
    } else {
        fprintf(text, "0x%" PRIx64, frame->address);
    }
}

static char *write_frame(const struct model *model, const struct model_frame *frame,
                         const char *mark, bool whole) {
    char *buffer = NULL;
    size_t bytes = 0;
    FILE *text = text_file_open(&buffer, &bytes);
    put_frame(text, model, frame, mark, whole);
    fclose(text);
    return buffer;
}

char *frames_write_frame(const struct model *model, const struct model_frame *frame, bool whole) {
    return write_frame(model, frame, NULL, whole);
}

static void put_tails(FILE *text, const struct model *model, const struct model_tails *tails,
                      const char *before, const char *behind, bool whole) {
    for (uint32_t i = tails ? tails->count : 0; i-- > 0;) {
        fputs(before, text);
        put_frame(text, model, &tails->frames[i], "tail call", whole);
        fputs(behind, text);
    }
}

char *frames_write(const struct model *model, const struct model_context *context, bool whole) {
    char *buffer = NULL;
    size_t bytes = 0;
    FILE *text = text_file_open(&buffer, &bytes);
    put_tails(text, model, tails_before(model, context), "", " > ", whole);
    put_frame(text, model, context->frame, NULL, whole);
    if (context->first_child == WIRE_NONE)
        put_tails(text, model, tails_to_malloc(model, context), " > ", "", whole);
    fclose(text);
    return buffer;
}

/* Writes the name of a context's function alone; if it has no name, the frame in short form. */
static void put_function_name(FILE *text, const struct model *model, uint32_t index) {
    const struct model_context *context = &model->contexts[index];
    const struct model_names *names = context->frame->names;
    bool named = context->frame->kind == WIRE_KIND_PATH && names && names->functions[0].name;
    char *name = named ? shorten_function(names->functions[0].name)
                       : frames_write_frame(model, context->frame, false);
    fputs(name, text);
    free(name);
}

/* Writes the loop of a recursive context. */
static void put_loop(FILE *text, const struct model *model, uint32_t index) {
    uint32_t loop[LOOP_SHOWN];
    if ((model->contexts[index].flags & WIRE_CONTEXT_RECURSIVE) == 0)
        return;
    size_t count = folding_find_loop(model, index, loop, LOOP_SHOWN);
    fprintf(text, "  (recursive%s", count > 0 ? ": " : "");
    for (size_t i = 0; i < count && i < LOOP_SHOWN; i++) {
        fputs(i > 0 ? " > " : "", text);
        put_function_name(text, model, loop[i]);
    }
    fputs(count > LOOP_SHOWN ? " > ...)" : ")", text);
}

char *frames_write_step(const struct model *model, uint32_t index) {
    char *frame = frames_write(model, &model->contexts[index], false), *buffer = NULL;
    size_t bytes = 0;
    FILE *text = text_file_open(&buffer, &bytes);
    fputs(frame, text);
    put_loop(text, model, index);
    fclose(text);
    free(frame);
    return cli_clean_bytes(buffer);
}

static void add_step(struct frames_path *path, char *step) {
    if (path->count == path->capacity) {
        path->capacity = 2 * path->capacity + 16;
        path->steps = cli_grow(path->steps, path->capacity, sizeof *path->steps);
    }
    path->steps[path->count++] = cli_clean_bytes(step);
}

static void add_tails(struct frames_path *path, const struct model *model,
                      const struct model_tails *tails) {
    for (uint32_t i = 0; tails && i < tails->count; i++)
        add_step(path, write_frame(model, &tails->frames[i], "tail call", false));
}

static void add_frame(struct frames_path *path, const struct model *model, uint32_t index) {
    char *buffer = NULL;
    size_t bytes = 0;
    FILE *text = text_file_open(&buffer, &bytes);
    put_frame(text, model, model->contexts[index].frame, NULL, false);
    put_loop(text, model, index);
    fclose(text);
    add_step(path, buffer);
}

void frames_make_path(struct frames_path *path, const struct model *model, uint32_t index,
                      int64_t frames) {
    *path = (struct frames_path){.count = 0};
    add_tails(path, model, tails_to_malloc(model, &model->contexts[index]));
    for (int64_t count = 0;; count++) {
        const struct model_context *context = &model->contexts[index];
        if (context->parent == WIRE_NONE && count > 0)
            break;
        if (frames >= 0 && count >= frames) {
            path->cut = true;
            break;
        }
        add_frame(path, model, index);
        if (context->parent == WIRE_NONE)
            break;
        add_tails(path, model, tails_before(model, context));
        index = context->parent;
    }
}

void frames_free_path(struct frames_path *path) {
    for (size_t i = 0; i < path->count; i++)
        free(path->steps[i]);
    free(path->steps);
}

char *frames_write_path(const struct model *model, uint32_t index, int64_t frames) {
    char *buffer = NULL;
    size_t bytes = 0;
    struct frames_path path;
    FILE *text = text_file_open(&buffer, &bytes);
    frames_make_path(&path, model, index, frames);
    for (size_t i = 0; i < path.count; i++)
        fprintf(text, "%s%s", i > 0 ? " < " : "", path.steps[i]);
    if (path.cut)
        fputs(" < ...", text);
    frames_free_path(&path);
    fclose(text);
    return buffer;
}
