/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_TIER_DOCKER_IMAGE_H
#define SNP_TIER_DOCKER_IMAGE_H

/*
 * tier-docker --image FILE: get the image that the JSON in FILE names, as cli/setup/image.c writes
 * it. Progress goes to standard error; what went wrong, with the end of the build's log, is the
 * answer on standard output. The exit status.
 */
int snp_docker_image_main(const char *file);

#endif
