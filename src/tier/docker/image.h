/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_TIER_DOCKER_IMAGE_H
#define SNP_TIER_DOCKER_IMAGE_H

/*
 * tier-docker --image FILE: pull or build the image described by the JSON in FILE, from
 * base/session/image.c. Prints progress to standard error, and the answer to standard output: an
 * error with the end of the build's log, or none. Returns the exit status.
 */
int snp_docker_image_main(const char *file);

#endif
