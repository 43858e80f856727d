/* SPDX-License-Identifier: MIT */
/* main.c - the table of verbs, their help, and the dispatch. */
#include <stdlib.h>
#include <string.h>

#include "base/cli.h"
#include "model/view.h"
#include "verbs/reading.h"
#include "verbs/verbs.h"

#define TARGET_HELP                                                                                \
    "TARGET is a pid, a unique process name, or a snapshot file made by memctx dump -o.\n"
#define LIVE_TARGET_HELP "TARGET is a pid or a unique process name.\n"
#define COMMON_HELP                                                                                \
    "  -h, --help         this text\n"                                                             \
    "  -V, --version      the version of memctx\n"

static const struct cli_verb verbs[] = {
    {"run", "[OPTIONS] [--] PROGRAM [ARGUMENTS]", "start a program on memctx",
     "Starts PROGRAM with libmemctx.so preloaded. The command becomes the program: its pid, "
     "signals\n"
     "and exit status are the program's own. Children inherit the library.\n\n"
     "  --depth N          keep N frames of each call path (MEMCTX_DEPTH)\n"
     "  --verify N         unwind every Nth cached path afresh and compare (MEMCTX_VERIFY)\n"
     "  --no-children      the programs that PROGRAM starts run without the library\n"
     "  --rule RULE        place the call paths with a function as RULE says; see memctx rules\n"
     "  --set NAME=VALUE   any other option; memctx options lists them\n"
     "  -v, --verbose      say on standard error what could not be had "
     "(MEMCTX_VERBOSE=1)\n" COMMON_HELP
     "\nA program that is statically linked, setuid or of another machine is refused (1); 126: it\n"
     "cannot be executed; 127: it was not found. MEMCTX_LIBRARY names another libmemctx.so.",
     run_main},
    {"ps", "[--json] [--human]", "list the processes that run on memctx",
     "Lists the processes with libmemctx.so: pid, uid, seconds of life, resident set, requested\n"
     "bytes, contexts, command; for one that cannot be asked, why. Removes stale sockets.\n\n"
     "  --json             one object: "
     "{\"schema\":\"memctx-ps/1\",\"processes\":[...],\"swept\":N}\n"
     "  --human            KiB, MiB instead of bytes\n" COMMON_HELP,
     ps_main},
    {"dump", "TARGET [OPTIONS]", "show the heap as a tree of call paths",
     TARGET_HELP
     "\nEach line: NAME: RESERVED total in N pages; FREE free (K chunks); USED used; REQUESTED\n"
     "requested. RESERVED is what the context holds, USED its live chunks with rounding, FREE the\n"
     "difference, K the number of live chunks, REQUESTED what the program asked for. A line that\n"
     "ends in > is only a step on the way to the one below it. Inner lines are subtotals.\n\n"
     "  --json             one object of schema memctx/1\n"
     "  -o, --output FILE  write all of it to FILE: a snapshot, which every verb that only reads\n"
     "                     takes for a TARGET: packed, or with --json that object (1 M contexts "
     "are\n"
     "                     some 10 MB, or 900). FILE appears when it is whole\n"
     "  --flat             a list of contexts with their call paths instead of the tree\n"
     "  --sort KEY         " VIEW_SORT_WORDS "\n"
     "  --min BYTES        hide what is below BYTES of the sort key (K, M, G; 0 shows all;\n"
     "                     without it the tree hides subtrees below 0.5 %)\n"
     "  --depth N          N levels of the tree; with --flat N frames of each path\n"
     "  --limit N          with --flat: N contexts (20; 0 for all)\n"
     "  --site REGEX       only contexts whose site (function, file:line, module) matches;\n"
     "                     subtotals in the text count only those\n"
     "  --svg FILE         a flame graph of the sort key (requested) instead; - is standard "
     "output\n"
     "  --threads          what each thread did in each context\n"
     "  --human            KiB, MiB instead of bytes\n"
     "  --peak             also the most that was requested at a time (Maximum Storage)\n"
     "  --self             the library's own statistics instead\n" READING_NAME_HELP COMMON_HELP,
     dump_main},
    {"frag", "TARGET [OPTIONS]", "show where memory goes that was not asked for",
     TARGET_HELP
     "\nFirst a ledger that adds up to the resident set as the kernel counts it, with the "
     "residue;\n"
     "then who holds otherwise empty pages, since when, with whom, and what would help; then the\n"
     "contexts by waste, with the number of their pages by share of live blocks.\n\n"
     "  --map              all pages as a map, by how much of them is alive\n"
     "  --quick            without residency, the kernel's map and pages one by one\n"
     "  --json             one object of schema memctx-frag/1\n"
     "  --sort KEY         " VIEW_SORT_WORDS " (waste)\n"
     "  --min BYTES        hide contexts below BYTES of the sort key\n"
     "  --limit N          N contexts (20; 0 for all)\n"
     "  --depth N          N frames of each path (6)\n"
     "  --site REGEX       only contexts whose site matches\n"
     "  --human            KiB, MiB instead of bytes\n" READING_NAME_HELP COMMON_HELP,
     frag_main},
    {"doctor", "TARGET [OPTIONS]", "say what is wrong with its memory, and what to do",
     TARGET_HELP
     "\nFindings in plain words, worst first, each with its evidence and the next command. Growth "
     "is "
     "judged\nfrom the marks of the target, of which there should be three or more, or by "
     "watching.\n\n"
     "  --json             one object of schema memctx-doctor/1\n"
     "  --watch SECONDS    look four times more in that time first (of a running target)\n"
     "  --fail-on LEVEL    exit with 5 for a finding of info, warning or critical, or worse\n"
     "  --depth N          N frames of each path (6)\n" READING_NAME_HELP COMMON_HELP,
     doctor_main},
    {"export", "TARGET FORMAT... [OPTIONS]", "write it in the format of another tool",
     TARGET_HELP "\nOne file for each format; - is standard output. A name that ends in .gz is "
                 "written compressed.\n\n"
                 "  --pprof FILE       pprof's profile.proto, always compressed (.pb.gz): "
                 "alloc_objects,\n"
                 "                     alloc_space, inuse_objects, inuse_space (shown first), "
                 "reserved, waste,\n"
                 "                     holes, pinned, resident\n"
                 "  --limit-samples N  of --pprof: N samples at most; the smallest are added to "
                 "their callers'\n"
                 "  --folded FILE      folded stacks, for flame graphs, of one metric\n"
                 "  --speedscope FILE  speedscope's JSON, a profile for each metric\n"
                 "  --heaptrack FILE   what is alive, for heaptrack_print and heaptrack_gui; the "
                 "chunks of a path\n"
                 "                     have its mean size\n"
                 "  --csv FILE         every context with all of its figures\n"
                 "  --metric KEY       of --folded: " VIEW_SORT_WORDS
                 "\n" READING_NAME_HELP COMMON_HELP,
     export_main},
    {"report", "TARGET [-o FILE] [--before MARK|SNAPSHOT]", "write it as a page for a browser",
     TARGET_HELP "\nOne HTML file with everything in it: what doctor finds, flame graph and icicle "
                 "of any figure,\n"
                 "a table, a treemap, a map of all pages, occupancy, and, with --before, what "
                 "changed. It needs no\n"
                 "network.\n\n"
                 "  -o, --output FILE  FILE instead of memctx-PID.html; - is standard output\n"
                 "  --before WHAT      compare with a mark of the target, or with a "
                 "snapshot\n" READING_NAME_HELP COMMON_HELP,
     report_main},
    {"mark", "TARGET [NAME]", "remember how every context stands",
     LIVE_TARGET_HELP
     "\nThe target keeps the mark; memctx diff compares with it. A mark of the same name moves.\n"
     "Without NAME it is called default. A mark takes at most 896 KiB, and all of them, with what\n"
     "resets keep, an eighth of what the tables may have (MEMCTX_TABLES): contexts that hold "
     "least\n"
     "are left out then, which is told; where nothing is left, a mark is refused. Call paths that\n"
     "a mark tells of are never merged into [other callers].\n\n" COMMON_HELP,
     mark_main},
    {"diff", "TARGET [MARK] | SNAPSHOT SNAPSHOT|PID", "show the growth of each context",
     TARGET_HELP "\nThe growth since MARK (the latest one), or from the first state to the second. "
                 "Contexts of\n"
                 "two snapshots are matched by their path of modules and offsets.\n\n"
                 "  --json             one object of schema memctx-diff/1\n"
                 "  --min BYTES        hide contexts that changed by less\n"
                 "  --limit N          N contexts (20; 0 for all)\n"
                 "  --depth N          N frames of each path (8)\n"
                 "  --human            KiB, MiB instead of bytes\n" READING_NAME_HELP COMMON_HELP,
     diff_main},
    {"reset", "TARGET [--context ID | --site REGEX | --named NAME]", "begin counting anew",
     LIVE_TARGET_HELP
     "\nSets the counters since start to zero and the peaks to what is live, for the whole tree "
     "or\n"
     "for a part of it. No chunk is freed, but with --named: that asks a program that makes "
     "contexts\n"
     "of its own (memctx.h) to reset those of that name, and waits until it has, where it asks\n"
     "memctx_reset_requested(). Exit status 1: some were not reset in time. What has to be kept\n"
     "for it, 24 bytes for each context of each thread, has a bound together with marks; past "
     "that\n"
     "a reset is refused.\n\n"
     "  --context ID       this context and all below it\n"
     "  --site REGEX       every context whose site matches\n"
     "  --named NAME       the program's own contexts of that name: their chunks are freed\n"
     "  --timeout SECONDS  how long to wait for that (10)\n" READING_NAME_HELP COMMON_HELP,
     reset_main},
    {"trim", "TARGET [CONTEXT... | --site REGEX]", "hand empty memory back to the kernel",
     LIVE_TARGET_HELP
     "\nSays how many bytes went back, and the resident set before and after. Of some contexts "
     "also\nthe OS pages in which nothing is alive, in pages that are in use, and what was "
     "predicted. A\nthread does its part with its next malloc, some microseconds for each page.\n\n"
     "  --site REGEX       every context whose site matches\n"
     "  --json             one object of schema memctx-trim/1\n"
     "  --human            KiB, MiB instead of bytes\n" READING_NAME_HELP COMMON_HELP,
     trim_main},
    {"isolate", "TARGET CONTEXT... | --site REGEX", "place contexts apart from all others",
     LIVE_TARGET_HELP
     "\nThe next chunks of these contexts (numbers, as memctx frag shows them, each with all below "
     "it)\nstand in pages that no other context shares, whatever the waste cap says. Says what "
     "that "
     "should\nsave; no chunk is moved.\n\n"
     "  --site REGEX       every context whose site matches\n"
     "  --json             one object of schema memctx-place/1\n"
     "  --human            KiB, MiB instead of bytes\n" READING_NAME_HELP COMMON_HELP,
     isolate_main},
    {"merge", "TARGET CONTEXT... | --site REGEX", "place contexts among all others",
     LIVE_TARGET_HELP
     "\nThe next chunks of these contexts share mixed pages, and what is free in their own pages "
     "serves\nall. memctx set TARGET CONTEXT policy=default ends it.\n\n"
     "  --site REGEX       every context whose site matches\n"
     "  --json             one object of schema memctx-place/1\n"
     "  --human            KiB, MiB instead of bytes\n" READING_NAME_HELP COMMON_HELP,
     merge_main},
    {"verify", "TARGET [--json] [--human]", "compare what was predicted with what came of it",
     TARGET_HELP
     "\nFor each isolate, merge, trim and set policy= of contexts, the last 16: what it "
     "should save,\nwhat was free around these contexts then and is now; of a policy: "
     "rounding and holes of their\nchunks; of a trim: the resident set.\n\n"
     "  --json             one object of schema memctx-verify/1\n"
     "  --human            KiB, MiB instead of bytes\n" COMMON_HELP,
     verify_main},
    {"rules", "TARGET [--add RULE] [--clear] [--json] [--human]",
     "place call paths by the functions on them",
     LIVE_TARGET_HELP
     "\nLists the rules of the process, with the call paths that each placed, what is alive in "
     "them, "
     "and\nhow often a limit was passed. A RULE is PATTERN=POLICY,OPTION,... and holds for every "
     "call path\nthat has such a frame anywhere; the first one that does counts.\n\n"
     "PATTERN  a function's name, of C++ also with its namespaces (ns::type::function)\n"
     "         regex:EXPRESSION    a function's name, searched for a POSIX extended expression\n"
     "         module:NAME         the file name of an executable or library\n"
     "         file:NAME           a source file, by debug information that is not compressed\n"
     "         context:NUMBER      that context and all below it, before all other rules\n"
     "         In names * and ? stand for any characters and for one. Inlined functions have no "
     "frame.\n"
     "POLICY   as for memctx set; may be left out\n"
     "OPTION   own                 pages of its own, from the first chunk on\n"
     "         page:16K, page:64K  the size of these pages\n"
     "         limit:BYTES         past it, all paths of the rule together, allocations fail "
     "(ENOMEM)\n"
     "         warn:BYTES          past it, a line on standard error names the path\n"
     "         guard               each chunk ends at a page that cannot be touched, nor can the "
     "chunk\n"
     "                             when it was freed: who does is stopped, and named\n"
     "         zero                what is freed is zeroed\n\n"
     "It holds for what is allocated from then on; contexts that were placed by hand keep their "
     "policy.\nA program starts with the rules of memctx run --rule RULE or "
     "MEMCTX_RULES='RULE;RULE'.\n\n"
     "  --add RULE         one more, behind the others\n"
     "  --clear            first forget all of them; what they placed is as the allocator decides\n"
     "  --json             one object of schema memctx-rules/1\n"
     "  --human            KiB, MiB instead of bytes\n" COMMON_HELP,
     rules_main},
    {"set", "TARGET NAME=VALUE... | TARGET CONTEXT...|--site REGEX policy=POLICY|unfold|fold",
     "change options, how contexts are placed, or unfold them",
     LIVE_TARGET_HELP
     "\nmemctx options says which options can be set live. The POLICY of contexts (numbers, each "
     "with all\nbelow it) is where their next chunks stand, from MEMCTX_PROMOTE_BYTES alive on:\n\n"
     "  default            as the allocator decides\n"
     "  aset               in pages of their own, whatever the waste cap says; as memctx isolate\n"
     "  mixed              in no new pages of their own; as memctx merge\n"
     "  slab               in blocks of their very size: for chunks just above a size class\n"
     "  generation         one behind the other, nothing rounded: for chunks that are freed in the "
     "order\n"
     "                     they came, or all together; what is freed is used again only when all "
     "of its\n"
     "                     page was, so one chunk that stays keeps 16 or 64 KiB\n"
     "  bump               as generation, and no empty page is kept\n"
     "  simple             each by itself, in a list of 16 bytes a chunk: for comparison\n\n"
     "policy=POLICY,OPTION,... with options as memctx rules has them: the contexts, by number, get "
     "a rule\nof their own.\n\n"
     "unfold: of contexts that the dump shows as (recursive: ...), new call paths have each turn "
     "of "
     "the\n"
     "recursion, for a time. That holds for its functions and those folded below them, wherever "
     "they are\n"
     "called from. The budget (MEMCTX_TABLES) holds as always; when it is over, what was seen "
     "stays "
     "in the\n"
     "tree. fold ends it at once; memctx dump --self says what is unfolded, and how long.\n\n"
     "  --site REGEX       every context whose site matches; with unfold and fold, every "
     "recursive\n"
     "                     one whose function does\n"
     "  --for SECONDS      of unfold: how long (60)\n"
     "  --json             of contexts: one object of schema memctx-place/1 or memctx-unfold/1\n"
     "  --human            KiB, MiB instead of bytes\n" READING_NAME_HELP COMMON_HELP,
     set_main},
    {"options", "[TARGET] [--json]", "list the options, or how they stand in a process",
     "Without a TARGET: every MEMCTX_* option with its default. With one: its value there.\n"
     "start: taken from the environment when the program starts; live: memctx set changes it.\n\n"
     "  --json             one object of schema memctx-options/1\n" COMMON_HELP,
     options_main},
};

#define VERB_COUNT (sizeof verbs / sizeof verbs[0])

static void print_help(void) {
    printf(
        "usage: memctx VERB [ARGUMENTS]\n\n"
        "memctx runs unmodified programs on an allocator that knows which call path holds which\n"
        "memory, and shows it while they run.\n\n");
    for (size_t i = 0; i < VERB_COUNT; i++)
        printf("  %-8s %s\n", verbs[i].name, verbs[i].summary);
    printf("\nmemctx VERB --help says more. memctx --version gives the version.\n"
           "Exit codes: 0 done; 1 the target said no, or an answer is incomplete; 2 usage;\n"
           "3 no such target or no socket; 4 not permitted; 5 doctor --fail-on found something.\n");
}

static const struct cli_verb *find_verb(const char *name) {
    for (size_t i = 0; i < VERB_COUNT; i++)
        if (strcmp(verbs[i].name, name) == 0)
            return &verbs[i];
    return NULL;
}

int main(int argc, char **argv) {
    if (argc < 2)
        cli_usage("a verb is missing");
    const char *word = argv[1];
    if (strcmp(word, "--version") == 0 || strcmp(word, "-V") == 0) {
        printf("memctx %s\n", CLI_VERSION);
        return cli_finish_output(CLI_DONE);
    }
    bool help = strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 || strcmp(word, "help") == 0;
    if (help && argc < 3) {
        print_help();
        return cli_finish_output(CLI_DONE);
    }
    const struct cli_verb *verb = find_verb(help ? argv[2] : word);
    if (!verb)
        cli_usage("there is no verb %s", help ? argv[2] : word);
    cli_current_verb = verb;
    if (help) {
        cli_print_verb_help(verb);
        return cli_finish_output(CLI_DONE);
    }
    return verb->run(argc - 1, argv + 1);
}
