# SPDX-License-Identifier: Apache-2.0
# What is built of what.

src = $(sort $(wildcard $(addsuffix /*.c,$(1))))
obj = $(patsubst %.c,$(BUILD)/obj/%.o,$(call src,$(1)))

GEN := $(BUILD)/gen/proto/dlo.pb-c

BASE_OBJ      := $(call obj,proto/base)
WIRE_OBJ      := $(call obj,proto/wire) $(BUILD)/obj/gen/dlo.pb-c.o
TRACE_OBJ     := $(call obj,proto/trace)
POLICY_OBJ    := $(call obj,daemon/policy)
TELEMETRY_OBJ := $(call obj,daemon/telemetry)
DAEMON_OBJ    := $(filter-out $(BUILD)/obj/daemon/main.o,$(call obj,daemon))
CLIENT_OBJ    := $(call obj,client/lib)
CTL_OBJ       := $(filter-out $(BUILD)/obj/client/ctl/main.o,$(call obj,client/ctl))

UV_CFLAGS      = $(shell pkg-config --cflags libuv 2>/dev/null)
UV_LIBS        = $(shell pkg-config --libs libuv 2>/dev/null)
PROTOBUF_LIBS  = $(shell pkg-config --libs libprotobuf-c 2>/dev/null)
JANSSON_LIBS   = $(shell pkg-config --libs jansson 2>/dev/null)
INIH_LIBS      = $(shell pkg-config --libs inih 2>/dev/null)
CHECK_LIBS     = $(shell pkg-config --libs check 2>/dev/null)

$(GEN).c: proto/dlo.proto
	@mkdir -p $(BUILD)/gen
	protoc-c --c_out=$(BUILD)/gen proto/dlo.proto

$(GEN).h: $(GEN).c

# Generated code is not ours to warn about; UBSan reports shifts that protobuf-c knows of.
$(BUILD)/obj/gen/dlo.pb-c.o: $(GEN).c
	@mkdir -p $(@D)
	$(CC) $(BASE) $(CFLAGS) $(HARD) -fPIC -w $(INC) -c $< -o $@

# The library is made of position independent code with hidden symbols; so is all it shares.
$(BUILD)/obj/%.o: %.c | packages $(GEN).h
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) $(UV_CFLAGS) -fPIC -fvisibility=hidden -MMD -MP -c $< -o $@

$(BUILD)/dlod: $(BUILD)/obj/daemon/main.o $(DAEMON_OBJ) $(TELEMETRY_OBJ) $(POLICY_OBJ) $(WIRE_OBJ) \
               $(TRACE_OBJ) $(BASE_OBJ)
	$(CC) $(ALL_LDFLAGS) $^ -o $@ $(UV_LIBS) $(PROTOBUF_LIBS) $(INIH_LIBS) -ldl -lpthread

CTL_PARTS := $(CTL_OBJ) $(CLIENT_OBJ) $(POLICY_OBJ) $(WIRE_OBJ) $(TRACE_OBJ) $(BASE_OBJ)
$(BUILD)/dlo-ctl: $(BUILD)/obj/client/ctl/main.o $(CTL_PARTS)
	$(CC) $(ALL_LDFLAGS) $^ -o $@ $(PROTOBUF_LIBS) $(JANSSON_LIBS) -lpthread

LIB_PARTS := $(CLIENT_OBJ) $(POLICY_OBJ) $(WIRE_OBJ) $(BASE_OBJ)
$(BUILD)/libdlo-client.so.0: $(LIB_PARTS) client/lib/libdlo-client.map
	$(CC) $(SANITIZE) -shared -Wl,-soname,libdlo-client.so.0 -Wl,-z,relro,-z,now,-z,nodelete \
	    -Wl,--version-script=client/lib/libdlo-client.map $(LDFLAGS) $(LIB_PARTS) -o $@ \
	    $(PROTOBUF_LIBS) -lpthread
	ln -sf libdlo-client.so.0 $(BUILD)/libdlo-client.so

# One relocatable object, so that only dlo_* is left visible in the static library too.
$(BUILD)/libdlo-client.a: $(LIB_PARTS)
	$(LD) -r $^ -o $(BUILD)/obj/libdlo-client.o
	objcopy --wildcard --keep-global-symbol='dlo_*' $(BUILD)/obj/libdlo-client.o
	rm -f $@
	$(AR) rcs $@ $(BUILD)/obj/libdlo-client.o

# ---- simulated GPU ----
SIM_SHARED := $(call obj,tests/simgpu/shared)
SIM := $(BUILD)/simgpu/libcuda.so.1 $(BUILD)/simgpu/libnvidia-ml.so.1 $(BUILD)/simgpu/simgpu

$(BUILD)/simgpu/libcuda.so.1: $(call obj,tests/simgpu/libcuda) $(SIM_SHARED)
	@mkdir -p $(@D)
	$(CC) $(SANITIZE) -shared -Wl,-soname,libcuda.so.1 $^ -o $@ -lpthread
$(BUILD)/simgpu/libnvidia-ml.so.1: $(call obj,tests/simgpu/libnvml) $(SIM_SHARED)
	@mkdir -p $(@D)
	$(CC) $(SANITIZE) -shared -Wl,-soname,libnvidia-ml.so.1 $^ -o $@ -lpthread
$(BUILD)/simgpu/simgpu: $(call obj,tests/simgpu/ctl) $(SIM_SHARED)
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) $^ -o $@ -lpthread

.PHONY: sim
sim: $(SIM)

# ---- test programs: tests/unit/test_X.c is one program, linked with everything but the mains ----
UNIT := $(patsubst tests/unit/%.c,$(BUILD)/unit/%,$(wildcard tests/unit/test_*.c))
$(BUILD)/unit/%: $(BUILD)/obj/tests/unit/%.o $(DAEMON_OBJ) $(TELEMETRY_OBJ) $(CTL_OBJ) $(CLIENT_OBJ) \
                 $(POLICY_OBJ) $(WIRE_OBJ) $(TRACE_OBJ) $(BASE_OBJ)
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) $< -Wl,--start-group $(filter-out $<,$^) -Wl,--end-group -o $@ \
	    $(CHECK_LIBS) $(UV_LIBS) $(PROTOBUF_LIBS) $(INIH_LIBS) $(JANSSON_LIBS) -ldl -lpthread

# ---- small programs that tests and the demo run: tests/programs/X.c, linked with the library ----
PROGRAMS := $(patsubst tests/programs/%.c,$(BUILD)/programs/%,$(wildcard tests/programs/*.c))
$(BUILD)/programs/%: $(BUILD)/obj/tests/programs/%.o $(BUILD)/libdlo-client.a $(BASE_OBJ)
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) $< $(BUILD)/libdlo-client.a $(BASE_OBJ) -o $@ $(PROTOBUF_LIBS) -ldl -lpthread

-include $(shell find $(BUILD)/obj -name '*.d' 2>/dev/null)
