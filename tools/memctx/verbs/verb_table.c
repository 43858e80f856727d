/* SPDX-License-Identifier: MIT */
/* verb_table.c - the table of verbs: their arguments, help texts and functions. `memctx VERB
 * --help`, the manual and the dispatch in main.c are made from the table. */
#include "base/cli.h"
#include "live/rates.h"
#include "model/view.h"
#include "verbs/reading.h"
#include "verbs/verbs.h"

#define OUTSIDE_HELP "A process that does not answer is read from outside, through /proc/PID/mem.\n"
#define TARGET_HELP                                                                                \
    "TARGET is a pid, a unique process name, a snapshot file made by memctx dump -o, a core\n"     \
    "file, or a recording: FILE, or FILE@-10m for its state 10 minutes before its "                \
    "end.\n" OUTSIDE_HELP
/* the TARGET of memctx verify, which needs figures that a recording does not have */
#define WHOLE_TARGET_HELP                                                                          \
    "TARGET is a pid, a unique process name, a snapshot file made by memctx dump -o, or a core\n"  \
    "file; not a recording. " OUTSIDE_HELP
#define LIVE_TARGET_HELP "TARGET is a pid or a unique process name.\n"
#define COMMON_HELP                                                                                \
    "  -h, --help         print this text\n"                                                       \
    "  -V, --version      print the version of memctx\n"
const struct cli_verb verb_table[] = {
    {"run", "[OPTIONS] [--] PROGRAM [ARGUMENTS]", "start a program on memctx",
     "Starts PROGRAM with libmemctx.so preloaded. PROGRAM replaces the command (exec), so pid,\n"
     "signals and exit status are the program's own. Child processes inherit the library.\n\n"
     "  --depth N          keep N frames of each call path (MEMCTX_DEPTH)\n"
     "  --verify N         compare every Nth call path that was found in a cache with libunwind\n"
     "                     (MEMCTX_VERIFY); needs libunwind8\n"
     "  --no-children      do not preload the library into the programs that PROGRAM starts\n"
     "  --marks TIME,N     let the program keep a mark (the figures of all call paths) every "
     "TIME,\n"
     "                     the newest N of them (1 to 32), such as 10m,24 (MEMCTX_MARKS), for\n"
     "                     memctx doctor\n"
     "  --record[=DIR]     record what the call paths hold in DIR (default: the current "
     "directory),\n"
     "                     also of child processes, for memctx postmortem (MEMCTX_RECORD)\n"
     "  --names            with --record: keep names of functions in the recording. A process\n"
     "                     beside the program looks them up while it runs\n"
     "  --rule RULE        place call paths by function names; see memctx rules --help. A RULE\n"
     "                     that is not understood is refused (exit status 2)\n"
     "  --set NAME=VALUE   set any other option; memctx options lists them\n"
     "  -v, --verbose      report failures of the library on standard error "
     "(MEMCTX_VERBOSE=1)\n" COMMON_HELP
     "\nThe command refuses a program that is statically linked, linked with musl or with the\n"
     "library of a sanitizer, set-user-ID, set-group-ID or with file capabilities, or built for\n"
     "another machine (exit status 1). Exit status 126: the program cannot be executed. 127: the\n"
     "program was not found. MEMCTX_LIBRARY names another libmemctx.so.",
     run_main},
    {"ps", "[OPTIONS]", "list the processes that run on memctx",
     "Lists the processes that have libmemctx.so loaded: pid, uid, uptime in seconds, resident\n"
     "set, memory of memctx itself, requested bytes, contexts and command. If a process cannot be\n"
     "asked, the line says why. Removes the sockets of processes that have ended.\n\n"
     "  --json             print one object:\n"
     "                     "
     "{\"schema\":\"memctx-ps/1\",\"processes\":[...],\"swept\":N}\n" READING_UNIT_HELP
         READING_PAGER_HELP COMMON_HELP,
     ps_main},
    {"dump", "TARGET [OPTIONS]", "show the heap as a tree of call paths",
     TARGET_HELP
     "\nEach line reads: NAME: RESERVED total in N pages; FREE free (K chunks); USED used;\n"
     "REQUESTED requested. RESERVED is the memory that the context holds. USED is the size of its\n"
     "live chunks, rounded up to block sizes. FREE is RESERVED less USED. K is the number of live\n"
     "chunks. REQUESTED is the number of bytes that the program asked for. Inner lines are\n"
     "subtotals. A line that ends in > has no figures; its call path goes on in the line below.\n\n"
     "  --json             print one object of schema memctx/1; with --self, memctx-self/1\n"
     "  -o, --output FILE  write a snapshot with all contexts to FILE. These take a snapshot as\n"
     "                     TARGET: dump, frag, doctor, diff, report, export, verify, mark --list.\n"
     "                     With --json the snapshot is JSON, else packed: 1 M contexts take about\n"
     "                     900 MB in JSON and 10 MB packed.\n"
     "                     FILE appears only when it is complete\n"
     "  --stream           with -o: write the answers of the process as they come. That takes 1 "
     "MiB\n"
     "                     of memory, however many contexts there are. The snapshot has no names\n"
     "                     of functions; they are looked up when the snapshot is read\n"
     "  --flat             print a list of contexts with their call paths instead of the tree\n"
     "  --sort KEY         " VIEW_SORT_WORDS "\n"
     "  --min BYTES        hide contexts below BYTES of the sort key (such as 64K, 1.5M, 2G; 0\n"
     "                     shows all; by default the tree hides subtrees below 0.5 %)\n"
     "  --depth N          print N levels of the tree; with --flat, N frames of each path\n"
     "  --limit N          with --flat: print N contexts (default 20; 0 for all). JSON has all\n"
     "  --context ID,...   show only these contexts; ID/N means all contexts that share the\n"
     "                     innermost N frames of context ID\n"
     "  --site REGEX       show only contexts whose site matches: the function that calls malloc\n"
     "                     (often a wrapper such as xmalloc), its file:line, or its module;\n"
     "                     subtotals in the text count only these contexts\n"
     "  --svg FILE         write a flame graph of the sort key (default requested) to FILE\n"
     "                     (or to -, which is standard output)\n"
     "  --threads          show what each thread did in each context\n" READING_UNIT_HELP
     "  --peak             also print the highest number of requested bytes (Maximum Storage),\n"
     "                     as --sort peak does. It is not known of a context that several threads\n"
     "                     used, because the threads' peaks came at different times\n"
     "  --self             print the library's own statistics instead\n"
     "  --outside          read the process's memory from outside, even if it would "
     "answer\n" READING_NAME_HELP READING_PAGER_HELP COMMON_HELP,
     dump_main},
    {"top", "TARGET...|--all|--match GLOB [OPTIONS]",
     "watch running processes, or play a recording",
     "TARGET is a pid or a unique process name. With several, or with --all, the first screen is "
     "a\n"
     "list of processes; Enter goes into one of them, b goes back. A recording, FILE or FILE@-10m\n"
     "(memctx run --record), is shown moment by moment: [ ] { } go back and on in time, p plays "
     "it;\n"
     "--batch N prints its last N moments. If a running process writes a recording, or wrote one\n"
     "until memctx set TARGET record=off, [ shows the recording, and b the process again.\n\n"
     "Shows the call paths with most live bytes, growth a second, waste (bytes that are held "
     "beyond\n"
     "the live ones), allocations a second or live chunks, as a list or as a tree. ? shows the "
     "keys.\n"
     "Each frame asks the target for the figures of its call paths; pages, new call paths and "
     "names\n"
     "are asked for less often, so the waste may be some seconds old. A target that does not\n"
     "answer is read from outside, and the first line says so. When the target ends, the last\n"
     "figures stay, and the last line says how it ended, as far as the kernel tells.\n\n"
     "  --all              watch every process of this user (root: of all users) that runs on "
     "memctx\n"
     "  --match GLOB       as --all, but only programs whose name matches\n"
     "  --interval TIME    look every TIME: 2, 500ms, 1m (default 1 s; 0.1 s to 1 h)\n"
     "  --sort KEY         " RATES_COLUMN_WORDS " (default live)\n"
     "  --tree             begin with the tree instead of the list\n"
     "  --threads          begin with the threads, each with its call paths\n"
     "  --batch N          print N frames as text and end; needs no terminal. Exit status 1: the\n"
     "                     target ended before\n"
     "  --limit N          with --batch: print N lines of each frame, or N call paths of each\n"
     "                     thread (default 20)\n"
     "  --json             with --batch: print one object of schema memctx-top/1 a frame, on one\n"
     "                     line\n" READING_UNIT_HELP READING_NAME_HELP COMMON_HELP,
     top_main},
    {"frag", "TARGET [OPTIONS]", "show memory that is held but was not asked for",
     TARGET_HELP
     "\nPrints three parts. The first, the ledger, says where the resident set goes; it adds up\n"
     "to the figure of the kernel. The second lists contexts by waste: the memory that each\n"
     "holds, and how much of it is requested, free, or lost by rounding. Memory that was never\n"
     "written, or is in swap, counts there, too. The third lists the contexts that keep\n"
     "otherwise empty pages in use: how old their chunks are, which contexts share the pages,\n"
     "and what would free the pages. A recording has sums over the pages of each context,\n"
     "without single pages, ages, and what would free the pages.\n\n"
     "  --pages            print a wide table of contexts as the last part, with the numbers of\n"
     "                     their pages by share of live blocks\n"
     "  --map              print all pages as a map that shows how full each one is\n"
     "  --quick            leave out what takes long to read: which pages are resident, the map\n"
     "                     of the process in /proc, and single pages\n"
     "  --json             print one object of schema memctx-frag/1\n"
     "  --sort KEY         " VIEW_SORT_WORDS "\n"
     "                     (default waste; of a moment without figures of pages: requested)\n"
     "  --min BYTES        hide contexts below BYTES of the sort key\n"
     "  --limit N          print N contexts (default 20; 0 for all). JSON has all\n"
     "  --depth N          print N functions of each path (default 3); with --pages, N frames\n"
     "                     (default 6)\n"
     "  --context ID,...   show only these contexts; ID/N means all contexts that share the\n"
     "                     innermost N frames of context ID\n"
     "  --site REGEX       show only contexts whose site matches\n" READING_UNIT_HELP
         READING_NAME_HELP READING_PAGER_HELP COMMON_HELP,
     frag_main},
    {"doctor", "TARGET [OPTIONS]", "find memory problems and say what to do",
     TARGET_HELP
     "\nThe first line is the verdict. Then come the findings, worst first: what was found and "
     "how\n"
     "much it is, since when, the functions that allocate, why it matters, what to do in the "
     "source,\n"
     "a command that helps at once, how sure the finding is, and the next command to run. Call\n"
     "paths with one cause are one finding, at the function that they have in common.\n\n"
     "Wrappers of malloc, the C library, the inside of the C++ and Rust libraries and functions\n"
     "that start a thread are not shown; \"via std::string\" names a library that was left out.\n\n"
     "Growth needs several states of the process to compare: let the process keep marks (memctx\n"
     "run --marks), set at least three marks, some time apart, with memctx mark TARGET NAME and a\n"
     "new NAME each time, or use --watch. If the growth is steady, doctor tells its rate, when it\n"
     "began, and when it will have used up the memory that the tightest limit leaves (of the\n"
     "control groups, RLIMIT_AS, RLIMIT_DATA or the machine).\n\n"
     "  --json             print one object of schema memctx-doctor/1\n"
     "  --watch TIME       look four more times within TIME, such as 60 or 10m (1s to 24h; "
     "running\n"
     "                     targets only)\n"
     "  --fail-on LEVEL    exit with 5 on a finding of at least LEVEL: info, warning or critical\n"
     "  --limit N          print N findings (default 5; 0 for all). JSON has all\n"
     "  --all              print all findings, and all call paths of each\n"
     "  --full             print every frame of each path\n"
     "  --depth N          print N functions of each path (default 3)\n"
     "  --human            print KiB and MiB (the default)\n"
     "  --bytes            print exact numbers of bytes\n" READING_NAME_HELP READING_PAGER_HELP
         COMMON_HELP,
     doctor_main},
    {"postmortem", "FILE [OPTIONS]", "say how a recorded process ended, and what grew",
     "FILE is a recording, memctx-PID-NAME.rec, which memctx run --record makes. The file "
     "outlives\n"
     "the process, whatever ends it. Its last state is usually less than 10 seconds older than "
     "the\n"
     "end. FILE@-10m stands for the state 10 minutes before the last one. All verbs that take a\n"
     "snapshot take a recording, except verify. --names keeps the names of functions in the file,\n"
     "for a machine without the program's files.\n\n"
     "Prints how the process ended, as far as this can be told, its last state, the call paths\n"
     "that grew last, and the findings of memctx doctor. A recording has the sums of each context\n"
     "that held at least 0.1 % of the bytes in use, or that the program named. All other "
     "contexts\n"
     "are summed as [smaller contexts]. memctx frag FILE tells which contexts kept free memory.\n\n"
     "  --last TIME        tell what grew within TIME before the end, or before the moment\n"
     "                     of FILE@-TIME (default 10m)\n"
     "  --names            write names of functions into FILE, so that every verb has them "
     "without\n"
     "                     the program's files; memctx run --record --names does so by itself\n"
     "  --json             print one object of schema memctx-postmortem/1, with all moments\n"
     "  --limit N          print N findings, and N call paths that grew (default 5; 0 for all).\n"
     "                     JSON has all\n"
     "  --all              print all findings, and all call paths of each\n"
     "  --depth N          print N functions of each path (default 3)\n"
     "  --human            print KiB and MiB (the default)\n"
     "  --bytes            print exact numbers of bytes\n" READING_NAME_HELP READING_PAGER_HELP
         COMMON_HELP,
     postmortem_main},
    {"watch", "TARGET|--all|--match GLOB --when CONDITION... [--do ACTION]... [OPTIONS]",
     "act when a condition holds: snapshot, doctor, a command",
     LIVE_TARGET_HELP
     "\nLooks at the process once a second. When a CONDITION begins to hold, does the ACTIONs.\n"
     "Runs until the process ends, or until SIGINT, SIGTERM or SIGHUP. Prints one line for each\n"
     "event, with the time in UTC. Exit status: 0, or 1 if an action failed or a line of the log\n"
     "was lost. Quote conditions, because the shell takes an unquoted > for itself.\n\n"
     "CONDITION  used>N%limit             of any one limit of the process, more than N% is used\n"
     "                                    by all processes that the limit counts (limits: each\n"
     "                                    cgroup above, RLIMIT_AS, RLIMIT_DATA, the machine)\n"
     "           rss>SIZE, rss>N%limit    the resident set\n"
     "           inuse>SIZE, inuse>N%limit\n"
     "                                    bytes that the program asked for and has not freed\n"
     "           waste>SIZE, waste>N%, waste>N%limit\n"
     "                                    resident anonymous memory that the program did not ask\n"
     "                                    for; N% is a share of the resident set\n"
     "           growth>SIZE/TIME         inuse rose by SIZE within TIME: growth>100M/10m\n"
     "           psi>WAIT/TIME            within TIME, at least one task waited for memory for\n"
     "                                    longer than WAIT, in the cgroup of the process, else in\n"
     "                                    the whole system: psi>150ms/2s\n"
     "           ends                     the process has ended\n"
     "           SIZE ends in K, M, G or T, or is in bytes; TIME and WAIT end in ms, s, m or h, "
     "or\n"
     "           are in seconds. The limit is the smallest of memory.max, memory.high or\n"
     "           memory.limit_in_bytes of the cgroup and of those above it, RLIMIT_AS,\n"
     "           RLIMIT_DATA, and the memory of the machine.\n"
     "ACTION     snapshot        write a snapshot, PROGRAM-PID-TIME-CONDITION.mctx (the "
     "default)\n"
     "           doctor          print the findings; with --dir or --json write them to a file\n"
     "                           that ends in .txt\n"
     "           exec:COMMAND    run COMMAND by the shell, with MEMCTX_PID, MEMCTX_WHEN,\n"
     "                           MEMCTX_VALUE (bytes, or microseconds of psi) and MEMCTX_FILE "
     "(the\n"
     "                           newest file) in its environment; its output goes to standard "
     "error\n"
     "           Several actions are done in their order, one at a time.\n\n"
     "The actions of a condition are done when the condition begins to hold. They are done again\n"
     "when --cool is over and the condition holds, if meanwhile the value has been 5 % below the\n"
     "threshold or an action has failed.\n\n"
     "  --when CONDITION   act when CONDITION holds; may be given up to 16 times\n"
     "  --do ACTION        do ACTION; may be given up to 8 times\n"
     "  --keep N           for each process, keep the files of the N newest events, and of the\n"
     "                     event with most bytes in use (default 5)\n"
     "  --cool TIME        the least time between actions for one condition (default 5m)\n"
     "  --dir DIR          write files to DIR, which must exist (default: the current directory)\n"
     "  --every TIME       look every TIME (default 1s)\n"
     "  --timeout TIME     end an action that takes longer (default 5m)\n"
     "  --memory SIZE      limit the data of each process that packs a snapshot or runs doctor\n"
     "                     (at least 16M, default 256M; 0: no limit). A snapshot is first\n"
     "                     written as it is read, which takes 1 MiB; if packing it with names\n"
     "                     needs more than SIZE, it stays as it is, without names\n"
     "  --all              watch all processes that run on memctx, also those that start later, "
     "until\n"
     "                     a signal; no TARGET\n"
     "  --match GLOB       as --all, but only programs whose name matches\n"
     "  --check            check the options and the files that they name, and end\n"
     "  --json             print each event as an object of schema memctx-watch/1, one a "
     "line\n" READING_NAME_HELP COMMON_HELP,
     watch_main},
    {"export", "TARGET FORMAT... [OPTIONS]", "write a dump in the format of another tool",
     TARGET_HELP
     "\nWrites one file for each FORMAT; - is standard output, for one FORMAT. A file whose name\n"
     "ends in .gz is compressed.\n\n"
     "  --pprof FILE       pprof's profile.proto, always compressed (.pb.gz), with the values\n"
     "                     alloc_objects, alloc_space, inuse_objects, inuse_space (the default),\n"
     "                     reserved, waste, holes (free blocks), pinned (free memory in pages "
     "that\n"
     "                     the path's chunks keep in use) and resident\n"
     "  --otlp FILE        these values as profiles of OpenTelemetry (a request of OTLP, "
     "profiles\n"
     "                     v1development), always compressed with gzip\n"
     "  --attribute N=V    with --otlp: an attribute of the resource, up to 32 times;\n"
     "                     service.name is the name of the program if it is not given\n"
     "  --limit-samples N  with --pprof and --otlp: write at most N samples of each value; the\n"
     "                     smallest ones are added to the samples of their callers\n"
     "  --seconds TIME     with --pprof and --otlp: write what changed within TIME, such as 30 or\n"
     "                     5m (1s to 1h). The default value is then alloc_space, and live values\n"
     "                     may be negative\n"
     "  --folded FILE      folded stacks of one metric, for flame graphs\n"
     "  --speedscope FILE  speedscope's JSON, with profiles of the requested bytes, waste,\n"
     "                     pinned bytes, live chunks and allocations\n"
     "  --heaptrack FILE   live memory, for heaptrack_print and heaptrack_gui; every chunk of a\n"
     "                     call path gets the path's mean size\n"
     "  --csv FILE         every context with all of its figures\n"
     "  --metric KEY       with --folded: " VIEW_SORT_WORDS "\n" READING_NAME_HELP COMMON_HELP,
     export_main},
    {"report", "TARGET [-o FILE] [--before MARK|SNAPSHOT]", "write a dump as a page for a browser",
     TARGET_HELP
     "\nWrites one HTML file that needs no network. The page shows the findings of doctor, a "
     "flame\n"
     "graph and an icicle of any figure, the callers of each site, a table, a treemap, a map of "
     "all\n"
     "pages and occupancy; each thread, if there are several; and what every path held at the\n"
     "marks. It also shows what changed since any mark, or since the state that --before names.\n\n"
     "  -o, --output FILE  write to FILE instead of memctx-PID.html; - is standard output\n"
     "  --before WHAT      compare with a mark of the target, or with a "
     "snapshot\n" READING_NAME_HELP COMMON_HELP,
     report_main},
    {"serve", "TARGET... | --all | --match GLOB [OPTIONS]",
     "give metrics, profiles, findings and a live page over HTTP",
     "A TARGET is a pid or a process name. A name stands for all processes of that name, also for\n"
     "those that start later; one must run already, except with --all and --match. The server\n"
     "changes nothing: it knows only GET and HEAD.\n\n"
     "/metrics is for Prometheus, and has OpenMetrics for clients that accept it. /doctor is\n"
     "what memctx doctor --json prints. /debug/pprof/heap is what memctx export --pprof\n"
     "writes. /debug/pprof/allocs?seconds=N (1 to 60, default 10) is what it writes with\n"
     "--seconds N. Both take limit_samples=N. / is a page with these addresses and the\n"
     "verdicts of doctor. If several processes are served, target=PROGRAM or target=PID\n"
     "chooses one.\n\n"
     "/p/PID/ is a live page: the page of memctx report, a time axis, and the states at past\n"
     "moments, any two of which can be compared. /p/PID/events sends the figures as server-sent\n"
     "events.\n\n"
     "The labels of the metrics are the program's name and a number, contexts to which the "
     "program\n"
     "gave a name (at most 100), the functions of the 20 call paths that hold most, and the\n"
     "patterns of placement rules. All other contexts are summed as one.\n\n"
     "  --all              serve all processes of this user (root: of all users)\n"
     "  --match GLOB       as --all, but only programs whose name matches\n"
     "  --listen ADDRESS   unix:PATH, ADDRESS:PORT or [IPv6]:PORT (default 127.0.0.1:9464; port\n"
     "                     0: any free one). Another address than loopback needs a token or TLS\n"
     "  --token-file FILE  the first line is a token of 16 characters or more that each request\n"
     "                     has to send as \"Authorization: Bearer TOKEN\"\n"
     "  --cert FILE        speak TLS with this certificate chain (PEM)\n"
     "  --key FILE         the key of the certificate (PEM)\n"
     "  --every TIME       look every TIME for live pages (default 1s; 100ms to 1h)\n"
     "  --check            check the options and the files that they name, and end\n" COMMON_HELP
     "\nThe command prints the address and serves until SIGINT, SIGTERM or SIGHUP.",
     serve_main},
    {"push", "TARGET...|--all|--match GLOB --pyroscope|--parca|--otlp|--pushgateway URL [OPTIONS]",
     "send profiles or metrics to a server",
     "A TARGET is a pid or a process name. A name stands for all processes of that name, also for\n"
     "those that start later; one must run already, except with --all and --match. Every minute,\n"
     "sends profiles or metrics of live memory, for hosts that a server cannot reach. URL is\n"
     "http://HOST[:PORT][/PATH] or https://.\n\n"
     "If the server does not answer, or answers with 429 or 5xx, the command tries again after a\n"
     "pause that grows to a minute, or after a longer Retry-After of the server. Eight profiles "
     "a\n"
     "process wait in memory; then the oldest is dropped. A profile that is refused with another\n"
     "status is not sent again. Each failure is reported; while the server does not answer, only\n"
     "the first one is.\n\n"
     "  --pyroscope URL    profiles of live memory, to URL/ingest\n"
     "  --parca URL        profiles of live memory, to URL/api/profiles/writeraw\n"
     "  --otlp URL         profiles of live memory, to URL/v1development/profiles of an "
     "OpenTelemetry\n"
     "                     collector; of 5xx only 502 to 504 are tried again\n"
     "  --pushgateway URL  the metrics of memctx serve, to Prometheus' Pushgateway; they are "
     "removed\n"
     "                     from there at the end, but not after --once\n"
     "  --all              send processes of this user (root: of all users)\n"
     "  --match GLOB       as --all, but only programs whose name matches\n"
     "  --label NAME=TEXT  add a label; up to 16 times\n"
     "  --every TIME       send every TIME, such as 60s or 5m, from 100ms to 24h (default 60s)\n"
     "  --once             send once; four tries. Exit status 1: something could not be sent\n"
     "  --token-file FILE  send the first line as \"Authorization: Bearer TOKEN\"\n"
     "  --ca-file FILE     trust the authorities in FILE (PEM) instead of those of the system\n"
     "  --cert FILE        show this certificate (PEM) to a server that asks for one\n"
     "  --key FILE         the key of the certificate (PEM), without a password\n"
     "  --limit-samples N  the most samples of a profile (default 16000); the smallest ones are\n"
     "                     added to those of their callers. A profile above 4 MiB gets fewer\n"
     "  --check            check the options and the files that they name, and end\n"
     "  --json             print each event as an object of schema memctx-push/1, on one "
     "line\n" COMMON_HELP
     "\nEnds when all pids have ended, or with SIGINT, SIGTERM or SIGHUP. It then sends the\n"
     "waiting profiles, for at most 5 seconds, and prints how many were sent, sent again,\n"
     "dropped, and failed. A second signal ends the command at once.",
     push_main},
    {"agent", "[--config FILE] [--check] [--json]",
     "serve, watch and push for a machine, from one file",
     "Runs memctx serve, watch and push for all processes of this user (root: of all users), as "
     "the\n"
     "tables of FILE say. Each of these verbs is a part of the agent, a process of its own. A\n"
     "part that ends is started again after a second; each time it ends again, this pause\n"
     "doubles, up to a minute. SIGHUP reads FILE again and starts all parts anew, unless FILE\n"
     "has a mistake. SIGTERM and SIGINT end all parts, within 10 seconds.\n\n"
     "FILE is TOML: tables, keys, strings, whole numbers, true and false, arrays of strings. A "
     "key\n"
     "is an option of the verb without its dashes. Keys that do not exist are refused.\n\n"
     "  [agent]   match     only programs whose name matches; the other tables may have it, too\n"
     "            memory    the most memory for data of each process (default \"256M\"; \"0\": no\n"
     "                      limit)\n"
     "  [serve]   listen, token-file, cert, key, every\n"
     "  [watch]   when, do (arrays), keep, cool, dir, every, timeout, memory, json\n"
     "  [push]    pyroscope, parca, otlp, pushgateway, labels (an array), every, token-file,\n"
     "            ca-file, cert, key, limit-samples, json\n\n"
     "A table that is missing is not run. [[watch]] and [[push]] may be there several times.\n\n"
     "  --config FILE      read FILE instead of /etc/memctx/agent.toml\n"
     "  --check            check FILE, print the command line of each part, and end. Exit status "
     "2:\n"
     "                     FILE has a mistake; the message names the line\n"
     "  --json             print each event, or with --check the parts, as an object of schema\n"
     "                     memctx-agent/1\n" COMMON_HELP,
     agent_main},
    {"mark", "TARGET [NAME] | --list TARGET", "remember the counters of every context",
     LIVE_TARGET_HELP
     "\nThe target keeps the mark, and memctx diff compares with it. A new mark replaces an older\n"
     "one of the same name. NAME has at most 31 bytes; without NAME the mark is called default.\n\n"
     "One mark takes at most 896 KiB. It is made only while marks and resets together take at\n"
     "most an eighth of the budget of the tables (MEMCTX_TABLES). If a mark does not fit, it\n"
     "leaves out the contexts that hold least and says so; if nothing fits, the mark is refused.\n"
     "The library never merges the call paths of a mark into [other callers].\n\n"
     "With the option marks (memctx run --marks 10m,24; memctx set TARGET marks=10m,24) the "
     "target\n"
     "makes a mark by itself every 10 minutes and keeps the newest 24. They are called auto-1,\n"
     "auto-2 and so on; a mark of yours that has such a name is taken for one of them. Together\n"
     "they use at most half of the memory that marks may use.\n\n"
     "  --list             list the marks with their times, the oldest first; TARGET may be a\n"
     "                     snapshot file\n"
     "  --json             print one object of schema memctx-mark/1; with --list, "
     "memctx-marks/1\n" COMMON_HELP,
     mark_main},
    {"diff", "TARGET [MARK] | SNAPSHOT TARGET", "show the growth of each context",
     TARGET_HELP
     "\nShows the growth since MARK (default: the latest mark that is not automatic), or from a\n"
     "snapshot to another snapshot or to a process. A word that is the name of a mark of the\n"
     "first snapshot means this mark. Contexts of two states match if their call paths have\n"
     "the same modules and offsets. In a module that was built anew meanwhile, functions with\n"
     "the same name match.\n\n"
     "  --json             print one object of schema memctx-diff/1\n"
     "  --min BYTES        hide contexts that changed by less than BYTES\n"
     "  --limit N          print N contexts (default 20; 0 for all). JSON has all\n"
     "  --depth N          print N frames of each path (default 8)\n" READING_UNIT_HELP
         READING_NAME_HELP READING_PAGER_HELP COMMON_HELP,
     diff_main},
    {"reset", "TARGET [--context ID,... | --site REGEX | --named NAME]", "start counting from zero",
     LIVE_TARGET_HELP
     "\nSets the counters to zero and the peaks to the live bytes, for the whole tree or for a "
     "part\n"
     "of it. This frees no chunk.\n\n"
     "--named is different. It asks a program that creates contexts (memctx.h) to reset those of\n"
     "that name, which frees their chunks. The program resets them when it next calls\n"
     "memctx_reset_requested(), and the command waits for it. Exit status 1: some contexts were\n"
     "not reset in time.\n\n"
     "A reset keeps 24 bytes for each context of each thread. It shares a limit with the marks "
     "and\n"
     "is refused past that limit.\n\n"
     "  --context ID,...   reset these contexts and all below them; ID/N means all contexts that\n"
     "                     share the innermost N frames of context ID\n"
     "  --site REGEX       reset every context whose site matches, and all below it\n"
     "  --named NAME       reset the program's own contexts of that name and free their chunks\n"
     "  --timeout TIME     wait this long for --named (default 10s; at most 24h)\n"
     "  --json             print one object of schema memctx-reset/1\n" READING_NAME_HELP
         COMMON_HELP,
     reset_main},
    {"trim", "TARGET [CONTEXT... | --context ID,... | --site REGEX]",
     "give empty memory back to the kernel",
     LIVE_TARGET_HELP
     "\nGives the empty memory that the library keeps for reuse back to the kernel at once.\n"
     "Prints how many bytes went back, and the resident set before and after. With contexts it\n"
     "also gives back OS pages without live chunks inside pages that are in use, and prints the\n"
     "predicted saving. A CONTEXT is a number, as memctx frag prints it, and includes all\n"
     "contexts below it. A thread that runs does its part in its next malloc, which takes some\n"
     "microseconds for each page; for threads that sleep, the library's control thread does\n"
     "nearly all of it. While a thread has not done its part, a trim of other contexts includes\n"
     "the contexts of the earlier trim, too.\n\n"
     "  --context ID,...   trim only these contexts; ID/N means all contexts that share the\n"
     "                     innermost N frames of context ID\n"
     "  --site REGEX       trim every context whose site matches\n"
     "  --json             print one object of schema memctx-trim/1\n" READING_UNIT_HELP
         READING_NAME_HELP COMMON_HELP,
     trim_main},
    {"isolate", "TARGET CONTEXT... | --context ID,... | --site REGEX",
     "give contexts pages of their own",
     LIVE_TARGET_HELP
     "\nThe next chunks of these contexts go to pages that no other context shares, even past the\n"
     "waste cap, the library's bound for free memory in such pages. CONTEXT is a number, as\n"
     "memctx frag prints it, and includes all contexts below it. Prints the predicted saving.\n"
     "No chunk is moved.\n\n"
     "  --context ID,...   isolate only these contexts; ID/N means all contexts that share the\n"
     "                     innermost N frames of context ID\n"
     "  --site REGEX       isolate every context whose site matches\n"
     "  --json             print one object of schema memctx-place/1\n" READING_UNIT_HELP
         READING_NAME_HELP COMMON_HELP,
     isolate_main},
    {"merge", "TARGET CONTEXT... | --context ID,... | --site REGEX",
     "put contexts into pages shared with others",
     LIVE_TARGET_HELP
     "\nThe next chunks of these contexts go to mixed pages, which many contexts share. Free\n"
     "memory in the contexts' own pages serves all other contexts. A CONTEXT is a number, as\n"
     "memctx frag prints it, and includes all contexts below it. memctx set TARGET CONTEXT\n"
     "policy=default ends this. A named context (memctx_create) keeps its own pages, so it is\n"
     "refused.\n\n"
     "  --context ID,...   merge only these contexts; ID/N means all contexts that share the\n"
     "                     innermost N frames of context ID\n"
     "  --site REGEX       merge every context whose site matches\n"
     "  --json             print one object of schema memctx-place/1\n" READING_UNIT_HELP
         READING_NAME_HELP COMMON_HELP,
     merge_main},
    {"verify", "TARGET [OPTIONS]", "compare predicted savings with what happened",
     WHOLE_TARGET_HELP
     "\nLists the last 16 actions on contexts: isolate, merge, trim, and set policy=. For each\n"
     "action it prints the saving that the command predicted, and the saving that it finds now.\n"
     "The second is the difference between the moment of the action and now: of the free memory\n"
     "around these contexts; for a policy, of the rounding and holes of their chunks; for a trim,\n"
     "of the resident set. A saving is \"?\" if a context has got another policy since. It\n"
     "is \"?\" also if the action had more than 24 contexts and others have its policy, too.\n\n"
     "  --json             print one object of schema memctx-verify/1\n" READING_UNIT_HELP
         READING_PAGER_HELP COMMON_HELP,
     verify_main},
    {"rules", "TARGET [--add RULE] [--again] [--clear] [OPTIONS]",
     "place call paths by the functions on them",
     LIVE_TARGET_HELP
     "\nLists the rules of the process. For each rule it prints how many call paths it placed, "
     "what\n"
     "is alive in them, and how often they passed a limit. A RULE is PATTERN=POLICY,OPTION,... "
     "and\n"
     "applies to every call path with a frame that matches PATTERN. The first rule that matches a\n"
     "call path wins.\n\n"
     "PATTERN  the name of a function, as memctx dump shows it; for C++ and Rust\n"
     "         also ns::type::function\n"
     "         regex:EXPRESSION    a POSIX extended expression that is found in a function's name\n"
     "         module:NAME         the file name of an executable or library\n"
     "         file:NAME           a source file; needs debug information\n"
     "         context:NUMBER      a context and all below it; comes before all other rules; of\n"
     "                             several such rules for one context the newest applies\n"
     "         In names, * stands for any characters and ? for one.\n"
     "POLICY   a policy of memctx set; may be left out\n"
     "OPTION   own                 give each path pages of its own, from its first chunk on. When\n"
     "                             the tables have no room (MEMCTX_TABLES), further paths share\n"
     "                             pages\n"
     "         page:16K, page:64K  the size of these pages\n"
     "         limit:BYTES         allocations fail (ENOMEM) when all paths of the rule together\n"
     "                             hold more\n"
     "         warn:BYTES          print a path of the rule on the program's standard error when\n"
     "                             all its paths together hold more than BYTES, and again at\n"
     "                             twice as many; the library looks once a second\n"
     "         guard               round each chunk of up to 1016 KiB up to a multiple of 16, put\n"
     "                             two inaccessible OS pages behind it, and make freed chunks\n"
     "                             inaccessible; an access ends the program and is reported. At\n"
     "                             most 16000 chunks of a process have a guard\n"
     "         zero                fill chunks with zeros when they are freed; implies own\n\n"
     "A rule applies to chunks that are allocated later. Contexts that were placed by hand keep\n"
     "their policy. memctx run --rule RULE or MEMCTX_RULES='RULE;RULE' sets rules at the start.\n\n"
     "The command, not the library, resolves regex:, file:, the names of inlined functions and\n"
     "names with parameters: memctx run does so before the program starts, --add at once. Objects\n"
     "that the program loads later are listed as not resolved until --again. A note says which\n"
     "new rules match no function yet.\n\n"
     "  --add RULE         add a rule behind the others. If one RULE is not understood (exit\n"
     "                     status 2), names a context that does not exist, or has no room (exit\n"
     "                     status 1), none is added and no rule is cleared\n"
     "  --again            resolve the rules in objects where they are not resolved yet\n"
     "  --clear            first remove all rules; the allocator places their paths again\n"
     "  --json             print one object of schema memctx-rules/1\n" READING_UNIT_HELP
         READING_PAGER_HELP COMMON_HELP,
     rules_main},
    {"set", "TARGET NAME=VALUE... | TARGET CONTEXT...|--site REGEX policy=POLICY|unfold|fold",
     "change options, or the policy or unfolding of contexts",
     LIVE_TARGET_HELP
     "\nmemctx options shows which options can be changed in a running process. record=DIR begins "
     "a\n"
     "recording (memctx run --record) in an absolute directory, record=off ends it.\n\n"
     "policy=POLICY decides where the next chunks of contexts go, once MEMCTX_PROMOTE_BYTES are\n"
     "alive in them. A CONTEXT is a number and includes all contexts below it.\n\n"
     "  default            a rule or the allocator decides; of a named context, its program\n"
     "  aset               pages of their own, even past the waste cap; as memctx isolate\n"
     "  mixed              no new pages of their own; as memctx merge; not for named contexts\n"
     "  slab               blocks of exactly the chunk's size; for chunks just above a size class\n"
     "  generation         chunks one after another, without rounding; for chunks that are freed\n"
     "                     in the order of their allocation, or all together. A page is used "
     "again\n"
     "                     only when all its chunks are free, so one live chunk keeps 16 or 64 "
     "KiB\n"
     "  bump               as generation, but no empty page is kept\n"
     "  simple             each chunk by itself, with 16 bytes for a list; for comparison\n\n"
     "policy=POLICY,OPTION,... gives contexts a rule with the options of memctx rules. Name the\n"
     "contexts by number. Without a POLICY they keep the policy that was set before. This form\n"
     "does not take --json.\n\n"
     "unfold is for contexts that the dump shows as (recursive: ...). For a time, new call paths\n"
     "keep every turn of the recursion. This applies to the functions of the context and of\n"
     "the contexts folded below it, whoever calls them. The tables still keep their budget\n"
     "(MEMCTX_TABLES). The unfolded paths stay in the tree afterwards. fold ends the time at\n"
     "once. memctx dump --self shows what is unfolded, and for how long.\n\n"
     "  --context ID,...   with policy=POLICY: choose only these contexts; ID/N means all\n"
     "                     contexts that share the innermost N frames of context ID\n"
     "  --site REGEX       choose every context whose site matches; with unfold and fold, every\n"
     "                     recursive context whose function matches\n"
     "  --for TIME         with unfold: how long (default 60s; at most 24h)\n"
     "  --json             print one object of schema memctx-set/1 for options, memctx-place/1 "
     "for\n"
     "                     policies, or memctx-unfold/1\n" READING_UNIT_HELP READING_NAME_HELP
         COMMON_HELP,
     set_main},
    {"options", "[TARGET] [OPTIONS]", "list the options and their values",
     "Without a TARGET it prints every MEMCTX_* option with its default. With a TARGET it also\n"
     "prints the value in that process. An option marked start is read from the environment when\n"
     "the program starts. memctx set changes an option marked live.\n\n"
     "  --json             print one object of schema memctx-options/1\n" READING_PAGER_HELP
         COMMON_HELP,
     options_main},
};

const size_t verb_count = sizeof verb_table / sizeof verb_table[0];
