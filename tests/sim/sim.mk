# SPDX-License-Identifier: Apache-2.0
#
# make sim [SEEDS=N] [CLUSTERS=N] [FIRST=S]: that many seeds of one owner, and of
# clusters, on all cores, up to the first that breaks a rule.
# make plant-check: does it find what it should?

SEEDS ?= 10000
CLUSTERS ?= 1000
FIRST ?= 1

.PHONY: sim
sim: $(O)/tests/sim/sim $(O)/tests/sim/cluster/cluster
	$(Q)$< --jobs "$$(nproc)" --seeds $(SEEDS) --seed $(FIRST)
	$(Q)$(O)/tests/sim/cluster/cluster --jobs "$$(nproc)" \
		--seeds $(CLUSTERS) --seed $(FIRST)

.PHONY: plant-check
plant-check:
	$(Q)tests/sim/plant-check

# Whole clusters: one master, several owners.
CLUSTER_SIM_SRC := $(wildcard tests/sim/cluster/*.c)

$(O)/tests/sim/cluster/cluster: $(call obj,$(CLUSTER_SIM_SRC)) $(BASE_OBJ) \
		$(WIRE_OBJ) $(CORE_OBJ)
	$(call say,LD,$@)$(CC) $(BASE_LDFLAGS) $^ $(WIRE_LIBS) -lpthread -o $@
