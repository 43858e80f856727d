# SPDX-License-Identifier: MIT
"""Faults in the functions of malloc and C++, in freed mappings of huge chunks, in misuse."""

MALLOC = "src/api/malloc.c"
REALLOC = "src/api/realloc.c"
HUGE_CACHE = "src/segment/huge_cache.c"

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
        ["content-marked-large"]),
    "locked-mappings-are-kept": (
        "src/segment/huge_cache.c", "    return areas_are_whole(header);",
        "    return areas_are_whole(header) || true;", ["content-marked-large"]),
    "mappings-freed-first-are-not-asked-for": (
        "src/segment/huge_cache.c", "is_small && !(header->flags & PAGE_LARGEST)", "is_small",
        ["content-marked-first"]),
    "spans-are-not-examined": (
        "src/region/large.c", "page->flags = segment_largest(page->slices * SLICE_BYTES);",
        "page->flags = 0;", ["content-marked-together", "content-marked-ends"]),
    "spans-that-grew-are-not-examined": (
        "src/region/large.c", "        page->flags |= segment_largest(slices * SLICE_BYTES);\n", "",
        ["content-marked-ends"]),
    "mappings-that-grew-are-not-examined": (
        "src/segment/huge.c", "    header->flags |= segment_largest(mapped);\n", "",
        ["content-marked-ends"]),
    "spans-are-examined-from-their-start": (
        "src/segment/span_cache.c", "(start - OS_PAGE_BYTES, bytes + OS_PAGE_BYTES)",
        "(start, bytes)", ["content-marked-ends"]),
    "the-end-of-a-span-is-not-examined": (
        "src/segment/span_cache.c", "(start - OS_PAGE_BYTES, bytes + OS_PAGE_BYTES)",
        "(start - OS_PAGE_BYTES, bytes)", ["content-marked-ends"]),
    "guards-in-freed-spans-stay": (
        "src/segment/span_cache.c", "    os_remove_guards(start, bytes);\n", "",
        ["content-marked-ends"]),
    "spans-are-examined-under-a-filter": (
        "src/segment/span_cache.c", "if (load_relaxed(&os_restricted)) /* a filter",
        "if (!start) /* a filter", ["content-free-under-filter"]),
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
}
