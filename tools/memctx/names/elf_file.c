/* SPDX-License-Identifier: MIT */
/*
 * elf_file.c - opens the file of a module with elfutils; runs in a child process.
 *
 * The file must be the one that the process maps; the build-id or the kernel's map of the process
 * tells that. The target chose the names of its files, so no file is opened before its type is
 * known. Cannot do: check the types of debug files of dwz (by build-id) and of split DWARF (.dwo),
 * which libdw opens by itself.
 */
#include <dirent.h>
#include <elfutils/libdwelf.h>
#include <elfutils/libdwfl.h>
#include <gelf.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "names/answer.h"
#include "names/elf_names.h"
#include "names/plain_file.h"

/* --- opening the file that the process maps ---------------------------------------------- */

enum match { MATCH_NO_FILE, MATCH_OTHER, MATCH_DAMAGED, MATCH_YES };

/* How a file was found: below /proc/PID/root, under the module's path as this command sees it, as
 * /proc/PID/exe, or by a link in /proc/PID/map_files, which leads to the very file that is
 * mapped. */
enum way { WAY_ROOT, WAY_PATH, WAY_EXE, WAY_MAP, WAYS };

/* Whether a file that was found is the one that is mapped at the module's address. MAPPED_LIKELY:
 * the mapped file has the module's path, and was not removed since it was mapped; or the process's
 * map is not known. This case is not rare, because some file systems show another device in the map
 * than in stat. */
enum mapped { MAPPED_NOT, MAPPED_LIKELY, MAPPED_SURELY };

static bool ends_with(const char *text, const char *end) {
    size_t bytes = strlen(text), end_bytes = strlen(end);
    return bytes >= end_bytes && strcmp(text + bytes - end_bytes, end) == 0;
}

static enum mapped is_mapped(const struct symbols_request *request, const struct stat *status) {
    char path[64];
    char *line = NULL;
    size_t capacity = 0;
    enum mapped mapped = MAPPED_LIKELY;
    bool found = false;
    snprintf(path, sizeof path, "/proc/%d/maps", (int)request->live_pid);
    FILE *maps = request->live_pid != 0 ? fopen(path, "re") : NULL;
    while (maps && !found && getline(&line, &capacity, maps) > 0) {
        unsigned long long start, end, inode;
        unsigned int major, minor;
        line[strcspn(line, "\n")] = '\0';
        found = sscanf(line, "%llx-%llx %*s %*x %x:%x %llu", &start, &end, &major, &minor,
                       &inode) == 5 &&
                start <= request->module->start && request->module->start < end;
        if (found)
            mapped =
                inode != 0 && inode == status->st_ino && makedev(major, minor) == status->st_dev
                    ? MAPPED_SURELY
                : ends_with(line, request->module->path) ? MAPPED_LIKELY
                                                         : MAPPED_NOT;
    }
    if (maps)
        fclose(maps);
    free(line);
    return mapped;
}

/* Returns true if the file is the module, as far as that can be told without a build-id. While the
 * process lives, its map proves as much as a build-id. */
static bool is_same_without_id(const struct symbols_request *request, const struct stat *status,
                               enum way way, bool file_has_id) {
    if (way == WAY_MAP)
        return true;
    enum mapped mapped = is_mapped(request, status);
    return mapped == MAPPED_SURELY || (mapped == MAPPED_LIKELY && way != WAY_EXE && !file_has_id);
}

/* Sets *opened to a descriptor of the file if the file is the module. */
static enum match check_file(const char *path, const struct symbols_request *request, enum way way,
                             int *opened) {
    const struct model_module *module = request->module;
    struct stat status;
    int fd = way == WAY_ROOT ? plain_file_open(request->live_pid, module->path)
                             : plain_file_open(0, path);
    if (fd < 0)
        return MATCH_NO_FILE;
    enum match match = MATCH_DAMAGED;
    Elf *elf = NULL;
    if (fstat(fd, &status) == 0 && (elf = elf_begin(fd, ELF_C_READ_MMAP, NULL)) &&
        elf_kind(elf) == ELF_K_ELF) {
        const void *id;
        ssize_t bytes = dwelf_elf_gnu_build_id(elf, &id);
        bool same = module->build_id_bytes > 0
                        ? bytes > 0 && (size_t)bytes >= module->build_id_bytes &&
                              memcmp(id, module->build_id, module->build_id_bytes) == 0
                        : is_same_without_id(request, &status, way, bytes > 0);
        match = same ? MATCH_YES : MATCH_OTHER;
    }
    elf_end(elf);
    if (match == MATCH_YES)
        *opened = fd;
    else
        close(fd);
    return match;
}

/* Finds a file that was replaced or removed: a link in /proc/PID/map_files still leads to it, but
 * not every user may read this folder. */
static bool find_map_file(const struct symbols_request *request, char *path, size_t bytes,
                          int *opened) {
    char directory[64];
    snprintf(directory, sizeof directory, "/proc/%d/map_files", (int)request->live_pid);
    DIR *list = opendir(directory);
    bool found = false;
    const struct dirent *entry;
    while (list && !found && (entry = readdir(list))) {
        unsigned long long start, end;
        if (sscanf(entry->d_name, "%llx-%llx", &start, &end) == 2 &&
            start >= request->module->start && end <= request->module->end) {
            snprintf(path, bytes, "%s/%.40s", directory, entry->d_name);
            found = check_file(path, request, WAY_MAP, opened) == MATCH_YES;
        }
    }
    if (list)
        closedir(list);
    return found;
}

/* Finds the module's file. Returns SYMBOLS_DWARF and sets *opened to a descriptor of the file, or
 * returns why there is none. `path` receives the path at which libdwfl begins to look for debug
 * files. */
static enum symbols_source find_file(const struct symbols_request *request, char *path,
                                     size_t bytes, int *opened) {
    enum match best = MATCH_NO_FILE, match;
    for (enum way way = WAY_ROOT; way < WAYS; way++) {
        if (way != WAY_PATH && request->live_pid == 0)
            continue;
        if (way == WAY_ROOT)
            snprintf(path, bytes, "/proc/%d/root%s", (int)request->live_pid, request->module->path);
        else if (way == WAY_PATH)
            snprintf(path, bytes, "%s", request->module->path);
        else if (way == WAY_EXE)
            snprintf(path, bytes, "/proc/%d/exe", (int)request->live_pid);
        if (way == WAY_MAP)
            match = find_map_file(request, path, bytes, opened) ? MATCH_YES : MATCH_NO_FILE;
        else
            match = check_file(path, request, way, opened);
        if (match == MATCH_YES)
            return SYMBOLS_DWARF;
        /* /proc/PID/exe may well be another module. */
        if (way != WAY_EXE)
            best = match > best ? match : best;
    }
    return best == MATCH_OTHER     ? SYMBOLS_MISMATCH
           : best == MATCH_DAMAGED ? SYMBOLS_DAMAGED
                                   : SYMBOLS_MISSING;
}

/* --- separate debug files ---------------------------------------------------------------- */

static char *debug_path(const struct symbols_request *request) {
    char *in_target = request->live_pid != 0
                          ? cli_format(":/proc/%d/root/usr/lib/debug", (int)request->live_pid)
                          : cli_copy("");
    return cli_format(":.debug:/usr/lib/debug%s%s%s", in_target,
                      request->debug_directory ? ":" : "",
                      request->debug_directory ? request->debug_directory : "");
}

static char *search_path; /* folders with debug files, for the module opened last */

/* Returns true if the path, which is made of the format and the texts, can be opened without harm
 * (names/plain_file.h). */
__attribute__((format(printf, 1, 0))) static bool
is_path_harmless(const char *format, const char *one, const char *two, const char *three) {
    char path[PATH_MAX];
    /* the kernel refuses a longer path */
    return snprintf(path, sizeof path, format, one, two, three) >= (int)sizeof path ||
           plain_file_is_harmless(path);
}

/* Returns true if libdwfl may open each file that it would try for DIRECTORY/.build-id. */
static bool is_id_harmless(Dwfl_Module *module, const char *directory) {
    const unsigned char *id;
    GElf_Addr at;
    char text[2 * 64 + 1];
    int bytes = dwfl_module_build_id(module, &id, &at);
    if (bytes < 3 || bytes > 64)
        return true;
    for (int i = 0; i < bytes; i++)
        snprintf(text + 2L * i, 3, "%02x", id[i]);
    return is_path_harmless("%s/.build-id/%.2s/%s.debug", directory, text, text + 2);
}

/* Returns true if libdwfl may open DIRECTORY/BELOW/NAME and DIRECTORY/BELOW/.dwz/NAME. */
static bool is_name_harmless(const char *directory, const char *below, const char *name) {
    const char *slash = strrchr(name, '/');
    return is_path_harmless("%s/%s/%s", directory, below, name) &&
           is_path_harmless("%s/%s/.dwz/%s", directory, below, slash ? slash + 1 : name);
}

/* Returns true if libdwfl may open each file that it would try for `name` in an element of the
 * search path. An empty element is the module's own folder, a relative one a folder below it. For
 * an absolute element, libdwfl tries the element itself and, below it, each end of the path of the
 * module's folder. */
static bool is_element_harmless(const char *element, const char *folder, const char *name) {
    if (element[0] != '/')
        return is_name_harmless(folder, element, name);
    const char *slash = strrchr(name, '/');
    bool harmless = is_name_harmless(element, "", slash ? slash + 1 : name);
    for (const char *end = folder; harmless && (end = strchr(end, '/'));)
        harmless = is_name_harmless(element, ++end, name);
    return harmless;
}

/* Returns true if libdwfl may open each file that it would try for a module at `path`. `link`: the
 * name of the debug file in the module; NULL: none. */
static bool are_debug_files_harmless(Dwfl_Module *module, const char *path, const char *link) {
    char *folder = cli_copy(path), *slash = strrchr(folder, '/');
    if (!slash)
        return true;
    char *name = slash + 1, *made = cli_format("%s.debug", name);
    *slash = '\0';
    char *elements = cli_copy(search_path), *rest = elements, *element;
    bool harmless = true;
    while (harmless && (element = strsep(&rest, ":")))
        harmless = (element[0] != '/' || is_id_harmless(module, element)) &&
                   is_element_harmless(element, folder, link ? link : made) &&
                   (link || is_element_harmless(element, folder, name));
    return harmless;
}

/* Calls dwfl_standard_find_debuginfo only if the files that it would try are harmless to open:
 * libdwfl itself does not check the type of a file. */
static int find_debug_file(Dwfl_Module *module, void **data, const char *name, Dwarf_Addr base,
                           const char *path, const char *link, GElf_Word sum, char **found) {
    char *real = path ? realpath(path, NULL) : NULL;
    bool harmless = path && are_debug_files_harmless(module, path, link) &&
                    (!real || are_debug_files_harmless(module, real, link));
    free(real);
    return harmless ? dwfl_standard_find_debuginfo(module, data, name, base, path, link, sum, found)
                    : -1;
}

enum symbols_source elf_names_open(const struct symbols_request *request,
                                   struct Dwfl_Module **module) {
    char path[PATH_MAX + 64];
    if (request->module->path[0] != '/') /* such as [vdso] */
        return SYMBOLS_MISSING;
    static Dwfl_Callbacks callbacks = {
        .find_elf = dwfl_build_id_find_elf,
        .find_debuginfo = find_debug_file,
        .section_address = dwfl_offline_section_address,
        .debuginfo_path = &search_path,
    };
    unsetenv("DEBUGINFOD_URLS"); /* a dump never waits for a network */
    elf_version(EV_CURRENT);
    search_path = debug_path(request);
    int fd;
    enum symbols_source source = find_file(request, path, sizeof path, &fd);
    if (source != SYMBOLS_DWARF)
        return source;
    Dwfl *dwfl = dwfl_begin(&callbacks);
    /* With base 0, libdwfl leaves the addresses of the file as they are. If it succeeds, it owns
     * the descriptor. */
    *module = dwfl ? dwfl_report_elf(dwfl, path, path, fd, 0, true) : NULL;
    if (!*module)
        close(fd);
    return *module && dwfl_report_end(dwfl, NULL, NULL) == 0 ? SYMBOLS_DWARF : SYMBOLS_DAMAGED;
}
