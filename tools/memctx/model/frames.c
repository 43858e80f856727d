/* SPDX-License-Identifier: MIT */
/* frames.c - writes a frame, a step of a path and a whole path as text. */
#include "model/frames.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "model/folding.h"
#include "model/shorten.h"

#define LOOP_SHOWN 4    /* most functions of a loop that are shown */
#define INLINED_SHOWN 2 /* functions inlined into a frame: the outermost and the innermost */

static void put_function(FILE *text, const struct model_function *function, const char *module,
                         bool inlined, bool whole) {
    const char *name = function->name ? function->name : "?";
    char *short_name = whole ? NULL : shorten_function(name);
    fputs(whole ? name : short_name, text);
    free(short_name);
    if (inlined)
        fputs(" [inlined]", text);
    if (function->file && function->line > 0) {
        fprintf(text, " (%s:%" PRId64 ")", whole ? function->file : shorten_path(function->file),
                function->line);
    } else if (module) {
        fprintf(text, " (%s)", whole ? module : shorten_path(module));
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
        put_function(text, &names->functions[i], NULL, true, whole);
    }
}

char *frames_write(const struct model *model, const struct model_context *context, bool whole) {
    char *buffer = NULL;
    size_t bytes = 0;
    const struct model_names *names = context->frame->names;
    const char *module =
        context->frame->module != WIRE_NONE ? model->modules[context->frame->module].path : NULL;
    FILE *text = open_memstream(&buffer, &bytes);
    if (!text)
        cli_die(CLI_REFUSED, "out of memory");
    if (context->frame->kind == WIRE_KIND_ROOT) {
        fputs("[no call path]", text);
    } else if (context->frame->kind != WIRE_KIND_PATH) {
        fputs(context->frame->label ? context->frame->label : "[unnamed]", text);
    } else if (names && names->functions[0].name) {
        put_function(text, &names->functions[0], module, false, whole);
        put_inlined(text, names, whole);
    } else if (module) {
        fprintf(text, "%s+0x%" PRIx64, whole ? module : shorten_path(module),
                context->frame->address - model->modules[context->frame->module].bias);
    } else {
        fprintf(text, "0x%" PRIx64, context->frame->address);
    }
    fclose(text);
    return buffer;
}

/* Writes the name of the function alone; without a name, the frame in short form. */
static void put_function_name(FILE *text, const struct model *model, uint32_t index) {
    const struct model_context *context = &model->contexts[index];
    const struct model_names *names = context->frame->names;
    bool named = context->frame->kind == WIRE_KIND_PATH && names && names->functions[0].name;
    char *name =
        named ? shorten_function(names->functions[0].name) : frames_write(model, context, false);
    fputs(name, text);
    free(name);
}

char *frames_write_step(const struct model *model, uint32_t index) {
    const struct model_context *context = &model->contexts[index];
    char *frame = frames_write(model, context, false), *buffer = NULL;
    size_t bytes = 0;
    if ((context->flags & WIRE_CONTEXT_RECURSIVE) == 0)
        return frame;
    uint32_t loop[LOOP_SHOWN];
    size_t count = folding_find_loop(model, index, loop, LOOP_SHOWN);
    FILE *text = open_memstream(&buffer, &bytes);
    if (!text)
        cli_die(CLI_REFUSED, "out of memory");
    fprintf(text, "%s  (recursive%s", frame, count > 0 ? ": " : "");
    for (size_t i = 0; i < count && i < LOOP_SHOWN; i++) {
        fputs(i > 0 ? " > " : "", text);
        put_function_name(text, model, loop[i]);
    }
    fputs(count > LOOP_SHOWN ? " > ...)" : ")", text);
    fclose(text);
    free(frame);
    return buffer;
}

char *frames_write_path(const struct model *model, uint32_t index, int64_t frames) {
    char *buffer = NULL;
    size_t bytes = 0;
    FILE *text = open_memstream(&buffer, &bytes);
    if (!text)
        cli_die(CLI_REFUSED, "out of memory");
    for (int64_t count = 0;; count++) {
        const struct model_context *context = &model->contexts[index];
        if (context->parent == WIRE_NONE && count > 0)
            break;
        if (frames >= 0 && count >= frames) {
            fputs(" < ...", text);
            break;
        }
        char *name = frames_write_step(model, index);
        fprintf(text, "%s%s", count > 0 ? " < " : "", name);
        free(name);
        if (context->parent == WIRE_NONE)
            break;
        index = context->parent;
    }
    fclose(text);
    return buffer;
}
