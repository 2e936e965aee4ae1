# The targets that run things: tests, benchmarks, the main job, the gallery. Included by Makefile, and no use alone.
#
# A test is a program (test_*.c with cmocka) or a script that prints TAP (test_*.sh) in tests/unit, micro, kernel or e2e.
# Other .c files there, in tests/ and in tests/kit/ are linked into the programs that use them.

# The longest first: as many run at once as there are cores.
TEST_DIRS    = kernel micro unit e2e
TEST_SOURCES := $(foreach d,$(TEST_DIRS),$(sort $(wildcard tests/$(d)/test_*.c)))
TEST_SCRIPTS := $(foreach d,$(TEST_DIRS),$(sort $(wildcard tests/$(d)/test_*.sh)))
TESTS        := $(TEST_SOURCES:%.c=$(BIN)/%)
SUPPORT      := $(filter-out $(TEST_SOURCES:%.c=$(OBJ)/%.o),$(call objects,tests/*.c tests/kit/*.c $(TEST_DIRS:%=tests/%/*.c)))
BENCHES      := $(patsubst %.c,$(BIN)/%,$(sort $(wildcard tests/bench/bench_*.c)))
# naive.c and steps.c are compiled by the benchmarks themselves, as a user would.
BENCH_SUPPORT := $(filter-out $(BENCHES:$(BIN)/%=$(OBJ)/%.o) %/naive.o %/steps.o,$(call objects,tests/bench/*.c))
BENCH_SCRIPTS := $(sort $(wildcard tests/bench/bench_*.sh))

# Libraries last; libgen.a brings what libruntime.a leaves out, the reading of specs.
test-libraries = $(OBJ)/libtest.a $(OBJ)/libcli.a $(OBJ)/libruntime.a $(OBJ)/libgen.a
$(OBJ)/libtest.a: $(SUPPORT) $(OBJ)/names
	$(archive)

.SECONDARY: $(TEST_SOURCES:%.c=$(OBJ)/%.o) $(BENCHES:$(BIN)/%=$(OBJ)/%.o) $(BENCH_SUPPORT)
$(BIN)/tests/%: $(OBJ)/tests/%.o $(test-libraries)
	@mkdir -p $(@D)
	$(link) $^ -lcmocka -lyaml $(libs) -ldl -o $@
$(BENCHES): $(BIN)/tests/bench/%: $(OBJ)/tests/bench/%.o $(BENCH_SUPPORT) $(test-libraries)
	@mkdir -p $(@D)
	$(link) $^ -lcmocka -lyaml $(libs) -ldl -o $@

# Allocations of this program's objects go by tests/kit/starve.c; those of shared libraries do not.
starved = malloc calloc realloc aligned_alloc strdup strndup asprintf free mmap munmap newlocale freelocale opendir \
          fdopendir closedir pthread_create
$(BIN)/tests/unit/test_allocation $(BIN)/tests/unit/test_threads: private LDFLAGS += $(starved:%=-Wl,--wrap=%)

# Kernels that it loads call its functions.
calling = emulated invariant sm80_parts narrow_parts twofold_parts sm90_parts split_parts strip_parts once_parts bound_parts fit_parts
$(calling:%=$(BIN)/tests/kernel/test_%): private LDFLAGS += -rdynamic

# Libraries of CUDA for machines without a card, found by the test that asks for them.
$(OBJ)/cuda/libcuda.so.1: tests/unit/cuda/stub.c tests/unit/cuda/stub.h $(OBJ)/flags
	@mkdir -p $(@D)
	$(compile) $(pic) -fvisibility=default -shared $< -o $@
	@ln -sf libcuda.so.1 $(@D)/libnvrtc.so.13
stubbed = $(patsubst %,$(BIN)/tests/unit/test_%,cuda cuda_code cuda_rows)
$(stubbed): | $(OBJ)/cuda/libcuda.so.1
$(stubbed): private LDFLAGS += -Wl,--disable-new-dtags,-rpath,$(abspath $(OBJ)/cuda)

# Somebody acts between a check and the loader.
$(BIN)/tests/unit/test_cc: private LDFLAGS += -Wl,--wrap=dlopen

# ---- for AArch64 -----------------------------------------------------------------------------------------------------

# libattn, by make's own rules for another machine, and tests of ops, micro-kernels and kernels, to be run by qemu
# (tests/kernel/test_arm64.sh). Of that machine there is a compiler and a C library, and no other but libtcc, which one program
# has: neither Zydis nor cmocka.
ARM_CC   = aarch64-linux-gnu-gcc
arm-make = $(make) OBJ=$(OBJ)/arm64 BIN=$(BIN)/arm64 LIB=$(LIB)/arm64 CROSS=aarch64-linux-gnu- CC=$(ARM_CC) TCC=no ZYDIS=no \
	CFLAGS=-O1 SANITIZE= WARNINGS='$(WARNINGS) -Wno-format-truncation'
.PHONY: arm-programs
arm-programs:
	$(if $(shell command -v $(ARM_CC)),$(arm-make) cross-programs $(if $(wildcard $(ARM_TCC)),$(BIN)/arm64/plan-tcc))

# Its libtcc comes by apt-get, which looks for it in lists of its own; nothing is installed. Where that fails, as without a network, the
# test that needs it is skipped.
ARM_TCC = $(OBJ)/arm64/libtcc.a
ARM_APT = -q -o APT::Architecture=arm64 -o APT::Architectures::=arm64 -o Dir::State::Lists=lists -o Dir::Cache=. \
	-o APT::Sandbox::User=root -o Acquire::Retries=0 -o Acquire::http::Timeout=20
.PHONY: arm-tcc
arm-tcc:
	@test -f $(ARM_TCC) || ! command -v $(ARM_CC) > /dev/null || { \
	dir=$$(mktemp -d) && mkdir -p $(dir $(ARM_TCC)) $$dir/lists/partial $$dir/archives/partial && \
	(cd $$dir && apt-get $(ARM_APT) update && apt-get $(ARM_APT) download libtcc-dev:arm64 && dpkg-deb -x *.deb .) > $$dir/log 2>&1; \
	find $$dir -name libtcc.a -exec cp {} $(ARM_TCC) \; ; rm -rf $$dir; \
	test -f $(ARM_TCC) || echo 'libtcc for AArch64 is not to be had here; its test is skipped'; }

ifneq ($(CROSS),)
$(OBJ)/tests/%.o: INCLUDE = -iquote tests -iquote tests/kit -isystem tests/arm -DATTN_CROSS='"$(CROSS)"'
CROSS_SUPPORT := $(patsubst %,$(OBJ)/tests/kit/%.o,child lowered seed guarded choice judge pairwise) \
	$(filter-out $(OBJ)/tests/micro/test_%,$(call objects,tests/micro/*.c))
CROSS_TESTS   := $(patsubst %,$(BIN)/%,test_ops test_composites test_micros test_kernels)
$(OBJ)/libcross.a: $(CROSS_SUPPORT) $(OBJ)/names
	$(archive)
.SECONDARY: $(CROSS_TESTS:$(BIN)/%=$(OBJ)/tests/micro/%.o) $(OBJ)/tests/kernel/test_kernels.o
cross-link = @mkdir -p $(@D); $(link) $^ -lpthread -lm -ldl -o $@
$(BIN)/%: $(OBJ)/tests/micro/%.o $(OBJ)/libcross.a $(OBJ)/libruntime.a
	$(cross-link)
$(BIN)/test_kernels: $(OBJ)/tests/kernel/test_kernels.o $(OBJ)/libcross.a $(OBJ)/libruntime.a
	$(cross-link)
# As somebody else's program: of libattn it knows attn.h and the library.
$(BIN)/plan: tests/arm/plan.c runtime/attn.h $(LIB)/libattn.so
	@mkdir -p $(@D)
	$(CC) -std=c11 $(CFLAGS) $(WARNINGS) -I runtime $< -L$(LIB) -lattn -lm -o $@
# The same with libtcc in the library: only one object is another, by the rules of a build that has it.
$(BIN)/plan-tcc: tests/arm/plan.c runtime/attn.h $(OBJ)/libruntime.a FORCE
	$(make) OBJ=$(OBJ)/tcc TCC=yes CC='$(CC) -B$(OBJ)/' $(OBJ)/tcc/runtime/cpu/tcc-inside.o
	@mkdir -p $(@D)
	$(CC) -std=c11 $(CFLAGS) $(WARNINGS) -I runtime $< $(OBJ)/tcc/runtime/cpu/tcc-inside.o $(OBJ)/libruntime.a -lpthread -lm -ldl -o $@
.PHONY: cross-programs
cross-programs: library $(CROSS_TESTS) $(BIN)/plan
endif

# ---- tests -----------------------------------------------------------------------------------------------------------

# Kernels from the JIT carry no instrumentation, so that the kernel tests would show nothing new under ASan.
SANITIZED_DIRS = unit e2e
# test_vendor looks at what compilers make of emitted files, and these are the same.
SANITIZED_TESTS := $(filter-out %/test_vendor,$(filter $(SANITIZED_DIRS:%=$(BIN)/tests/%/test_%),$(TESTS)))
# These run under the sanitizers alone. test_allocation looks for what sanitizers see best, and is long. The others ask the same of the
# generator's steps from text to text in both builds, and the plain build's generator is held to the gallery's bytes.
SANITIZED_ALONE = $(addprefix %/test_,allocation apart launch micro_damaged micro_language registers rules spec template weave)
SANITIZED = $(OBJ)/sanitized
sanitized-tests = $(SANITIZED_TESTS:$(BIN)/%=$(SANITIZED)/bin/%)
sanitized-make = $(make) OBJ=$(SANITIZED) BIN=$(SANITIZED)/bin LIB=$(SANITIZED)/lib \
	SANITIZE='-fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer'

# What a sanitizer watches is the library; of the tests' own code it sees as much where that is not optimised, which takes a third of
# the time to compile.
ifneq ($(SANITIZE),)
$(OBJ)/tests/%.o: QUICK = -O0
endif

# Where the compiler has a thread sanitizer, what threads do at once is looked at by it: all together, and the pool, runs, contexts,
# libtcc and the compilers of the system alone.
RACES = $(OBJ)/races
RACING = races threads execute execute_refused context tcc cc
has-race-sanitizer = $(shell echo 'int main(void) { return 0; }' | \
	$(CC) -fsanitize=thread -x c - -o /dev/null 2>/dev/null && echo yes)
race-tests = $(if $(has-race-sanitizer),$(RACING:%=$(RACES)/bin/tests/unit/test_%))
race-make = $(make) OBJ=$(RACES) BIN=$(RACES)/bin LIB=$(RACES)/lib SANITIZE='-fsanitize=thread -fno-omit-frame-pointer'

.PHONY: test-programs sanitized-programs bench-programs
test-programs: all $(TESTS)
sanitized-programs: $(PROGRAM) $(EMIT) $(SANITIZED_TESTS)

test: deps
	$(make) arm-tcc
	$(make) test-programs arm-programs
	$(sanitized-make) sanitized-programs
	$(if $(race-tests),$(race-make) $(race-tests))
	@tests/run.sh $(filter-out $(SANITIZED_ALONE),$(TESTS)) $(TEST_SCRIPTS) $(sanitized-tests) $(race-tests)

test-sanitize: deps
	$(sanitized-make) sanitized-programs
	@tests/run.sh $(sanitized-tests)

# One test alone, as in `make run/unit/test_fields`.
run/%: FORCE
	$(make) $(BIN)/tests/$* $(if $(filter e2e/%,$*),all)
	@tests/run.sh $(BIN)/tests/$*

# The same of a script, as in `make run/e2e/test_pages.sh`.
run/%.sh: FORCE
	$(make) all $(if $(filter %/test_arm64,$*),arm-programs)
	@tests/run.sh tests/$*.sh

# ATTNGEN_SOAK widens the tests that choose among variants to all of them.
soak: deps
	$(make) arm-tcc
	$(make) test-programs arm-programs
	@ATTNGEN_SOAK=1 TEST_TIMEOUT=0 tests/run.sh $(TESTS) $(TEST_SCRIPTS)

# ---- the main job, benchmarks, the gallery ---------------------------------------------------------------------------

bench-programs: all $(BENCHES)
bench: deps
	$(make) bench-programs
	@set -e; for b in $(BENCHES) $(BENCH_SCRIPTS); do echo "== $$b"; $$b; done

# Tunes for a real layer of a language model, then runs it and says how far the output is from the model's own.
DATA = tests/data/minilm-layer3
tune: deps
	$(make) all
	$(BIN)/attngen tune --shape 2,12,12,256,256,32
	$(BIN)/attngen run -q $(DATA)/q.npy -k $(DATA)/k.npy -v $(DATA)/v.npy --kv-lens $(DATA)/kv_lens.npy \
	    -o $(OBJ)/minilm-o.npy --compare $(DATA)/o.npy

golden: deps
	$(make) all
	tests/e2e/test_golden.sh --update
