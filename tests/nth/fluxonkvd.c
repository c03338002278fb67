// SPDX-License-Identifier: Apache-2.0
/*
 * fluxonkvd.c - the daemon as a function, for a test that starts it
 */
int fluxonkvd_main(int argc, char **argv);
#define main fluxonkvd_main
#include "svc/main.c"
