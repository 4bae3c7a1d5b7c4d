/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_STORE_SCHEMA_H
#define SNP_STORE_SCHEMA_H

/* The schema of the store's database. */

#include "base/db/db.h"

enum {
    SNP_STORE_VERSION = 4 /* of the schema this program writes */
};

/* Migrate the schema to SNP_STORE_VERSION in one transaction. An empty database gets it. */
int snp_schema_migrate(struct snp_db *db, struct snp_err *err) SNP_NODISCARD;
/* The statements that create a database of version 1, for tests. */
extern const char *const snp_schema_v1;

#endif
