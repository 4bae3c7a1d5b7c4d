/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/result.h"

void snp_result_labels(const json_t *line, const char **ret_people, const char **ret_models)
{
    const char *member = snp_json_str(line, "member", "");
    const char *part = snp_json_str(line, "part", NULL);
    const struct snp_field *field = snp_record_field(&snp_result_form, member);

    field = field != NULL ? field : snp_record_field(&snp_result_added_form, member);
    *ret_models = field->models;
    field = part == NULL ? field : snp_record_field(field->of, part);
    *ret_people = field->people != NULL ? field->people : field->name;
}
