/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_TIER_HOST_IMAGE_H
#define SNP_TIER_HOST_IMAGE_H

/*
 * Images of templates, STATE/images/KEY.image: written by a template when nobody waits for it, and
 * used instead of importing when it is started the next time. The key covers how a template is
 * started, the kernel and the processor; what was imported is checked inside (guest/thaw).
 */

#include <stdbool.h>
#include <stdint.h>

struct snp_supervisor;

/*
 * To be read, and how old it is; -1: there is none, or none that can be trusted, which is said
 * in the log and to `doctor`. args are the launcher's, and are what tells templates apart.
 */
int snp_template_image_open(struct snp_supervisor *supervisor,
                            const char *template_name,
                            char *const *args,
                            uint64_t *ret_age_s);

/* Why none was written or used last, for `doctor`; "" = nothing is wrong. */
void snp_template_image_trouble(struct snp_supervisor *supervisor,
                                const char *name,
                                const char *why);

/* A template did not come up from it. */
void snp_template_image_remove(const struct snp_supervisor *supervisor, char *const *args);

/*
 * Have the zygote behind control_fd write one, and a worker keep it; name is for the log. One at a
 * time: false = not now.
 */
bool snp_template_image_make(struct snp_supervisor *supervisor,
                             const char *name,
                             char *const *args,
                             int control_fd);

/* Run the loop until the image that is being written is kept or given up. */
void snp_template_image_wait(struct snp_supervisor *supervisor);

#endif
