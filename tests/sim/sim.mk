# SPDX-License-Identifier: Apache-2.0
#
# make sim [SEEDS=N] [FIRST=S]: that many seeds on all cores, up to the first
# that breaks a rule. make plant-check: does it find what it should?

SEEDS ?= 10000
FIRST ?= 1

.PHONY: sim
sim: $(O)/tests/sim/sim
	$(Q)$< --jobs "$$(nproc)" --seeds $(SEEDS) --seed $(FIRST)

.PHONY: plant-check
plant-check:
	$(Q)tests/sim/plant-check
