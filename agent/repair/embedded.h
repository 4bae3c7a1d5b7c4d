/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_REPAIR_EMBEDDED_H
#define SNP_REPAIR_EMBEDDED_H

/* Programs for inside, made by tools/embed. */

#include <stddef.h>

extern const char snp_judge_py[]; /* judge.py */
extern const size_t snp_judge_py_len;
extern const char snp_findings_py[]; /* findings.py */
extern const size_t snp_findings_py_len;
extern const char snp_alter_py[]; /* alter.py */
extern const size_t snp_alter_py_len;
extern const char snp_alter_js[]; /* alter.js */
extern const size_t snp_alter_js_len;
extern const char snp_cover_py[]; /* cover.py */
extern const size_t snp_cover_py_len;
extern const char snp_report_py[]; /* report.py */
extern const size_t snp_report_py_len;
extern const char snp_report_mjs[]; /* report.mjs */
extern const size_t snp_report_mjs_len;
extern const char snp_watch_cjs[]; /* watch.cjs */
extern const size_t snp_watch_cjs_len;
extern const char snp_script_js[]; /* script.js */
extern const size_t snp_script_js_len;
extern const char snp_grade_py[]; /* grade.py */
extern const size_t snp_grade_py_len;
extern const char snp_risk_py[]; /* risk.py */
extern const size_t snp_risk_py_len;
/* of agent/ground */
/* clang-format off */
#define SNP_GROUND_FILES(F) \
    F(ground) F(ground_names) F(ground_values) F(ground_world) \
    F(script) F(script_names) F(script_tree) F(script_values) F(script_world) F(script_known) \
    F(units) F(unit_names) F(unit_world) F(unit_known)
/* clang-format on */
#define SNP_GROUND_DECLARE(name)         \
    extern const char snp_##name##_py[]; \
    extern const size_t snp_##name##_py_len;
SNP_GROUND_FILES(SNP_GROUND_DECLARE)
extern const char snp_risk_rules[]; /* risk.rules */
extern const size_t snp_risk_rules_len;

#endif
