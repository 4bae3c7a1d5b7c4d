/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_DAEMON_SNAPSHOT_PROJECT_H
#define SNP_DAEMON_SNAPSHOT_PROJECT_H

/* The snapshot of a project, as copied into the workspace. */

struct snp_session;

/*
 * The session is IDLE, and no cell has run in it. If its workspace is a copy of a project, take the
 * snapshot SNP_SNAPSHOT_PROJECT, on disk, before the first cell; else do nothing. If the disk is
 * full the session continues, and its log reports that there is no snapshot.
 */
void snp_snapshot_project(struct snp_session *session);

#endif
