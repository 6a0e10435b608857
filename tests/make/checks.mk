# SPDX-License-Identifier: Apache-2.0
# Tests and checks. tests/run.py runs the suites; its last line counts what passed.

# What the suites run. SUITES=unit make test runs less.
SUITES ?= unit conformance integration lint
FUZZ_SECONDS ?= 30

# A German locale, for tests that show that numbers stay as they are.
LOCALE := $(BUILD)/locale/de_DE.UTF-8
$(LOCALE): | packages-test
	@tests/locale.sh $(@D)

.PHONY: parts
parts: all $(SIM) $(UNIT) $(PROGRAMS) $(EXAMPLES) $(LOCALE) | packages-test

.PHONY: suites
suites: parts
	@DLO_BUILD=$(abspath $(BUILD)) tests/run.py $(SUITES)

# ---- what people type ----
.PHONY: demo test acceptance bench check-gpu check-upstream check-hosts check-long fuzz
demo: all $(SIM) $(PROGRAMS) ## the main job on a simulated GPU (CAP=0.05: with a small cap)
	@DLO_BUILD=$(abspath $(BUILD)) CAP='$(CAP)' tests/demo/demo.sh

test: suites ## unit, conformance, integration and lint (SUITES=... for some of them)

acceptance: parts ## what the issues ask for, from a clean clone (ONLY=NAME: one of them)
	@DLO_BUILD=$(abspath $(BUILD)) tests/acceptance.sh $(ONLY)

bench: parts ## measure; asserts nothing
	@for b in tests/bench/*.sh; do echo "== $$b"; BUILD=$(BUILD) bash $$b || exit 1; done

check-gpu: parts ## with a real GPU and driver (SKIP without)
	@DLO_BUILD=$(abspath $(BUILD)) tests/gpu/run.sh

check-upstream: all ## vLLM-Omni's own residency tests over our class (UPSTREAM=DIR; SKIP without)
	@DLO_BUILD=$(abspath $(BUILD)) tests/upstream/check.sh $(UPSTREAM)

check-hosts: all ## released vLLM-Omni, torch and diffusers from the package index (SKIP without)
	@DLO_BUILD=$(abspath $(BUILD)) tests/hosts/check.sh

check-long: parts ## the suites with longer loops (DLO_LONG=1), then the fuzzers for 5 minutes each
	@DLO_LONG=1 DLO_SLOW=10 DLO_BUILD=$(abspath $(BUILD)) tests/run.py unit conformance integration
	@$(MAKE) fuzz FUZZ_SECONDS=300

# ---- sanitizers, valgrind, the other compiler: each in a build folder of its own ----
# setarch -R: the sanitizers of gcc 12 and clang 14 do not know the address layout of newer kernels
UNRANDOM := setarch -R
ASAN := -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
TSAN := -fsanitize=thread
CHECKED_SUITES := unit conformance integration

.PHONY: check-asan check-tsan check-valgrind clang
check-asan: | packages-test ## the suites with AddressSanitizer and UBSan
	@DLO_SLOW=4 ASAN_OPTIONS=detect_stack_use_after_return=1 UBSAN_OPTIONS=print_stacktrace=1 \
	    $(UNRANDOM) $(MAKE) suites BUILD=build/asan SANITIZE='$(ASAN)' CFLAGS='-O1 -g' \
	    SUITES='$(CHECKED_SUITES)'

check-tsan: | packages-test ## the suites with ThreadSanitizer
	@DLO_SLOW=8 TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1 \
	    $(UNRANDOM) $(MAKE) suites BUILD=build/tsan SANITIZE='$(TSAN)' CFLAGS='-O1 -g' \
	    SUITES='$(CHECKED_SUITES)'

check-valgrind: parts | packages-valgrind ## the suites under valgrind (memcheck)
	@tests/make/valgrind.sh $(BUILD) build/valgrind
	@DLO_SLOW=10 DLO_VALGRIND=1 DLO_BUILD=$(abspath build/valgrind) \
	    tests/run.py $(CHECKED_SUITES)

clang: | packages-test packages-clang ## build everything with clang, into build/clang
	@$(MAKE) parts BUILD=build/clang CC=clang

fuzz: | packages-fuzz ## run each fuzzer for FUZZ_SECONDS (30)
	@$(UNRANDOM) $(MAKE) run-fuzzers BUILD=build/fuzz CC=clang CFLAGS='-O1 -g' \
	    SANITIZE='-fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all'

.PHONY: run-fuzzers
run-fuzzers: $(FUZZERS)
	@[ -n '$(FUZZERS)' ] || echo 'no tests/fuzz/fuzz_*.c yet: nothing to run'
	@for f in $(FUZZERS); do \
	    corpus=$(BUILD)/corpus/$$(basename $$f) && mkdir -p $$corpus && echo "== $$f" && \
	    $$f -max_total_time=$(FUZZ_SECONDS) -max_len=8192 -timeout=5 -rss_limit_mb=1024 \
	        -artifact_prefix=$(BUILD)/ -print_final_stats=1 $$corpus \
	        $$(ls -d tests/fuzz/corpus/$$(basename $$f) 2>/dev/null) >$$f.log 2>&1 || \
	        { tail -n 40 $$f.log; exit 1; }; \
	    grep -E 'stat::(number_of_executed_units|peak_rss_mb)' $$f.log; done

# ---- the source ----
C_FILES = $(shell git ls-files -co --exclude-standard '*.[ch]' 2>/dev/null || find . -name build -prune -o -name '*.[ch]' -print)

.PHONY: lint analyze format format-check check-abi
lint: all | packages-test ## the facts of tests/lint/run.sh
	@DLO_BUILD=$(abspath $(BUILD)) tests/lint/run.sh

analyze: $(GEN).h | packages-test packages-analyze ## gcc -fanalyzer, clang-tidy, cppcheck: no findings
	@BUILD=$(BUILD) CC=$(CC) tests/lint/analyze.sh

format: | packages-format ## lay the C files out
	@clang-format -i $(C_FILES)

format-check: | packages-format ## fail where `make format` would change something
	@clang-format --dry-run -Werror $(C_FILES)

check-abi: ## compare proto/abi with the vendor's headers (SKIP without them)
	@CC=$(CC) tests/abi/check.sh
	@CC=$(CC) tests/abi/check.sh --self-test
