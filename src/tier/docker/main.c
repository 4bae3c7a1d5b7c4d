/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier-docker: the program that runs sandboxes in containers.
 *
 *   tier-docker --state DIR      serve the tier protocol on descriptor 3
 */
#include "tier/docker/docker.h"
#include "tier/engine/program.h"

int main(int argc, char **argv)
{
    static struct snp_docker docker;

    return snp_tier_main(argc, argv, &snp_docker_ops, &docker);
}
