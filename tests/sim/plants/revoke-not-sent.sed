# SPDX-License-Identifier: Apache-2.0
# what: a fetch that failed is not told to the master
# file: daemon/core/owner/fetch.c
# breaks: (4) (10) (11) (!)
# seeds: 500
/^static void revoke(/,/^}/s/fkv_out_send(out, FKV_MSG_GET_REVOKE);/fkv_out_send(out, FKV_MSG_SSD_STATE);/
