/* SPDX-License-Identifier: Apache-2.0 */
/* Which interpreter a session gets; a project's .venv that tries to choose another one. */
#include "base/registry/python.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/registry/registry.h"
#include "base/str.h"
#include "unit/harness.h"

static char top[64]; /* holds a home, a state folder and a project */

static const char *at(const char *name)
{
    static char path[4][512];
    static unsigned which;
    which = (which + 1) % 4;
    (void)snprintf(path[which], sizeof(path[which]), "%s/%s", top, name);
    return path[which];
}

static void make(const char *name)
{
    struct snp_err err;
    assert_int_equal(snp_mkdir_p(at(name), 0755, &err), 0);
}

static void put(const char *name, const char *text, mode_t mode)
{
    struct snp_err err;
    assert_int_equal(snp_file_write_atomic(at(name), text, strlen(text), mode, &err), 0);
}

static void begin(void)
{
    (void)snprintf(top, sizeof(top), "/var/tmp/snp-python-XXXXXX");
    assert_non_null(mkdtemp(top));
    make("home/.pyenv/versions/3.9.1/bin");
    make("home/.pyenv/versions/3.9.1/lib/python3.9");
    put("home/.pyenv/versions/3.9.1/bin/python3.9", "", 0755);
    put("home/.pyenv/versions/3.9.1/lib/python3.9/os.py", "", 0644);
    make("state/templates");
    make("project/.venv/lib/python3.9/site-packages");
}

static void config(const char *home, const char *version)
{
    snp_autofree char *text = snp_format("include-system-site-packages = false\nhome = %s\n"
                                         "version = %s\n",
                                         home, version);
    put("project/.venv/pyvenv.cfg", text, 0644);
}

static int find(const char *name, struct snp_python *python)
{
    snp_autofree char *project = strdup(at("project"));
    snp_autofree char *state = strdup(at("state"));
    snp_autofree char *home = strdup(at("home"));
    const struct snp_python_query query = {.name = name,
                                           .project = project,
                                           .state_dir = state,
                                           .default_python = "/usr/bin/python3",
                                           .home = home};
    struct snp_err err;
    return snp_python_find(&query, python, &err);
}

static void end(void)
{
    snp_autofree char *command = snp_format("%s", top);
    pid_t pid = fork();
    if (pid == 0) {
        (void)execl("/bin/rm", "rm", "-rf", command, (char *)NULL);
        _exit(1);
    }
    assert_true(pid > 0);
}

/* The project's own is not used, and the note says why. */
static void refused(const char *why)
{
    struct snp_python python = {0};

    assert_int_equal(find(NULL, &python), 0);
    assert_string_equal(python.name, "base");
    assert_string_equal(python.exe, "/usr/bin/python3");
    assert_non_null(python.note);
    assert_non_null(strstr(python.note, why));
    snp_python_done(&python);
    assert_int_equal(find("venv", &python), SNP_E_NOT_FOUND);
}

TEST(without_a_venv_it_is_base)
{
    struct snp_python python = {0};

    begin();
    assert_int_equal(find(NULL, &python), 0);
    assert_string_equal(python.name, "base");
    assert_null(python.note);
    assert_null(python.site);
    snp_python_done(&python);
    end();
}

TEST(a_venv_of_a_usual_interpreter_is_used)
{
    struct snp_python python = {0};

    begin();
    config(at("home/.pyenv/versions/3.9.1/bin"), "3.9.1");
    assert_int_equal(find(NULL, &python), 0);
    assert_string_equal(python.name, "venv");
    assert_string_equal(python.exe, at("home/.pyenv/versions/3.9.1/bin/python3.9"));
    assert_string_equal(python.prefix, at("home/.pyenv/versions/3.9.1"));
    assert_string_equal(python.site, "/workspace/.venv");
    assert_null(python.venv); /* nothing of the project is shown but the workspace */
    snp_python_done(&python);
    assert_int_equal(find("base", &python), 0);
    assert_string_equal(python.name, "base");
    snp_python_done(&python);
    end();
}

TEST(an_interpreter_of_the_project_is_refused)
{
    begin();
    make("project/evil/bin");
    make("project/evil/lib/python3.9");
    put("project/evil/bin/python3.9", "", 0755);
    put("project/evil/lib/python3.9/os.py", "", 0644);
    config(at("project/evil/bin"), "3.9.1");
    refused("lies in the project");
    end();
}

TEST(an_interpreter_in_an_unusual_place_is_refused_until_it_is_named)
{
    snp_autojson json_t *record = NULL;
    struct snp_python python = {0};
    struct snp_err err;

    begin();
    make("downloads/bin");
    make("downloads/lib/python3.9");
    put("downloads/bin/python3.9", "", 0755);
    put("downloads/lib/python3.9/os.py", "", 0644);
    config(at("downloads/bin"), "3.9.1");
    refused("not in a usual place");
    record = json_pack("{s:s,s:s,s:s,s:s,s:s,s:i,s:i,s:[],s:[],s:i}", "name", "mine", "python",
                       at("downloads/bin/python3.9"), "version", "3.9.1", "venv", "/x", "hash",
                       "sha256:0", "files", 0, "bytes", 0, "preload", "modules", "created", 0);
    assert_int_equal(snp_registry_write(at("state"), record, &err), 0);
    assert_int_equal(find(NULL, &python), 0);
    assert_string_equal(python.name, "venv");
    snp_python_done(&python);
    end();
}

TEST(what_is_no_python_is_refused)
{
    begin();
    config("/usr/bin", "2.7.18");
    refused("3.8 or later");
    config("/usr/bin", "3.7.1");
    refused("3.8 or later");
    config("/nonexistent", "3.9.1");
    refused("not on this machine");
    config(at("home"), "3.9.1");
    refused("not on this machine");
    config("relative", "3.9.1");
    refused("names no interpreter");
    put("project/.venv/pyvenv.cfg", "", 0644);
    refused("names no interpreter");
    put("project/.venv/pyvenv.cfg", "home", 0644);
    refused("names no interpreter");
    end();
}

TEST(a_home_folder_with_an_interpreter_in_it_is_not_shown)
{
    begin();
    make("home/bin");
    make("home/lib/python3.9");
    put("home/bin/python3.9", "", 0755);
    put("home/lib/python3.9/os.py", "", 0644);
    config(at("home/bin"), "3.9.1");
    refused("home folder");
    end();
}

TEST(links_and_pipes_in_the_project_are_not_followed)
{
    struct snp_python python = {0};

    begin();
    config(at("home/.pyenv/versions/3.9.1/bin"), "3.9.1");
    assert_int_equal(rename(at("project/.venv"), at("elsewhere")), 0);
    assert_int_equal(symlink(at("elsewhere"), at("project/.venv")), 0);
    assert_int_equal(find(NULL, &python), 0);
    assert_string_equal(python.name, "base");
    snp_python_done(&python);
    assert_int_equal(unlink(at("project/.venv")), 0);
    make("project/.venv");
    assert_int_equal(mkfifo(at("project/.venv/pyvenv.cfg"), 0644), 0);
    assert_int_equal(find(NULL, &python), 0); /* and does not wait */
    assert_string_equal(python.name, "base");
    snp_python_done(&python);
    end();
}

TEST(templates_are_found_by_record)
{
    snp_autojson json_t *record = json_pack(
        "{s:s,s:s,s:s,s:s,s:s,s:i,s:i,s:[s,s],s:[s],s:i}", "name", "web", "python",
        "/usr/bin/python3", "version", "3.11.2", "venv", "/var/lib/web", "hash", "sha256:1",
        "files", 1, "bytes", 1, "preload", "a", "b.c", "modules", "flask", "created", 0);
    snp_autojson json_t *advice = NULL;
    struct snp_python python = {0};
    struct snp_err err;

    begin();
    assert_int_equal(find("web", &python), SNP_E_NOT_FOUND);
    assert_int_equal(snp_registry_write(at("state"), record, &err), 0);
    assert_int_equal(find("web", &python), 0);
    assert_string_equal(python.venv, "/var/lib/web");
    assert_string_equal(python.site, "/run/venv");
    assert_string_equal(python.preload, "a,b.c");
    snp_python_done(&python);
    advice = snp_registry_advise(at("state"), "flask");
    assert_string_equal(json_string_value(json_array_get(json_object_get(advice, "templates"), 0)),
                        "web");
    /* A record that somebody turned into another's name, or that shows a home. */
    assert_int_equal(rename(at("state/templates/web.json"), at("state/templates/x.json")), 0);
    assert_int_equal(find("x", &python), SNP_E_INVALID);
    (void)json_object_set_new(record, "venv", json_string(at("home")));
    assert_int_equal(snp_registry_write(at("state"), record, &err), 0);
    assert_int_equal(find("web", &python), SNP_E_DENIED);
    put("state/templates/web.json", "{\"name\": \"web\"", 0600);
    assert_int_equal(find("web", &python), SNP_E_INVALID);
    end();
}

TEST(preload_lists_are_names_with_commas)
{
    struct snp_err err;

    assert_int_equal(snp_registry_preload_check("a,b.c,_d1", &err), 0);
    assert_int_equal(snp_registry_preload_check("", &err), 0);
    assert_int_equal(snp_registry_preload_check("a,,b", &err), SNP_E_INVALID);
    assert_int_equal(snp_registry_preload_check("a,", &err), SNP_E_INVALID);
    assert_int_equal(snp_registry_preload_check("a b", &err), SNP_E_INVALID);
    assert_int_equal(snp_registry_preload_check("--x", &err), SNP_E_INVALID);
    assert_int_equal(snp_registry_preload_check(".a", &err), SNP_E_INVALID);
}

RUN(UNIT(without_a_venv_it_is_base),
    UNIT(a_venv_of_a_usual_interpreter_is_used),
    UNIT(an_interpreter_of_the_project_is_refused),
    UNIT(an_interpreter_in_an_unusual_place_is_refused_until_it_is_named),
    UNIT(what_is_no_python_is_refused),
    UNIT(a_home_folder_with_an_interpreter_in_it_is_not_shown),
    UNIT(links_and_pipes_in_the_project_are_not_followed),
    UNIT(templates_are_found_by_record),
    UNIT(preload_lists_are_names_with_commas))
