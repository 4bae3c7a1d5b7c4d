/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records read into structs by their tables. Input: the number of a form, then JSON. Anything can
 * be read; what passes the check and is written again passes it again.
 */
#include <string.h>

#include "base/wire/exec.h"
#include "base/wire/methods.h"
#include "fuzz/target.h"

/* Those of a method are two: the request and the answer. */
static const struct snp_record *form_of(uint8_t number)
{
    const struct snp_method_form *method = &snp_methods[number / 2 % SNP_METHODS_N];

    return number == UINT8_MAX                         ? &snp_exec_policy_form
           : number % 2 == 0 || method->answer == NULL ? method->request
                                                       : method->answer;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    static union {
        max_align_t align;
        char bytes[1024];
    } read;
    const struct snp_record *form = n == 0 ? NULL : form_of(bytes[0]);
    snp_autojson json_t *object = NULL;
    snp_autojson json_t *again = NULL;
    struct snp_err err = {0};

    if (form == NULL || snp_json_parse((const char *)bytes + 1, n - 1, &object, &err) < 0) {
        return 0;
    }
    SNP_ASSERT(form->size <= sizeof(read));
    snp_record_read(object, form, &read);
    if (snp_record_check(object, form, &err) < 0) {
        SNP_ASSERT(err.msg[0] != '\0');
        return 0;
    }
    again = snp_record_write(form, &read);
    SNP_ASSERT(again != NULL && snp_record_check(again, form, &err) == 0);
    return 0;
}
