/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier-docker: runs sandboxes in containers.
 *
 *   tier-docker --state DIR      serve the tier protocol on descriptor 3
 *   tier-docker --image FILE     get an image: see image.h
 */
#include "base/str.h"
#include "tier/docker/docker.h"
#include "tier/docker/image.h"
#include "tier/engine/program.h"

int main(int argc, char **argv)
{
    static struct snp_docker docker;

    if (argc == 3 && snp_streq(argv[1], "--image")) {
        return snp_docker_image_main(argv[2]);
    }
    return snp_tier_main(argc, argv, &snp_docker_ops, &docker);
}
