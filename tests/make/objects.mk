# SPDX-License-Identifier: Apache-2.0
# What is built of what. pkg-config is asked when a command runs, not when this file is read: on a
# fresh machine the packages come in between.

src = $(sort $(wildcard $(addsuffix /*.c,$(1))))
obj = $(patsubst %.c,$(BUILD)/obj/%.o,$(call src,$(1)))
libs = $(shell pkg-config --libs $(1))
# Prints a short line in place of a long command; V=1 shows the commands.
Q = $(if $(V),,@printf '  %-8s %s\n' $(1) $(patsubst $(BUILD)/%,%,$(2));)

GEN := $(BUILD)/gen/proto/dlo.pb-c

BASE_OBJ      := $(call obj,proto/base)
WIRE_OBJ      := $(call obj,proto/wire) $(BUILD)/obj/gen/dlo.pb-c.o
TRACE_OBJ     := $(call obj,proto/trace)
POLICY_OBJ    := $(call obj,daemon/policy)
TELEMETRY_OBJ := $(call obj,daemon/telemetry)
DAEMON_OBJ    := $(filter-out $(BUILD)/obj/daemon/main.o,$(call obj,daemon))
CLIENT_OBJ    := $(call obj,client/lib)
CUDA_OBJ      := $(call obj,client/cuda)
CTL_OBJ       := $(filter-out $(BUILD)/obj/client/ctl/main.o,$(call obj,client/ctl))

# Other flags are other objects: this file changes when the command does.
$(BUILD)/flags: FORCE
	$(shell mkdir -p $(@D))$(file >$@.new,$(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS))
	@cmp -s $@.new $@ && rm $@.new || mv $@.new $@
.PHONY: FORCE

$(GEN).c: proto/dlo.proto | packages-build
	@mkdir -p $(BUILD)/gen
	$(call Q,PROTO,$<)protoc-c --c_out=$(BUILD)/gen $<
$(GEN).h: $(GEN).c ;

# Generated code is not ours to warn about.
$(BUILD)/obj/gen/dlo.pb-c.o: $(GEN).c $(BUILD)/flags
	@mkdir -p $(@D)
	$(call Q,CC,$<)$(CC) $(ALL_CFLAGS) -w -c $< -o $@

$(BUILD)/obj/%.o: %.c $(BUILD)/flags | packages-build
	@mkdir -p $(@D)
	$(call Q,CC,$<)$(CC) $(ALL_CFLAGS) -MMD -MP -c $< -o $@

# Who may include the generated header; a compiler cannot name it before it exists.
$(call obj,proto/wire tests/unit tests/fuzz): | $(GEN).h
$(call obj,tests/unit): | packages-test

$(BUILD)/dlod: $(BUILD)/obj/daemon/main.o $(DAEMON_OBJ) $(TELEMETRY_OBJ) $(POLICY_OBJ) $(WIRE_OBJ) \
               $(TRACE_OBJ) $(BASE_OBJ)
	$(call Q,LINK,$@)$(CC) $(ALL_LDFLAGS) $^ -o $@ $(call libs,libuv libprotobuf-c inih) -ldl -lpthread

$(BUILD)/dlo-ctl: $(BUILD)/obj/client/ctl/main.o $(CTL_OBJ) $(CLIENT_OBJ) $(POLICY_OBJ) $(WIRE_OBJ) \
                  $(TRACE_OBJ) $(BASE_OBJ)
	$(call Q,LINK,$@)$(CC) $(ALL_LDFLAGS) $^ -o $@ $(call libs,libprotobuf-c jansson) -lpthread

LIB_PARTS := $(CLIENT_OBJ) $(POLICY_OBJ) $(WIRE_OBJ) $(BASE_OBJ)
# nodelete: a handle's thread local data must not outlive the code that frees it
$(BUILD)/libdlo-client.so.0: $(LIB_PARTS) client/lib/libdlo-client.map
	$(call Q,LINK,$@)$(CC) $(SANITIZE) -shared -Wl,-soname,libdlo-client.so.0 -Wl,-z,relro,-z,now,-z,nodelete \
	    -Wl,--version-script=client/lib/libdlo-client.map $(LDFLAGS) $(LIB_PARTS) -o $@ \
	    $(call libs,libprotobuf-c) -lpthread
	@ln -sf libdlo-client.so.0 $(BUILD)/libdlo-client.so

CUDA_PARTS := $(CUDA_OBJ) $(BASE_OBJ)
$(BUILD)/libdlo-client-cuda.so.0: $(CUDA_PARTS) client/cuda/libdlo-client-cuda.map $(BUILD)/libdlo-client.so.0
	$(call Q,LINK,$@)$(CC) $(SANITIZE) -shared -Wl,-soname,libdlo-client-cuda.so.0 -Wl,-z,relro,-z,now,-z,nodelete \
	    -Wl,--version-script=client/cuda/libdlo-client-cuda.map $(LDFLAGS) $(CUDA_PARTS) -o $@ \
	    -Wl,-rpath,'$$ORIGIN' -L$(BUILD) -ldlo-client -ldl -lpthread
	@ln -sf libdlo-client-cuda.so.0 $(BUILD)/libdlo-client-cuda.so

# One relocatable object, so that only the public names are left visible in a static library too.
$(BUILD)/libdlo-client.a: $(LIB_PARTS)
$(BUILD)/libdlo-client-cuda.a: $(CUDA_PARTS)
$(BUILD)/libdlo-client.a $(BUILD)/libdlo-client-cuda.a:
	$(call Q,AR,$@)$(LD) -r $^ -o $(BUILD)/obj/$(basename $(@F)).o
	@objcopy --wildcard --keep-global-symbol='dlo_[a-z]*' $(BUILD)/obj/$(basename $(@F)).o
	@rm -f $@
	@$(AR) rcs $@ $(BUILD)/obj/$(basename $(@F)).o

# ---- simulated GPU ----
SIM_SHARED := $(call obj,tests/simgpu/shared)
SIM := $(BUILD)/simgpu/libcuda.so.1 $(BUILD)/simgpu/libnvidia-ml.so.1 $(BUILD)/simgpu/simgpu

$(BUILD)/simgpu/libcuda.so.1: $(call obj,tests/simgpu/libcuda) $(SIM_SHARED)
	@mkdir -p $(@D)
	$(call Q,LINK,$@)$(CC) $(SANITIZE) -shared -Wl,-soname,libcuda.so.1 $^ -o $@ -lpthread
$(BUILD)/simgpu/libnvidia-ml.so.1: $(call obj,tests/simgpu/libnvml) $(SIM_SHARED)
	@mkdir -p $(@D)
	$(call Q,LINK,$@)$(CC) $(SANITIZE) -shared -Wl,-soname,libnvidia-ml.so.1 $^ -o $@ -lpthread
$(BUILD)/simgpu/simgpu: $(call obj,tests/simgpu/ctl) $(SIM_SHARED)
	@mkdir -p $(@D)
	$(call Q,LINK,$@)$(CC) $(ALL_LDFLAGS) $^ -o $@ -lpthread

# ---- test programs: tests/unit/test_X.c is one program, linked with everything but the mains ----
UNIT := $(patsubst tests/unit/%.c,$(BUILD)/unit/%,$(wildcard tests/unit/test_*.c))
UNIT_OBJ := $(filter-out $(BUILD)/obj/tests/unit/test_%,$(call obj,tests/unit))
UNIT_PARTS := $(DAEMON_OBJ) $(TELEMETRY_OBJ) $(CTL_OBJ) $(CUDA_OBJ) $(CLIENT_OBJ) $(POLICY_OBJ) $(WIRE_OBJ) \
              $(TRACE_OBJ) $(BASE_OBJ)

# An archive: a program takes of it what it names, so that a test may bring a part of its own.
$(BUILD)/unit/parts.a: $(UNIT_PARTS) $(UNIT_OBJ)
	@mkdir -p $(@D)
	@rm -f $@
	$(call Q,AR,$@)$(AR) rcs $@ $^
$(UNIT): $(BUILD)/unit/%: $(BUILD)/obj/tests/unit/%.o $(BUILD)/unit/parts.a
	$(call Q,LINK,$@)$(CC) $(ALL_LDFLAGS) $^ -o $@ $(call libs,check libuv libprotobuf-c inih jansson) -ldl -lpthread

# ---- small programs that tests and the demo run: tests/programs/X.c, linked with the library ----
PROGRAMS := $(patsubst tests/programs/%.c,$(BUILD)/programs/%,$(wildcard tests/programs/*.c))
$(PROGRAMS): $(BUILD)/programs/%: $(BUILD)/obj/tests/programs/%.o $(BUILD)/libdlo-client-cuda.a \
                                  $(BUILD)/libdlo-client.a $(BASE_OBJ)
	@mkdir -p $(@D)
	$(call Q,LINK,$@)$(CC) $(ALL_LDFLAGS) $^ -o $@ $(call libs,libprotobuf-c) -ldl -lpthread

# ---- examples: as a user builds them, against the shared libraries and the public headers ----
EXAMPLES := $(patsubst client/examples/%.c,$(BUILD)/examples/%,$(wildcard client/examples/*.c))
$(EXAMPLES): $(BUILD)/examples/%: client/examples/%.c $(BUILD)/libdlo-client-cuda.so.0 $(BUILD)/libdlo-client.so.0
	@mkdir -p $(@D)
	$(call Q,CC,$@)$(CC) $(SANITIZE) -std=gnu11 $(CFLAGS) -Wall -Wextra -Werror -Iclient/include $< -o $@ \
	    -L$(BUILD) -Wl,-rpath,'$$ORIGIN/..' -ldlo-client-cuda -ldlo-client -ldl

# ---- fuzzers: tests/fuzz/fuzz_X.c, with CC=clang and SANITIZE=-fsanitize=fuzzer-no-link,... ----
FUZZERS := $(patsubst tests/fuzz/%.c,$(BUILD)/fuzz/%,$(wildcard tests/fuzz/fuzz_*.c))
$(FUZZERS): $(BUILD)/fuzz/%: $(BUILD)/obj/tests/fuzz/%.o $(BUILD)/unit/parts.a
	@mkdir -p $(@D)
	$(call Q,LINK,$@)$(CC) $(ALL_LDFLAGS) -fsanitize=fuzzer $^ -o $@ \
	    $(call libs,libuv libprotobuf-c inih jansson) -ldl -lpthread

-include $(shell find $(BUILD)/obj -name '*.d' 2>/dev/null)
