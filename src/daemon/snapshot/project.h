/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_DAEMON_SNAPSHOT_PROJECT_H
#define SNP_DAEMON_SNAPSHOT_PROJECT_H

/* Where a project is a copy: the snapshot of it as it was copied. */

struct snp_session;

/*
 * The session is IDLE, and nothing has run in it. If its workspace is a copy of a project, the
 * snapshot SNP_SNAPSHOT_PROJECT is taken, to disk, before the first cell; else nothing happens.
 * Without room on the disk the session goes on, and its log says that there is none.
 */
void snp_snapshot_project(struct snp_session *session);

#endif
