/* SPDX-License-Identifier: MIT */
/* origin.c - recognises memory of languages by the names of functions and modules; see origin.h. It
 * knows Java, V8, Go, Python and the interpreters that is_interpreter lists. */
#include "diagnosis/origin.h"

#include <fnmatch.h>
#include <string.h>

#include "model/frames.h"

bool origin_is_java(const struct look *look, const struct finding *finding) {
    const struct model *model = look->model;
    uint32_t context = finding->example;
    for (; context != WIRE_NONE; context = model->contexts[context].parent) {
        const struct model_frame *frame = model->contexts[context].frame;
        const char *name =
            frame->names && frame->names->count > 0 ? frame->names->functions[0].name : NULL;
        if (name && (strncmp(name, "Java_", 5) == 0 || strncmp(name, "Unsafe_Alloc", 12) == 0))
            return true;
    }
    return false;
}

bool origin_is_javascript(const struct look *look, const struct finding *finding) {
    const struct model *model = look->model;
    struct who_step step = {.context = WIRE_NONE};
    if (finding->example != WIRE_NONE)
        step = who_first(model, finding->example);
    while (step.context != WIRE_NONE && who_kind_of(model, step) != WHO_MEANS)
        step = who_next(model, step);
    if (step.context == WIRE_NONE || !who_has_name(model, step))
        return false;
    const struct model_frame *frame = model->contexts[step.context].frame;
    const char *name = frame->names->functions[step.function].name;
    return strncmp(name, "v8::", strlen("v8::")) == 0 ||
           strncmp(name, "node::", strlen("node::")) == 0;
}

/* True if a function on the path has a name with this word. */
static bool leads_through(const struct model *model, uint32_t context, const char *word) {
    for (; context != WIRE_NONE; context = model->contexts[context].parent) {
        const struct model_names *names = model->contexts[context].frame->names;
        if (names && names->count > 0 && names->functions[0].name &&
            strstr(names->functions[0].name, word))
            return true;
    }
    return false;
}

bool origin_is_loader(const struct look *look, const struct blame_suspect *suspect) {
    const struct model *model = look->model;
    for (size_t k = 0; k < suspect->count; k++) {
        uint32_t context = suspect->members[k], module = model->contexts[context].frame->module;
        if (module == WIRE_NONE ||
            strncmp(frames_module_name(model, module), "ld-linux", strlen("ld-linux")) != 0 ||
            !leads_through(model, context, "dlopen"))
            return false;
    }
    return suspect->count > 0;
}

bool origin_is_go(const struct look *look, const struct blame_suspect *suspect) {
    for (size_t k = 0; k < suspect->count; k++) {
        const struct model_names *names = look->model->contexts[suspect->members[k]].frame->names;
        const char *name = names && names->count > 0 ? names->functions[0].name : NULL;
        if (!name || fnmatch("_cgo_*_Cfunc__Cmalloc", name, 0) != 0)
            return false;
    }
    return suspect->count > 0;
}

/* True if code of this module calls the allocators of Python, whose chunks tracemalloc knows: the
 * interpreter and the modules that come with it. */
static bool is_part_of_python(const struct model_module *module) {
    const char *slash = strrchr(module->path, '/'), *name = slash ? slash + 1 : module->path;
    return strncmp(name, "python", 6) == 0 || strncmp(name, "libpython", 9) == 0 ||
           strstr(module->path, "/lib-dynload/");
}

bool origin_is_libraries(const struct look *look, const struct blame_suspect *suspect) {
    const struct model *model = look->model;
    int64_t all = 0, theirs = 0;
    for (size_t k = 0; k < suspect->count; k++) {
        uint32_t module = model->contexts[suspect->members[k]].frame->module;
        int64_t bytes =
            look_totals(look, blame_number(&look->paths, suspect->members[k])).requested_bytes;
        all = model_tame(all + bytes);
        if (module != WIRE_NONE && !is_part_of_python(&model->modules[module]))
            theirs = model_tame(theirs + bytes);
    }
    return theirs > all / 2;
}

/* True if this module is an interpreter. False for a program that contains an interpreter, as
 * redis-server contains Lua's. */
static bool is_interpreter(const struct model *model, uint32_t module) {
    static const char *const names[] = {"perl", "php", "python", "ruby", "lua", "tcl"};
    const char *name = module != WIRE_NONE ? frames_module_name(model, module) : "";
    name += strncmp(name, "lib", 3) == 0 ? 3 : 0;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strncmp(name, names[i], strlen(names[i])) == 0)
            return true;
    return false;
}

/* True if the path leads through the loop of an interpreter, and all functions nearer to malloc
 * that tell something are in the module of that loop. */
static bool leads_through_interpreter(const struct model *model, uint32_t context) {
    uint32_t module = WIRE_NONE;
    struct who_step at = who_first(model, context);
    for (; at.context != WIRE_NONE; at = who_next(model, at)) {
        enum who_kind kind = who_kind_of(model, at);
        uint32_t its = model->contexts[at.context].frame->module;
        if (kind == WHO_INTERPRETER)
            return is_interpreter(model, its) && (module == WIRE_NONE || its == module);
        if (kind != WHO_MEANS)
            continue;
        if (!is_interpreter(model, its) || (module != WIRE_NONE && its != module))
            return false;
        module = its;
    }
    return false;
}

bool origin_is_script(const struct look *look, const struct blame_suspect *suspect) {
    int64_t all = 0, theirs = 0;
    for (size_t k = 0; k < suspect->count; k++) {
        uint32_t context = suspect->members[k];
        int64_t bytes = look_totals(look, blame_number(&look->paths, context)).requested_bytes;
        all = model_tame(all + bytes);
        if (leads_through_interpreter(look->model, context))
            theirs = model_tame(theirs + bytes);
    }
    return theirs > all / 2;
}
