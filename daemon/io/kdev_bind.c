// SPDX-License-Identifier: Apache-2.0
/*
 * kdev_bind.c - to become the owner of an instance of the kernel module
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "io/front.h"

#define OWNER_NODE	"/dev/fluxonkv-owner"

int fkv_kdev_probe(void)
{
	int fd = open(OWNER_NODE, O_RDWR | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	close(fd);
	return 0;
}

static int bind_error(int err, const char *name, char *buf, size_t size)
{
	if (err == -ENOENT || err == -ENODEV || err == -ENXIO)
		snprintf(buf, size, OWNER_NODE " is not there: is the module "
			 "fluxonkv loaded (modprobe fluxonkv)?");
	else if (err == -EACCES || err == -EPERM)
		snprintf(buf, size, "may not open " OWNER_NODE ": only root "
			 "may own an instance of the device");
	else if (err == -EADDRINUSE)
		snprintf(buf, size, "another daemon owns the instance \"%s\" "
			 "of the device", name);
	else
		snprintf(buf, size, "cannot own the instance \"%s\" of the "
			 "device: %s", name, strerror(-err));
	return err;
}

int fkv_kdev_bind(const struct fkv_kdev_config *cfg, char *err,
		  size_t err_size)
{
	struct fluxonkv_features features = { .size = sizeof(features) };
	struct fluxonkv_bind b = {
		.size = sizeof(b),
		.flags = cfg->strict ? FLUXONKV_BIND_STRICT : 0,
		.incarnation = cfg->incarnation,
		.client_cap_bytes = cfg->client_cap,
		.uid_cap_bytes = cfg->uid_cap,
		.clients_max = cfg->clients_max,
	};
	int fd, res;

	if (strlen(cfg->instance) >= sizeof(b.name))
		return bind_error(-ENAMETOOLONG, cfg->instance, err, err_size);
	memcpy(b.name, cfg->instance, strlen(cfg->instance));
	fd = open(OWNER_NODE, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return bind_error(-errno, cfg->instance, err, err_size);
	if (!ioctl(fd, FLUXONKV_IOC_FEATURES, &features) &&
	    features.abi == FLUXONKV_ABI_VERSION &&
	    !ioctl(fd, FLUXONKV_IOC_BIND, &b))
		return fd;
	res = features.abi && features.abi != FLUXONKV_ABI_VERSION ?
		-EPROTONOSUPPORT : -errno;
	close(fd);
	return bind_error(res, cfg->instance, err, err_size);
}
