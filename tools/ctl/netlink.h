/* SPDX-License-Identifier: Apache-2.0 */
/*
 * netlink.h - what the kernel module tells by generic netlink
 *
 * Each message becomes an object. libnl stays behind this: who includes it
 * needs none of its headers.
 */
#ifndef FKV_CTL_NETLINK_H
#define FKV_CTL_NETLINK_H

#include <stdbool.h>
#include <stddef.h>

#include <json-c/json.h>

struct ctl_kernel;

/* Another object; to go on: true. */
typedef bool (*ctl_told_fn)(void *arg, struct json_object *o);

/*
 * 0, or -errno with a sentence in @why: the module is not loaded, or is out of
 * reach.
 */
int ctl_kernel_open(struct ctl_kernel **ret, char *why, size_t size);
void ctl_kernel_close(struct ctl_kernel *k);

/*
 * Only of the instance @name, unless that is empty; with @wide also what only
 * programs read.
 */
void ctl_kernel_only(struct ctl_kernel *k, const char *name, bool wide);

/* Dump: an array of objects in *ret. 0, or -errno with a sentence in @why. */
int ctl_kernel_dump(struct ctl_kernel *k, int cmd, struct json_object **ret,
		    char *why, size_t size);

/*
 * Follow the events until @told returns false; NULL stands for some that were
 * lost. 0, or -errno with a sentence in @why.
 */
int ctl_kernel_follow(struct ctl_kernel *k, ctl_told_fn told, void *arg,
		      char *why, size_t size);

#endif
