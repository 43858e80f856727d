# SPDX-License-Identifier: MIT
# Builds, tests, checks and installs memctx. `make help` lists the targets.
#
# Everything built goes below out/VARIANT/. Each target that needs Debian packages installs those
# that are missing first (scripts/install-deps); if none is missing, that takes some milliseconds.

VARIANT ?= release
PREFIX ?= /usr/local
DESTDIR ?=
CC ?= cc
# Flags for the command alone; CFLAGS and LDFLAGS are for the library, too.
CLI_CFLAGS ?=
CLI_LDFLAGS ?=
INSTALL ?= install

out := out/$(VARIANT)
# These targets run programs that take out/release. With another VARIANT they would build one
# library and judge another.
release_targets := $(filter test torture% soak mutants demo lint bench bench-quick,$(MAKECMDGOALS))
ifneq ($(VARIANT),release)
ifneq ($(release_targets),)
$(error make $(release_targets) takes out/release, not out/$(VARIANT); leave out VARIANT, or run \
    a suite on the other build by TEST_LIB and TEST_CLI (tests/README.md))
endif
endif
# The version of memctx, as include/memctx.h defines it.
version := $(shell sed -n -E 's/^.define MEMCTX_VERSION_(MAJOR|MINOR|PATCH) //p' \
    include/memctx.h | paste -sd .)

# --- compilers' flags ---------------------------------------------------------------------------

# MEMCTX_DEBUG switches on the checks that cost too much for a release. ThreadSanitizer and
# AddressSanitizer are allocators themselves, so their variants apply to the unit tests and the
# command. The library to preload gets only those UBSan checks that need no run-time library. In the
# variant faults, a test can make any one system call fail (src/os/fault.h).
optimise := -O2
ifeq ($(VARIANT),release)
else ifeq ($(VARIANT),debug)
optimise := -O1 -DMEMCTX_DEBUG
else ifeq ($(VARIANT),faults)
optimise := -O1 -DMEMCTX_DEBUG -DMEMCTX_FAULTS
else ifeq ($(VARIANT),asan)
optimise := -O1 -DMEMCTX_DEBUG
sanitize := -fsanitize=address,undefined -fno-sanitize-recover=all
lib_sanitize := -fsanitize=undefined -fsanitize-undefined-trap-on-error
else ifeq ($(VARIANT),tsan)
optimise := -O1 -DMEMCTX_DEBUG
sanitize := -fsanitize=thread
else
$(error VARIANT is release, debug, faults, asan or tsan, not "$(VARIANT)")
endif

warnings := -Wall -Wextra -Wundef -Wshadow -Werror
base_flags := -std=gnu17 -D_GNU_SOURCE $(optimise) -g $(warnings) -Iinclude \
    -DMEMCTX_VERSION='"$(version)"'

# -fno-builtin for the malloc family: the compiler must not drop or merge calls to these functions.
family := malloc calloc realloc reallocarray free memalign aligned_alloc posix_memalign valloc \
    pvalloc malloc_usable_size
# -fno-omit-frame-pointer: the return address and the caller's rbp of an exported function stand at
# fixed offsets from its frame pointer, also after a tail call (src/api/fast.h).
lib_flags := $(base_flags) -Isrc -fvisibility=hidden -fno-omit-frame-pointer -fPIC \
    -ftls-model=initial-exec -fno-plt \
    -ffunction-sections $(family:%=-fno-builtin-%)
# Flags behind CFLAGS, because distributions set the contrary there.
# -U_FORTIFY_SOURCE: Ubuntu's compiler defines that macro by default. It uses functions such as
# __memcpy_chk, which the stub of libc does not have.
# -fno-lto: link-time optimisation separates the assembler code in src/api from the static variables
# that this code names, and order.ld no longer finds the functions.
lib_last := -U_FORTIFY_SOURCE -Wp,-U_FORTIFY_SOURCE -fno-lto
# Ubuntu's packages are linked with -Bsymbolic-functions. With it, operator new[] would not call the
# program's own operator new (src/api/forward.c).
comma := ,
lib_ldflags = $(filter-out -Wl$(comma)-Bsymbolic-functions -Wl$(comma)-Bsymbolic,$(LDFLAGS))
# noseparate-code: puts code and constants into one mapping, so that fork and exec have one less.
# order.ld: puts the code and the constants that most processes use together.
# nostartfiles: leaves out code for C++ objects, which costs each process a page when it ends.
# nodefaultlibs: the library is linked with a stub of libc that has only old symbol versions.
# shstk: glibc turns shadow stacks off in the whole process if one library lacks this mark. The
# library's code changes no return address, so it needs no other option.
lib_link := -shared -nostartfiles -nodefaultlibs -Wl,-z,nodelete -Wl,-z,now -Wl,-z,relro \
    -Wl,-z,defs -Wl,-soname,libmemctx.so -Wl,-z,noseparate-code -Wl,-z,shstk \
    -Wl,--version-script=src/api/exports.map -Wl,-T,src/api/order.ld
# libdl, libpthread: glibc before 2.34 has dlopen and the functions of threads in these libraries.
cli_libs := -lncursesw -ltinfo -ldw -lelf -liberty -ljansson -lz -lzstd -ldl -lpthread
static_libs := $(cli_libs) -llzma -lbz2

# Make prints "CC FILE" instead of the command; V=1 prints the whole command.
ifeq ($(V),)
say = @echo '  $(1)$(2)';
else
say =
endif

# --- sources, objects and rules -----------------------------------------------------------------

# The order of the library's data: the first heap follows the data that a fork copies, and data that
# most processes do not use is last. src/api/order.ld orders the code.
lib_late := $(wildcard src/control/*.c src/figures/*.c src/rules/*.c) src/api/new.c \
    src/api/stats.c src/base/options.c src/base/text.c src/path/oracle.c \
    $(wildcard src/segment/huge*.c)
lib_first := src/region/heap.c
lib_sources := $(lib_first) $(filter-out $(lib_first) $(lib_late),$(sort $(wildcard src/*/*.c))) \
    $(sort $(lib_late))
cli_sources := $(sort $(wildcard tools/memctx/*.c tools/memctx/*/*.c))
unit_sources := $(sort $(wildcard tests/unit/*.c))
# Files of the command that unit tests can call without a target process or a terminal.
unit_cli_sources := $(addprefix tools/memctx/, live/rates.c diagnosis/conditions.c \
    $(addprefix target/,bss.c limits.c mappings.c residency.c) names/plain_file.c \
    formats/subtract.c $(addprefix serve/,child.c job.c moments.c) \
    $(addprefix model/,folding.c mapped.c memory.c model.c model_store.c samples.c shorten.c \
        tails.c who_tables.c) \
    $(addprefix base/,cli.c fork.c help.c json.c nearest.c progress.c quantity.c terminal.c \
        text_file.c))
unit_libs := -lcriterion
ifeq ($(VARIANT),tsan)
# Criterion crashes under ThreadSanitizer before it runs a test, so tests/unit/plain replaces it.
unit_sources += tests/unit/plain/runner.c
unit_flags := -Itests/unit/plain
unit_libs :=
endif

lib_objects := $(lib_sources:%.c=$(out)/lib/%.o)
cli_objects := $(cli_sources:%.c=$(out)/cli/%.o)
# The library's objects are compiled again with -DMEMCTX_UNIT, which renames the exported functions,
# so that the test program keeps libc's malloc.
unit_objects := $(lib_sources:%.c=$(out)/unit/%.o) $(unit_sources:%.c=$(out)/unit/%.o) \
    $(unit_cli_sources:%.c=$(out)/unit/%.o)

# The command without shared libraries: its objects, and replacements for the functions of libc that
# load libraries.
static_objects := $(cli_objects) $(out)/cli/tools/static/alone.o

# The library's objects are compiled a third time with a scheduler at each atomic operation; see
# tests/model/explore.h.
model_objects := $(lib_sources:%.c=$(out)/model/%.o) \
    $(patsubst %.c,$(out)/model/%.o,$(sort $(wildcard tests/model/*.c)))

library := $(out)/libmemctx.so
command := $(out)/memctx
unit_tests := $(out)/unit/unit-tests
model_tests := $(out)/model/model
manual := $(out)/man/memctx.1
static_command := $(out)/static/memctx
dist := memctx-$(version)-x86_64-linux

.DELETE_ON_ERROR:
.SUFFIXES:
.PHONY: all help lib cli static dist deb distros unit model man test torture soak mutants demo \
    lint format layers asan tsan bench bench-quick install uninstall clean force

all: $(library) $(command) $(manual)

help:
	@echo 'make                build the library, the command and the manual page below $(out)/'
	@echo 'make demo           build, then show memctx on redis, python3 and sqlite3 (about a minute)'
	@echo 'make lib, cli, man  the library, the command, the manual page alone'
	@echo 'make unit, model    the programs of the suites unit and model; make test builds them, too'
	@echo 'make test           build, then run all suites; tests/run SUITE... runs some of them'
	@echo 'make torture        each refusal of the system, fuzzing, large programs (hours; -j2 -k)'
	@echo 'make soak HOURS=N   allocates in phases for N hours, checks the accounts and the memory'
	@echo 'make mutants        planted faults, each caught by the tests that are for it (some minutes)'
	@echo 'make lint           formatting, clang-tidy, shellcheck, layers, docs, completion'
	@echo 'make layers         only the order of the folders, by includes and by symbols'
	@echo 'make format         put the sources into the format that lint asks for'
	@echo 'make asan | tsan    the unit tests under AddressSanitizer and UBSan | ThreadSanitizer'
	@echo 'make bench          all benchmarks (long); make bench-quick is a short look'
	@echo 'make static         the command without shared libraries, for containers: $(static_command)'
	@echo 'make dist           a tarball with that command, library, headers and manual, below out/'
	@echo 'make deb            packages for Debian 12 and newer, checked by lintian: out/deb/*.deb'
	@echo 'make compilers      library and command by each installed gcc (from 10) and clang (from 14)'
	@echo 'make distros        demo and suite preload in other releases, as root; an example of which:'
	@echo '                    DISTROS="--unsigned bullseye focal"'
	@echo 'make install        PREFIX=$(PREFIX) DESTDIR=$(DESTDIR); make uninstall takes it away'
	@echo 'make clean          remove out/'
	@echo 'VARIANT=release|debug|faults|asan|tsan builds below out/VARIANT; test, demo, lint, bench'
	@echo 'and their like take out/release. CC=clang builds with clang; CC=clang CXX=clang++ tests/run'
	@echo 'SUITE builds the programs of the tests with clang'
	@echo 'V=1 shows commands'

lib: $(library)
cli: $(command)
unit: $(unit_tests)
model: $(model_tests)
man: $(manual)
static: $(static_command)

# deps-GROUP installs the packages of GROUP that are missing. Use it only as an order-only
# prerequisite, because it is never up to date.
deps-%: force
	@scripts/install-deps $*

# A change of compiler or flags rebuilds everything. The rule writes out/VARIANT/flags only if its
# content changes.
flags_now = $(CC) $(unit_flags) $(CFLAGS) $(LDFLAGS) $(CLI_CFLAGS) $(CLI_LDFLAGS) $(lib_flags) \
    $(lib_last) $(lib_link) $(cli_libs) $(sanitize) $(lib_sanitize)
$(out)/flags: force
	@mkdir -p $(@D)
	@echo "$(subst ",\",$(flags_now))" | cmp -s - $@ || echo "$(subst ",\",$(flags_now))" > $@

$(out)/lib/%.o: %.c $(out)/flags | deps-build
	@mkdir -p $(@D)
	$(call say,CC      ,$@)$(CC) $(lib_flags) $(lib_sanitize) $(CFLAGS) $(lib_last) \
	    -MMD -MP -c $< -o $@

# No allocation runs this code, so -Os costs no time and keeps the library small.
ifeq ($(VARIANT),release)
small := $(addprefix $(out)/lib/src/,api/stats.o base/options.o base/text.o path/oracle.o)
$(out)/lib/src/control/%.o $(small): lib_flags += -Os
endif

$(out)/cli/%.o: %.c $(out)/flags | deps-build
	@mkdir -p $(@D)
	$(call say,CC      ,$@)$(CC) $(base_flags) -Itools/memctx $(sanitize) $(CFLAGS) \
	    $(CLI_CFLAGS) -MMD -MP -c $< -o $@

$(out)/unit/%.o: %.c $(out)/flags | deps-build deps-unit
	@mkdir -p $(@D)
	$(call say,CC      ,$@)$(CC) $(unit_flags) $(lib_flags) -DMEMCTX_UNIT $(sanitize) $(CFLAGS) \
	    $(lib_last) -MMD -MP -c $< -o $@

$(out)/model/%.o: %.c $(out)/flags | deps-build
	@mkdir -p $(@D)
	$(call say,CC      ,$@)$(CC) $(lib_flags) -DMEMCTX_UNIT -DMEMCTX_MODEL -DMEMCTX_DEBUG \
	    $(CFLAGS) $(lib_last) -MMD -MP -c $< -o $@

$(out)/unit/tools/%.o $(addprefix $(out)/unit/tests/unit/,live_rates.o limits.o model.o moments.o \
    samples.o jobs.o mappings.o residency.o subtract.o text_file.o watch.o wrappers.o): \
    private lib_flags += -Itools/memctx
$(out)/lib/src/api/forward.o: private lib_flags += -fsemantic-interposition -foptimize-sibling-calls
$(out)/unit/tests/unit/shapes.o $(addprefix $(out)/lib/src/api/,forward.o free.o): \
    private lib_flags += -fomit-frame-pointer
# Jump tables of these folders would lie in a part of the library that a forked child has not
# mapped.
$(out)/lib/src/path/%.o $(out)/lib/src/api/%.o $(out)/lib/src/region/%.o \
    $(out)/lib/src/segment/%.o: private lib_flags += -fno-jump-tables

# report_html.c includes these files as bytes.
$(out)/cli/tools/memctx/report/report_html.o: $(wildcard tools/memctx/formats/page/*)

# A stub of libc with only the symbols and versions of imports.map. The library is linked with this
# stub, so it loads with glibc 2.28 and newer, whichever glibc is installed here.
libc_stub := $(out)/imports/libc.so.6
$(libc_stub): src/api/imports.map $(out)/flags
	@mkdir -p $(@D)
	@sed -e 's|/\*.*\*/||; /\/\*/,/\*\//d; s/GLIBC_[0-9.]* *{//; s/};*//' $< | tr -s ' ;\n' '\n' | \
	    sed -n 's/..*/.globl &\n.type &,@function\n.size &,8\n&:/p' | \
	    sed -E '/environ|progname|program_inv/s/@function/@object/' > $@.s
	$(call say,LINK    ,$@)$(CC) -shared -nostdlib -Wl,-soname,libc.so.6 \
	    -Wl,--version-script=$< $@.s -o $@

$(library): $(lib_objects) src/api/exports.map src/api/order.ld $(libc_stub)
	$(call say,LINK    ,$@)$(CC) $(CFLAGS) $(lib_link) $(lib_ldflags) $(lib_last) $(lib_objects) \
	    $(libc_stub) -lgcc -o $@

$(command): $(cli_objects)
	$(call say,LINK    ,$@)$(CC) $(sanitize) $(CFLAGS) $(CLI_CFLAGS) $(LDFLAGS) $(CLI_LDFLAGS) \
	    $(cli_objects) $(cli_libs) -o $@

# The linker uses the functions of alone.c instead of libc's. It may print a warning about dlopen
# nevertheless, because other functions of libc bring libc's dlopen in, which nothing here calls.
$(static_command): $(static_objects) | deps-static
	@mkdir -p $(@D)
	$(call say,LINK    ,$@)$(CC) -static $(CFLAGS) $(LDFLAGS) $(static_objects) $(static_libs) -o $@

$(unit_tests): $(unit_objects)
	$(call say,LINK    ,$@)$(CC) $(sanitize) $(CFLAGS) $(LDFLAGS) $(unit_objects) $(unit_libs) -o $@

$(model_tests): $(model_objects)
	$(call say,LINK    ,$@)$(CC) $(CFLAGS) $(LDFLAGS) $(model_objects) -o $@

# scripts/make-man takes the text on verbs from the command's --help, that on settings from this
# program.
$(out)/man/options: docs/man/options.c include/memctx/options.h $(out)/flags | deps-build
	@mkdir -p $(@D)
	$(call say,CC      ,$@)$(CC) $(base_flags) $(CFLAGS) $< -o $@

$(manual): docs/man/memctx.1.in scripts/make-man $(command) $(out)/man/options
	$(call say,MAN     ,$@)scripts/make-man $(command) $(out)/man/options '$(version)' < $< > $@

-include $(lib_objects:.o=.d) $(static_objects:.o=.d) $(unit_objects:.o=.d) $(model_objects:.o=.d)

# --- tests and checks ---------------------------------------------------------------------------

# Without -j, one job for each processor builds: on two processors that takes half the time.
test: | deps-test
	@$(MAKE) --no-print-directory $(if $(findstring -j,$(MAKEFLAGS)),,-j$$(nproc)) all unit model
	@tests/run

# The parts of torture may run in parallel: make -j2 -k torture.
torture_parts := torture-faults torture-control torture-stress torture-billion torture-tables \
	torture-model torture-fuzz torture-programs torture-serve torture-lint
.PHONY: $(torture_parts)
torture: $(torture_parts) mutants
$(torture_parts): export MEMCTX_SUITE_LIMIT_S := 36000
$(torture_parts): export TEST_LIMIT_S := 7200
$(torture_parts): all model | deps-torture
torture-faults: export MEMCTX_FAULTS := all
torture-faults:
	@tests/run faults
torture-control: export MEMCTX_FUZZ_FRAMES := 1000000
torture-control: export MEMCTX_TEST_CORES := 3000
torture-control: export MEMCTX_RECORD_ROUNDS := 100
torture-control:
	@tests/run control
torture-stress: export MEMCTX_STRESS_OPS := 20000000
torture-stress:
	@tests/run stress
torture-billion: export MEMCTX_STRESS_OPS := 1000000000
torture-billion:
	@tests/stress/run thread-churn
torture-tables: export MEMCTX_TABLES_SCALE := 100
torture-tables:
	@tests/run tables
torture-model: export MEMCTX_MODEL_PREEMPTIONS := 2
torture-model: export MEMCTX_MODEL_LIMIT := 30000
torture-model: export MEMCTX_MODEL_DRAWN := 5000
torture-model:
	@tests/run model
torture-fuzz: export MEMCTX_FUZZ_S := 600
torture-fuzz:
	@tests/fuzz/run
torture-programs:
	@tests/preload/run --long
torture-serve: export MEMCTX_SERVE_LONG := 1
torture-serve:
	@tests/run serve
torture-lint: | deps-lint
	@scripts/lint --deep

HOURS ?= 1
soak: all | deps-test
	@tests/stress/soak $(HOURS)

mutants: all model | deps-test
	@tests/mutants/run

demo: all | deps-demo
	@scripts/demo

layers: lib cli
	@scripts/check-layers

lint: all | deps-lint
	@scripts/lint

format: | deps-lint
	@scripts/lint --format

asan tsan: | deps-unit
	@$(MAKE) VARIANT=$@ unit
	out/$@/unit/unit-tests

bench: all | deps-bench
	bench/run

bench-quick: all | deps-bench
	bench/run --quick

# --- installing ---------------------------------------------------------------------------------

prefix = $(DESTDIR)$(PREFIX)
# libdir, pkgconfigdir: relative to PREFIX. Debian puts the processor's name into them.
libdir ?= lib
pkgconfigdir ?= lib/pkgconfig
completions = $(prefix)/share/bash-completion/completions
units = $(prefix)/lib/systemd/system

# LD_PRELOAD separates its names by blanks and colons.
install: all
	$(if $(word 2,-$(PREFIX)-)$(findstring :,$(PREFIX)),$(error \
	    PREFIX "$(PREFIX)" has a blank or a colon; \
	    no library can be preloaded from there; choose another PREFIX))
	$(INSTALL) -D -m 755 $(library) '$(prefix)/$(libdir)/libmemctx.so'
	$(INSTALL) -D -m 755 $(command) '$(prefix)/bin/memctx'
	$(INSTALL) -d '$(prefix)/include/memctx'
	$(INSTALL) -m 644 include/memctx.h include/memctx.hpp '$(prefix)/include'
	$(INSTALL) -m 644 include/memctx/*.h '$(prefix)/include/memctx'
	$(INSTALL) -D -m 644 $(manual) '$(prefix)/share/man/man1/memctx.1'
	$(INSTALL) -D -m 644 tools/completion/memctx.bash '$(completions)/memctx'
	$(INSTALL) -D -m 644 examples/agent/agent.toml '$(prefix)/share/doc/memctx/agent.toml'
	$(INSTALL) -d '$(units)'
	sed -e 's|@PREFIX@|$(PREFIX)|' scripts/memctx-agent.service.in > '$(units)/memctx-agent.service'
	$(INSTALL) -d '$(prefix)/$(pkgconfigdir)'
	sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@LIBDIR@|$(libdir)|' -e 's|@VERSION@|$(version)|' \
	    scripts/memctx.pc.in > '$(prefix)/$(pkgconfigdir)/memctx.pc'
	chmod 644 '$(units)/memctx-agent.service' '$(prefix)/$(pkgconfigdir)/memctx.pc'

uninstall:
	rm -f '$(prefix)/$(libdir)/libmemctx.so' '$(prefix)/bin/memctx' '$(prefix)/include/memctx.h' \
	    '$(prefix)/include/memctx.hpp' '$(prefix)/share/man/man1/memctx.1' '$(completions)/memctx' \
	    '$(prefix)/$(pkgconfigdir)/memctx.pc' '$(units)/memctx-agent.service' \
	    '$(prefix)/share/doc/memctx/agent.toml'
	rm -f $(patsubst %,'$(prefix)/%',$(wildcard include/memctx/*.h))
	! test -d '$(prefix)/include/memctx' || rmdir '$(prefix)/include/memctx'
	! test -d '$(prefix)/share/doc/memctx' || \
	    rmdir --ignore-fail-on-non-empty '$(prefix)/share/doc/memctx'

# The same sources and the same compiler give the same tarball, byte for byte, in a folder of the
# same name (debug information holds that name). The agent's files are not in it, because serve and
# push need shared libraries, which the static command does not load.
dist: all $(static_command)
	rm -rf 'out/$(dist)'
	$(MAKE) install DESTDIR='$(CURDIR)/out/$(dist)' PREFIX=/
	rm -r 'out/$(dist)/lib/systemd' 'out/$(dist)/share/doc'
	$(INSTALL) -m 755 $(static_command) 'out/$(dist)/bin/memctx'
	$(INSTALL) -m 644 README.md LICENSE CHANGELOG.md 'out/$(dist)'
	sed -i 's|^prefix=.*|prefix=$${pcfiledir}/../..|' 'out/$(dist)/lib/pkgconfig/memctx.pc'
	tar -C out --sort=name --owner=0 --group=0 --numeric-owner \
	    --mtime='@$(or $(SOURCE_DATE_EPOCH),0)' -c '$(dist)' | \
	    gzip -9n > 'out/$(dist).tar.gz'

deb: | deps-deb
	@scripts/make-deb

# Builds the library and the command with each installed compiler, each in its own folder.
compilers := $(notdir $(sort $(wildcard $(addprefix /usr/bin/,\
    clang gcc-1[0-9] clang-1[4-9] clang-2[0-9]))))
.PHONY: compilers $(compilers:%=compiler-%)
compilers: $(compilers:%=compiler-%)
$(compilers:%=compiler-%): compiler-%: | deps-compilers
	$(MAKE) CC=$* out=out/compilers/$* lib cli

distros: dist
	@scripts/distros $(DISTROS)

clean:
	rm -rf out
