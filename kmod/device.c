// SPDX-License-Identifier: GPL-2.0-only
/*
 * device.c - the two device nodes, and a client's open file
 */
#include <linux/cred.h>
#include <linux/fs_context.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/mount.h>
#include <linux/pseudo_fs.h>
#include <linux/uaccess.h>
#include <linux/user_namespace.h>

#include "internal.h"
#include "user.h"

#define FKV_FS_MAGIC	0x464c5558

/* Structs versioned by their size: what the caller knows, and no more. */
int fkv_struct_in(void *dst, size_t size, size_t min, const void __user *arg)
{
	u32 theirs;

	if (get_user(theirs, (const u32 __user *)arg))
		return -EFAULT;
	if (theirs < min || theirs > PAGE_SIZE)
		return -EINVAL;
	return copy_struct_from_user(dst, size, arg, theirs);
}

int fkv_struct_out(void __user *arg, const void *src, size_t size)
{
	u32 theirs = *(const u32 *)src;

	return copy_to_user(arg, src, min_t(size_t, size, theirs)) ?
		-EFAULT : 0;
}

long fkv_features(void __user *arg)
{
	struct fluxonkv_features f;
	int err = fkv_struct_in(&f, sizeof(f), sizeof(f), arg);

	if (err)
		return err;
	f.abi = FLUXONKV_ABI_VERSION;
	f.features = FLUXONKV_FEATURE_TRACE | FLUXONKV_FEATURE_NETLINK;
	fkv_segment_usage(&f.pinned, &f.pinned_max);
	return fkv_struct_out(arg, &f, sizeof(f));
}

/* ---- an inode for each open file, so that it has mappings of its own ---- */

static struct vfsmount *mount;

static int fs_init(struct fs_context *fc)
{
	return init_pseudo(fc, FKV_FS_MAGIC) ? 0 : -ENOMEM;
}

/* never registered: nobody else can mount it, so it needs no owner */
static struct file_system_type pseudo_fs = {
	.name = "fluxonkv",
	.init_fs_context = fs_init,
	.kill_sb = kill_anon_super,
};

struct inode *fkv_inode_create(void)
{
	struct inode *inode = alloc_anon_inode(mount->mnt_sb);

	if (!IS_ERR(inode))
		i_size_write(inode, MAX_LFS_FILESIZE);
	return inode;
}

/* ---- sessions ---- */

static atomic64_t last_session;

static int session_open(struct inode *node, struct file *file)
{
	struct fkv_session *s = kzalloc(sizeof(*s), FKV_GFP);

	if (!s)
		return -ENOMEM;
	s->inode = fkv_inode_create();
	if (IS_ERR(s->inode)) {
		int err = PTR_ERR(s->inode);

		kfree(s);
		return err;
	}
	mutex_init(&s->attach);
	init_rwsem(&s->window);
	fkv_holders_init(&s->holders);
	xa_init(&s->puts);
	INIT_LIST_HEAD(&s->requests);
	INIT_LIST_HEAD(&s->active);
	file->f_mapping = s->inode->i_mapping;
	file->private_data = s;
	return 0;
}

/* Under sessions_lock: the account of a user, with one session more. */
static struct fkv_uid *uid_get(struct fkv_instance *inst, kuid_t uid)
{
	struct fkv_uid *u;

	list_for_each_entry(u, &inst->uids, link) {
		if (uid_eq(u->uid, uid)) {
			u->sessions++;
			return u;
		}
	}
	u = kzalloc(sizeof(*u), FKV_GFP);
	if (!u)
		return NULL;
	u->uid = uid;
	u->sessions = 1;
	list_add(&u->link, &inst->uids);
	return u;
}

static void uid_put(struct fkv_uid *u)
{
	if (--u->sessions)
		return;
	list_del(&u->link);
	kfree(u);
}

/* Both may be done at the same time, when the owner is gone. */
static void told(struct fkv_session *s)
{
	if (refcount_dec_and_test(&s->told))
		kfree(s);
}

static void up_done(struct fkv_message *msg)
{
	told(container_of(msg, struct fkv_session, up));
}

static void gone_done(struct fkv_message *msg)
{
	told(container_of(msg, struct fkv_session, gone));
}

static void messages_init(struct fkv_session *s)
{
	refcount_set(&s->told, 2);
	s->up.type = FLUXONKV_MESSAGE_CLIENT;
	s->up.client = s->id;
	s->up.uid = from_kuid_munged(&init_user_ns, s->kuid);
	s->up.pid = s->pid;
	s->up.done = up_done;
	s->gone.type = FLUXONKV_MESSAGE_GONE;
	s->gone.client = s->id;
	s->gone.done = gone_done;
}

/* Into the instance's list; it is told, and asked by nobody before that. */
static int session_join(struct fkv_session *s, struct fkv_instance *inst)
{
	int err = 0;

	mutex_lock(&inst->sessions_lock);
	if (READ_ONCE(inst->dead))
		err = -EADDRNOTAVAIL;
	else if (inst->nr_sessions >= inst->clients_max)
		err = -EUSERS;
	else
		s->uid = uid_get(inst, s->kuid);
	if (!err && !s->uid)
		err = -ENOMEM;
	if (!err) {
		inst->nr_sessions++;
		list_add_tail(&s->link, &inst->sessions);
		fkv_queue_message(inst, &s->up);
		/* pairs with the loads in ioctl and mmap */
		smp_store_release(&s->inst, inst);
	}
	mutex_unlock(&inst->sessions_lock);
	return err;
}

void fkv_session_tell(struct fkv_session *s, struct fluxonkv_client *ret)
{
	*ret = (struct fluxonkv_client){
		.client = s->id,
		.pinned_bytes = atomic64_read(&s->pinned),
		.holders = READ_ONCE(s->holders.nr),
		.uid = from_kuid_munged(&init_user_ns, s->kuid),
		.pid = s->pid,
	};
}

static int session_attach(struct fkv_session *s, const char *name)
{
	struct fkv_instance *inst;
	int err;

	if (s->inst)
		return -EBADFD;
	err = fkv_instance_find(name, &inst);
	if (err)
		return err;
	s->id = atomic64_inc_return(&last_session);
	s->kuid = current_euid();
	s->pid = task_tgid_nr(current);
	s->since_ns = ktime_get_coarse_ns();
	messages_init(s);
	err = session_join(s, inst);
	if (err)
		fkv_instance_put(inst);
	else
		fkv_netlink_event(inst, FLUXONKV_EVENT_CLIENT, s);
	return err;
}

static long ioctl_attach(struct fkv_session *s, void __user *arg)
{
	struct fluxonkv_attach a;
	struct fkv_instance *inst;
	int err = fkv_struct_in(&a, sizeof(a), sizeof(a), arg);

	if (err)
		return err;
	if (a.flags || strnlen(a.name, sizeof(a.name)) == sizeof(a.name))
		return -EINVAL;
	mutex_lock(&s->attach);
	err = session_attach(s, a.name);
	mutex_unlock(&s->attach);
	if (err)
		return err;
	inst = s->inst;
	strscpy(a.name, inst->name, sizeof(a.name));
	a.hello = (struct fluxonkv_hello){
		.abi = FLUXONKV_ABI_VERSION,
		.flags = FLUXONKV_HELLO_WRITABLE |
			 (inst->strict ? FLUXONKV_HELLO_STRICT : 0),
		.incarnation = inst->incarnation,
		.client = s->id,
		.segment_bytes = inst->seg.bytes,
		.client_cap_bytes = inst->client_cap,
	};
	return fkv_struct_out(arg, &a, sizeof(a));
}

/* The same as fkv_struct_in(), faster for whoever knows this struct. */
static int call_in(struct fluxonkv_call *c, const void __user *arg)
{
	BUILD_BUG_ON(sizeof(*c) % 8);
	if (!fkv_words_in((u64 *)c, arg, sizeof(*c)))
		return fkv_struct_in(c, sizeof(*c), sizeof(*c), arg);
	return c->size == sizeof(*c) ? 0 :
		fkv_struct_in(c, sizeof(*c), sizeof(*c), arg);
}

static long ioctl_call(struct fkv_session *s, void __user *arg)
{
	struct fluxonkv_call c;
	int err;

	if (!smp_load_acquire(&s->inst))
		return -EBADFD;
	err = call_in(&c, arg);
	if (err)
		return err;
	if (c.flags || c.zero || c.nr_release > FLUXONKV_BATCH_MAX)
		return -EINVAL;
	c.reply_size = 0;
	c.released = 0;
	return fkv_call(s, &c, arg);
}

static long session_ioctl(struct file *file, unsigned int cmd,
			  unsigned long arg)
{
	struct fkv_session *s = file->private_data;
	void __user *at = (void __user *)arg;

	switch (cmd) {
	case FLUXONKV_IOC_CALL:
		return ioctl_call(s, at);
	case FLUXONKV_IOC_FEATURES:
		return fkv_features(at);
	case FLUXONKV_IOC_ATTACH:
		return ioctl_attach(s, at);
	default:
		return -ENOTTY;
	}
}

/* The last reference is gone: no mapping, no call in progress is left. */
static int session_release(struct inode *node, struct file *file)
{
	struct fkv_session *s = file->private_data;
	struct fkv_instance *inst = s->inst;

	if (!inst) {
		iput(s->inode);
		kfree(s);
		return 0;
	}
	fkv_put_shut_all(s);
	/* before its holders go: a dump of them finds it no more */
	mutex_lock(&inst->sessions_lock);
	list_del(&s->link);
	mutex_unlock(&inst->sessions_lock);
	fkv_holder_del_all(s);
	xa_destroy(&s->puts);
	fkv_holders_done(&s->holders);
	kvfree(s->spare);
	fkv_netlink_event(inst, FLUXONKV_EVENT_CLIENT_GONE, s);
	mutex_lock(&inst->sessions_lock);
	inst->nr_sessions--;
	uid_put(s->uid);
	mutex_unlock(&inst->sessions_lock);
	iput(s->inode);
	fkv_queue_message(inst, &s->gone);
	fkv_instance_put(inst);
	return 0;
}

const struct file_operations fkv_session_fops = {
	.owner = THIS_MODULE,
	.open = session_open,
	.release = session_release,
	.unlocked_ioctl = session_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
	.mmap = fkv_session_mmap,
#ifdef CONFIG_TRANSPARENT_HUGEPAGE
	.get_unmapped_area = thp_get_unmapped_area,
#endif
	.llseek = noop_llseek,
};

static struct miscdevice client_node = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "fluxonkv",
	.fops = &fkv_session_fops,
	.mode = 0660,
};

static struct miscdevice owner_node = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "fluxonkv-owner",
	.fops = &fkv_owner_fops,
	.mode = 0600,
};

static int __init nodes_init(void)
{
	int err = misc_register(&owner_node);

	if (err)
		return err;
	err = misc_register(&client_node);
	if (err)
		misc_deregister(&owner_node);
	return err;
}

static int __init fkv_init(void)
{
	int err;

	BUILD_BUG_ON(sizeof(long) != 8);
	mount = kern_mount(&pseudo_fs);
	if (IS_ERR(mount))
		return PTR_ERR(mount);
	err = fkv_netlink_init();
	if (err)
		goto err_mount;
	err = nodes_init();
	if (err)
		goto err_netlink;
	return 0;

err_netlink:
	fkv_netlink_exit();
err_mount:
	kern_unmount(mount);
	return err;
}

static void __exit fkv_exit(void)
{
	misc_deregister(&client_node);
	misc_deregister(&owner_node);
	fkv_netlink_exit();
	rcu_barrier();
	kern_unmount(mount);
}

module_init(fkv_init);
module_exit(fkv_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("FluxonKV: pinned segments, a local index and holders");
MODULE_VERSION(FKV_VERSION);
