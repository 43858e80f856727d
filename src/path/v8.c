/* SPDX-License-Identifier: MIT */
/* Finds V8 among the loaded objects, and asks it which memory has its code; see v8.h. Cannot tell
 * the code of an outer isolate while the thread is inside another one. */
#include "path/v8.h"
#include "base/options.h"
#include "os/meta.h"
#include "path/rebind.h"
#include "region/blocks.h"

/* An object with V8 has tens of MB. So no symbol is looked for in most objects. */
#define V8_BYTES_MIN (8U << 20)
/* The depth if the user sets none. Where a JavaScript function calls another one, V8's own frames
 * stand between them, so 32 frames do not reach the program's start. */
#define V8_DEPTH 64
#define ISOLATES_MAX 128U /* isolates that are watched at a time */
#define RANGES_MAX 65536U /* a longer list is taken for a damaged one */

/* v8::MemoryRange, and std::vector of it, as both C++ libraries have it. */
struct code_range {
    uintptr_t start;
    size_t bytes;
};
struct code_list {
    const struct code_range *first, *end;
};

static struct {
    void *(*current)(void); /* v8::Isolate::TryGetCurrent: the isolate that the thread is inside */
    /* atomic; v8::internal::Isolate::GetCodePages; NULL: V8 is not loaded */
    const struct code_list *(*code_of)(const void *isolate);
    /* The watched isolates; NULL: a free place. Each is atomic, and set under unwind_rules_lock. */
    const void **isolates;
} v8;

void v8_look(const struct module *module) {
    if (module->end - module->start < V8_BYTES_MIN || v8_is_loaded())
        return;
    uintptr_t current = rebind_in_object(module->link_map, "_ZN2v87Isolate13TryGetCurrentEv");
    uintptr_t code_of =
        rebind_in_object(module->link_map, "_ZNK2v88internal7Isolate12GetCodePagesEv");
    v8.isolates = current && code_of ? meta_alloc(ISOLATES_MAX * sizeof *v8.isolates) : NULL;
    if (!v8.isolates)
        return;
    if (!load_acquire(&options_depth_is_set))
        store_release(&options.depth, V8_DEPTH);
    v8.current = (void *(*)(void))current;
    store_release(&v8.code_of, (const struct code_list *(*)(const void *))code_of);
}

bool v8_is_loaded(void) {
    return load_acquire(&v8.code_of) != NULL;
}

/* Returns the page of the isolate, which is a large chunk of some 60 KB. NULL: the pointer is not
 * the start of a large chunk, because V8 has not begun yet, or has ended. */
static const struct page *chunk_of(const void *isolate) {
    const struct page *page = isolate ? segment_page_of(isolate) : NULL;
    uint8_t kind = page ? load_relaxed(&page->kind) : PAGE_SPAN;
    return page && (kind == PAGE_SPAN || kind == PAGE_HUGE) && page->chunk == isolate ? page : NULL;
}

/* An isolate that is being made has no list yet. The list itself is part of the isolate. An isolate
 * that is being destroyed may have freed the memory of its list, so the memory is tested before it
 * is read. */
static bool is_sound(const struct page *chunk, const struct code_list *list) {
    if ((uintptr_t)list - (uintptr_t)chunk->chunk >= load_relaxed(&chunk->requested_bytes))
        return false;
    uintptr_t first = (uintptr_t)list->first, end = (uintptr_t)list->end;
    return first < end && end - first <= RANGES_MAX * sizeof(struct code_range) && !(first & 7) &&
           os_is_readable(first, end);
}

/* One builtin of V8 (InterpreterOnStackReplacement_ToBaseline) keeps a value of the JavaScript
 * program where its return address should be. The value may be a small integer, which V8 keeps in
 * the upper half of a word. */
static bool is_integer(uintptr_t word) {
    return !(uint32_t)word;
}

const void *v8_isolate_of(uintptr_t address) {
    const struct code_list *(*code_of)(const void *) = load_acquire(&v8.code_of);
    const void *isolate = code_of ? v8.current() : NULL;
    const struct page *chunk = chunk_of(isolate);
    const struct code_list *list = chunk ? code_of(isolate) : NULL;
    if (!list || is_integer(address) || !is_sound(chunk, list))
        return NULL;
    for (const struct code_range *range = list->first; range < list->end; range++)
        if (address - 1 - range->start < range->bytes)
            return isolate;
    return NULL;
}

#define CALL_BYTES_MAX 7 /* of an indirect call */

/* True if a call ends at the address. */
static bool is_after_call(uintptr_t address) {
    const uint8_t *code = (const uint8_t *)address;
    if (address < OS_PAGE_BYTES || !os_is_readable(address - CALL_BYTES_MAX, address))
        return false;
    for (int bytes = 2; bytes <= CALL_BYTES_MAX; bytes++)
        if (code[-bytes] == 0xff && (code[1 - bytes] >> 3 & 7) == 2)
            return true;
    return code[-5] == 0xe8;
}

#define TYPE_MAX 255U /* V8 keeps the type of a frame as an even number of one byte */

/* In a frame of a JavaScript function a pointer stands where other frames have their type. The
 * value that is_integer tells about is always followed by the frame of a JavaScript function, so
 * v8_calls does not take this value for a return address. */
bool v8_calls(const struct stack_frame *called, uintptr_t address, uint64_t type) {
    if (!v8_is_loaded() || !type || type > TYPE_MAX || type & 1)
        return false;
    bool by_v8 = called->rule == v8_rule(MODULE_NONE) || v8_isolate_of(called->address);
    return by_v8 && is_after_call(address);
}

bool v8_watch(const void *isolate) {
    struct page *page = segment_page_of(isolate);
    const void **place = NULL;
    for (unsigned i = 0; i < ISOLATES_MAX; i++) {
        const void *watched = load_relaxed(&v8.isolates[i]);
        if (watched == isolate)
            return true;
        if (!watched)
            place = &v8.isolates[i];
    }
    if (!page || !place)
        return false;
    store_owner(place, isolate);
    blocks_watch(page);
    return true;
}

bool v8_disposed(const void *chunk) {
    for (unsigned i = 0; v8_is_loaded() && i < ISOLATES_MAX; i++)
        if (load_relaxed(&v8.isolates[i]) == chunk) {
            store_owner(&v8.isolates[i], NULL);
            return true;
        }
    return false;
}
