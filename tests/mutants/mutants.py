# SPDX-License-Identifier: MIT
"""The faults: name -> (file, what stands there, what is put there, tests of the abuse suite that must fail)."""

MALLOC = "src/api/malloc.c"

MUTANTS = {
    # --- values and errors ---
    "malloc-of-nothing-is-null": (
        MALLOC, "    return allocate(size, ALLOCATE_PLAIN, FRAME);\n}\n\nEXPORT void *calloc",
        "    return size ? allocate(size, ALLOCATE_PLAIN, FRAME) : NULL;\n}\n\nEXPORT void *calloc",
        ["limits-malloc-zero"]),
    "free-of-null-traps": (
        "src/api/free.c", "EXPORT void free(void *chunk) {\n",
        "EXPORT void free(void *chunk) {\n    if (!chunk)\n        __builtin_trap();\n",
        ["limits-free-null"]),
    "too-large-leaves-errno": (
        MALLOC, "        chunk = serve_emergency(request);\n    }\n    if (!chunk)\n        errno = ENOMEM;",
        "        chunk = serve_emergency(request);\n    }",
        ["limits-impossible-size", "limits-realloc-impossible-size"]),
    "calloc-overflows": (
        MALLOC, "        bytes = SIZE_MAX; /* refused with ENOMEM */", "        bytes = 16;",
        ["limits-calloc-overflow"]),
    "reallocarray-overflows": (
        MALLOC, "    if (__builtin_mul_overflow(count, size, &bytes)) {\n        errno = ENOMEM;\n        return NULL;\n    }",
        "    bytes = count * size;", ["limits-reallocarray-overflow"]),
    "realloc-to-nothing-keeps": (
        MALLOC, "        free(old);\n        return NULL;", "        return NULL;", ["limits-realloc-to-zero"]),
    "malloc-writes-errno": (
        MALLOC, "EXPORT void *malloc(size_t size) {\n", "EXPORT void *malloc(size_t size) {\n    errno = 0;\n",
        ["limits-errno-preserved", "invariant-4-errno"]),
    "free-writes-errno": (
        "src/api/free.c", "EXPORT void free(void *chunk) {\n", "EXPORT void free(void *chunk) {\n    errno = EINVAL;\n",
        ["limits-errno-preserved", "limits-errno-free-locked"]),
    "out-of-memory-aborts": (
        MALLOC, "    if (start_control)\n        control_start();\n    if (!chunk)\n        errno = ENOMEM;",
        "    if (start_control)\n        control_start();\n    if (!chunk)\n        __builtin_trap();",
        ["limits-out-of-memory", "cxx-bad-alloc", "cxx-bad-alloc-aligned"]),
    "segments-need-a-gigabyte": (
        "src/segment/segment.c", "    void *start = os_map_aligned(bytes, SEGMENT_BYTES);",
        "    void *start = os_map_aligned(bytes + (1UL << 30), SEGMENT_BYTES);", ["limits-small-address-space"]),
    "usable-size-is-too-large": (
        "src/region/region.c", "    return (size_t)(block + page->block_bytes - (const char *)chunk);",
        "    return (size_t)(block + page->block_bytes - (const char *)chunk) + 16;", ["content-usable-size"]),
    "posix-memalign-takes-any": (
        MALLOC, "    if (!is_power_of_two(alignment) || alignment % sizeof(void *))\n        return EINVAL;", "",
        ["aligned-posix-memalign-invalid"]),
    # --- alignment ---
    "chunks-start-at-their-block": (
        "src/region/region.c", "    char *chunk = (char *)align_up((uintptr_t)block, alignment);",
        "    char *chunk = block;", ["aligned-every-alignment", "aligned-aligned-mixed-use", "cxx-aligned"]),
    "valloc-is-malloc": (
        MALLOC, "    return allocate_aligned(size, OS_PAGE_BYTES, FRAME);\n}\n\nEXPORT void *pvalloc",
        "    return allocate(size, ALLOCATE_PLAIN, FRAME);\n}\n\nEXPORT void *pvalloc", ["aligned-page-aligned"]),
    "alignment-is-not-rounded": (
        MALLOC, "    while (power < alignment)\n        power *= 2;", "    while (power < alignment / 2)\n        power *= 2;",
        ["aligned-odd-alignment"]),
    # --- contents ---
    "calloc-leaves-old-bytes": (
        "src/api/allocate.h", "    return how == ALLOCATE_ZEROED && !fresh ? memset(chunk, 0, size) : chunk;",
        "    (void)fresh;\n    return chunk;",
        ["content-calloc-dirty-small", "content-calloc-threads"]),
    "large-calloc-leaves-old-bytes": (
        "src/region/large.c", "    if (zero && !page->fresh)", "    if (zero && page->fresh)", ["content-calloc-dirty-large"]),
    "realloc-copies-half": (
        "src/region/region.c", "    __builtin_memcpy(moved, chunk, keep < size ? keep : size);",
        "    __builtin_memcpy(moved, chunk, (keep < size ? keep : size) / 2);",
        ["content-realloc-every-jump", "content-realloc-walk"]),
    "realloc-of-huge-stays": (
        "src/region/region.c", "MAX_SPAN_SLICES * SLICE_BYTES / 2 ? segment_huge_resize(page, size)",
        "MAX_SPAN_SLICES * SLICE_BYTES / 2 ? page", ["content-realloc-huge"]),
    # --- what is told ---
    "mallinfo-says-nothing": (
        "src/api/stats.c", "        .uordblks = live > 0 ? (size_t)live : 0,", "        .uordblks = 0,",
        ["report-mallinfo-grows"]),
    "malloc-info-is-no-xml": (
        "src/api/stats.c", '            "</malloc>\\n",', '            "\\n",', ["report-malloc-info-xml"]),
    "malloc-info-takes-options": (
        "src/api/stats.c", "    if (flags)\n        return EINVAL;", "    (void)flags;", ["report-malloc-info-options"]),
    "malloc-stats-is-silent": (
        "src/api/stats.c", "    os_print(&text);\n}\n\nEXPORT int malloc_trim", "}\n\nEXPORT int malloc_trim",
        ["report-malloc-stats-text"]),
    "mallopt-refuses": (
        "src/api/stats.c", "    (void)value;\n    return 1;", "    (void)value;\n    return 0;", ["report-mallopt-answers"]),
    # --- threads ---
    "remote-frees-are-lost": (
        "src/region/region.c", "    blocks_free_remote(page, block);\n}", "    (void)block;\n}", ["threads-remote-free"]),
    "heaps-are-not-adopted": (
        "src/region/heap.c", "        if (mine)\n            return heap;", "", ["threads-many-threads", "threads-waves-of-threads"]),
    "thread-ends-are-missed": (
        "src/api/thread.c", "    context_forget(heap);\n    heap_park(heap);", "    context_forget(heap);",
        ["threads-key-destructor-first"]),
    "much-stack-is-used": (
        MALLOC, "    void *chunk = NULL;\n    struct heap *heap;\n    enum thread_access access;",
        "    volatile char room[30000];\n    room[0] = 1;\n    void *chunk = NULL;\n    struct heap *heap;\n"
        "    enum thread_access access;", ["threads-tiny-stack"]),
    "forks-take-no-lock": (
        "src/api/init.c", "    OS_TRY_ERROR(pthread_atfork(fork_prepare, fork_parent, fork_child));", "",
        ["threads-fork-under-load"]),
    # --- misuse ---
    "second-frees-pass": (
        "src/region/region.c", "COLD void region_report(enum region_misuse misuse, const struct page *page, const void *chunk) {\n",
        "COLD void region_report(enum region_misuse misuse, const struct page *page, const void *chunk) {\n"
        "    os_raise(SIGKILL);\n".replace("os_raise(SIGKILL)", "__builtin_trap()"),
        ["misuse-double-free-small", "misuse-double-free-medium", "misuse-double-free-large",
         "misuse-double-free-later", "misuse-double-free-threads", "misuse-interior-small", "misuse-interior-odd",
         "misuse-interior-medium", "misuse-interior-large", "misuse-realloc-freed"]),
    "foreign-pointers-are-read": (
        "src/region/region.c", "    struct page *huge = segment_huge_of(chunk);\n    if (huge)",
        "    struct page *huge = segment_huge_of(chunk);\n    if (*(volatile char *)chunk == 77)\n        __builtin_trap();\n    if (huge)",
        ["misuse-unreadable-pointer", "misuse-unmapped-pointer", "misuse-noncanonical-pointer", "misuse-low-pointer"]),
    "foreign-pointers-abort": (
        "src/region/region.c", "    else /* not ours (a library with a malloc of its own), or freed long ago: never touched */\n",
        "    else\n        os_abort();\n    if (0)\n",
        ["misuse-stack-pointer", "misuse-global-pointer", "misuse-literal-pointer", "misuse-foreign-mapping",
         "misuse-interior-huge"]),
    "foreign-pointers-are-resized": (
        "src/region/region.c", "        if (!page)\n            add_relaxed(&heap_global.foreign_frees, 1);\n        return NULL;",
        "        os_abort();", ["misuse-realloc-foreign"]),
    # --- C++ ---
    "new-returns-null": (
        MALLOC, "    return UNLIKELY(!chunk) && how == ALLOCATE_NEW ? new_retry(size, 1, frame) : chunk;",
        "    (void)size, (void)how, (void)frame;\n    return chunk;", ["cxx-bad-alloc", "cxx-new-handler"]),
    # --- names ---
    # --- invariants ---
    "waste-is-not-bounded": (
        "src/region/heap.c", "    return waste < cap;", "    return waste < cap * 1000;", ["invariant-5-waste-cap"]),
    "tiny-chunks-are-misaligned": (
        MALLOC, "    return allocate(size, ALLOCATE_PLAIN, FRAME);\n}\n\nEXPORT void *calloc",
        "    char *chunk = allocate(size + 8, ALLOCATE_PLAIN, FRAME);\n    return chunk + (size < 9 ? 8 : 0);\n}\n\n"
        "EXPORT void *calloc", ["aligned-every-block"]),
    "realloc-shrinks-nothing": (
        "src/region/region.c", "    if (page->kind == PAGE_HUGE)\n        return size >",
        "    if (page->kind == PAGE_HUGE && size < page->requested_bytes)\n        return page;\n"
        "    if (page->kind == PAGE_HUGE)\n        return size >", ["content-realloc-shrink-returns"]),
    "a-child-keeps-its-locks": (
        "src/api/init.c", "    fork_done(true);", "", ["threads-fork-child-allocates"]),
    "usable-size-of-foreign": (
        "src/region/region.c", "    if (!page || page->kind == PAGE_NONE)\n        return 0;\n    if (is_large",
        "    if (!page || page->kind == PAGE_NONE)\n        return 8;\n    if (is_large", ["misuse-usable-foreign"]),
    "cfree-is-missing": (
        "src/api/exports.map", "free_aligned_sized; cfree;", "free_aligned_sized;",
        ["names-exports", "report-cfree-of-old-binaries"]),
    "frees-count-twice": (
        "src/region/heap.h", "    add_owner(&view->frees, 1);", "    add_owner(&view->frees, 2);",
        ["invariant-1-sums-when-quiescent"]),
    "rules-are-mistaken": (
        "src/path/cfi.c", "                saved[depth++] = *state;", "                saved[depth++] = *initial;",
        ["invariant-2-oracle-agrees-on-programs"]),
    "tables-are-large": (
        "src/os/meta.c", "#define FIRST_BYTES (1UL << 20)", "#define FIRST_BYTES (3UL << 20)", ["names-small-footprint"]),
    "descriptors-are-the-programs": (
        "src/control/server.c", "!control.first_ended && !OS_TRY(unshare(CLONE_FILES));", "false;",
        ["invariant-8-descriptors-unseen"]),
    "the-socket-is-for-all": (
        "src/control/server.c", "place.temporary.sun_path, 0600", "place.temporary.sun_path, 0666",
        ["invariant-7-modes"]),
    "it-can-be-unloaded": (
        "Makefile", "-Wl,-z,nodelete -Wl,-z,now", "-Wl,-z,now", ["names-needed"]),
    "its-tables-can-be-written": (
        "Makefile", "-Wl,-z,now -Wl,-z,relro", "-Wl,-z,lazy -Wl,-z,norelro", ["names-hardened"]),
    "holes-are-not-counted": (
        "src/region/blocks.h", "    add_owner(&heap->own_free, page->waste_unit);", "",
        ["invariant-5-holes-end-segregation"]),
    "new-handler-is-malloc-s": (
        MALLOC, "    return allocate(size, ALLOCATE_PLAIN, FRAME);\n}\n\nEXPORT void *calloc",
        "    return allocate(size, ALLOCATE_NEW, FRAME);\n}\n\nEXPORT void *calloc", ["cxx-new-handler-not-malloc"]),
}
