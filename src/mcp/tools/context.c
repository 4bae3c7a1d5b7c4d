/* SPDX-License-Identifier: Apache-2.0 */
/*
 * get_repl_context, set_repl_context and clear_repl_context. The variables are the interpreter's,
 * so these run cells too: a program of ours is passed as standard input and gets the session's
 * namespace as g. Its output is as hostile as any other.
 */
#include <string.h>

#include "mcp/caps.h"
#include "mcp/server/session.h"
#include "mcp/server/task.h"

enum {
    PROGRAM_MAX = 16 << 20,
    HELPER_MS = 20 * 1000,
    SHOWN = 9000, /* characters of an answer */
    KEY_SHOWN = 200,
};

static const char starter[] = "exec(__import__('sys').stdin.read(), {'g': globals()})";

bool snp_tool_is_context_cell(const char *first_line)
{
    return strcmp(first_line, starter) == 0;
}

static const char get_program[] =
    "import json, types\n"
    "skip = (types.ModuleType, types.FunctionType, types.BuiltinFunctionType, type)\n"
    "context = g.get('context')\n"
    "names = {}\n"
    "for k, v in list(g.items()):\n"
    "    if k.startswith('_') or isinstance(v, skip) or (k == 'context' and "
    "isinstance(v, dict)):\n"
    "        continue\n"
    "    if k != 'result' or v is not None:\n"
    "        names[k] = v\n"
    "if isinstance(context, dict):\n"
    "    for k, v in context.items():\n"
    "        if k not in names:\n"
    "            names[str(k)] = v\n"
    "        elif names[k] is not v:\n"
    "            names['context[%r]' % (k,)] = v\n"
    "lines = []\n"
    "for k, v in names.items():\n"
    "    try:\n"
    "        big = len(v) > 2000\n"
    "    except Exception:\n"
    "        big = False\n"
    "    try:\n"
    "        if big:\n"
    "            raise ValueError\n"
    "        text = json.dumps(v, indent=2)\n"
    "    except Exception:\n"
    "        try:\n"
    "            if big:\n"
    "                text = '<%s of length %d>' % (type(v).__name__, len(v))\n"
    "                text += ' ' + repr(v[:200]) + '...' if isinstance(v, (str, bytes)) else "
    "''\n"
    "            else:\n"
    "                text = repr(v)\n"
    "        except Exception as e:\n"
    "            text = '<%s: repr failed: %s>' % (type(v).__name__, type(e).__name__)\n"
    "    if len(text) > 2000:\n"
    "        text = text[:2000] + '... (%d characters)' % len(text)\n"
    "    lines.append('  %s = %s' % (k, text))\n"
    "print('Current REPL context:\\n' + '\\n'.join(lines) if lines else 'Context is empty')\n";

/* Followed by: a = json.loads(...), [key, text of the value]. */
static const char set_program[] =
    "import keyword\n"
    "key, text = a\n"
    "try:\n"
    "    value = json.loads(text)\n"
    "except ValueError:\n"
    "    value = text\n"
    "if key == 'context' and isinstance(value, dict):\n"
    "    g['context'] = value\n"
    "else:\n"
    "    if not isinstance(g.get('context'), dict):\n"
    "        g['context'] = {}\n"
    "    g['context'][key] = value\n"
    "    if key.isidentifier() and not keyword.iskeyword(key) and not key.startswith('__') "
    "and key != 'context':\n"
    "        g[key] = value\n"
    "print(repr(value))\n";

static const char clear_program[] = "for k in list(g):\n"
                                    "    if not (k.startswith('__') and k.endswith('__')):\n"
                                    "        del g[k]\n";

static void program_run(struct snp_task *task, const char *program, size_t n, snp_task_next done)
{
    const struct snp_cell_spec spec = {
        .code = starter,
        .code_len = sizeof(starter) - 1,
        .input = program,
        .input_len = n,
        .wall_ms = HELPER_MS,
    };

    snp_task_run_cell(task, &spec, done, NULL);
}

/* Whether the cell succeeded; else the task has ended with its error. */
static bool check(struct snp_task *task, const json_t *head)
{
    const struct snp_cell_view view = {.head = head, .session_id = task->session_id, .notes = ""};
    snp_autosay struct snp_say text = SNP_SAY(PROGRAM_MAX);

    snp_cell_error(&text, &view);
    if (text.r < 0 || text.buf.len > 0) {
        snp_task_say(task, true, &text);
        return false;
    }
    return true;
}

/* Append the program's output, clean and without its last line end. */
static void printed_say(struct snp_task *task, struct snp_say *out)
{
    const struct snp_buf *raw = &task->cell.stream[SNP_CELL_STDOUT].text;
    size_t n = raw->len;

    while (n > 0 && snp_buf_bytes(raw)[n - 1] == '\n') {
        n--;
    }
    snp_say_text(out, n == 0 ? "" : snp_buf_bytes(raw), n, SHOWN);
}

static void on_got(struct snp_task *task, json_t *head)
{
    snp_autosay struct snp_say text = SNP_SAY(PROGRAM_MAX);

    if (check(task, head)) {
        printed_say(task, &text);
        snp_task_say(task, false, &text);
    }
}

void snp_tool_get_context(struct snp_task *task)
{
    program_run(task, get_program, sizeof(get_program) - 1, on_got);
}

static void on_set(struct snp_task *task, json_t *head)
{
    const json_t *key = json_object_get(task->args, "key");
    json_t *keys = json_object_get(task->service->keys, task->session);
    snp_autosay struct snp_say text = SNP_SAY(PROGRAM_MAX);

    if (!check(task, head)) {
        return;
    }
    if (keys == NULL) {
        snp_mcp_remember(task->service->keys, task->session, json_object(), SNP_MCP_NAMES_MAX);
        keys = json_object_get(task->service->keys, task->session);
    }
    if (strlen(json_string_value(key)) == json_string_length(key)) {
        snp_mcp_remember(keys, json_string_value(key), json_true(), SNP_MCP_KEYS_MAX);
    }
    snp_say(&text, "Set context['");
    snp_say_string(&text, key, KEY_SHOWN);
    snp_say(&text, "'] = ");
    printed_say(task, &text);
    snp_task_say(task, false, &text);
}

void snp_tool_set_context(struct snp_task *task)
{
    json_t *key = json_object_get(task->args, "key");
    json_t *value = json_object_get(task->args, "value");
    snp_autojson json_t *pair = NULL;
    snp_autojson json_t *inner = NULL;
    snp_autofree char *text = NULL;
    snp_autofree char *outer = NULL;
    snp_autosay struct snp_say program = SNP_SAY(PROGRAM_MAX);

    if (json_string_length(key) == 0 || !json_is_string(value)) {
        snp_task_failf(task, SNP_E_INVALID,
                       json_string_length(key) == 0 ? "No key provided" : "No value provided");
        return;
    }
    /* JSON text of JSON text: a string that Python reads as JSON does (no \/ is written). */
    pair = json_pack("[O, O]", key, value);
    text = snp_json_text(pair);
    inner = text == NULL ? NULL : json_string(text);
    outer = json_dumps(inner, JSON_ENCODE_ANY);
    if (outer == NULL) {
        snp_task_end(task, NULL);
        return;
    }
    snp_say(&program, "import json\na = json.loads(%s)\n%s", outer, set_program);
    if (program.r < 0) {
        snp_task_failf(task, SNP_E_LIMIT, "the value is larger than %d MiB", PROGRAM_MAX >> 20);
        return;
    }
    program_run(task, snp_buf_bytes(&program.buf), program.buf.len, on_set);
}

static void on_cleared(struct snp_task *task, json_t *head)
{
    if (check(task, head)) {
        (void)json_object_del(task->service->keys, task->session);
        snp_task_sayf(task, false, "REPL context cleared");
    }
}

void snp_tool_clear_context(struct snp_task *task)
{
    program_run(task, clear_program, sizeof(clear_program) - 1, on_cleared);
}
