// SPDX-License-Identifier: Apache-2.0
#include "msg.h"

void fkv_msg_done(struct fkv_msg *msg)
{
	fkv_key_put(msg->key);
	fkv_key_put(msg->key2);
	fkv_listing_free(msg->listing);
	msg->key = NULL;
	msg->key2 = NULL;
	msg->listing = NULL;
}
