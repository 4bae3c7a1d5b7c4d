/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_TIER_HOST_IMAGE_H
#define SNP_TIER_HOST_IMAGE_H

/*
 * Images of templates, STATE/images/KEY.image: written by an idle template, and used instead of
 * imports at its next start. The key covers a template's arguments, the kernel and the processor;
 * imported files are checked when it is read (guest/thaw).
 */

#include <stdbool.h>
#include <stdint.h>

struct snp_supervisor;

/*
 * Open an image for reading, with its age; -1: none, or none that can be trusted (logged and
 * reported by `doctor`). args are the launcher's and identify the template.
 */
int snp_template_image_open(struct snp_supervisor *supervisor,
                            const char *template_name,
                            char *const *args,
                            uint64_t *ret_age_s);

/* Record for `doctor` why the last image was not written or used; "" = no problem. */
void snp_template_image_trouble(struct snp_supervisor *supervisor,
                                const char *name,
                                const char *why);

/* A template failed to start from its image: remove it. */
void snp_template_image_remove(const struct snp_supervisor *supervisor, char *const *args);

/*
 * Have the zygote behind control_fd write an image, and a worker store it; name is for the log. One
 * at a time: false = not now.
 */
bool snp_template_image_make(struct snp_supervisor *supervisor,
                             const char *name,
                             char *const *args,
                             int control_fd);

/* Run the loop until the current image is stored or dropped. */
void snp_template_image_wait(struct snp_supervisor *supervisor);

#endif
