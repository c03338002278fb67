/* SPDX-License-Identifier: Apache-2.0 */
/*
 * settings.h - what must hold of settings that were taken, and of a refusal
 */
#ifndef FKV_TESTS_FUZZ_SETTINGS_H
#define FKV_TESTS_FUZZ_SETTINGS_H

#include "svc/config.h"

/* Every field within the bounds that its manual page gives. */
void fuzz_settings_check(const struct fkv_config *cfg);

/* fkv_config_finish() takes them, or has a sentence that role is missing. */
void fuzz_settings_finish(struct fkv_config *cfg);

/*
 * @err of @size bytes is "FILE:LINE: ..." with a line of @lines at most, and
 * says which key, or what else is wrong with the text, without a control
 * character.
 */
void fuzz_complaint_check(const char *err, size_t size, const char *file,
			  size_t lines);

#endif
