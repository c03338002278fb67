// SPDX-License-Identifier: Apache-2.0
/*
 * fuzz_cluster.c - messages between hosts
 *
 * What decodes is in range, or it could not be encoded; encoded and decoded
 * again it is encoded to the same bytes.
 */
#include "wire/cluster.h"

#include "fuzz/fuzz.h"

#define NOW	(100 * FKV_SEC)

static size_t encode(const struct fkv_cluster_msg *m, uint8_t *buf)
{
	size_t len;

	fuzz_check(!fkv_cluster_encode(m, NOW, buf, FKV_CLUSTER_BYTES_MAX,
				       &len));
	return len;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint8_t first[FKV_CLUSTER_BYTES_MAX];
	static uint8_t second[FKV_CLUSTER_BYTES_MAX];
	struct fkv_cluster_msg m, again;
	uint8_t *copy = fuzz_copy(data, size);
	const char *why = NULL;
	size_t len;
	int err;

	err = fkv_cluster_decode(copy, size, NOW, &m, &why);
	if (!err) {
		len = encode(&m, first);
		fuzz_check(!fkv_cluster_decode(first, len, NOW, &again, &why));
		fuzz_check(again.type == m.type);
		fuzz_check(encode(&again, second) == len);
		fuzz_check(!memcmp(first, second, len));
		fkv_cluster_msg_done(&again);
		fkv_cluster_msg_done(&m);
	} else {
		fuzz_check(why);
		fuzz_check(err == -EPROTO || err == -EPROTONOSUPPORT ||
			   err == -E2BIG || err == -EINVAL);
	}
	free(copy);
	return 0;
}
