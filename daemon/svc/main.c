// SPDX-License-Identifier: Apache-2.0
/*
 * main.c - fluxonkvd: start, serve, stop
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/size.h"
#include "base/version.h"
#include "svc/admin.h"
#include "svc/http.h"
#include "svc/lockfile.h"
#include "svc/preflight.h"

#define ERR_SIZE	600

struct daemon {
	struct fkv_config cfg;
	char lock_path[PATH_MAX];	/* with .lock: name and epoch of ours */
	int owner_fd;			/* of the kernel module, or -1 */
	struct fkv_lockfile *lock;
	struct fkv_lockfile *store;	/* master: of its epoch */
	uint8_t key[FKV_AUTH_KEY];
	struct fkv_segment *segment;
	struct fkv_device *devices[FKV_DEVICES_MAX];
	uint32_t nr_devices;
	struct fkv_engine *engine;
	struct fkv_http *http;
	struct fkv_snapshot *snapshot;
	uv_loop_t loop;
	uv_signal_t sigterm, sigint;
	uv_timer_t watchdog, stopping;
	uint64_t stop_by_ns;
	bool failed;
	uint64_t incarnation;
	uint32_t clients_max;
	char err[ERR_SIZE];
};

static int fail(struct daemon *d, int err)
{
	fkv_log(FKV_LOG_ERR, "%s", d->err[0] ? d->err : strerror(-err));
	return err;
}

/* Set by a signal that comes before there is a loop to take it. */
static volatile sig_atomic_t stop_early;

static void on_early_signal(int signum)
{
	stop_early = signum;
}

/* Without SA_RESTART, so that waits end. */
static void catch_early(void)
{
	struct sigaction sa = { .sa_handler = on_early_signal };

	sigaction(SIGTERM, &sa, NULL);
	sigaction(SIGINT, &sa, NULL);
}

static bool progress(void *arg, uint64_t done, uint64_t total)
{
	static uint64_t last;
	uint64_t now = fkv_clock_ns();
	char a[24], b[24];

	(void)arg;
	if (stop_early)
		return false;
	if (done < total && now - last < 2 * FKV_SEC)
		return true;
	if (!last && done == total)
		return true;
	last = now;
	fkv_log(FKV_LOG_INFO, "memory segment: %s of %s touched",
		fkv_size_print(done, a, sizeof(a)),
		fkv_size_print(total, b, sizeof(b)));
	return true;
}

static int open_segment(struct daemon *d)
{
	struct fkv_segment_config sc = {
		.device = d->owner_fd >= 0,
		.owner_fd = d->owner_fd,
		.pinnable = d->cfg.pinnable_puts,
		.bytes = d->cfg.memory + fkv_engine_chunk_bytes(&d->cfg),
		.huge = d->cfg.huge_pages,
		.lock = d->cfg.lock_memory,
		.threads = (unsigned int)sysconf(_SC_NPROCESSORS_ONLN),
		.progress = progress,
	};

	return fkv_segment_create(&sc, &d->segment, d->err, sizeof(d->err));
}

static enum fkv_engine_kind engine_kind(enum fkv_engine_choice c)
{
	static const enum fkv_engine_kind of[] = {
		[FKV_ENGINE_AUTO] = FKV_ENGINE_KIND_AUTO,
		[FKV_ENGINE_URING] = FKV_ENGINE_KIND_URING,
		[FKV_ENGINE_URING_IOVEC] = FKV_ENGINE_KIND_URING_IOVEC,
		[FKV_ENGINE_THREADS] = FKV_ENGINE_KIND_THREADS,
	};

	return of[c];
}

/* Done before there is an engine: results go to it once it is made. */
static void io_done(void *arg, const struct fkv_io_result *res)
{
	struct daemon *d = arg;

	fkv_engine_io_done(d->engine, res);
}

static bool go_on(void *arg)
{
	(void)arg;
	return !stop_early;
}

static int open_device(struct daemon *d, const struct fkv_ssd_path *p)
{
	struct fkv_device_config dc = {
		.path = p->path,
		.cluster = d->cfg.cluster_name,
		.instance = d->cfg.instance_key,
		.limit = p->limit,
		.nr_shards = FKV_SHARDS_PER_DEVICE,
		.incarnation = d->incarnation,
		.engine = engine_kind(d->cfg.io_engine),
		.io_depth = (uint32_t)d->cfg.io_depth,
		.read_weight = (uint32_t)d->cfg.read_weight,
		.segment = fkv_segment_base(d->segment),
		.segment_bytes = fkv_segment_size(d->segment),
		.done = io_done,
		.go_on = go_on,
		.arg = d,
	};
	struct fkv_device *dev;
	int err;

	for (uint32_t i = 0; i < d->nr_devices; i++) {
		if (fkv_device_same_fs(d->devices[i], p->path)) {
			fkv_log(FKV_LOG_WARN, "%s is on the same device as "
				"%s: not used", p->path,
				fkv_device_path(d->devices[i]));
			return 0;
		}
	}
	err = fkv_device_open(&dc, &dev, d->err, sizeof(d->err));
	if (err)
		return err;
	d->devices[d->nr_devices++] = dev;
	return 0;
}

static int open_devices(struct daemon *d)
{
	for (unsigned int i = 0; i < d->cfg.nr_ssd; i++) {
		int err = stop_early ? -ECANCELED :
			  open_device(d, &d->cfg.ssd[i]);

		if (err)
			return err;
	}
	return 0;
}

static int start_devices(struct daemon *d)
{
	for (uint32_t i = 0; i < d->nr_devices; i++) {
		struct fkv_device_stats ds;
		char size[24];
		int err;

		err = fkv_device_start(d->devices[i]);
		if (err) {
			snprintf(d->err, sizeof(d->err), "cannot start a "
				 "thread for %s: %s",
				 fkv_device_path(d->devices[i]),
				 strerror(-err));
			return err;
		}
		fkv_device_get_stats(d->devices[i], &ds);
		if (*ds.engine_why)
			fkv_log(FKV_LOG_WARN, "%s: I/O by threads: %s",
				fkv_device_path(d->devices[i]),
				ds.engine_why);
		if (*ds.buffered_why)
			fkv_log(FKV_LOG_WARN, "%s: I/O is buffered: %s",
				fkv_device_path(d->devices[i]),
				ds.buffered_why);
		fkv_log(FKV_LOG_INFO, "ssd %s: %s, engine=%s direct=%s "
			"alignment=%" PRIu64 " registered_buffers=%" PRIu64,
			fkv_device_path(d->devices[i]),
			fkv_size_print(fkv_device_ring_size(d->devices[i]) *
				       FKV_SHARDS_PER_DEVICE, size,
				       sizeof(size)),
			ds.engine, ds.direct ? "yes" : "no", ds.alignment,
			ds.registered_buffers);
	}
	return 0;
}

static int start_http(struct daemon *d)
{
	int err;

	err = fkv_snapshot_create(&d->loop, d->engine, &d->snapshot);
	if (err || !d->cfg.metrics_host)
		return err;
	err = fkv_http_create(d->cfg.metrics_host,
			      (uint16_t)d->cfg.metrics_port,
			      d->cfg.metrics_dashboard, d->snapshot, &d->http,
			      d->err, sizeof(d->err));
	return err;
}

/* ---- stop ---- */

static void close_all(struct daemon *d)
{
	uv_close((uv_handle_t *)&d->stopping, NULL);
	uv_close((uv_handle_t *)&d->watchdog, NULL);
	uv_close((uv_handle_t *)&d->sigterm, NULL);
	uv_close((uv_handle_t *)&d->sigint, NULL);
	fkv_http_free(d->http);
	d->http = NULL;
	fkv_snapshot_close(d->snapshot);
	if (d->engine)
		fkv_engine_close(d->engine);
	for (uint32_t i = 0; i < d->nr_devices; i++)
		fkv_device_stop(d->devices[i]);
}

/* Who kept us waiting: one line per client that holds something. */
static void name_holders(struct daemon *d)
{
	struct fkv_client_info c;
	pid_t pid;

	for (uint64_t i = 0; fkv_engine_client(d->engine, i, &c, &pid); i++) {
		if (!c.holders && !c.open_puts)
			continue;
		fkv_log(FKV_LOG_WARN, "stopping with holders: pid=%d uid=%u "
			"holders=%" PRIu64 " open_puts=%" PRIu64
			" pinned_bytes=%" PRIu64, (int)pid, c.uid, c.holders,
			c.open_puts, c.pinned_bytes);
	}
}

static void on_stopping(uv_timer_t *t)
{
	struct daemon *d = t->data;
	bool idle = fkv_engine_idle(d->engine);

	if (!idle && fkv_clock_ns() < d->stop_by_ns)
		return;
	if (!idle)
		name_holders(d);
	uv_timer_stop(t);
	close_all(d);
}

static void stop_by(struct daemon *d, uint64_t by_ns)
{
	bool stopping = d->stop_by_ns;

	d->stop_by_ns = by_ns;
	if (stopping)
		return;
	sd_notify(0, "STOPPING=1");
	fkv_engine_stop_accept(d->engine);
	uv_timer_start(&d->stopping, on_stopping, 0, 50);
}

static void on_signal(uv_signal_t *s, int signum)
{
	struct daemon *d = s->data;

	if (d->stop_by_ns) {	/* twice: now */
		stop_by(d, 1);
		return;
	}
	fkv_log(FKV_LOG_INFO, "stopping on %s", strsignal(signum));
	stop_by(d, fkv_clock_ns() + FKV_STOP_WAIT);
}

/* Its clients would wait for ever: our end is what tells them. */
static void on_failed(void *arg)
{
	struct daemon *d = arg;

	fkv_log(FKV_LOG_ERR, "clients are not heard any more: stopping");
	d->failed = true;
	stop_by(d, 1);
}

static void on_watchdog(uv_timer_t *t)
{
	(void)t;
	sd_notify(0, "WATCHDOG=1");
}

static void close_handle(uv_handle_t *h, void *arg)
{
	(void)arg;
	uv_close(h, NULL);
}

/* Memory and descriptors of the loop, which nothing goes without. */
static int loop_init(struct daemon *d)
{
	int err = uv_loop_init(&d->loop);

	if (err)
		return err;
	err = uv_signal_init(&d->loop, &d->sigterm);
	if (!err)
		err = uv_signal_init(&d->loop, &d->sigint);
	if (!err)
		return 0;
	/* a signal handle that is not made is no handle of the loop */
	uv_walk(&d->loop, close_handle, NULL);
	uv_run(&d->loop, UV_RUN_DEFAULT);
	uv_loop_close(&d->loop);
	return err;
}

static void loop_handles(struct daemon *d)
{
	uint64_t usec = 0;

	uv_timer_init(&d->loop, &d->watchdog);
	uv_timer_init(&d->loop, &d->stopping);
	d->sigterm.data = d->sigint.data = d;
	d->stopping.data = d;
	if (sd_watchdog_enabled(0, &usec) > 0)
		uv_timer_start(&d->watchdog, on_watchdog, 0, usec / 2000);
}

static const char *metrics_address(const struct daemon *d, char *buf, size_t n)
{
	const char *host = d->cfg.metrics_host;

	snprintf(buf, n, "none");
	if (d->http)
		snprintf(buf, n, strchr(host, ':') ? "[%s]:%u" : "%s:%u", host,
			 fkv_http_port(d->http));
	return buf;
}

/* Where clients find it. */
static const char *address(const struct daemon *d, char *buf, size_t n)
{
	if (d->owner_fd >= 0)
		snprintf(buf, n, "dev:%s", d->cfg.device_instance);
	else
		snprintf(buf, n, "unix:%s", d->cfg.socket);
	return buf;
}

static int serve(struct daemon *d)
{
	char at[160];
	int err;

	d->err[0] = '\0';
	err = fkv_engine_serve(d->engine);
	if (err && !d->err[0])
		snprintf(d->err, sizeof(d->err), "cannot serve clients at %s: "
			 "%s", address(d, at, sizeof(at)), strerror(-err));
	return err;
}

static void say_ready(struct daemon *d)
{
	char size[24], metrics[96], at[160];

	metrics_address(d, metrics, sizeof(metrics));
	address(d, at, sizeof(at));
	if (d->cfg.role == FKV_ROLE_MASTER)
		fkv_log(FKV_LOG_INFO, "fluxonkvd %s ready: role=master "
			"address=%s listen=%s epoch=%" PRIu64 " metrics=%s",
			FKV_VERSION, at, d->cfg.listen,
			fkv_engine_epoch(d->engine), metrics);
	else
		fkv_log(FKV_LOG_INFO, "fluxonkvd %s ready: address=%s "
			"memory=%s ssd_devices=%u metrics=%s%s%s", FKV_VERSION,
			at, fkv_size_print(d->cfg.memory, size, sizeof(size)),
			d->nr_devices, metrics,
			d->cfg.master ? " master=" : "",
			d->cfg.master ? d->cfg.master : "");
}

static void ready(struct daemon *d)
{
	say_ready(d);
	sd_notify(0, "READY=1");
}

/* The device? "auto" becomes what can be had, said once. */
static bool choose_device(struct fkv_config *cfg)
{
	int err;

	if (cfg->backend != FKV_BACKEND_AUTO)
		return cfg->backend == FKV_BACKEND_DEVICE;
	err = fkv_kdev_probe();
	if (err && err != -ENOENT)
		fkv_log(FKV_LOG_INFO, "backend: the socket; the device cannot "
			"be owned: %s", strerror(-err));
	cfg->backend = err ? FKV_BACKEND_UNIX : FKV_BACKEND_DEVICE;
	return !err;
}

static int bind_device(struct daemon *d)
{
	struct fkv_kdev_config kc = {
		.instance = d->cfg.device_instance,
		.incarnation = d->incarnation,
		.client_cap = d->cfg.client_pinned_bytes,
		.uid_cap = d->cfg.uid_pinned_bytes,
		.clients_max = d->clients_max,
		.strict = d->cfg.strict_reads,
	};
	int fd = fkv_kdev_bind(&kc, d->err, sizeof(d->err));

	if (fd < 0)
		return fd;
	d->owner_fd = fd;
	return 0;
}

/* The name, so that no second daemon serves it; and the epoch beside it. */
static int take_name(struct daemon *d)
{
	const char *slash = strrchr(d->cfg.socket, '/');
	int n, err = 0;

	if (choose_device(&d->cfg)) {
		err = bind_device(d);
		/* one that nobody serves would be taken for the way in */
		fkv_lockfile_clear(d->cfg.socket);
		n = snprintf(d->lock_path, sizeof(d->lock_path),
			     "%.*s/dev-%s", slash ?
			     (int)(slash - d->cfg.socket) : 1, slash ?
			     d->cfg.socket : ".", d->cfg.device_instance);
	} else {
		n = snprintf(d->lock_path, sizeof(d->lock_path), "%s",
			     d->cfg.socket);
	}
	if (!err && (n < 0 || (size_t)n >= sizeof(d->lock_path)))
		err = -ENAMETOOLONG;
	return err ? err : fkv_lockfile_take(d->lock_path, &d->lock, d->err,
					     sizeof(d->err));
}

/* A master's epochs go on over restarts: one directory, one master. */
static int take_store(struct daemon *d)
{
	char path[PATH_MAX];
	int n;

	if (d->cfg.role != FKV_ROLE_MASTER)
		return 0;
	if (mkdir(d->cfg.state_dir, 0700) && errno != EEXIST) {
		snprintf(d->err, sizeof(d->err), "state_dir: cannot make %s: "
			 "%s", d->cfg.state_dir, strerror(errno));
		return -errno;
	}
	n = snprintf(path, sizeof(path), "%s/master-%s", d->cfg.state_dir,
		     d->cfg.cluster_name);
	if (n < 0 || (size_t)n >= sizeof(path))
		return -ENAMETOOLONG;
	return fkv_lockfile_take(path, &d->store, d->err, sizeof(d->err));
}

static int read_key(struct daemon *d)
{
	char err[ERR_SIZE - 32];
	int res;

	if (!d->cfg.cluster_key_file)
		return 0;
	res = fkv_rpc_key_read(d->cfg.cluster_key_file, d->key, err,
			       sizeof(err));
	if (res)
		snprintf(d->err, sizeof(d->err), "cluster_key_file: %s", err);
	return res;
}

static int create_engine(struct daemon *d)
{
	struct fkv_engine_config ec = {
		.cfg = &d->cfg,
		.loop = &d->loop,
		.segment = d->segment,
		.owner_fd = d->owner_fd,
		.devices = d->devices,
		.nr_devices = d->nr_devices,
		.shards_per_device = FKV_SHARDS_PER_DEVICE,
		.epoch = fkv_lockfile_epoch(d->lock),
		.store = d->store,
		.key = d->cfg.cluster_key_file ? d->key : NULL,
		.incarnation = d->incarnation,
		.started_ns = fkv_clock_ns(),
		.clients_max = d->clients_max,
		.err = d->err,
		.err_size = sizeof(d->err),
		.failed = on_failed,
		.arg = d,
	};

	return fkv_engine_create(&ec, &d->engine);
}

static int start(struct daemon *d)
{
	int err;

	if (getrandom(&d->incarnation, sizeof(d->incarnation), 0) !=
	    sizeof(d->incarnation))
		return -EIO;
	/* a client of the device costs no descriptor */
	d->clients_max = choose_device(&d->cfg) ? FKV_CLIENTS_MAX :
		fkv_preflight_clients();
	err = fkv_preflight(&d->cfg, d->err, sizeof(d->err));
	if (!err)
		err = read_key(d);
	if (!err)
		err = take_name(d);
	if (!err)
		err = take_store(d);
	if (!err)
		err = open_segment(d);
	if (!err)
		err = open_devices(d);
	if (!err)
		err = create_engine(d);
	if (!err)
		err = start_devices(d);
	if (!err)
		err = start_http(d);
	return err;
}

static void finish(struct daemon *d, bool clean)
{
	if (d->engine)
		fkv_engine_free(d->engine);
	fkv_snapshot_free(d->snapshot);
	for (uint32_t i = 0; i < d->nr_devices; i++)
		fkv_device_close(d->devices[i]);
	fkv_segment_free(d->segment);
	if (d->owner_fd >= 0)
		close(d->owner_fd);
	fkv_lockfile_release(d->store, clean);
	fkv_lockfile_release(d->lock, clean);
	explicit_bzero(d->key, sizeof(d->key));
	fkv_config_done(&d->cfg);
}

/* It failed, or was told to stop before it served. */
static int not_started(struct daemon *d, int err)
{
	if (stop_early)
		fkv_log(FKV_LOG_INFO, "stopped on %s before it served",
			strsignal(stop_early));
	else
		fail(d, err);
	close_all(d);
	uv_run(&d->loop, UV_RUN_DEFAULT);
	finish(d, true);
	uv_loop_close(&d->loop);
	return stop_early ? EXIT_SUCCESS : EXIT_FAILURE;
}

static int run(struct daemon *d)
{
	int err;

	fkv_log_set_level(d->cfg.log_level);
	signal(SIGPIPE, SIG_IGN);
	err = loop_init(d);
	if (err) {
		snprintf(d->err, sizeof(d->err), "no event loop: %s",
			 uv_strerror(err));
		fail(d, err);
		fkv_config_done(&d->cfg);
		return EXIT_FAILURE;
	}
	loop_handles(d);
	catch_early();
	err = start(d);
	if (!err && !stop_early)
		fkv_lockfile_wait(d->lock);
	/* from here on the loop takes them; what came before is in the flag */
	uv_signal_start(&d->sigterm, on_signal, SIGTERM);
	uv_signal_start(&d->sigint, on_signal, SIGINT);
	if (!err && !stop_early)
		err = serve(d);
	if (err || stop_early)
		return not_started(d, err);
	ready(d);
	uv_run(&d->loop, UV_RUN_DEFAULT);
	finish(d, true);
	uv_loop_close(&d->loop);
	fkv_log(FKV_LOG_INFO, "stopped");
	return d->failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
	struct daemon *d = fkv_zalloc(sizeof(*d));
	int res = EXIT_SUCCESS;

	if (!d) {
		fprintf(stderr, "fluxonkvd: out of memory\n");
		return EXIT_FAILURE;
	}
	d->owner_fd = -1;
	switch (fkv_config_load(argc, argv, &d->cfg, d->err,
				sizeof(d->err))) {
	case FKV_CONFIG_RUN:
		res = run(d);
		break;
	case FKV_CONFIG_EXIT:
		fkv_config_done(&d->cfg);
		break;
	case FKV_CONFIG_BAD:
		fprintf(stderr, "fluxonkvd: %s\n", d->err);
		fkv_config_done(&d->cfg);
		res = 2;
		break;
	}
	fkv_free(d);
	return res;
}
