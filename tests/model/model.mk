# SPDX-License-Identifier: Apache-2.0
#
# The checker of the pin handshake; the argument is the source tree, whose lines
# it compares with what it models.

MODEL_SRC := $(wildcard tests/model/*.c)

tests: $(O)/tests/model/check-model

$(O)/tests/model/check-model: $(call obj,$(MODEL_SRC))
	$(call say,LD,$@)$(CC) $(BASE_LDFLAGS) $^ -o $@

.PHONY: check-model
check-model: $(O)/tests/model/check-model
	$(Q)$< .
