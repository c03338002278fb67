/* SPDX-License-Identifier: Apache-2.0 */
/*
 * message.h - a message of the kernel module as an object
 */
#ifndef FKV_CTL_MESSAGE_H
#define FKV_CTL_MESSAGE_H

#include <stdbool.h>

#include <json-c/json.h>

#include <linux/fluxonkv.h>

struct nlmsghdr;

struct ctl_view {
	char only[FLUXONKV_NAME_MAX];	/* of this instance; "": of all */
	bool wide;			/* also what only programs read */
	bool host_pids;			/* processes have their names here */
};

/* NULL: of an instance that was not asked for, or no message of ours. */
struct json_object *ctl_message_object(const struct ctl_view *view,
				       struct nlmsghdr *h);

#endif
