/* SPDX-License-Identifier: MIT */
/* program.c - finds and examines the program that `memctx run` is to start. */
#include "target/program.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

/* greatest number of scripts in a row whose interpreter is a script; the kernel's limit is 4 */
#define INTERPRETERS_MAX 5

static bool is_program(const char *path) {
    struct stat status;
    if (stat(path, &status) != 0)
        return false;
    if (S_ISDIR(status.st_mode)) {
        errno = EISDIR;
        return false;
    }
    return access(path, X_OK) == 0;
}

static bool fail_to_find(const char *path, int error, struct cli_failure *failure) {
    if (error == ENOENT || error == ENOTDIR) {
        return cli_fail(failure, CLI_NOT_FOUND,
                        "%s: no such program; check the spelling and "
                        "PATH",
                        path);
    }
    return cli_fail(failure, CLI_CANNOT_EXECUTE, "%s: cannot be executed; %s; %s", path,
                    strerror(error),
                    error == EISDIR ? "name a program in it" : "see its permissions (ls -l)");
}

bool program_find(const char *name, char **path, struct cli_failure *failure) {
    if (strchr(name, '/')) {
        *path = cli_copy(name);
        return is_program(name) || fail_to_find(name, errno, failure);
    }
    const char *search = getenv("PATH");
    char *list = cli_copy(search ? search : "/bin:/usr/bin");
    char *rest = list, *directory;
    int error = ENOENT;
    while (name[0] != '\0' && (directory = strsep(&rest, ":"))) {
        *path = cli_format("%s/%s", directory[0] != '\0' ? directory : ".", name);
        if (is_program(*path)) {
            free(list);
            return true;
        }
        /* The search goes on, but the error is remembered, as by execvp. */
        error = errno != ENOENT && errno != ENOTDIR && errno != EISDIR ? errno : error;
        free(*path);
    }
    free(list);
    return fail_to_find(name, error, failure);
}

/* Returns "uid" or "gid" if the program's bit changes this user or group; NULL: neither. With
 * PR_SET_NO_NEW_PRIVS, the kernel ignores both bits. */
static const char *changed_id(const struct stat *status) {
    if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1)
        return NULL;
    if ((status->st_mode & S_ISUID) != 0 && status->st_uid != getuid())
        return "uid";
    mode_t both = S_ISGID | S_IXGRP; /* without S_IXGRP the bit S_ISGID changes nothing */
    return (status->st_mode & both) == both && status->st_gid != getgid() ? "gid" : NULL;
}

/* Refuses a program for which the loader would ignore LD_PRELOAD: one that changes the user or
 * group, or one that gives capabilities to another user than root. On a file system that is mounted
 * with nosuid, a program does neither. */
static bool check_rights(const char *path, int fd, struct cli_failure *failure) {
    struct stat status;
    struct statvfs mount;
    char capabilities[64];
    if (fstatvfs(fd, &mount) == 0 && (mount.f_flag & ST_NOSUID) != 0)
        return true;
    const char *id = fstat(fd, &status) == 0 ? changed_id(&status) : NULL;
    if (id) {
        return cli_fail(
            failure, CLI_REFUSED,
            "%s is a set%s program: the loader ignores LD_PRELOAD for it; if it starts "
            "other programs, start memctx by it, as in sudo memctx run -- PROGRAM; else "
            "run a copy of it without the bit, as a user with the rights it needs",
            path, id);
    }
    if (getuid() != 0 &&
        fgetxattr(fd, "security.capability", capabilities, sizeof capabilities) > 0) {
        return cli_fail(failure, CLI_REFUSED,
                        "%s has file capabilities: the loader ignores LD_PRELOAD for it; run a "
                        "copy of it without them, as a user with the rights it needs",
                        path);
    }
    return true;
}

/* Copies the path of the program interpreter (PT_INTERP). Returns false if there is none. */
static bool read_loader(int fd, const Elf64_Ehdr *header, char *loader, size_t bytes) {
    for (unsigned int i = 0; i < header->e_phnum && i < 4096; i++) {
        Elf64_Phdr segment;
        off_t at = (off_t)(header->e_phoff + (uint64_t)i * header->e_phentsize);
        if (pread(fd, &segment, sizeof segment, at) != (ssize_t)sizeof segment)
            return false;
        if (segment.p_type == PT_INTERP) {
            size_t length = segment.p_filesz < bytes - 1 ? segment.p_filesz : bytes - 1;
            ssize_t got = pread(fd, loader, length, (off_t)segment.p_offset);
            loader[got > 0 ? got : 0] = '\0';
            return got > 0;
        }
    }
    return false;
}

/* Calls `found` for each text in the file's dynamic section whose entry has the type `tag`, until
 * `found` returns true. Returns true if `found` did. */
static bool find_dynamic(int fd, Elf64_Sxword tag, bool (*found)(const char *text, void *argument),
                         void *argument) {
    elf_version(EV_CURRENT);
    Elf *elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);
    Elf_Scn *section = NULL;
    GElf_Shdr header;
    bool done = false;
    while (elf && !done && (section = elf_nextscn(elf, section))) {
        Elf_Data *data = NULL;
        GElf_Dyn entry;
        if (!gelf_getshdr(section, &header) || header.sh_type != SHT_DYNAMIC ||
            !(data = elf_getdata(section, NULL)))
            continue;
        for (int i = 0; !done && gelf_getdyn(data, i, &entry) && entry.d_tag != DT_NULL; i++) {
            const char *text =
                entry.d_tag == tag ? elf_strptr(elf, header.sh_link, entry.d_un.d_val) : NULL;
            done = text && found(text, argument);
        }
    }
    elf_end(elf);
    return done;
}

static bool is_loader_name(const char *name, void *argument) {
    (void)argument;
    return strncmp(name, "ld-linux", strlen("ld-linux")) == 0;
}

/* True for glibc's dynamic linker. It has no PT_INTERP, but it can be started as a program (ld.so
 * PROGRAM ARGUMENT...), and then preloads as usual. */
static bool is_loader(int fd) {
    return find_dynamic(fd, DT_SONAME, is_loader_name, NULL);
}

/* The ELF header of this command, at a symbol of the linker. */
extern const Elf64_Ehdr own_header __asm__("__ehdr_start") __attribute__((visibility("hidden")));

static bool check_elf(const char *path, int fd, struct cli_failure *failure) {
    Elf64_Ehdr header;
    char loader[PATH_MAX] = "";
    if (pread(fd, &header, sizeof header, 0) != (ssize_t)sizeof header)
        return cli_fail(failure, CLI_REFUSED,
                        "%s: damaged program; its header is cut off; install or build it anew",
                        path);
    if (header.e_ident[EI_CLASS] != ELFCLASS64) {
        return cli_fail(
            failure, CLI_REFUSED,
            "%s is a 32-bit program; libmemctx.so is for 64-bit programs; build it for x86-64",
            path);
    }
    if (header.e_machine != own_header.e_machine) {
        return cli_fail(failure, CLI_REFUSED,
                        "%s is for another processor (ELF machine %u, this one is %u); "
                        "libmemctx.so cannot be loaded into it; build it for this one",
                        path, header.e_machine, own_header.e_machine);
    }
    if (header.e_phentsize != sizeof(Elf64_Phdr) ||
        (!read_loader(fd, &header, loader, sizeof loader) && !is_loader(fd))) {
        return cli_fail(failure, CLI_REFUSED,
                        "%s is statically linked: no library can be preloaded into it; link it "
                        "dynamically",
                        path);
    }
    if (strstr(loader, "ld-musl")) {
        return cli_fail(failure, CLI_REFUSED,
                        "%s is linked with musl (%s); libmemctx.so needs glibc; link it with glibc",
                        path, loader);
    }
    return true;
}

static bool is_library_name(const char *name, void *argument) {
    return strcmp(name, argument) == 0;
}

bool program_is_library(const char *path, const char *name) {
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    bool is = fd >= 0 && find_dynamic(fd, DT_SONAME, is_library_name, (void *)name);
    if (fd >= 0)
        close(fd);
    return is;
}

/* Run-time libraries that bring their own allocator and end the program if another library is
 * loaded before them. */
static const char *const sanitizers[][2] = {
    {"libasan.so", "AddressSanitizer"},     {"libclang_rt.asan", "AddressSanitizer"},
    {"libhwasan.so", "HWAddressSanitizer"}, {"libclang_rt.hwasan", "HWAddressSanitizer"},
    {"liblsan.so", "LeakSanitizer"},        {"libtsan.so", "ThreadSanitizer"},
    {"libclang_rt.tsan", "ThreadSanitizer"}};

static bool find_sanitizer(const char *needed, void *found) {
    const char **both = found;
    for (size_t i = 0; i < sizeof sanitizers / sizeof sanitizers[0]; i++) {
        if (strncmp(needed, sanitizers[i][0], strlen(sanitizers[i][0])) == 0) {
            both[0] = sanitizers[i][1];
            both[1] = cli_copy(needed); /* the text ends with the file's mapping */
            return true;
        }
    }
    return false;
}

/* Refuses a program that itself needs the library of a sanitizer. */
static bool check_needed(const char *path, int fd, struct cli_failure *failure) {
    const char *sanitizer[2];
    return !find_dynamic(fd, DT_NEEDED, find_sanitizer, sanitizer) ||
           cli_fail(failure, CLI_REFUSED,
                    "%s is built with %s (%s), which is its allocator and must come first; build "
                    "it without, or run it without memctx",
                    path, sanitizer[0], sanitizer[1]);
}

/* Returns the interpreter that `line` names behind "#!"; NULL: none. */
static char *find_interpreter(char *line) {
    char *at = line + 2 + strspn(line + 2, " \t");
    at[strcspn(at, " \t\n")] = '\0';
    return at[0] != '\0' ? at : NULL;
}

/* Checks a program; for a script, checks its interpreter. `level`: the number of scripts that led
 * to this program. */
static bool check_level(const char *path, int level, struct cli_failure *failure) {
    char head[256] = "";
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return true; /* the program may be executable without being readable; exec decides */
    ssize_t got = pread(fd, head, sizeof head - 1, 0);
    bool good = true;
    if (got >= SELFMAG && memcmp(head, ELFMAG, SELFMAG) == 0) {
        good = check_rights(path, fd, failure) && check_elf(path, fd, failure) &&
               check_needed(path, fd, failure);
    } else if (got > 2 && head[0] == '#' && head[1] == '!') {
        /* The kernel ignores the setuid bit of a script, so only its interpreter is checked. */
        char *interpreter = find_interpreter(head);
        if (interpreter && level < INTERPRETERS_MAX) {
            good =
                is_program(interpreter)
                    ? check_level(interpreter, level + 1, failure)
                    : cli_fail(failure, CLI_CANNOT_EXECUTE,
                               "%s: its interpreter %s cannot be executed; %s; see its first line",
                               path, interpreter, strerror(errno));
        }
    }
    close(fd);
    return good;
}

bool program_check(const char *path, struct cli_failure *failure) {
    return check_level(path, 0, failure);
}

/* Returns the program that env executes for a script that begins with "#!/usr/bin/env PROGRAM", or
 * with "#!/usr/bin/env -S NAME=VALUE PROGRAM ARGUMENT"; NULL: `line` does not begin so, or there is
 * no such program. */
static char *find_by_env(const char *line) {
    static const char blanks[] = " \t";
    struct cli_failure failure;
    const char *at = line + 2 + strspn(line + 2, blanks);
    size_t length = strcspn(at, " \t\n");
    if (length < 4 || strncmp(at + length - 4, "/env", 4) != 0)
        return NULL;
    for (at += length; *(at += strspn(at, blanks)) != '\0'; at += length) {
        if (strncmp(at, "-S", 2) == 0)
            at += 2 + strspn(at + 2, blanks);
        length = strcspn(at, " \t\n");
        char *path, *word = cli_format("%.*s", (int)length, at);
        bool is_option = word[0] == '-' || strchr(word, '=');
        bool found = !is_option && length > 0 && program_find(word, &path, &failure);
        free(word);
        if (!is_option)
            return found ? path : NULL;
    }
    return NULL;
}

char *program_executed(const char *path) {
    char *now = cli_copy(path);
    for (int level = 0; level < INTERPRETERS_MAX; level++) {
        char head[256] = "";
        int fd = open(now, O_RDONLY | O_CLOEXEC);
        ssize_t got = fd >= 0 ? pread(fd, head, sizeof head - 1, 0) : -1;
        if (fd >= 0)
            close(fd);
        bool is_script = got > 2 && head[0] == '#' && head[1] == '!';
        char *by_env = is_script ? find_by_env(head) : NULL;
        const char *interpreter = by_env ? by_env : is_script ? find_interpreter(head) : NULL;
        if (!interpreter)
            break;
        free(now);
        now = cli_copy(interpreter);
        free(by_env);
    }
    return now;
}
