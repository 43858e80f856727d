# SPDX-License-Identifier: MIT
"""Faults in call paths: folding, waiting, tables budget, eviction, ids, code that V8 makes."""

TREE = "src/context/tree.c"
IDS = "src/context/tree_ids.c"
V8 = "src/path/v8.c"

MUTANTS = {
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
    "folded-functions-have-no-bytes": (
        "src/path/functions.c", "(struct alike){.bytes = function.bytes};", "(struct alike){0};",
        ["unit:paths/folded_function_is_known_by_its_bytes"]),
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
}
