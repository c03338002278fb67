/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * compat.h - what differs between kernels from 5.15 on, found out by features
 */
#ifndef FKV_KMOD_COMPAT_H
#define FKV_KMOD_COMPAT_H

#include <linux/mm.h>
#include <linux/version.h>

/* vm_flags are written by helpers from 6.3 on, where they are const */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 3, 0)
#define fkv_vm_flags_set(vma, f)	((vma)->vm_flags |= (f))
#define fkv_vm_flags_clear(vma, f)	((vma)->vm_flags &= ~(f))
#else
#define fkv_vm_flags_set(vma, f)	vm_flags_set(vma, f)
#define fkv_vm_flags_clear(vma, f)	vm_flags_clear(vma, f)
#endif

/* folios are of 5.16, and have the index alone later */
#if LINUX_VERSION_CODE < KERNEL_VERSION(5, 16, 0)
#define fkv_page_clear_index(page)	((page)->index = 0)
#else
#define fkv_page_clear_index(page)	(page_folio(page)->index = 0)
#endif

#endif
