# SPDX-License-Identifier: Apache-2.0
# what: a put is committed though its copy failed
# file: daemon/core/owner/put.c
# breaks: (1)
# seeds: 300
s/if (res || put->aborted)/if (put->aborted)/
