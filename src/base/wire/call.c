/* SPDX-License-Identifier: Apache-2.0 */
#include "base/wire/call.h"

#include <stdlib.h>

void snp_reply_done(struct snp_reply *reply)
{
    json_decref(reply->head);
    free(reply->raw);
    *reply = (struct snp_reply){0};
}
