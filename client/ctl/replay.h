/* SPDX-License-Identifier: Apache-2.0 */
/* `dlo-ctl replay`: plays trace files through the policy engine, or through a running daemon, and
 * prints, checks or compares the answers. Needs no daemon and no device unless --live is given. */
#pragma once

/* argv[0] is "replay". Exit status: 0; 1 a difference or a file that is not right; 2 wrong usage,
 * or --check had nothing to compare. */
int ctl_replay(int argc, char **argv);
