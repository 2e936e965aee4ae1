# Builds attngen, libattn and their tests. `make help` lists the targets. New .c files in gen/, runtime/*/ and
# tests/*/ are found by wildcard; nothing is built outside out/. Only `make install` writes outside.

# For another machine: CROSS begins the names of its compiler and binutils (aarch64-linux-gnu-), and TCC=no and ZYDIS=no
# leave out what it has no library of. libattn then takes kernels from $CC alone, and has no machine code.
CROSS    =
TCC      = yes
ZYDIS    = yes
CC       = $(CROSS)gcc
LD       = $(CROSS)ld
HOST_CC  = $(if $(CROSS),gcc,$(CC))
CFLAGS   = -O2 -g
# A warning ends the build where the compiler is one that this code is kept clean for: others may know new warnings.
KNOWN    = 12 13
WARNINGS := -Wall -Wextra -Wformat-security $(if $(filter $(KNOWN),$(shell $(CC) -dumpversion 2>/dev/null)),-Werror)
LDFLAGS  =
SANITIZE =
JOBS    := $(shell nproc 2>/dev/null || echo 2)

OBJ = out/obj
BIN = out/bin
LIB = out/lib

without = $(filter no,$($(1)))
# Headers that are the same for all machines stand where this one's own do.
compile = $(CC) -std=c11 $(CFLAGS) $(WARNINGS) $(SANITIZE) -iquote . -iquote gen -iquote runtime $(if \
	$(CROSS),-idirafter /usr/include) $(if $(call without,TCC),-DATTN_NO_TCC)
# For libattn.so, and for shared libraries of a host that links libattn.a; only what attn.h declares is visible.
pic     = -fPIC -fvisibility=hidden
link    = $(CC) $(CFLAGS) $(SANITIZE) $(LDFLAGS) -Wl,--as-needed
zydis   = $(if $(call without,ZYDIS),,-lZydis)
libs    = -lcjson $(zydis) -lxxhash -lpthread -lm -ldl
objects = $(patsubst %.c,$(OBJ)/%.o,$(wildcard $(1)))
# When make was not told how many jobs to run, use every core.
make    = +@$(MAKE) --no-print-directory $(if $(findstring -j,$(MAKEFLAGS)),,-j$(JOBS))

GEN     := $(if $(call without,ZYDIS),$(OBJ)/gen/tool/no_x86.o $(filter-out %/lower_x86.o,$(call objects,gen/*.c)),$(call \
	objects,gen/*.c)) $(OBJ)/embedded.o
# What the program has and libattn has not: specs and bundles.
YAML    := $(call objects,gen/yaml*.c gen/spec*.c gen/hint*.c gen/expand*.c gen/bundle*.c gen/sha*.c)
RUNTIME := $(patsubst %/cpu/tcc.o,%/cpu/$(if $(call without,TCC),tcc,tcc-inside).o,$(filter-out $(OBJ)/runtime/cli/% %/cpu/tcc_guard.o,$(call objects,runtime/*/*.c)))
CLI     := $(filter-out $(OBJ)/runtime/cli/main.o,$(call objects,runtime/cli/*.c)) $(OBJ)/runtime/devices/names.o
PROGRAM := $(if $(wildcard runtime/cli/main.c),$(BIN)/attngen)
EMIT    := $(if $(wildcard runtime/cli/emit.c),$(BIN)/attngen-emit)

.PHONY: all library emit deps have-deps tune test soak bench golden test-sanitize install uninstall clean format help FORCE
.DELETE_ON_ERROR:
.SUFFIXES:
all: library $(PROGRAM) $(EMIT)
library: have-deps $(LIB)/libattn.a $(LIB)/libattn.so

help:
	@echo 'make                the program out/bin/attngen and the library out/lib/libattn.{a,so}'
	@echo 'make library        the library alone; for another machine: make library CROSS=aarch64-linux-gnu- TCC=no ZYDIS=no'
	@echo 'make tune           installs what is missing, builds, tunes and runs on real input'
	@echo 'make test           installs what is missing, builds, runs all tests'
	@echo 'make test-sanitize  the tests under ASan and UBSan alone (part of make test)'
	@echo 'make soak           the tests over every variant: hours'
	@echo 'make bench          the measurements behind the claims of speed'
	@echo 'make emit           out/bin/attngen-emit: only emits, without libtcc'
	@echo 'make golden         writes the gallery, which is the golden set, anew'
	@echo 'make wheel          the Python package, out/wheel/attngen-*.whl'
	@echo 'make test-python    its tests with PyTorch, in an environment below out/'
	@echo 'make install        into PREFIX (/usr/local), below DESTDIR; make uninstall takes it away'
	@echo 'make deps           installs what is missing; make format, make clean'

# ---- objects and libraries -------------------------------------------------------------------------------------------

# Changes when a command line does, so that `make CC=clang` after `make` builds everything again.
$(OBJ)/flags: FORCE
	@mkdir -p $(@D); echo '$(compile) $(pic) / $(link)' | cmp -s - $@ || echo '$(compile) $(pic) / $(link)' > $@

$(OBJ)/%.o: %.c $(OBJ)/flags
	@mkdir -p $(@D)
	$(compile) $(PIC) $(INCLUDE) $(QUICK) -MMD -MP -c $< -o $@

$(OBJ)/gen/%.o $(OBJ)/runtime/%.o: PIC = $(pic)

$(OBJ)/tests/%.o: INCLUDE = -iquote tests -iquote tests/kit -iquote runtime/cli

# Changes when a file comes or goes, which changes the time of no prerequisite that is left.
TEMPLATES := $(sort $(shell find templates -type f ! -name '.*' ! -name '*~' ! -name '*.md' 2>/dev/null))
HASHED    := $(sort $(wildcard gen/*.c gen/*.h gen/*.inc))
names     := $(TEMPLATES) $(HASHED) $(wildcard runtime/*/*.c tests/*.c tests/*/*.c)
$(OBJ)/names: FORCE
	@mkdir -p $(@D); echo '$(names)' | cmp -s - $@ || echo '$(names)' > $@

# The templates as C, with a hash of all that what is emitted depends on.
$(OBJ)/embedded.c: $(OBJ)/gen/tool/embed $(OBJ)/names $(TEMPLATES) $(HASHED)
	@$(OBJ)/gen/tool/embed $@ templates/ $(TEMPLATES) -- $(HASHED)

$(OBJ)/embedded.o: $(OBJ)/embedded.c $(OBJ)/flags
	$(compile) $(pic) -MMD -MP -c $< -o $@

# It runs here, whatever is built.
$(OBJ)/gen/tool/embed: gen/tool/embed.c $(OBJ)/flags
	@mkdir -p $(@D)
	$(HOST_CC) -std=c11 -O1 $(WARNINGS) $< -o $@

# libtcc goes into libattn inside the one object that uses it, with every name of it made local: it calls its globals
# `file`, `next`, `skip`. What it calls to get memory or to end the process is ours, and so are its mprotect and three
# variables that it reads (see runtime/cpu/tcc_guard.c and tcc.c).
tcc-ours = $(foreach f,malloc calloc realloc free exit abort mprotect stdout stderr environ,$(f)=attn_tcc_$(f)) \
           __assert_fail=attn_tcc_assert_fail
$(OBJ)/runtime/cpu/tcc-inside.o: $(OBJ)/runtime/cpu/tcc.o $(OBJ)/runtime/cpu/tcc_guard.o runtime/cpu/tcc.ld
	$(LD) -r -d -T runtime/cpu/tcc.ld --whole-archive "$$($(CC) -print-file-name=libtcc.a)" -o $(OBJ)/tcc.o
	$(CROSS)objcopy $(tcc-ours:%=--redefine-sym %) $(OBJ)/tcc.o
	$(CROSS)nm -g --defined-only $(OBJ)/tcc.o | sed 's/.* //' > $(OBJ)/tcc.names
	$(LD) -r $(filter %.o,$^) $(OBJ)/tcc.o -o $@
	$(CROSS)objcopy -w --localize-symbol='attn_tcc_*' --localize-symbols=$(OBJ)/tcc.names $@

archive = @mkdir -p $(@D); rm -f $@; $(CROSS)ar qcsD $@ $(filter %.o,$^)

# What the program and the tests link: every name inside can be called.
$(OBJ)/libruntime.a: $(filter-out $(YAML),$(GEN)) $(RUNTIME) $(OBJ)/names
	$(archive)
$(OBJ)/libgen.a: $(GEN) $(OBJ)/names
	$(archive)
$(OBJ)/libcli.a: $(CLI) $(OBJ)/names
	$(archive)

# ---- libattn as others link it ---------------------------------------------------------------------------------------

VERSION := $(shell sed -n 's/^.define ATTN_VERSION_MAJOR //p' runtime/attn.h).$(shell \
	sed -n 's/^.define ATTN_VERSION_MINOR //p' runtime/attn.h)
SONAME  := libattn.so.$(firstword $(subst ., ,$(VERSION)))
attn-libs = $(zydis) -lpthread -lm -ldl

# One object, in which every name but those of attn.h has become local: `tune` or `fields` may well be the host's too.
$(OBJ)/libattn.o: $(filter-out $(YAML),$(GEN)) $(RUNTIME)
	$(LD) -r $^ -o $@.all
	$(CROSS)readelf -sW $@.all | awk '$$5 == "GLOBAL" && $$6 == "DEFAULT" && $$7 != "UND" { print $$8 }' > $(OBJ)/libattn.names
	$(CROSS)objcopy --keep-global-symbols=$(OBJ)/libattn.names $@.all $@
	@rm $@.all

$(LIB)/libattn.a: $(OBJ)/libattn.o
	$(archive)

# --exclude-libs and -Bsymbolic: no name of a library inside is exported, or taken from elsewhere.
$(LIB)/libattn.so.$(VERSION): $(OBJ)/libattn.o
	@mkdir -p $(@D)
	$(link) -shared -Wl,-soname,$(SONAME),-Bsymbolic,--exclude-libs,ALL,-z,defs,-z,relro,-z,now $^ $(attn-libs) -o $@
$(LIB)/$(SONAME): $(LIB)/libattn.so.$(VERSION)
	@ln -sf $(<F) $@
$(LIB)/libattn.so: $(LIB)/$(SONAME)
	@ln -sf $(<F) $@

# ---- programs --------------------------------------------------------------------------------------------------------

$(BIN)/attngen: $(OBJ)/runtime/cli/main.o $(OBJ)/libcli.a $(OBJ)/libruntime.a $(OBJ)/libgen.a
	@mkdir -p $(@D)
	$(link) $^ -lyaml $(libs) -o $@

# No libattn here: that this links shows that the generator and its verb need nothing of the runtime.
$(BIN)/attngen-emit: $(OBJ)/emit-main.o $(OBJ)/libcli.a $(OBJ)/libgen.a
	@mkdir -p $(@D)
	$(link) $^ -lyaml $(libs) -o $@

$(OBJ)/emit-main.o: runtime/cli/main.c $(OBJ)/flags
	$(compile) -DATTNGEN_EMIT_ONLY -MMD -MP -c $< -o $@

emit: have-deps $(EMIT)

include tests/tests.mk
include runtime/install/install.mk
include runtime/python/python.mk

# ---- what must be installed ------------------------------------------------------------------------------------------

# libc6-dev is named because gcc only recommends it; clang, tcc, cmocka, pkgconf, and OpenCL but for its headers are for
# the tests. Where wine is, they also run what the compiler for Windows makes; it is too large to be brought for that.
# What compiles for 32 bits goes by gcc's version: the package without one keeps compilers for other processors out. Where gcc itself
# is missing, that package is installed after it.
GCC_VERSION := $(firstword $(subst ., ,$(shell gcc -dumpversion 2>/dev/null)))
MULTILIB     = $(if $(filter x86_64,$(shell uname -m)),$(if $(GCC_VERSION),g++-$(GCC_VERSION)-multilib))
PACKAGES = gcc libc6-dev binutils libyaml-dev libtcc-dev libzydis-dev libxxhash-dev libcjson-dev clang tcc libcmocka-dev \
           opencl-headers ocl-icd-libopencl1 pocl-opencl-icd pkgconf g++ $(MULTILIB) \
           g++-aarch64-linux-gnu libc6-dev-arm64-cross g++-s390x-linux-gnu libc6-dev-s390x-cross qemu-user \
           g++-mingw-w64-x86-64-win32 python3-numpy python3-venv openmpi-bin libopenmpi-dev
HEADERS  = yaml.h $(if $(call without,TCC),,libtcc.h) $(if $(call without,ZYDIS),,Zydis/Zydis.h) xxhash.h cjson/cJSON.h CL/cl.h

installed = $(shell dpkg-query -W -f='$${db:Status-Status}:$${Package}\n' $(PACKAGES) 2>/dev/null | \
	sed -n 's/^installed://p')
missing-packages = $(filter-out $(installed),$(PACKAGES))
missing-headers = $(shell for h in $(HEADERS); do \
	echo "\#include <$$h>" | $(compile) -E -x c - >/dev/null 2>&1 || echo $$h; done)
missing = $(if $(shell command -v $(firstword $(CC))),$(missing-headers),the compiler $(firstword $(CC)))

# Only looks; a build without the tests' packages is no error.
have-deps:
	@$(if $(missing),echo 'missing: $(missing): `make deps` installs gcc and what has the headers' >&2; exit 1,:)

define install
missing="$(missing-packages)"; as_root=; \
test "$$(id -u)" = 0 && as_root=env || { command -v sudo >/dev/null && as_root="sudo env"; }; \
if test -n "$$as_root" && command -v apt-get >/dev/null; then \
    echo "make deps: installing $$missing"; \
    $$as_root DEBIAN_FRONTEND=noninteractive apt-get -q update && \
    $$as_root DEBIAN_FRONTEND=noninteractive apt-get -q install -y --no-install-recommends $$missing && \
    exec $(if $(GCC_VERSION),true,$(MAKE) --no-print-directory deps); \
    exit 1; \
fi; \
echo "make deps: needs apt-get, and root or sudo, to install: $$missing" >&2; \
test -z "$(missing)" || { echo "make deps: not found: $(missing)" >&2; exit 1; }
endef
deps:
	@$(if $(missing-packages),$(install),:)

clean:
	rm -rf out/obj out/bin out/lib

format:
	clang-format -i $(wildcard gen/*.[ch] gen/tool/*.[ch] runtime/*.[ch] runtime/*/*.[ch] tests/*.[ch] tests/*/*.[ch])

-include $(shell find $(OBJ) -name '*.d' 2>/dev/null)
