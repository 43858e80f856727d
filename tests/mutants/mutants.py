# SPDX-License-Identifier: MIT
"""The planted faults: name -> (file, text to replace, replacement, tests that must fail)."""

MALLOC = "src/api/malloc.c"
REALLOC = "src/api/realloc.c"
HUGE_CACHE = "src/segment/huge_cache.c"
TREE = "src/context/tree.c"
IDS = "src/context/tree_ids.c"
V8 = "src/path/v8.c"
MAPPINGS = "tools/memctx/target/mappings.c"
RESIDENCY = "tools/memctx/target/residency.c"
UNIT = "scripts/memctx-agent.service.in"
EXAMPLE = "examples/agent/agent.toml"

MUTANTS = {
    # --- values and errors ---
    "malloc-of-nothing-is-null": (
        MALLOC, "    return allocate(size, ALLOCATE_PLAIN, FRAME);\n}\n\nEXPORT void *calloc",
        "    return size ? allocate(size, ALLOCATE_PLAIN, FRAME) : NULL;\n}\n\nEXPORT void *calloc",
        ["limits-malloc-zero"]),
    "mallocx-zeroes-the-asked-bytes-only": (
        "src/api/jemalloc.c", "        zero_from(chunk, aligned ? 0 : size);",
        "        zero_from(chunk, size);", ["jemalloc-mallocx-zero"]),
    "mallocx-serves-arenas-itself": (
        "src/api/jemalloc.c", "if (UNLIKELY((unsigned)flags & FLAG_ARENA) &&",
        "if (UNLIKELY((unsigned)flags & FLAG_ARENA & 1) &&", ["jemalloc-mallocx-arena"]),
    "dallocx-frees-chunks-of-jemalloc": (
        "src/api/jemalloc.c", "    return !chunk || region_page_of(chunk);", "    return true;",
        ["jemalloc-mallocx-arena"]),
    "free-of-null-traps": (
        "src/api/free.c", "EXPORT void free(void *chunk) {\n",
        "EXPORT void free(void *chunk) {\n    if (!chunk)\n        __builtin_trap();\n",
        ["limits-free-null"]),
    "too-large-leaves-errno": (
        MALLOC, "        chunk = serve_emergency(request);\n    }\n    if (!chunk)\n"
                "        errno = ENOMEM;",
        "        chunk = serve_emergency(request);\n    }",
        ["limits-impossible-size", "limits-realloc-impossible-size"]),
    "calloc-overflows": (
        MALLOC, "        bytes = SIZE_MAX; /* refused with ENOMEM */", "        bytes = 16;",
        ["limits-calloc-overflow"]),
    "reallocarray-overflows": (
        "src/api/forward.c", "    if (__builtin_mul_overflow(count, size, &bytes)) {\n"
                             "        errno = ENOMEM;\n        return NULL;\n    }",
        "    bytes = count * size;", ["limits-reallocarray-overflow"]),
    "realloc-to-nothing-keeps": (
        REALLOC, "        free_not_entered(old); /* not free(): that may be the program's own "
                "function */\n        return NULL;",
        "        return NULL;", ["limits-realloc-to-zero"]),
    "malloc-writes-errno": (
        MALLOC, "EXPORT void *malloc(size_t size) {\n",
        "EXPORT void *malloc(size_t size) {\n    errno = 0;\n",
        ["limits-errno-preserved", "invariant-4-errno"]),
    "free-writes-errno": (
        "src/api/free.c", "EXPORT void free(void *chunk) {\n",
        "EXPORT void free(void *chunk) {\n    errno = EINVAL;\n",
        ["limits-errno-preserved", "limits-errno-free-locked"]),
    "out-of-memory-aborts": (
        MALLOC, "    if (!chunk)\n        errno = ENOMEM;\n    return chunk;\n}\n\n/* Serves",
        "    if (!chunk)\n        __builtin_trap();\n    return chunk;\n}\n\n/* Serves",
        ["limits-out-of-memory", "cxx-bad-alloc", "cxx-bad-alloc-aligned"]),
    "segments-need-a-gigabyte": (
        "src/segment/table.c", "    void *start = os_map_aligned(bytes, SEGMENT_BYTES);",
        "    void *start = os_map_aligned(bytes + (1UL << 30), SEGMENT_BYTES);",
        ["limits-small-address-space"]),
    "memory-is-never-asked-for": (
        "src/os/memory.c", "#define ASK_BYTES (64UL << 20)", "#define ASK_BYTES (64UL << 40)",
        ["limits-more-than-the-machine"]),
    "usable-size-is-too-large": (
        "src/region/kind_blocks.c", "    return (size_t)(block + page->block_bytes - (const char "
                                    "*)chunk) - simple_bytes(page);",
        "    return (size_t)(block + page->block_bytes - (const char *)chunk) + 16;",
        ["content-usable-size"]),
    "check-mode-copies-before-it-looks": (
        "src/region/kind_blocks.c", "    if (record.slack == RECORD_FREE || "
                                    "blocks_is_punched(page, block))\n"
                                    "        region_report(MISUSE_DOUBLE_FREE, page, chunk);\n"
                                    "    size_t room",
        "    if ((record.slack == RECORD_FREE || blocks_is_punched(page, block)) && "
        "!options.check)\n        region_report(MISUSE_DOUBLE_FREE, page, chunk);\n    size_t room",
        ["misuse-checked-realloc-freed"]),
    "aligned-chunks-begin-anywhere": (
        "src/region/kind_blocks.c", "(address & -address) <= distance ||", "false ||",
        ["misuse-interior-of-aligned", "misuse-interior-zeroed-odd"]),
    "padding-exceeds-the-slack": (
        "src/region/kind_blocks.c", ".slack < distance)", ".slack < 1)",
        ["misuse-interior-zeroed"]),
    "rewound-pages-held-no-chunks": (
        "src/region/serial.c", "region_report(behind ? MISUSE_DOUBLE_FREE : MISUSE_INTERIOR,",
        "region_report(MISUSE_INTERIOR,", ["misuse-double-free-rewound"]),
    "posix-memalign-takes-any": (
        MALLOC, "    if (!is_power_of_two(alignment) || alignment % sizeof(void *))\n"
                "        return EINVAL;", "",
        ["aligned-posix-memalign-invalid"]),
    # --- alignment ---
    "chunks-start-at-their-block": (
        "src/region/aset.c", "    char *chunk = (char *)align_up((uintptr_t)block, alignment);\n"
                             "    if (chunk != block)\n"
        "        blocks_mark(page, META_ALIGNED);\n    if (simple",
        "    char *chunk = block;\n    if (simple",
        ["aligned-every-alignment", "aligned-aligned-mixed-use", "cxx-aligned"]),
    "valloc-is-malloc": (
        MALLOC, "    return allocate_aligned(size, OS_PAGE_BYTES, FRAME);\n}\n\n"
                "EXPORT void *pvalloc",
        "    return allocate(size, ALLOCATE_PLAIN, FRAME);\n}\n\nEXPORT void *pvalloc",
        ["aligned-page-aligned"]),
    "alignment-is-not-rounded": (
        MALLOC, "__builtin_clzl(alignment - 1)", "__builtin_clzl(alignment / 2 - 1)",
        ["aligned-odd-alignment"]),
    "any-block-is-aligned": (
        MALLOC, "    return page->block_bytes & (alignment - 1) || !aset_slack_fits",
        "    return !aset_slack_fits",
        ["named:slab-chunks-are-aligned"]),
    # --- contents ---
    "calloc-leaves-old-bytes": (
        "src/api/fast.h",
        "    return how == ALLOCATE_ZEROED && !fresh ? memset(chunk, 0, size) : chunk;",
        "    (void)fresh;\n    return chunk;",
        ["content-calloc-dirty-small", "content-calloc-threads"]),
    "large-calloc-leaves-old-bytes": (
        "src/region/large.c", "    else if (zero && !page->fresh)",
        "    else if (zero && page->fresh)",
        ["content-calloc-dirty-large"]),
    "huge-calloc-leaves-old-bytes": (
        "src/region/large.c", "page->stale_bytes < size ? page->stale_bytes : size);", "size * 0);",
        ["content-calloc-dirty-large"]),
    "realloc-copies-half": (
        "src/region/resize.c", "        region_copy(resized, chunk, copied);",
        "        region_copy(resized, chunk, copied / 2);",
        ["content-realloc-every-jump", "content-realloc-walk"]),
    "realloc-moves-half": (
        REALLOC, "    memcpy(moved, old, copied);", "    memcpy(moved, old, copied / 2);",
        ["content-realloc-every-jump", "content-realloc-walk"]),
    "realloc-moves-what-is-freed": (
        REALLOC, "        return LIKELY((uint8_t)record);", "        return true;",
        ["misuse-realloc-freed-stays"]),
    "realloc-of-huge-stays": (
        "src/region/large.c", "    return segment_huge_resize(page, size);", "    return page;",
        ["content-realloc-huge"]),
    # --- statistics of the malloc family ---
    "mallinfo-says-nothing": (
        "src/api/stats.c", "        .uordblks = live > 0 ? (size_t)live : 0,",
        "        .uordblks = 0,",
        ["report-mallinfo-grows"]),
    "malloc-info-is-no-xml": (
        "src/api/stats.c", '            "</malloc>\\n",', '            "\\n",',
        ["report-malloc-info-xml"]),
    "malloc-info-takes-options": (
        "src/api/stats.c", "    if (flags)\n        return EINVAL;", "    (void)flags;",
        ["report-malloc-info-options"]),
    "malloc-stats-is-silent": (
        "src/api/stats.c", "    os_print(&text);\n}\n\n/* Trims", "}\n\n/* Trims",
        ["report-malloc-stats-text"]),
    # --- threads ---
    "remote-frees-are-lost": (
        "src/region/remote.c", "    push_remote(page, chunk);\n    return true;\n}",
        "    return true;\n}", ["threads-remote-free"]),
    "heaps-are-not-adopted": (
        "src/region/heap.c",
        "            add_relaxed(&heap_global.parked, -1);\n            return heap;",
        "            add_relaxed(&heap_global.parked, -1);",
        ["threads-many-threads", "threads-waves-of-threads"]),
    "thread-ends-are-missed": (
        "src/api/thread.c", "    context_forget(heap);\n    heap_park(heap);",
        "    context_forget(heap);",
        ["threads-key-destructor-first"]),
    "much-stack-is-used": (
        MALLOC, "    void *chunk = NULL;\n    struct heap *heap;\n    enum thread_access access;",
        "    volatile char room[30000];\n    room[0] = 1;\n    void *chunk = NULL;\n"
        "    struct heap *heap;\n"
        "    enum thread_access access;", ["threads-tiny-stack"]),
    "locks-are-held-when-the-stack-overflows": (
        "src/os/lock.c", "    if (!held_ranks) { /*", "    if (false) { /*",
        ["threads-stack-overflow"]),
    "forks-take-no-lock": (
        "src/api/init.c", "    OS_TRY_ERROR(__register_atfork(fork_prepare, fork_parent, "
                          "fork_child, library_handle));", "",
        ["threads-fork-under-load"]),
    # --- misuse ---
    "second-frees-pass": (
        "src/region/inspect.c", "COLD void region_report(enum region_misuse misuse, const struct "
                                "page *page, const void *chunk) {\n",
        "COLD void region_report(enum region_misuse misuse, const struct page *page, const void "
        "*chunk) {\n"
        "    __builtin_trap();\n",
        ["misuse-double-free-small", "misuse-double-free-medium", "misuse-double-free-large",
         "misuse-double-free-later", "misuse-double-free-threads", "misuse-interior-small",
         "misuse-interior-odd",
         "misuse-interior-medium", "misuse-interior-large", "misuse-realloc-freed"]),
    "foreign-pointers-are-read": (
        "src/region/remote.c", "    struct page *huge = segment_huge_of(chunk);\n    if (huge)",
        "    struct page *huge = segment_huge_of(chunk);\n    if (*(volatile char *)chunk == 77)\n"
        "        __builtin_trap();\n    if (huge)",
        ["misuse-unreadable-pointer", "misuse-unmapped-pointer", "misuse-noncanonical-pointer",
         "misuse-low-pointer"]),
    "foreign-pointers-abort": (
        "src/region/remote.c", "    else /* a chunk of another allocator, or of a segment that was "
                               "unmapped; never read */\n",
        "    else\n        os_abort();\n    if (0)\n",
        ["misuse-stack-pointer", "misuse-global-pointer", "misuse-literal-pointer",
         "misuse-foreign-mapping",
         "misuse-interior-huge"]),
    "foreign-pointers-are-resized": (
        "src/region/resize.c", "        if (!page)\n"
                               "            add_relaxed(&heap_global.foreign_frees, 1);\n"
                               "        return NULL;",
        "        os_abort();", ["misuse-realloc-foreign"]),
    # --- C++ ---
    "new-returns-null": (
        MALLOC, "    return UNLIKELY(!chunk) && how == ALLOCATE_NEW ? new_retry(size, 1, frame) : "
                "chunk;",
        "    (void)size, (void)how, (void)frame;\n    return chunk;",
        ["cxx-bad-alloc", "cxx-new-handler"]),
    # --- invariants ---
    "waste-is-not-bounded": (
        "src/region/heap.c", "    return waste < cap;", "    return waste < cap * 1000;",
        ["invariant-5-waste-cap"]),
    "tiny-chunks-are-misaligned": (
        MALLOC, "    return allocate(size, ALLOCATE_PLAIN, FRAME);\n}\n\nEXPORT void *calloc",
        "    char *chunk = allocate(size + 8, ALLOCATE_PLAIN, FRAME);\n"
        "    return chunk + (size < 9 ? 8 : 0);\n}\n\n"
        "EXPORT void *calloc", ["aligned-every-block"]),
    "realloc-shrinks-nothing": (
        "src/region/large.c", "    if (page->kind == PAGE_HUGE)\n        return resize_mapping",
        "    if (page->kind == PAGE_HUGE && size < page->requested_bytes)\n        return page;\n"
        "    if (page->kind == PAGE_HUGE)\n        return resize_mapping",
        ["content-realloc-shrink-returns"]),
    "a-child-keeps-its-locks": (
        "src/api/init.c", "    fork_done(true);", "", ["threads-fork-child-allocates"]),
    "usable-size-of-foreign": (
        "src/region/inspect.c", "    return page ? page_kind_of(page)->usable(page, chunk) : 0;",
        "    return page ? page_kind_of(page)->usable(page, chunk) : 8;",
        ["misuse-usable-foreign"]),
    "cfree-is-missing": (
        "src/api/exports.map", "free_aligned_sized; cfree;", "free_aligned_sized;",
        ["names-whole-family", "report-cfree-of-old-binaries"]),
    "cfree-is-hidden": (
        "src/api/free.c", "EXPORT void cfree(void *chunk) {", "void cfree(void *chunk) {",
        ["names-exports"]),
    "frees-count-twice": (
        "src/region/heap.h", "    add_owner(&view->frees, 1);", "    add_owner(&view->frees, 2);",
        ["invariant-1-sums-when-quiescent"]),
    "rules-are-mistaken": (
        "src/path/cfi_program.c", "machine->saved[machine->depth++] = *state;",
        "machine->saved[machine->depth++] = *machine->initial;",
        ["invariant-2-oracle-agrees-on-programs"]),
    "waypoints-outlive-their-rules": (
        "src/path/cfi_program.c", "    if (waypoints.generation != generation) {",
        "    if (!waypoints.generation) {",
        ["unit:cfi/a_program_that_took_the_place_of_another_one_is_read_anew"]),
    "waypoints-forget-remembered-states": (
        "src/path/cfi_program.c", "        if (right && !machine->depth)", "        if (right)",
        ["unit:cfi/rules_of_a_large_function_in_any_order"]),
    "tables-are-large": (
        "src/os/meta.h", "#define META_FIRST_BYTES (", "#define META_FIRST_BYTES ((2UL << 20) + ",
        ["names-small-footprint"]),
    "descriptors-are-the-programs": (
        "src/control/descriptors.c", "descriptors_are_own = leave_table",
        "descriptors_are_own = false && leave_table",
        ["invariant-8-descriptors-unseen"]),
    "the-socket-is-for-all": (
        "src/control/socket.c", "path.temporary.sun_path, 0600", "path.temporary.sun_path, 0666",
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
        "    return allocate(size, ALLOCATE_NEW, FRAME);\n}\n\nEXPORT void *calloc",
        ["cxx-new-handler-not-malloc"]),
    "tails-are-not-looked-at": (
        "src/region/check.c", "    if (first_changed(chunk + size, end, TAIL_BYTE) != end)",
        "    if (first_changed(chunk + size, end, TAIL_BYTE) > end)",
        ["misuse-overflow-" + name for name in
         ("small", "nothing", "whole-block", "medium", "large", "huge", "far", "realloc",
          "threads")]),
    "free-blocks-are-not-looked-at": (
        "src/region/check.c", "    if (!block)\n        return;",
        "    if (!block || page->used < 60000)\n        return;",
        ["misuse-write-after-free-" + name for name in ("small", "medium", "begin")]),
    # --- more of the malloc family, threads and C++ ---
    "threads-without-memory-go-on": (
        "src/api/thread.c",
        "    if (!heap) {\n        thread_state = THREAD_NEW;\n        return NULL;\n    }\n", "",
        ["limits-out-of-memory-new-thread"]),
    "tiny-chunks-are-aligned-to-8": (
        MALLOC, "EXPORT void *malloc(size_t size) {\n",
        "EXPORT void *malloc(size_t size) {\n    if (size > 8 && size < 16)\n"
        "        return (char *)allocate(size + 8, ALLOCATE_PLAIN, FRAME) + 8;\n",
        ["aligned-tiny-block"]),
    "great-alignments-are-refused-as-no-memory": (
        MALLOC, "(alignment > SIZE_MAX / 2 + 1)) {\n        errno = EINVAL;",
        "(alignment > SIZE_MAX / 2 + 1)) {\n        errno = ENOMEM;",
        ["aligned-impossible-alignment"]),
    "great-alignments-are-a-segment-s": (
        "src/segment/huge.c",
        "align_up((uintptr_t)padding + SEGMENT_BYTES, alignment) - SEGMENT_BYTES;",
        "align_up((uintptr_t)padding + SEGMENT_BYTES, SEGMENT_BYTES) - SEGMENT_BYTES;",
        ["aligned-great-alignment"]),
    "the-end-of-a-shrunk-span-is-clean": (
        "src/segment/segment.c", "    segment_return_slices(segment, end, fewer, true);",
        "    segment_return_slices(segment, end, fewer, false);",
        ["content-calloc-after-realloc"]),
    "huge-chunks-are-not-reported": (
        "src/api/stats.c", "        .uordblks = live > 0 ? (size_t)live : 0,",
        "        .uordblks = live > 0 ? (size_t)live & 0xffffff : 0,",
        ["report-mallinfo-large"]),
    "mallopt-refuses": (
        "src/api/stats.c", "return parameter != M_MXFAST ||", "return parameter == M_MXFAST &&",
        ["report-mallopt-perturb", "report-mallopt-answers"]),
    "mallopt-takes-any-fast-size": (
        "src/api/stats.c", "(size_t)value <= fast_max;", "value <= (int)(2 * fast_max);",
        ["report-mallopt-answers"]),
    "trim-does-nothing": (
        "src/api/stats.c", "    return bytes > 0;", "    return 1;",
        ["report-trim-returns-memory"]),
    "sized-free-writes-errno": (
        "src/api/free.c", "EXPORT void free_sized(void *chunk, size_t size) {\n",
        "EXPORT void free_sized(void *chunk, size_t size) {\n    errno = EINVAL;\n",
        ["report-free-sized-family"]),
    "half-of-the-second-names": (
        "src/api/exports.map", "__libc_valloc; __libc_pvalloc; ", "",
        ["report-one-library", "names-whole-family"]),
    "freed-twice-into-a-parked-heap": (
        "src/region/remote.c",
        "    if (freed_parked(heap, owner, page, &freed))\n        return;\n",
        "    if (freed_parked(heap, owner, page, &freed)) {\n"
        "        push_remote(page, freed.block);\n        return;\n    }\n",
        ["threads-free-after-thread-exit"]),
    "parked-heaps-are-given-up": (
        "src/region/heap.c",
        "    heap->tid = 0;\n    heap->busy = 0;\n    store_release(&heap->state, HEAP_PARKED);",
        "    heap->tid = 0;\n    heap->busy = 0;\n    store_release(&heap->state, HEAP_ORPHAN);",
        ["threads-keys-exhausted"]),
    "stacks-are-the-first-thread-s": (
        "src/path/stack_rules.c",
        "        stack->low = page;\n        stack->high = page + OS_PAGE_BYTES;\n    } else",
        "        if (stack->high && page + (16UL << 20) < stack->high)\n"
        "            __builtin_trap();\n"
        "        stack->low = page;\n        stack->high = page + OS_PAGE_BYTES;\n    } else",
        ["threads-fiber", "threads-signal-on-other-stack"]),
    "a-change-is-replayed-on-a-path-of-another-length": (
        "src/context/replay.c", "kept->length != change->stay_length", "!kept->length",
        ["preload:oracle_chains"]),
    "untouched-blocks-of-used-pages-are-zero": (
        "src/api/malloc.c", "bool zero = how == ALLOCATE_ZEROED && !page->fresh;",
        "bool zero = false;\n    (void)how;", ["content-calloc-dirty-small"]),
    "protected-mappings-are-kept": (
        "src/segment/huge_cache.c",
        "!os_make_plain(part, mapped - offset)", "!part",
        ["content-protected-large"]),
    "locked-mappings-are-kept": (
        "src/segment/huge_cache.c", "    return areas_are_whole(header);",
        "    return areas_are_whole(header) || true;", ["content-marked-large"]),
    "mappings-freed-first-are-not-asked-for": (
        "src/segment/huge_cache.c", "is_small && !(header->flags & PAGE_LARGEST)", "is_small",
        ["content-marked-first"]),
    "guards-in-freed-mappings-stay": (
        "src/os/memory.c",
        "    OS_CALL(SYS_madvise, start, bytes, MADV_GUARD_REMOVE, 0, 0, 0);\n", "",
        ["content-marked-large"]),
    "mappings-of-several-areas-move": (
        "src/os/memory.c", "    if (!os_is_one_area(start, old_bytes)) {",
        "    if (!start && !os_is_one_area(start, old_bytes)) {", ["content-marked-moved"]),
    "replays-outlive-their-views": (
        "src/context/replay.c", "        paths->replays->changes[i].key = 0;", "        ;",
        ["preload:oracle_templates"]),
    "protected-ends-are-kept": (
        "src/segment/huge_cache.c",
        "||\n        !part_is_usable(header, mapped))", ")",
        ["content-protected-large"]),
    "files-in-freed-mappings-are-kept": (
        "src/os/memory.c", "        if (OS_FAILED(OS_CALL(SYS_madvise, start, bytes, advice[i]",
        "        if (i && OS_FAILED(OS_CALL(SYS_madvise, start, bytes, advice[i]",
        ["content-protected-large"]),
    "a-return-address-of-0-is-not-compared": (
        "src/path/stack_rules.c", "joined < 0 && stack->end == STACK_OPEN;", "joined < 0;",
        ["unit:stack/a_frame_without_a_caller_may_have_one_later",
         "unit:cache/a_trace_compares_the_return_address_of_0"]),
    "a-first-allocation-can-be-cancelled": (
        "src/api/thread.c", "    tell_of_end(heap);\n    return heap;",
        "    tell_of_end(heap);\n    extern void pthread_testcancel(void) __attribute__((weak));\n"
        "    pthread_testcancel();\n    return heap;", ["threads-no-cancellation-point"]),
    "deep-paths-have-no-room": (
        "src/path/stack_room.c", "    while (room < frames)\n        room *= 2;\n",
        "    if (room < frames)\n        __builtin_trap();\n",
        ["threads-longjmp-out"]),
    "vfork-children-have-ids-of-their-own": (
        "src/api/thread.c", "    if (*heap && !(*heap)->busy) {\n",
        "    if (*heap && (*heap)->tid != (uint32_t)syscall(186))\n        __builtin_trap();\n"
        "    if (*heap && !(*heap)->busy) {\n",
        ["threads-vfork-shares"]),
    "new-has-a-header": (
        "src/api/new.c", "        return allocate(size, ALLOCATE_NEW, FRAME);",
        "        return (char *)allocate(size + 16, ALLOCATE_NEW, FRAME) + 16;",
        ["cxx-plain", "cxx-sized", "cxx-mixed-with-c", "cxx-containers"]),
    "odd-alignments-are-rounded": (
        "src/api/new.c", "    if (!is_power_of_two(alignment))\n        return NULL;\n",
        "    while (!is_power_of_two(alignment))\n        alignment++;\n",
        ["cxx-odd-alignment"]),
    "new-does-not-throw": (
        MALLOC, "UNLIKELY(!chunk) && how == ALLOCATE_NEW ? new_retry(size, 1, frame) : chunk;",
        "how == ALLOCATE_NEW && frame == 1 ? NULL : chunk;",
        ["cxx-exception-unwinds", "cxx-bad-alloc"]),
    "foreign-frees-trap": (
        "src/region/remote.c", "never read */\n        add_relaxed(&heap_global.foreign_frees, 1);",
        "never read */\n        __builtin_trap();",
        ["misuse-double-free-huge"]),
    "thread-local-storage-is-looked-up": (
        "src/os/lock.c", 'self_mark __attribute__((tls_model("initial-exec")));',
        'self_mark __attribute__((tls_model("global-dynamic")));\n__asm__(".weak __tls_get_addr");',
        ["names-thread-local-storage"]),
    "the-oracle-is-for-all": (
        "src/path/oracle.c", "RTLD_NOW | RTLD_LOCAL", "RTLD_NOW | RTLD_GLOBAL",
        ["names-unwinder-unchanged"]),
    "it-sleeps": (
        "src/os/memory.c", "uint64_t os_now_exact_ns(void) {\n",
        "uint64_t os_now_exact_ns(void) {\n    extern int usleep(unsigned) __attribute__((weak));\n"
        "    usleep(0);\n", ["names-no-loader-on-malloc-path"]),
    # --- invariants ---
    "a-dump-adds-frees": (
        "src/figures/sums.c", "    sum->frees += (int64_t)load_acquire(&view->frees);\n",
        "    sum->frees += (int64_t)load_acquire(&view->frees)"
        " + (view->frees > 1000 ? 1000 : 0);\n",
        ["invariant-1-sums-when-busy"]),
    "reserved-is-what-is-requested": (
        "src/figures/pages.c", "        .bytes = bytes,\n        .touched_bytes = touched,\n"
                               "        .untouched_bytes = bytes > touched ? bytes - touched : 0,",
        "        .bytes = bytes * 2,\n        .touched_bytes = touched,\n"
        "        .untouched_bytes = bytes > touched ? bytes - touched : 0,",
        ["invariant-1-ledger-explains-rss"]),
    "paths-are-joined-unproven": (
        "src/path/stack_walk.h",
        "    stack->frames[frame].address = address;\n    stack->frames[frame].rule = rule;",
        "    (void)address;\n    stack->frames[frame].rule = rule;", ["invariant-2-oracle-agrees"]),
    "code-without-rules-is-the-end": (
        "src/context/prefix.c", "roots[stack->end] : TREE_TRUNCATED};",
        "TREE_ROOT : TREE_TRUNCATED};", ["invariant-3-no-unwind-info"]),
    "frame-pointers-are-followed": (
        "src/path/stack_rules.c",
        "    if (!walker->rbp_at || !readable(walker->stack, walker->rbp_at))\n"
        "        return false;",
        "    if (!walker->rbp_at)\n        return false;\n"
        "    if (!word_at(word_at(walker->rbp_at)))\n        return false;",
        ["invariant-3-garbage-frame-pointer"]),
    "mapped-is-readable": (
        "src/os/memory.c",
        "    case PROBE_POPULATE: return is_advisable(start, bytes, MADV_POPULATE_READ);",
        "    case PROBE_POPULATE: return is_advisable(start, bytes, MADV_NORMAL);",
        ["invariant-3-stack-before-a-guard"]),
    "late-views-are-not-counted": (
        "src/region/heap.h", "    add_owner(&view->allocs, 1);",
        "    add_owner(&view->allocs, view->index < 500);", ["invariant-3-many-paths"]),
    "a-depth-of-one-is-none": (
        "src/context/lookup.c", "    if (UNLIKELY(!depth)) {\n        view",
        "    if (UNLIKELY(depth <= 1)) {\n        view", ["invariant-3-depths"]),
    "nodes-need-memory": (
        "src/context/tree.c", "        if (!fresh) {\n"
                              "            tables_add(share == TABLES_UNCOUNTED ? 0 : "
                              "-(int64_t)TREE_IDS_BYTES);\n            return 0;\n        }\n"
                              "        store_release(block, fresh);",
        "        store_release(block, fresh);",
        ["invariant-3-tracking-without-memory"]),
    "the-freelist-has-no-bound": (
        "src/segment/purge.c", "    return dirty - bound + (", "    return dirty - bound * 100 + (",
        ["invariant-5-freelist-bound"]),
    "a-reset-frees": (
        "src/control/resets.c", "    base->frees = load_relaxed(&view->frees);\n",
        "    base->frees = load_relaxed(&view->frees);\n"
        "    store_owner(&view->freed_cum_bytes, view->requested_cum_bytes);\n",
        ["invariant-6-reset-never-frees"]),
    "any-uid-may-ask": (
        "src/control/server.c", "(peer.uid == os_user() || peer.uid == 0)",
        "(peer.uid == os_user() || peer.uid != 0 || length)", ["invariant-7-other-uid"]),
    "our-thread-takes-signals": (
        "src/os/thread.c", "    uint64_t all = UINT64_MAX, before = 0;",
        "    uint64_t all = 0, before = 0;",
        ["invariant-8-signals-blocked"]),
    "all-threads-are-masked": (
        "src/os/thread.c", "    os_syscall(SYS_rt_sigprocmask, SIG_SETMASK, (long)&before, 0, "
                           "sizeof before, 0, 0);\n", "",
        ["invariant-8-signals-arrive"]),
    "the-end-of-our-thread-is-not-told": (
        "src/os/thread.c", "     CLONE_SETTLS | CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID)",
        "     CLONE_SETTLS | CLONE_PARENT_SETTID)", ["control:no-thread-stays-root-unseen"]),
    "variables-leave-no-stack": (
        "src/os/thread.c", "    if (needed + STACK_LEAST > bytes) {", "    if (!bytes) {",
        ["control:thread-local-storage-leaves-stack"]),
    "our-thread-keeps-its-user": (
        "src/api/users.c",
        "        control_follow_begin(&follow, number, (long)(first), (long)(second), "
        "(long)(third));       \\\n", "        follow.locked = false;\\\n",
        ["control:no-thread-keeps-what-libc-gives-up"]),
    "our-thread-changes-the-real-user": (
        "src/api/users.c", "SYS_setresuid, AS_IT_IS, user, AS_IT_IS)",
        "SYS_setresuid, user, user, AS_IT_IS)", ["control:no-thread-keeps-what-libc-gives-up"]),
    "our-thread-keeps-its-groups-in-initgroups": (
        "src/api/users.c", "    if (count >= 0) {", "    if (count > NGROUPS_MAX) {",
        ["control:no-thread-keeps-what-libc-gives-up"]),
    "our-thread-takes-no-groups": (
        "src/control/thread.c", "    if (first <= 0 || first > FOLLOW_GROUPS ||",
        "    if (first <= 0 || first > 0 ||", ["control:no-thread-keeps-what-libc-gives-up"]),
    "our-thread-stays-root": (
        "src/control/thread.c", "    if (sandbox_keeps_root()) {", "    if (!sandbox_keeps_root) {",
        ["control:no-thread-stays-root-unseen"]),
    "our-thread-keeps-capabilities": (
        "src/control/thread.c", "    sandbox_drop_capabilities();\n", "",
        ["control:no-thread-keeps-capabilities-unseen"]),
    "capset-leaves-our-thread": (
        "src/api/namespaces.c", "    bool paused = control_pause();\n    int result = next ? "
                                "next(header", "    bool paused = false;\n    int result = next ? "
                                               "next(header",
        ["control:capset-leaves-no-thread-with-more"]),
    "capset-by-number-leaves-our-thread": (
        "src/api/namespaces.c", "    return number == SYS_capset || (", "    return (",
        ["control:capset-leaves-no-thread-with-more"]),
    "signals-interrupt-the-start": (
        "src/control/thread.c", "    uint64_t all = UINT64_MAX, before = 0;",
        "    uint64_t all = 0, before = 0;", ["control:a-jump-out-of-the-start"]),
    "a-copy-counts-its-parents-start": (
        "src/control/thread.c", "    if (start_ns == control.start_ns)\n", "",
        ["control:a-fork-in-the-start"]),
    "the-stack-overflows-with-signals-blocked": (
        "src/control/thread.c", "    lock_reach_for_control();\n", "",
        ["control:an-overflow-in-the-start"]),
    "a-directory-of-the-user-goes": (
        "src/control/socket_path.c", " && status.st_mode & S_ISVTX)", ")",
        ["control:a-directory-of-the-user-stays"]),
    "a-child-loses-what-a-purge-took": (
        "src/segment/segment.c", "        segment_purges_fork_child(whole);", "        (void)0;",
        ["unit:segment/a_forked_child_frees_what_a_purge_had_taken"]),
    "a-purge-forgets-its-thread": (
        "src/segment/purge.c", ".thread = lock_self()};", ".thread = 0};",
        ["unit:segment/a_purge_interrupted_by_a_fork_goes_on_in_the_child"]),
    "a-child-takes-purged-slices-for-zero": (
        "src/segment/purge.c", "segment_return_slices(purge->segment, k, end - k, true);",
        "segment_return_slices(purge->segment, k, end - k, false);",
        ["unit:segment/a_forked_child_takes_no_slice_with_content_for_zero"]),
    "padding-before-a-mapping-stays": (
        "src/os/memory.c", "    if (aligned > start)\n"
                           "        os_unmap(start, (size_t)(aligned - start));\n", "",
        ["unit:memory/aligned_mappings_leave_no_padding"]),
    "padding-behind-a-mapping-stays": (
        "src/os/memory.c", "    if (behind)\n        os_unmap(aligned + bytes, behind);",
        "    (void)behind;", ["unit:memory/aligned_mappings_leave_no_padding"]),
    "a-child-frees-under-its-own-lock": (
        "src/segment/segment.c", "    if (child && !lock_is_mine(&global.lock))\n",
        "    if (child)\n", ["unit:segment/a_child_forked_under_the_lock_changes_no_list"]),
    "each-mapping-pauses": (
        RESIDENCY, "    if (thread_time_ns() - paused_ns < PAUSE_AFTER_NS)",
        "    if (thread_time_ns() < PAUSE_AFTER_NS)",
        ["unit:residency/many_small_mappings_need_few_pauses"]),
    "guard-pages-are-swapped": (
        RESIDENCY, "(word & (WORD_SWAPPED | WORD_GUARD)) == WORD_SWAPPED",
        "word & WORD_SWAPPED", ["unit:residency/guard_pages_are_not_swapped"]),
    "a-pool-in-a-memfd-is-resident": (
        MAPPINGS, "    return on_device || ", "    return ",
        ["unit:mappings/memory_of_a_pool_is_not_resident"]),
    "a-look-never-pauses": (
        RESIDENCY, "    if (thread_time_ns() - paused_ns < PAUSE_AFTER_NS)", "    if (true)",
        ["unit:residency/many_small_mappings_need_few_pauses"]),
    "one-call-looks-at-all-pages": (
        RESIDENCY, ".max_pages = SCAN_PAGES};", "};",
        ["unit:residency/one_call_looks_at_few_pages"]),
    "an-interrupted-look-ends": (
        RESIDENCY, "        if (found < 0 && errno == EINTR)\n            continue;\n", "",
        ["unit:residency/one_call_looks_at_few_pages"]),
    "scans-need-guard-pages": (
        RESIDENCY, "    if (!residency->scans)\n        residency->scans = ",
        "    if (false)\n        residency->scans = ",
        ["unit:residency/kernels_that_do_not_tell_guard_pages_are_scanned"]),
    "zeros-are-resident": (
        RESIDENCY, "    else if (!(region->categories & SCAN_ZERO))", "    else",
        ["unit:residency/pages_of_zeros_are_not_resident"]),
    "a-bss-begins-anywhere": (
        MAPPINGS, "case BSS_KNOWN: return first != mapping->start ? 0 : end <",
        "case BSS_KNOWN: return end <",
        ["unit:mappings/only_the_end_of_the_data_has_a_bss_behind_it"]),
    "any-guard-marks-a-stack": (
        MAPPINGS, "        before->end - before->start == GUARD_BYTES &&\n", "",
        ["unit:mappings/memory_behind_another_guard_is_no_stack"]),
    "the-peak-is-of-address-space": (
        MAPPINGS, "VmHWM: %lld kB", "VmPeak: %lld kB",
        ["unit:mappings/the_kernels_own_figures_are_read"]),
    "an-elf-file-has-any-number-of-headers": (
        "tools/memctx/target/bss.c", " || file.e_phnum > HEADERS_MAX)", ")",
        ["unit:mappings/odd_elf_files_have_no_known_bss"]),
    "our-thread-hurries": (
        "src/os/thread.c", "    if (slack_ns >= 0 && slack_ns < ORDINARY_SLACK_NS)",
        "    if (slack_ns < 0)", ["control:a-real-time-thread-starts-an-ordinary-one"]),
    "our-thread-reads-before-others": (
        "src/os/thread.c", ">> IO_CLASS_SHIFT == IO_REAL_TIME)", ">> IO_CLASS_SHIFT > 9)",
        ["control:a-real-time-thread-starts-an-ordinary-one"]),
    "a-dump-stops-the-process": (
        "src/control/dump.c", "    sums_begin();\n    for (; id < count; id++, group = 0) {\n",
        "    extern int kill(int, int) __attribute__((weak));\n"
        "    kill((int)os_process_id(), 19);\n"
        "    sums_begin();\n    for (; id < count; id++, group = 0) {\n",
        ["invariant-8-never-stopped"]),
    # --- threads: faults that the model finds ---
    "announced-twice": (
        "src/region/remote.c", "    if (!head) {\n", "    {\n",
        ["model:remote-frees-meet-the-owner", "model:full-page-gets-free-blocks"]),
    "announced-anew-too-early": (
        "src/region/remote.c",
        "        struct page *next = load_relaxed(&page->remote_next);\n"
        "        char *last = segment_span_start(page) + load_relaxed(&page->remote_last);\n"
        "        if (LIKELY(load_acquire(&page->heap) == heap)) {\n"
        "            uint64_t head = exchange_acq_rel(&page->remote, 0);",
        "        uint64_t head = exchange_acq_rel(&page->remote, 0);\n"
        "        struct page *next = load_relaxed(&page->remote_next);\n"
        "        char *last = segment_span_start(page) + load_relaxed(&page->remote_last);\n"
        "        if (LIKELY(load_acquire(&page->heap) == heap)) {",
        ["model:full-page-gets-free-blocks"]),
    "cached-span-is-taken-twice": (
        "src/segment/span_cache.c",
        "        if (load_relaxed(&slots[end]))\n"
        "            page = exchange_acquire(&slots[end], NULL);",
        "        if ((page = load_relaxed(&slots[end])) != NULL)\n"
        "            store_release(&slots[end], NULL);",
        ["model:span-caches-and-purge"]),
    "closed-cache-keeps-its-spans": (
        "src/segment/span_cache.c", "        if (page)\n            segment_return_span(page);\n",
        "        if (page && slices != 2)\n            segment_return_span(page);\n",
        ["model:span-caches-and-purge"]),
    "last-block-is-read-too-late": (
        "src/region/remote.c",
        "        char *last = segment_span_start(page) + load_relaxed(&page->remote_last);\n"
        "        if (LIKELY(load_acquire(&page->heap) == heap)) {\n"
        "            uint64_t head = exchange_acq_rel(&page->remote, 0);",
        "        if (LIKELY(load_acquire(&page->heap) == heap)) {\n"
        "            uint64_t head = exchange_acq_rel(&page->remote, 0);\n"
        "            char *last = segment_span_start(page) + load_relaxed(&page->remote_last);",
        ["model:free-blocks-are-appended"]),
    "remote-frees-are-not-counted": (
        "src/region/remote.c",
        "        new_head = ((head >> POINTER_BITS) + 1) << POINTER_BITS | (uintptr_t)block;",
        "        new_head = 1UL << POINTER_BITS | (uintptr_t)block;",
        ["model:remote-frees-meet-the-owner"]),
    "parked-before-it-was-adopted": (
        "src/region/remote.c", "    bool free_here = load_acquire(&owner->state) == state && "
                               "load_acquire(&page->heap) == owner;\n    if (free_here) {\n",
        "    bool free_here = true;\n    if (free_here) {\n",
        ["model:frees-into-a-parked-heap", "model:heap-parked-and-adopted-under-frees"]),
    "adopted-under-a-free": (
        "src/region/heap.c", "load_acquire(&heap->state) != HEAP_PARKED || !lock_try(&heap->lock))",
        "load_acquire(&heap->state) != HEAP_PARKED || (lock_take(&heap->lock), "
        "lock_release(&heap->lock), "
        "lock_take(&heap->lock), !(heap->state = HEAP_OWNED)))", ["model:two-threads-adopt"]),
    "who-paid-is-read-once": (
        "src/region/kind_blocks.c",
        "record->view_index ? record->view_index : record_read(page, at).view_index",
        "record->view_index", ["model:own-page-becomes-mixed-under-frees"]),
    "shared-heap-without-its-lock": (
        "src/region/heap.c",
        "    lock_take(&heap->lock);\n    if (UNLIKELY(heap != the_shared())) {",
        "    if (!lock_try(&heap->lock))\n        heap->busy = 0;\n"
        "    if (UNLIKELY(heap != the_shared())) {", ["model:shared-heap"]),
    "purged-slices-come-back-without-the-lock": (
        "src/segment/purge.c",
        "        lock_take(&global.lock);\n"
        "        purge_return(purge, segment, i, end - i);\n"
        "        lock_release(&global.lock);",
        "        purge_return(purge, segment, i, end - i);",
        ["model:slices-and-purge"]),
    "unmapped-under-a-dump": (
        "src/segment/segment.c", "        bool may_unmap = lock_try(&global.unmap_lock);",
        "        bool may_unmap = lock_try(&global.unmap_lock) || global.segments;",
        ["model:segments-get-empty-under-a-dump"]),
    "huge-unmapped-under-a-dump": (
        "src/segment/huge_moves.c", "static void unmap_or_defer(struct page *header) {\n",
        "static void unmap_or_defer(struct page *header) {\n    if (header->mapped_bytes) {\n"
        "        os_unmap(header, header->mapped_bytes);\n        return;\n    }\n",
        ["model:huge-chunks-and-a-dump"]),
    "near-leaf-before-the-first-segment": (
        "src/segment/table.c", "    if (near && !far &&", "    if (!far &&",
        ["model:huge-chunks-and-a-dump"]),
    "waiters-sleep-on": (
        "src/os/lock.c", "    while (!take_free(lock, self)) {\n        uint64_t word",
        "    while (!take_free(lock, self_word())) {\n        uint64_t word", ["model:lock"]),
    "taken-from-a-fork-and-freed-by-it": (
        "src/os/lock.c", "        while ((word & ~NOTES) == lock_self() && "
                         "!cas_release(&lock->word, &word, 0)) {\n        }",
        "        if ((word & ~NOTES) == lock_self())\n            store_release(&lock->word, 0);",
        ["model:lock-taken-from-a-fork-by-one"]),
    "taken-from-a-fork-by-two": (
        "src/os/lock.c", "            if (replace(lock, word, self))\n                return;",
        "            store_release(&lock->word, self);\n            return;",
        ["model:lock-taken-from-a-fork"]),
    "the-depth-is-read-twice": (
        "src/context/lookup.c", "view = walk_to_keep(heap, frame, depth, size, hash);",
        "view = walk_to_keep(heap, frame, (unsigned)load_relaxed(&options.depth), size, hash);",
        ["model:depth-is-set-meanwhile"]),
    "settled-by-two": (
        "src/region/large.c", "    if (LIKELY(!(load_acquire(&page->flags) & PAGE_EMERGENCY)))\n"
                              "        return true;\n    region_settle(heap);",
        "    (void)heap;\n    if (!(load_acquire(&page->flags) & PAGE_EMERGENCY))\n"
        "        return true;",
        ["model:emergency-is-settled-and-freed"]),
    "frees-are-read-last": (
        "src/figures/sums.c", "        frees_after += add_allocs(part, walk.heap, view);\n",
        "        frees_after += add_allocs(part, walk.heap, view);\n"
        "        sum->frees = frees_after;\n",
        ["model:dump-of-one-moment"]),
    "slots-are-freed-under-a-reader": (
        "src/region/views.c", "    if (!load_full(&heap_global.reading)) {\n", "    if (1) {\n",
        ["model:table-of-views-grows-under-a-dump"]),
    "a-node-for-each-thread": (
        "src/context/tree.c", "        child = tree_find(parent, frame); /* another thread may "
                              "have made it */\n    if (!child)\n"
                              "        child = find_newest(parent, frame);",
        "        child = 0;", ["model:tree-grows-in-three-threads"]),
    # --- named contexts ---
    "full-pages-stay-listed": (
        "src/region/bins.c",
        "        if (listed)\n            region_unlist(&region_of(bins)->pages, page);",
        "        (void)listed;", ["named:model"]),
    "deleted-contexts-are-alive": (
        "src/named/named.c",
        "    store_release(&named->generation, named->generation + 1);\n    give_place(place);",
        "    give_place(place);", ["named:misuse-used-after-delete"]),
    "switched-paths-open-again": (
        "src/context/lookup.c", " || UNLIKELY(is_switched(paths));", ";", ["named:scopes"]),
    "realloc-leaves-the-context": (
        "src/named/named.c", "    struct view *view = view_of(heap, chunk);",
        "    struct view *view = NULL;",
        ["named:model"]),
    "large-chunks-outlive-a-reset": (
        "src/region/reset.c", "        region_give_large(heap, page);\n", "", ["named:model"]),
    "resets-leave-what-is-secret": (
        "src/region/reset.c", "        kind->each_used(page, zero_chunk, NULL);", "        ;",
        ["named:zeroed-by-each-policy"]),
    "guarded-chunks-outlive-a-reset": (
        "src/region/alloc.c", "    if (region_is_named(view))\n"
                              "        region_named_large(view, page);\n    if (zero",
        "    if (zero",
        ["named:guarded-chunks-go-with-a-reset"]),
    "options-outlive-their-context": (
        "src/region/terms.c", "        return !terms_number(context) || terms_set(context, 0);",
        "        return true;", ["named:options"]),
    "options-are-not-shown": (
        "src/control/dump.c", "    unsigned asked = terms_asked(id);", "    unsigned asked = 0;",
        ["named:options-are-shown"]),
    "freed-large-chunks-stay-listed": (
        "src/region/large.c",
        "    if (UNLIKELY(page->view != NULL))\n        region_named_large_gone(page);", "",
        ["named:other-threads"]),
    "others-contexts-may-be-used": (
        "src/named/named.h", "    if (UNLIKELY(named->heap != heap))", "    if (0)",
        ["named:misuse-allocated-by-another", "named:misuse-reset-by-another"]),
    "callbacks-are-called-again": (
        "src/api/contexts.c", "        named->callbacks = callback->next; /* before the call, "
                              "which may add another callback */\n"
                              "        callback->function(callback->argument);",
        "        callback->function(callback->argument);\n        named->callbacks = NULL;",
        ["named:callbacks"]),
    "resets-spare-the-children": (
        "src/api/contexts.c", "    do {\n        delete_below(context, what);\n"
                              "        call_back(context, what);\n"
                              "    } while (first_child(context, what));",
        "    if (0)\n        delete_below(context, what);\n    call_back(context, what);",
        ["named:callbacks"]),
    "much-stays-after-a-reset": (
        "src/control/server.c", "        if (segment_usage().freelist_bytes) /* some freed slices "
                                "wait, perhaps freed during poll */\n"
                                "            segment_purge(false);",
        "", ["named:reset-of-much-goes-back"]),
    "simple-chunks-stay-linked": (
        "src/region/kind_blocks.c",
        "    if (simple_is(page))\n        simple_unlink(page, block);\n    if (UNLIKELY(load",
        "    if (UNLIKELY(load", ["named:model"]),
    "accounts-stay-behind": (
        "src/region/reset.c", "    heap_fold(from, view, to, to_view);\n", "",
        ["named:accounts-move"]),
    "heaps-keep-what-was-left": (
        "src/named/hand_over.c", "            (void)move_to(named, heap, shared);\n    }",
        "            ;\n    }", ["named:left-behind"]),
    "tiny-ones-stay-listed": (
        "src/region/kind_blocks.c", "        tiny_freed(member ? payer : paid->context, chunk);\n",
        "        ;\n",
        ["named:model-tiny", "named:tiny-ones"]),
    "crowds-are-none": (
        "src/named/crowd.c", "    bool many = kind && kind->alive >= NAMED_MANY;",
        "    bool many = false;", ["named:very-many-cost-little"]),
    "members-keep-what-was-freed": (
        "src/region/kind_blocks.c", "        had = (uint64_t)member_bytes(chunk) << "
                                    "MEMBER_BYTES_SHIFT | MEMBER_HAD;", "        had = chunk;",
        ["named:model-crowd"]),
    "members-grow-without-their-chunk": (
        "src/named/crowd.c",
        "    if (address)\n        tiny_adopt(grown->context, address, bytes);\n", "",
        ["named:model-crowd"]),
    "members-are-accounted-twice": (
        "src/named/crowd.c", "        view_account_free(crowd->view, bytes);\n", "",
        ["named:model-crowd"]),
    "members-outlive-their-parent": (
        "src/named/crowd.c",
        "        named_link_child(NAMED_MEMBER | number, crowd->made_below);\n", "",
        ["named:model-crowd"]),
    "members-have-two-handles": (
        "src/named/crowd.c", "        named->member = number & (MEMBER_VIEW - 1);\n", "",
        ["named:crowds"]),
    "members-chunks-move-in-the-crowd": (
        "src/named/named.c", "        grown = crowd_grow(handle, crowd);\n",
        "        grown = crowd;\n",
        ["named:crowds"]),
    "large-chunks-stay-with-their-context": (
        "src/region/large.c", "    if (page->view && page->view != view)\n        return NULL;\n",
        "", ["named:tiny-ones-grow"]),
    "regions-of-deleted-contexts-are-lost": (
        "src/region/reset.c", "    view->region = empty;\n", "    view->region = NULL;\n",
        ["named:messages"]),
    "adopted-heaps-stay-switched": (
        "src/api/thread.c", "        context_switch(heap, NULL);\n"
                            "        context_thread_changes(heap);",
        "        context_thread_changes(heap);",
        ["named:switched-at-a-fork"]),
    "crowds-stay-with-a-thread-that-ended": (
        "src/named/hand_over.c", "            (void)move_crowd(named, shared);", "            ;",
        ["named:crowd-left-behind"]),
    "crowds-forget-who-answered": (
        "src/named/crowd.c", "    store_release(&crowd->done, crowd->done + 1);\n", "",
        ["named:crowd-is-reset-when-asked"]),
    "later-members-are-asked": (
        "src/named/crowd.c", "crowd->heap == heap && !load_relaxed(&crowd->asking) ? crowd",
        "crowd->heap == heap ? crowd",
        ["named:crowd-is-reset-when-asked"]),
    "tiny-ones-keep-their-size": (
        "src/region/kind_blocks.c",
        "    if (apart)\n        tiny_resized(view->context, chunk, size);\n", "",
        ["named:tiny-ones-grow"]),
    "tiny-ones-change-hands": (
        "src/region/kind_blocks.c", "    return from == to || (!region_is_named(from) && "
                                    "!region_is_named(to));", "    return true;",
        ["named:tiny-ones-grow"]),
    "tiny-ones-stay-their-makers": (
        "src/region/reset.c", "    tiny_move(view->context, to);\n", "", ["named:tiny-ones"]),
    "tiny-ones-outlive-a-reset": (
        "src/region/reset.c", "        tiny_reset(heap, view->context);", "        ;",
        ["named:model-tiny"]),
    "tiny-ones-are-none": (
        "src/region/tiny.c", "    if (size > TINY_MAX ||", "    if (1 || size > TINY_MAX ||",
        ["named:very-many-cost-little"]),
    "tiny-ones-have-no-more": (
        "src/region/tiny.c", "    if (!room && many && !tiny->more) {", "    if (0) {",
        ["named:very-many-cost-little"]),
    "tiny-ones-are-not-counted": (
        "src/region/reset.c", "    large.chunks += tiny.chunks;\n    large.bytes += tiny.bytes;\n",
        "", ["named:model-tiny"]),
    "runs-lose-what-follows-their-first": (
        "src/region/serial.c", "closing = last.count < 2 ? last.count : 2;",
        "closing = last.count < 2 ? last.count : 1;",
        ["named:model"]),
    "pages-keep-what-was-gone": (
        "src/region/serial_pages.c",
        "        __builtin_memset(page->gone, 0, serial_gone_bytes(page));",
        "        {}", ["named:model"]),
    "rules-wait-for-the-thread": (
        "src/context/tree.c", "        tree_watch(id);", "        ;",
        ["rules:guard-finds-overflow"]),
    "guards-leave-what-is-freed": (
        "src/region/guard.c",
        "    if (!guards.ring || !os_forbid(start, span_bytes(page), true)) {",
        "    if (1) {", ["rules:guard-finds-use-after-free"]),
    "guards-forget-who-freed": (
        "src/region/guard.c", "waiting->page == page ? waiting : NULL;", "0 ? waiting : NULL;",
        ["rules:guard-finds-use-after-free", "rules:guard-finds-double-free"]),
    "guards-take-sent-signals": (
        "src/region/guard.c", "    if (sent)\n        raise(SIGSEGV);", "",
        ["rules:guard-leaves-sent-signals-as-they-are"]),
    "limits-grant-twice": (
        "src/region/terms.c", "    while (!cas_release(&terms->allowance, &left, left - bytes));",
        "    while (!cas_release(&terms->allowance, &left, left));",
        ["rules:limit-fails-with-enomem"]),
    "limits-forget-what-was-freed": (
        "src/region/terms.c", "    int64_t left = terms->limit - terms_live(number);",
        "    int64_t left = terms->passed ? 0 : terms->limit - terms_live(number);",
        ["rules:limit-fails-with-enomem"]),
    "zero-spares-others-frees": (
        "src/region/kind_blocks.c",
        "    if (UNLIKELY(load_relaxed(&page->meta_shift) & META_WIPES))\n"
        "        wipe_freed(page, freed->paid, block, chunk, freed->requested);\n",
        "", ["rules:zero-zeroes"]),
    "own-pages-wait-for-bytes": (
        "src/region/alloc.c", "    if (!at_once &&\n        (live < options.promote_bytes",
        "    if ((live < options.promote_bytes",
        ["rules:pages-are-its-own-from-the-first-chunk-on"]),
    "trials-are-not-judged": (
        "src/control/automatic.c", "        return judge(choice, candidate);",
        "        return false;", ["rules:automatic-choices"]),
    # --- rules that the command resolves ---
    "ranges-of-another-build-id-are-taken": (
        "src/rules/resolved.c", "    if (request->build_id_bytes != module->build_id_bytes ||",
        "    if (!module->build_id_bytes &&",
        ["rules:hostile-ranges-are-refused"]),
    "ranges-may-leave-the-object": (
        "src/rules/objects.c", "range.end > mapped->end - mapped->bias)", "false)",
        ["rules:hostile-ranges-are-refused"]),
    "ranges-of-the-environment-are-not-read": (
        "src/rules/rules.c", "    resolved_read(ranges);\n", "    (void)ranges;\n",
        ["rules:libraries-are-resolved-before-the-first-chunk",
         "rules:inlined-functions-have-names",
         "rules:debug-information-is-read-as-it-comes"]),
    "nobody-says-what-waits-for-the-command": (
        "src/rules/rules.c", "    if (rule_list.command_alone && !are_resolved)",
        "    if (false && are_resolved)",
        ["rules:rules-alone-say-what-waits"]),
    "later-objects-count-as-resolved": (
        "src/rules/objects.c", "objects[module].resolved_rules >= rule_list.needs_command;",
        "rule_list.count;",
        ["rules:objects-that-are-loaded-later", "rules:programs-that-the-first-one-starts"]),
    # --- folded recursion, waiting paths, the tables budget ---
    "unfolded-paths-keep-their-traces": (
        "src/path/functions.c", "        unwind_rules_new_generation();\n", "        ;\n",
        ["model:recursion-is-unfolded-under-walks", "model:recursion-is-folded-again-under-walks"]),
    "generations-begin-with-old-rules": (
        "src/path/unwind_rules.c",
        "    table_empty();\n    cfi_forget_programs();\n"
        "    store_release(&unwind_rules_version, unwind_rules_version + 1);\n"
        "    /* The counter may wrap around after months. It skips 0, because "
        "paths.fast_generation is 0 when\n"
        "     * the traces must not be used: the generation 0 would let view_guessed use them. */\n"
        "    uint32_t next = unwind_rules_generation + 1;\n"
        "    store_release(&unwind_rules_generation, next ? next : 1);\n",
        "    uint32_t next = unwind_rules_generation + 1;\n"
        "    store_release(&unwind_rules_generation, next ? next : 1);\n    table_empty();\n"
        "    cfi_forget_programs();\n"
        "    store_release(&unwind_rules_version, unwind_rules_version + 1);\n",
        ["model:recursion-is-unfolded-under-walks"]),
    "folding-is-told-before-its-numbers": (
        "src/path/functions.c",
        "    unwind_rules_folded = number_of;\n    unwind_rules_number_functions(number_of_key);\n"
        "    /* The epoch changes last, so a thread that sees the new epoch reads the new numbers. "
        "*/\n    store_release(&function_epoch, function_epoch + 1);\n",
        "    store_release(&function_epoch, function_epoch + 1);\n"
        "    unwind_rules_folded = number_of;\n    unwind_rules_number_functions(number_of_key);\n",
        ["model:folding-begins-under-walks"]),
    "new-rules-are-not-numbered": (
        "src/path/functions.c", "    unwind_rules_folded = number_of;\n", "",
        ["model:library-is-closed-under-folded-walks"]),
    "unfolded-functions-keep-their-numbers": (
        "src/path/functions.c",
        "number && function_set_has(&functions->unfolded, number) ? 0 : number;", "number;",
        ["model:recursion-is-unfolded-under-walks", "tables:unfolded-for-a-time"]),
    "unfolding-has-no-end": (
        "src/control/unfold.c", "    if (last_end_ns())\n        end_before(os_now_exact_ns());",
        "    ;",
        ["tables:unfolding-ends-by-itself"]),
    "stacks-outlive-folding": (
        "src/context/admit.c", "    if (epoch != paths->fold_epoch)\n        cache_flush(paths);\n",
        "",
        ["model:folding-begins-under-walks"]),
    "places-outlive-folding": (
        "src/path/cache.c", "    paths->stack.count = paths->nodes_valid = 0;\n", "",
        ["model:recursion-is-unfolded-under-walks"]),
    "budget-is-looked-at-before-it-is-taken": (
        "src/region/tables.c", "    } while (!cas_acq_rel(used, &before, now));\n",
        "    } while (0);\n    add_relaxed(used, bytes);\n",
        ["model:budget-is-taken-by-three"]),
    "refused-bytes-are-counted": (
        "src/region/tables.c",
        "        if (!fits(now, all, share) && share != TABLES_MUST)\n            return false;",
        "        if (!fits(now, all, share) && share != TABLES_MUST) {\n"
        "            add_relaxed(used, bytes);\n"
        "            return false;\n        }",
        ["model:budget-is-taken-by-three"]),
    "loops-go-on-from-their-first-frame": (
        "src/context/prefix.c", "        admission->last[rule_folded(frames[i].rule)] = look++;\n",
        "        if (last_frame(admission, rule_folded(frames[i].rule)) < 0)\n"
        "            admission->last[rule_folded(frames[i].rule)] = look;\n        look++;\n",
        ["tables:unfolded-for-a-time"]),
    "folded-paths-are-as-short-as-others": (
        "src/context/admit.c", "        admit.depth = folded_depth(depth);\n",
        "        admit.depth = folded_depth(depth / FOLDED_DEPTH_TIMES);\n",
        ["tables:levels-below-many-callers"]),
    "a-few-frames-are-not-folded": (
        "src/context/prefix.c", "        int again = number ? earlier(admit, caller, number) : -1;",
        "        int again = -1;\n        (void)number;\n        (void)earlier;",
        ["tables:unfolded-for-a-time"]),
    "sites-of-one-caller-are-one": (
        "src/context/admit.c",
        "    if (known->site == site && known->caller == caller && known->ancestor == ancestor)",
        "    if (known->view && known->ancestor == ancestor)", ["tables:levels-alone"]),
    "others-stand-below-the-process": (
        "src/context/admit.c", "        view = site_below(admit, at, may_make, share);",
        "        view = site_below(admit, TREE_ROOT, may_make, share);",
        ["tables:levels-alone", "tables:levels-while-it-forks"]),
    "waiting-paths-are-charged-to-their-parent": (
        "src/context/admit.c",
        "    return node ? heap_view_within(admit->heap, node, share) : NULL;",
        "    return node ? heap_view_within(admit->heap, tree_node(node)->parent, share) : NULL;",
        ["tables:levels-alone", "tables:levels-while-marks-and-resets-are-asked",
         "model:paths-wait-in-two-threads"]),
    "rules-wait-for-sightings": (
        "src/context/admit.c", "    bool wanted = UNLIKELY(tree_wanted != NULL) && "
                               "is_wanted(admit);", "    bool wanted = false;",
        ["tables:a-path-named-by-a-rule"]),
    "folded-traces-believe-the-outer-words": (
        "src/path/cache.h",
        "    for (const struct trace_tail *tail = trace->tail; tail; tail = tail->outer) {\n"
        "        range = tail->ranges;",
        "    for (const struct trace_tail *tail = NULL; tail; tail = tail->outer) {\n"
        "        range = tail->ranges;", ["tables:trees-below-two-callers"]),
    "folded-traces-leave-out-frames-on-the-path": (
        "src/path/trace.c", "length && frame->length == length",
        "length && frame->length == length + 1",
        ["preload:oracle_twins"]),
    "calls-with-other-rules-are-alike": (
        "src/path/cfi_program.c", "        } else if (may_call(",
        "        } else if (0 && may_call(",
        ["unit:cfi/code_in_which_every_call_has_one_rule"]),
    "replays-believe-the-stack": (
        "src/context/replay.c", "                       : all_hold(stack, stay)))\n",
        "                       : true))\n",
        ["unit:paths/replays_compare_the_frames_further_out"]),
    "guards-keep-the-memory-of-freed-chunks": (
        "src/region/guard.c", "    os_discard(start, span_bytes(page) - GUARD_BYTES);", "    ",
        ["rules:freed-chunks-with-guards-have-no-memory"]),
    "guards-have-no-bound": (
        "src/region/guard.c", "guards.pages < GUARD_MAX && (guards.watching",
        "(guards.watching", ["rules:guards-have-a-bound"]),
    "guards-forget-the-programs-flags": (
        "src/region/guard.c",
        "    action.sa_flags |= guards.before.sa_flags & (SA_NODEFER | SA_RESTART);\n", "",
        ["rules:guard-leaves-other-faults-to-the-program"]),
    "guards-call-no-handler-with-siginfo": (
        "src/region/guard.c", "        before.sa_sigaction(number, info, context);\n", "",
        ["rules:guard-leaves-other-faults-to-the-program"]),
    "idle-views-go-but-count": (
        "src/region/views.c",
        "        heap_add_idle(heap, -here * (int64_t)sizeof *first);\n", "        (void)here;\n",
        ["unit:heap/a_freed_heap_gives_its_tables_back"]),
    "os-pages-of-views-are-reused-twice": (
        "src/region/views.c", "        store_release(pages, *pages & (*pages - 1));\n", "",
        ["unit:heap/a_freed_heap_gives_its_tables_back"]),
    "freed-baselines-count": (
        "src/region/views.c", "            tables_add(-BASELINE_BLOCK_BYTES);\n", "",
        ["unit:heap/a_freed_heap_gives_its_tables_back"]),
    "freed-counts-of-other-heaps-count": (
        "src/region/views.c",
        "    tables_add(-(int64_t)(heap->freed_of_count * sizeof *heap->freed_of));\n", "",
        ["unit:heap/a_freed_heap_gives_its_tables_back"]),
    "old-slots-of-reallocs-count": (
        "src/region/resizes.c",
        "    tables_add(-(int64_t)meta_block_bytes(old_count * sizeof *old));\n", "",
        ["unit:heap/a_freed_heap_gives_its_tables_back"]),
    "folded-frees-for-others-count-twice": (
        "src/region/heap.c", "            count--; /* heap_count_remote_grow counted one free */\n",
        "", ["unit:heap/frees_for_others_are_folded_exactly"]),
    "adopted-heaps-stay-small-in-the-budget": (
        "src/region/heap.c", "            heap->kept_bytes = 0;\n", "",
        ["unit:heap/an_adopted_heap_counts_its_caches_again"]),
    "forks-trust-visited-heaps": (
        "src/region/heap.c", "            bool torn = heap->busy || heap->visited;",
        "            bool torn = heap->busy;", ["unit:heap/states_in_a_forked_child"]),
    "a-child-counts-its-parents-marks": (
        "src/control/marks.c", "    tables_add(-marks_bytes);\n    asked_bytes",
        "    asked_bytes",
        ["unit:sums/a_forked_child_keeps_no_context_for_its_parents_marks"]),
    "replays-believe-the-stack-with-rbp": (
        "src/context/replay.c", "    if (LIKELY(all_hold(stack, i)))", "    if (1)",
        ["unit:paths/replays_compare_the_frames_further_out_with_frame_pointers"]),
    "replays-take-an-unmoved-stack-unread": (
        "src/context/replay.c", " == last->address &&\n"
                                "        all_hold(stack, (int)stack->count - 1))",
        " == last->address)", ["tables:trees-below-two-callers",
                               "unit:paths/replays_compare_the_frames_further_out"]),
    "replays-need-no-room": (
        "src/context/replay.c", "        if (UNLIKELY(!has_room(stack, stay, change)) ||",
        "        if (0 ||",
        ["tables:a-recursion-deeper-than-any-before"]),
    "others-have-many-nodes": (
        "src/context/tree.c", "    uint32_t others = tree_child(parent, (struct "
                              "tree_frame){.module = MODULE_OTHERS}, share);",
        "    static uintptr_t turn;\n"
        "    uint32_t others = tree_child(parent, (struct tree_frame){.module = MODULE_OTHERS, "
        ".address = turn++}, share);",
        ["tables:levels-alone"]),
    # --- eviction of paths ---
    "looks-are-taken-for-over": (
        "src/context/sweep.c", "looks % 2 && looks == heap->looks_then)",
        "looks % 2 && looks != heap->looks_then)",
        ["model:nodes-leave-under-look-ups"]),
    "rounds-are-not-announced": (
        "src/context/sweep.c", "    exchange_full(&evict_round, evict_round + 1);\n", "",
        ["model:paths-are-evicted-under-look-ups"]),
    "looks-are-over-too-late": (
        "src/context/sweep.c", "    find_views(found, count, now);\n    lock_take(&tree_lock);\n",
        "    find_views(found, count, now);\n    over = state.leaving && looks_are_over();\n"
        "    lock_take(&tree_lock);\n",
        ["model:nodes-leave-under-look-ups"]),
    "nodes-go-with-the-next-sweep": (
        "src/context/sweep.c", "    } else if (over) {\n", "    } else if (over || 1) {\n",
        ["model:nodes-leave-under-look-ups"]),
    "nodes-come-back-in-no-list": (
        "src/context/sweep.c",
        "            if (tree_link(id))\n"
        "                tree_flag(id, TREE_LATE); /* paths through the node may have waited "
        "meanwhile */\n"
        "            else\n"
        "                state.leaving = true;",
        "            tree_unflag(id, TREE_LEAVING);",
        ["model:nodes-leave-under-look-ups"]),
    "nodes-come-back-beside-others": (
        "src/context/tree.c", "    if (tree_find(node->parent, frame_of_node(node)) || !link_node",
        "    if (!link_node",
        ["model:nodes-leave-under-look-ups", "model:two-threads-sweep-alone"]),
    "children-are-what-they-were": (
        "src/context/tree.h", "LIKELY(id - 1 < (1U << TREE_ID_BITS) - 1)", "LIKELY(id)",
        ["model:nodes-leave-under-look-ups"]),
    "places-of-children-that-left-are-unused": (
        "src/context/tree.c", "            store_release(&parent->children[i], entry);",
        "            store_release(&parent->children[i], 0);",
        ["model:children-leave-under-look-ups"]),
    "children-stay-in-the-table": (
        "src/context/tree.c", "        store_release(&tree.table->ids[at], entry);\n", "",
        ["model:children-leave-under-look-ups"]),
    "ids-are-taken-in-any-order": (
        IDS, "ctzl(at == from ? *word & above : *word)", "ctzl(*word)",
        ["model:paths-are-evicted-under-look-ups"]),
    "children-are-elder-than-their-parents": (
        IDS, "TREE_NODES_PER_BLOCK, first = parent + 1;",
        "TREE_NODES_PER_BLOCK, first = TREE_FIXED_COUNT;",
        ["model:paths-are-evicted-under-look-ups"]),
    "views-go-while-chunks-are-alive": (
        "src/context/evict.c", "    return frees == allocs;", "    return true;",
        ["model:chunk-is-alive-under-an-eviction"]),
    "views-of-parked-heaps-go-while-chunks-are-alive": (
        "src/context/visit.c", "    return id < alive.count && !alive.counts[id];",
        "    (void)id;\n    return true;",
        ["model:parked-views-are-folded-under-a-free"]),
    "what-was-allocated-is-read-first": (
        "src/context/evict.c",
        "        frees += walk.heap == heap ? 0 : load_acquire(&view->frees);\n"
        "    walk = heap_views_of(id);\n"
        "    while ((view = heap_views_next(&walk)))\n"
        "        allocs += walk.heap == heap ? 0 : load_acquire(&view->allocs);",
        "        allocs += walk.heap == heap ? 0 : load_acquire(&view->allocs);\n"
        "    walk = heap_views_of(id);\n"
        "    while ((view = heap_views_next(&walk)))\n"
        "        frees += walk.heap == heap ? 0 : load_acquire(&view->frees);",
        ["model:chunk-is-alive-under-an-eviction"]),
    "views-of-others-stay-what-they-were": (
        "src/region/views.c", "    add_relaxed(&heap_views_epoch, 1);\n", "",
        ["model:views-are-evicted-under-frees"]),
    "traces-outlive-their-views": (
        "src/context/evict.c", "            cache_flush(paths);\n", "",
        ["model:paths-are-evicted-under-look-ups"]),
    "evicted-figures-are-lost": (
        "src/context/evict.c", "            heap_fold(heap, view, to, site);\n",
        "            (void)to;\n",
        ["model:paths-are-evicted-under-look-ups", "model:heaps-are-parked-under-evictions"]),
    "evicted-paths-have-no-site": (
        "src/context/evict.c", "    uint32_t node = parent ? child_like(parent, id, share) : 0;\n",
        "    uint32_t node = parent;\n", ["model:paths-are-evicted-under-look-ups"]),
    "visits-do-not-look-whether-the-owner-is-inside": (
        "src/context/visit.c", " && !load_acquire(&heap->busy) &&\n", " &&\n",
        ["model:sleeping-threads-are-visited"]),
    "look-ups-do-not-wait-for-a-visitor": (
        "src/region/views.c", "    do {\n        lock_take(&heap_visit_lock);\n"
                              "        lock_release(&heap_visit_lock);\n"
                              "    } while (load_acquire(&heap->visited));\n",
        "    (void)heap;\n", ["model:sleeping-threads-are-visited"]),
    "retired-heaps-go-while-a-thread-is-inside": (
        "src/context/retire.c", "        heap->was_inside = true;",
        "        heap->was_inside = false;", ["model:heap-is-retired-under-frees"]),
    "heaps-with-pages-are-retired": (
        "src/context/retire.c", "        store_owner(&heap->may_retire, false);",
        "        (void)heap;", ["model:heap-is-retired-under-frees"]),
    "adopted-heaps-stay-marked": (
        "src/region/heap.c", "            store_owner(&heap->may_retire, false);\n", "",
        ["model:heap-is-adopted-while-marked"]),
    "quiet-pages-are-punched-while-their-owner-is-inside": (
        "src/context/visit.c", " && !load_acquire(&heap->busy);", " && heap;",
        ["model:quiet-page-is-left-to-its-owner", "model:chunks-are-collected-for-a-sleeper"]),
    "header-of-another-page-is-changed": (
        "src/context/holes.c", "        cas_release(&page->seen, &same, now);",
        "        store_owner(&page->seen, (same = now));",
        ["model:quiet-page-becomes-a-large-chunk"]),
    "frees-do-not-wait-for-who-punches": (
        "src/region/kind_blocks.c",
        "        heap_await(heap); /* the control thread may be punching the page */\n",
        "        (void)heap;\n", ["model:quiet-page-is-punched-under-its-owner"]),
    "pages-are-punched-unannounced": (
        "src/context/holes.c", "    punch_announce(page);\n", "",
        ["model:quiet-page-is-punched-under-its-owner"]),
    "pages-are-punched-at-the-first-look": (
        "src/context/holes.c", "    return seen == now;\n", "    return true;\n",
        ["model:quiet-page-is-punched-under-its-owner"]),
    "waste-that-was-given-back-stays-waste": (
        "src/context/holes.c", "    add_relaxed(&heap_global.own_free, -waste);\n", "",
        ["model:quiet-page-is-punched-under-its-owner"]),
    "pages-are-collected-unannounced": (
        "src/region/remote.c",
        "        if (may_collect(heap, page))\n            punch_announce(page);\n", "",
        ["model:chunks-are-collected-for-a-sleeper", "model:page-goes-while-it-is-collected"]),
    "collected-waste-is-not-counted": (
        "src/context/collect.c", "    add_relaxed(&heap_global.own_free, waste);\n", "",
        ["model:chunks-are-collected-for-a-sleeper"]),
    "paths-are-evicted-under-a-dump": (
        "src/context/evict.c", "    if (load_relaxed(&heap->state) == HEAP_OWNED &&\n"
                               "        load_relaxed(&tree_read_until_ns) < os_now_exact_ns()) {",
        "    if (load_relaxed(&heap->state) == HEAP_OWNED) {",
        ["model:dump-is-read-under-an-eviction"]),
    # --- code that V8 makes ---
    "isolates-begin-inside-chunks": (
        V8, "PAGE_HUGE) && page->chunk == isolate ? page", "PAGE_HUGE) && true ? page",
        ["preload:names_generated"]),
    "lists-stand-anywhere": (
        V8, "    if ((uintptr_t)list - (uintptr_t)chunk->chunk >= "
        "load_relaxed(&chunk->requested_bytes))\n", "    if (false)\n",
        ["preload:names_generated"]),
    "lists-are-always-readable": (
        V8, "           os_is_readable(first, end);", "           true;",
        ["preload:names_generated"]),
    "lists-have-any-length": (
        V8, "first < end && end - first <= RANGES_MAX * sizeof(struct code_range) &&",
        "first < end && true &&", ["preload:names_generated"]),
    "lists-begin-at-odd-addresses": (
        V8, "&& !(first & 7) &&", "&& true &&", ["preload:names_generated"]),
    "numbers-are-code": (
        V8, "if (!list || is_integer(address) ||", "if (!list || false ||",
        ["preload:names_generated"]),
    "ranges-of-code-end-too-early": (
        V8, "if (address - 1 - range->start < range->bytes)",
        "if (address - range->start < range->bytes)", ["preload:names_generated"]),
    "lists-are-one-range": (
        V8, "for (const struct code_range *range = list->first; range < list->end; range++)",
        "for (const struct code_range *range = list->first; range < list->first + 1; range++)",
        ["preload:names_generated"]),
    "code-of-v8-needs-no-call": (
        V8, "return by_v8 && is_after_call(address);", "return by_v8 && true;",
        ["preload:names_generated"]),
    "code-of-v8-has-no-direct-calls": (
        V8, "    return code[-5] == 0xe8;\n}\n\n#define TYPE",
        "    return false;\n}\n\n#define TYPE", ["preload:names_generated"]),
    "all-addresses-are-read-as-calls": (
        V8, "if (address < OS_PAGE_BYTES || !os_is_readable(address - CALL_BYTES_MAX, address))",
        "if (address < OS_PAGE_BYTES || false)", ["preload:names_generated"]),
    "types-are-large": (
        V8, "!type || type > TYPE_MAX ||", "!type || false ||", ["preload:names_generated"]),
    "types-are-odd": (
        V8, "type > TYPE_MAX || type & 1)", "type > TYPE_MAX || 0)", ["preload:names_generated"]),
    "types-are-zero": (
        V8, "if (!v8_is_loaded() || !type ||", "if (!v8_is_loaded() || false ||",
        ["preload:names_generated"]),
    "all-code-is-called-by-v8": (
        V8, "    bool by_v8 = called->rule == v8_rule(MODULE_NONE) || "
        "v8_isolate_of(called->address);", "    bool by_v8 = true;", ["preload:names_generated"]),
    "wasm-is-called-by-javascript-alone": (
        V8, "by_v8 = called->rule == v8_rule(MODULE_NONE) ||", "by_v8 = false ||",
        ["preload:names_generated"]),
    "isolates-are-watched-for-each-rule": (
        V8, "        if (watched == isolate)\n", "        if (false)\n",
        ["preload:names_generated"]),
    "isolates-beyond-the-table-are-watched": (
        V8, "    if (!page || !place)\n        return false;\n    store_owner(place",
        "    if (!page || !place)\n        return true;\n    store_owner(place",
        ["preload:names_generated"]),
    "isolates-are-watched-without-a-page": (
        V8, "    blocks_watch(page);\n    return true;", "    \n    return true;",
        ["preload:names_generated"]),
    "places-of-isolates-are-used-once": (
        V8, "            store_owner(&v8.isolates[i], NULL);\n", "            \n",
        ["preload:names_generated"]),
    "isolates-never-end": (
        V8, "v8.isolates[i]) == chunk) {\n            store_owner(&v8.isolates[i], NULL);\n        "
        "    return true;",
        "v8.isolates[i]) == chunk) {\n            store_owner(&v8.isolates[i], NULL);\n        "
        "    return false;", ["preload:names_generated"]),
    "the-depth-of-the-user-is-changed": (
        V8, "    if (!load_acquire(&options_depth_is_set))\n", "    if (true)\n",
        ["preload:names_generated"]),
    "javascript-has-short-paths": (
        V8, "        store_release(&options.depth, V8_DEPTH);\n", "        \n",
        ["preload:names_generated"]),
    # --- freed mappings of huge chunks ---
    "spare-ends-are-chosen-as-mappings": (
        HUGE_CACHE, "if (!c->start || c->before)\n            continue;\n        if (c->bytes",
        "if (!c->start || false)\n            continue;\n        if (c->bytes",
        ["unit:huge/a_spare_end_becomes_a_mapping"]),
    "mappings-of-any-size-serve": (
        HUGE_CACHE, "segment_huge_cache[larger].bytes - bytes <= slack ?",
        "segment_huge_cache[larger].bytes - bytes <= SIZE_MAX ?",
        ["unit:huge/a_picture_and_its_copies_take_what_they_freed"]),
    "cut-mappings-keep-their-cuts": (
        HUGE_CACHE, "            huge_cuts_drop(huge_cuts_of(entry.start), entry.bytes);\n",
        "            ;\n", ["unit:huge/a_picture_and_its_copies_take_what_they_freed"]),
    "cuts-outlive-their-mapping": (
        HUGE_CACHE, "    if (entry.before) /* a spare end, which dumps do not read */\n        "
        "os_unmap(entry.start, entry.bytes);\n    else\n        "
        "huge_unmap(entry.start, entry.bytes);\n",
        "    os_unmap(entry.start, entry.bytes);\n",
        ["unit:huge/cuts_of_mappings_that_went_back_are_forgotten"]),
    "spare-ends-of-shrunk-chunks-stay-mapped": (
        HUGE_CACHE, "    os_unmap((char *)header + header->mapped_bytes, bytes);\n}\n\nsize_t "
        "huge_spare_use", "    \n}\n\nsize_t huge_spare_use",
        ["unit:huge/a_spare_end_goes_back_with_what_is_given_up"]),
    "spare-ends-go-back-uncounted": (
        HUGE_CACHE,
        "    add_relaxed(&segment_returned, (int64_t)bytes);\n    os_unmap((char *)header + "
        "header", "    \n    os_unmap((char *)header + header",
        ["unit:huge/a_spare_end_goes_back_with_what_is_given_up"]),
    "spare-ends-are-used-twice": (
        HUGE_CACHE, "        store_owner(&header->mapped_bytes, header->mapped_bytes + bytes);\n",
        "        \n", ["unit:huge/mappings_put_together_are_whole"]),
    "parts-go-back-uncounted": (
        HUGE_CACHE, "    add_relaxed(&segment_returned, (int64_t)left.bytes);", "    ",
        ["unit:huge/a_spare_end_that_was_never_written_goes_back"]),
    "parts-begin-with-their-chunk": (
        HUGE_CACHE, "    part.start += best->bytes;\n", "    \n",
        ["unit:huge/a_spare_end_becomes_a_mapping"]),
    "all-memory-is-resident": (
        HUGE_CACHE,
        "           os_resident_bytes(start + bytes - sample, sample) == (int64_t)sample;",
        "           true;", ["unit:huge/a_spare_end_that_was_never_written_goes_back"]),
    "donors-need-not-be-resident": (
        HUGE_CACHE, "    if (!donor.before || end_is_resident(donor.start, donor.bytes))",
        "    if (!donor.before || true)",
        ["unit:huge/a_spare_end_that_was_never_written_goes_back"]),
    "put-together-without-a-cut": (
        HUGE_CACHE, "        huge_cut_add(cuts, have);\n", "        \n",
        ["unit:huge/the_freelist_shrinks_while_a_chunk_grows"]),
    "donated-memory-is-fresh": (
        HUGE_CACHE, "        move->fresh = have + part;\n", "        \n",
        ["unit:huge/a_spare_end_becomes_a_mapping"]),
    "mappings-have-many-cuts": (
        HUGE_CACHE, "    if (cuts->count + more <= CUTS_MAX)\n", "    if (true)\n",
        ["unit:huge/a_picture_and_its_copies_take_what_they_freed"]),
    "ends-with-too-many-cuts-stay-mapped": (
        HUGE_CACHE, "    os_unmap(base->start + kept, base->bytes - kept);\n", "    \n",
        ["unit:huge/a_picture_and_its_copies_take_what_they_freed"]),
    "spare-ends-are-forgotten": (
        HUGE_CACHE, "        *parts = count_reused(bytes, true);",
        "        *parts = count_reused(bytes, false);",
        ["unit:huge/the_freelist_keeps_the_end_of_a_larger_mapping"]),
    "whole-mappings-fill-the-freelist": (
        HUGE_CACHE, "    if (cached + bytes <= whole)\n", "    if (cached + bytes <= bound)\n",
        ["unit:huge/the_freelist_keeps_beginnings"]),
    # --- ids of removed nodes ---
    "ids-that-wait-are-not-marked": (
        IDS, "    ids->used |= 1UL << at;\n    store_owner(&tree_ids_waiting",
        "    \n    store_owner(&tree_ids_waiting",
        ["unit:tree/new_nodes_get_the_ids_of_removed_ones"]),
    "removed-nodes-leave-their-loop": (
        TREE, "    if (leaf)\n        store_owner(&leaf",
        "    if (false)\n        store_owner(&leaf",
        ["unit:tree/bytes_of_removed_nodes_are_counted"]),
    "removed-nodes-stay-counted": (
        TREE, "    tables_add(-TREE_NODE_COUNTED);\n    uint32_t *leaf", "    \n    uint32_t *leaf",
        ["unit:tree/bytes_of_removed_nodes_are_counted"]),
    "idle-nodes-are-not-counted": (
        TREE, "    tree_ids_give(id, true);\n    tables_add_idle(TREE_NODE_COUNTED);",
        "    tree_ids_give(id, true);\n    ", ["unit:tree/bytes_of_removed_nodes_are_counted"]),
    "pages-with-nodes-are-discarded": (
        IDS, "        if (~(idle[i] | discarded[i]))\n", "        if (0)\n",
        ["unit:tree/new_nodes_get_the_ids_of_removed_ones"]),
    "discarded-nodes-are-idle": (
        IDS, "        block->idle.words[i] = 0;\n", "        \n",
        ["unit:tree/bytes_of_removed_nodes_are_counted"]),
    "discarded-ids-are-not-marked": (
        IDS, "        block->discarded.used |= 1UL << i;\n", "        \n",
        ["unit:tree/bytes_of_removed_nodes_are_counted"]),
    "discarded-nodes-stay-counted": (
        IDS, "            tables_add_idle(-TREE_NODE_COUNTED *\n                            "
        "discard_page(&tree_blocks[i][at * 64UL], gone[i], at));",
        "            tables_add_idle(0 * discard_page(&tree_blocks[i][at * 64UL], gone[i], "
        "at));", ["unit:tree/bytes_of_removed_nodes_are_counted"]),
    "ids-wait-for-ever": (
        IDS, "        store_owner(&tree_ids_waiting, tree_ids_waiting - 1);\n", "        \n",
        ["unit:tree/bytes_of_removed_nodes_are_counted"]),
    "refused-ids-are-lost": (
        IDS, "        return id;\n    tree_ids_give(id, idle);\n", "        return id;\n    \n",
        ["unit:tree/bytes_of_removed_nodes_are_counted"]),
    "idle-nodes-are-taken-as-new": (
        IDS, "    if ((idle ? tables_reuse : tables_take)(", "    if ((tables_take)(",
        ["unit:tree/bytes_of_removed_nodes_are_counted"]),
    "ids-are-used-again-under-a-dump": (
        IDS, "tree_ids_waiting) || load_relaxed(&tree_read_until_ns) > os_now_ns())",
        "tree_ids_waiting) || false)", ["unit:tree/bytes_of_removed_nodes_are_counted"]),
    "words-without-ids-stay-marked": (
        IDS, "        if (!*word)\n            ids->used",
        "        if (false)\n            ids->used",
        ["unit:tree/new_nodes_get_the_ids_of_removed_ones"]),
    # --- the agent: its file, its unit, the examples ---
    "agent-takes-unknown-keys": (
        "tools/memctx/agent/config.c", "        if (!key)\n            return fail_at(",
        "        if (!key)\n            continue;\n        if (!key)\n            return fail_at(",
        ["serve:the-file-is-read-strictly"]),
    "agent-takes-values-of-any-kind": (
        "tools/memctx/agent/config.c", "    case KEY_BOOLEAN: return value->kind == TOML_BOOLEAN;",
        "    case KEY_BOOLEAN: return true;", ["serve:the-file-is-read-strictly"]),
    "agent-takes-two-tables-serve": (
        "tools/memctx/agent/config.c",
        "        if (!table->repeated || kind == PART_WATCH || kind == PART_PUSH)",
        "        if (true)", ["serve:the-file-is-read-strictly"]),
    "agent-parts-share-a-group": (
        "tools/memctx/agent/config.c",
        "    return read_keys(reading, kind, table, part) && check_group(reading, part);",
        "    return read_keys(reading, kind, table, part);", ["serve:the-file-is-read-strictly"]),
    "agent-tables-forget-the-common-match": (
        "tools/memctx/agent/config.c", "        reading->match = match;", "        (void)match;",
        ["serve:the-file-becomes-command-lines"]),
    "agent-memory-has-no-least-value": (
        "tools/memctx/agent/config.c",
        "    if (!good || (number > 0 && number << shift < MEMORY_LEAST_BYTES))",
        "    if (!good)", ["serve:the-file-is-read-strictly"]),
    "agent-reads-no-lists": (
        "tools/memctx/agent/config.c", "    for (size_t i = 0; i < value->count; i++)\n",
        "    for (size_t i = 0; i < value->count && i < 1; i++)\n",
        ["serve:the-file-becomes-command-lines"]),
    "unit-ends-the-parts-beside-the-agent": (
        UNIT, "KillMode=mixed", "KillMode=control-group",
        ["serve:the-unit-fits-the-agent-and-its-example"]),
    "unit-tries-a-bad-file-for-ever": (
        UNIT, "RestartPreventExitStatus=2", "RestartPreventExitStatus=3",
        ["serve:the-unit-fits-the-agent-and-its-example"]),
    "unit-gives-another-directory": (
        UNIT, "StateDirectory=memctx", "StateDirectory=memctx-agent",
        ["serve:the-unit-fits-the-agent-and-its-example"]),
    "unit-waits-for-another-file": (
        UNIT, "ConditionPathExists=/etc/memctx/agent.toml",
        "ConditionPathExists=/etc/memctx.toml",
        ["serve:the-unit-fits-the-agent-and-its-example"]),
    "unit-keeps-too-few-rights": (
        UNIT, "CapabilityBoundingSet=CAP_DAC_OVERRIDE CAP_SYS_PTRACE",
        "CapabilityBoundingSet=CAP_DAC_OVERRIDE",
        ["serve:the-unit-fits-the-agent-and-its-example"]),
    "unit-keeps-too-many-rights": (
        UNIT, "CapabilityBoundingSet=CAP_DAC_OVERRIDE CAP_SYS_PTRACE",
        "CapabilityBoundingSet=CAP_DAC_OVERRIDE CAP_SYS_PTRACE CAP_SYS_ADMIN",
        ["serve:the-unit-fits-the-agent-and-its-example"]),
    "unit-forbids-local-sockets": (
        UNIT, "RestrictAddressFamilies=AF_UNIX AF_INET", "RestrictAddressFamilies=AF_INET",
        ["serve:the-unit-fits-the-agent-and-its-example"]),
    "unit-allows-less-memory-than-one-part-takes": (
        UNIT, "MemoryHigh=512M", "MemoryHigh=128M",
        ["serve:the-unit-fits-the-agent-and-its-example"]),
    "unit-does-not-start": (
        UNIT, "Type=exec", "Type=executable", ["serve:the-unit-and-the-example-are-valid"]),
    "unit-shares-its-directory": (
        "docs/watch.md", "StateDirectory=memctx-my-service", "StateDirectory=memctx",
        ["serve:no-other-unit-has-the-directory-of-the-agent"]),
    "example-has-an-unknown-key": (
        EXAMPLE, "keep = 3", "kept = 3", ["serve:the-unit-and-the-example-are-valid"]),
    "example-has-a-wrong-condition": (
        EXAMPLE, "rss>90%limit", "rss>90%limits", ["serve:the-unit-and-the-example-are-valid"]),
    "example-writes-elsewhere": (
        EXAMPLE, 'dir = "/var/lib/memctx"', 'dir = "/var/tmp"',
        ["serve:the-unit-fits-the-agent-and-its-example"]),
    "example-listens-to-everybody": (
        EXAMPLE, 'listen = "127.0.0.1:9464"', 'listen = "0.0.0.0:9464"',
        ["serve:the-unit-and-the-example-are-valid"]),
    "docs-start-the-agent-without-its-directory": (
        "docs/agent.md", "install -d /var/lib/memctx  ", "install -d /var/lib/other  ",
        ["serve:the-printed-start-works"]),
    "manifest-preloads-nothing": (
        "examples/kubernetes/app.yaml", "LD_PRELOAD, value: /memctx/libmemctx.so",
        "LD_PRELOAD, value: /opt/libmemctx.so",
        ["serve:the-manifest-of-a-program-preloads-the-library"]),
    "manifest-takes-another-right": (
        "examples/kubernetes/agent.yaml", 'add: ["SYS_PTRACE", "DAC_OVERRIDE"]',
        'add: ["SYS_ADMIN", "DAC_OVERRIDE"]',
        ["serve:the-manifest-of-the-agent-fits-its-file",
         "serve:the-unit-fits-the-agent-and-its-example"]),
    "manifest-sees-one-pod": (
        "examples/kubernetes/agent.yaml", "hostPID: true", "hostPID: false",
        ["serve:the-manifest-of-the-agent-fits-its-file"]),
}
