/* SPDX-License-Identifier: Apache-2.0 */
/*
 * admin.h - what operators ask: JSON of state, text of metrics; loop thread
 */
#ifndef FKV_SVC_ADMIN_H
#define FKV_SVC_ADMIN_H

#include "svc/engine.h"

/* JSON (or metrics text) to be freed, or NULL and -EINVAL or -ENOMEM. */
char *fkv_admin_answer(struct fkv_engine *e, const char *word,
		       const char *argument, int *ret_err);

/* All of /metrics, to be freed, or NULL without memory. */
char *fkv_admin_metrics(struct fkv_engine *e);

#endif
