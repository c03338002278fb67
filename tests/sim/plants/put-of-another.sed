# SPDX-License-Identifier: Apache-2.0
# what: a client may name another client's put
# file: daemon/core/owner/put.c
# breaks: (2) (9) (!)
# seeds: 300
s/ || put->client->id != it->call->client//
