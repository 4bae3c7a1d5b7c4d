/* SPDX-License-Identifier: Apache-2.0 */
/* The list of sandboxes. */
#include "tier/engine/sandbox.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "tier/engine/supervisor.h"

void snp_sandbox_spec_done(struct snp_sandbox_spec *spec)
{
    snp_python_done(&spec->python);
    free(SNP_TAKE_PTR(spec->project));
    free(SNP_TAKE_PTR(spec->env));
    free(SNP_TAKE_PTR(spec->instead_of));
}

int snp_sandbox_spec_copy(const struct snp_sandbox_spec *spec, struct snp_sandbox_spec *ret)
{
    *ret = *spec;
    ret->id[0] = '\0';
    ret->env = ret->instead_of = NULL;
    ret->env_len = 0;
    ret->project = spec->project == NULL ? NULL : strdup(spec->project);
    if (snp_python_copy(&spec->python, &ret->python) < 0 ||
        (spec->project != NULL && ret->project == NULL)) {
        snp_sandbox_spec_done(ret);
        return -1;
    }
    return 0;
}

/* Ids are random hex digits, so a few of them are hash enough. */
static struct snp_sandbox **chain(struct snp_supervisor *supervisor, const char *id)
{
    uint32_t hash = 0;

    for (size_t i = 0; i < 8 && id[i] != '\0'; i++) {
        hash = hash * 31 + (unsigned char)id[i];
    }
    return &supervisor->by_id[(hash ^ hash >> 16U) & (SNP_SUPERVISOR_SANDBOXES_MAX - 1)];
}

void snp_sandbox_enter(struct snp_sandbox *s)
{
    struct snp_supervisor *supervisor = s->supervisor;
    struct snp_sandbox **head = s->is_pooled ? &supervisor->pooled : &supervisor->sandboxes;

    s->next = *head;
    s->before = head;
    if (s->next != NULL) {
        s->next->before = &s->next;
    }
    *head = s;
    if (!s->is_pooled) {
        struct snp_sandbox **first = chain(supervisor, s->spec.id);
        s->same_id = *first;
        *first = s;
        supervisor->n_sandboxes++;
    }
}

void snp_sandbox_leave(struct snp_sandbox *s)
{
    struct snp_supervisor *supervisor = s->supervisor;

    if (s->before == NULL) {
        return; /* it is in no list */
    }
    *s->before = s->next;
    if (s->next != NULL) {
        s->next->before = s->before;
    }
    s->before = NULL;
    if (!s->is_pooled) {
        struct snp_sandbox **at = chain(supervisor, s->spec.id);
        while (*at != s) {
            at = &(*at)->same_id;
        }
        *at = s->same_id;
        supervisor->n_sandboxes--;
    }
}

void snp_sandbox_kill(struct snp_sandbox *s, const char *reason)
{
    if (reason != NULL && s->reason[0] == '\0') {
        (void)snprintf(s->reason, sizeof(s->reason), "%s", reason);
    }
    if (s->state == SNP_SANDBOX_READY) {
        s->state = SNP_SANDBOX_CLOSING;
    }
    if (s->has_process) { /* else it waits for a process, which is dropped on arrival */
        s->supervisor->ops->kill(s);
    }
}

struct snp_sandbox *snp_sandbox_find(struct snp_supervisor *supervisor, const char *id)
{
    for (struct snp_sandbox *s = *chain(supervisor, id); s != NULL; s = s->same_id) {
        if (s->state == SNP_SANDBOX_READY && snp_streq(s->spec.id, id)) {
            return s;
        }
    }
    return NULL;
}

bool snp_sandbox_exists(struct snp_supervisor *supervisor, const char *id)
{
    for (struct snp_sandbox *s = *chain(supervisor, id); s != NULL; s = s->same_id) {
        if (snp_streq(s->spec.id, id)) {
            return true;
        }
    }
    return false;
}

void snp_spared_set(struct snp_spared *spared, pid_t pid, bool is_there)
{
    for (size_t i = 0; i < spared->n; i++) {
        if (spared->pid[i] == pid) {
            spared->pid[i] = spared->pid[--spared->n];
            break;
        }
    }
    if (is_there && pid > 1 && spared->n < SNP_SPARED_MAX) {
        spared->pid[spared->n++] = pid;
    }
}

bool snp_spared_has(const struct snp_spared *spared, pid_t pid)
{
    for (size_t i = 0; spared != NULL && i < spared->n; i++) {
        if (spared->pid[i] == pid) {
            return true;
        }
    }
    return false;
}

enum snp_limit snp_sandbox_room(const struct snp_sandbox *s, uint64_t *ret_bytes)
{
    const uint64_t processes_need = 24 << 20;
    const uint64_t memory = s->spec.limits.value[SNP_LIMIT_MEMORY];
    const uint64_t rest = memory / 8 > processes_need ? memory / 8 : processes_need;
    const uint64_t room = memory > 2 * rest ? memory - rest : memory / 2;

    *ret_bytes = s->spec.limits.value[SNP_LIMIT_WORKSPACE];
    if (!s->supervisor->ops->holds_files_in_memory || *ret_bytes <= room) {
        return SNP_LIMIT_WORKSPACE;
    }
    *ret_bytes = room;
    return SNP_LIMIT_MEMORY;
}

bool snp_sandbox_is_unwritten(struct snp_sandbox *s, uint64_t *ret_bytes)
{
    return s->supervisor->ops->is_unwritten != NULL &&
           s->supervisor->ops->is_unwritten(s, ret_bytes);
}

void snp_sandbox_swept(struct snp_sandbox *s, int eno)
{
    snp_swept_cb cb = s->swept_cb;

    s->swept_cb = NULL;
    if (cb != NULL) {
        cb(s, eno);
    }
}

const char *snp_sandbox_why_no_image(const struct snp_sandbox *s)
{
    /* Its open files have other paths in each session, or no template forks interpreters. */
    return s->folder[0] != '\0' || s->supervisor->ops->paired != NULL ? "this tier makes no images"
                                                                      : NULL;
}
