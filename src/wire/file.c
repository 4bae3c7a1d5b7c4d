/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/file.h"

SNP_RECORD_DEFINE(snp_put_request, "put", SNP_PUT_REQUEST, .tag = "method");
SNP_RECORD_DEFINE(snp_put_answer, "put", SNP_PUT_ANSWER);
SNP_RECORD_DEFINE(snp_get_request, "get", SNP_GET_REQUEST, .tag = "method");
SNP_RECORD_DEFINE(snp_get_answer, "get", SNP_GET_ANSWER);
SNP_RECORD_DEFINE(snp_ls_request, "ls", SNP_LS_REQUEST, .tag = "method");
SNP_RECORD_DEFINE(snp_ls_entry, "ls.entries", SNP_LS_ENTRY);
SNP_RECORD_DEFINE(snp_ls_answer, "ls", SNP_LS_ANSWER);
SNP_RECORD_DEFINE(snp_output_request, "output", SNP_OUTPUT_REQUEST, .tag = "method");
SNP_RECORD_DEFINE(snp_output_answer, "output", SNP_OUTPUT_ANSWER);
SNP_RECORD_DEFINE(snp_blob_request, "blob", SNP_BLOB_REQUEST, .tag = "method");
SNP_RECORD_DEFINE(snp_blob_answer, "blob", SNP_BLOB_ANSWER);
