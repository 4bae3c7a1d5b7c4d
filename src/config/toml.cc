/* SPDX-License-Identifier: Apache-2.0 */

/* TOML to JSON: a walk over the tree that toml++ builds. See toml.h. */

/* The headers of base are C: this is what C++ calls it. */
#define _Static_assert static_assert

#include "config/toml.h"

#include <cmath>
#include <cstdio>
#include <exception>
#include <string>
#include <string_view>

#ifndef TOML_HEADER_ONLY
#define TOML_HEADER_ONLY 1
#endif
#ifndef TOML_EXCEPTIONS
#define TOML_EXCEPTIONS 0
#endif
#include <toml++/toml.h>

namespace
{

json_t *from_node(const toml::node &node);

/* Each returns a new reference, or NULL when out of memory. */
json_t *from_table(const toml::table &table)
{
    json_t *object = json_object();
    for (auto &&[key, value] : table) {
        const std::string name(key.str());
        /* A NUL in a key would end the C string early and so name another key. */
        if (name.find('\0') != std::string::npos) {
            continue;
        }
        if (object == nullptr || json_object_set_new(object, name.c_str(), from_node(value)) < 0) {
            json_decref(object);
            return nullptr;
        }
    }
    return object;
}

json_t *from_array(const toml::array &array)
{
    json_t *list = json_array();
    for (auto &&value : array) {
        if (list == nullptr || json_array_append_new(list, from_node(value)) < 0) {
            json_decref(list);
            return nullptr;
        }
    }
    return list;
}

json_t *from_node(const toml::node &node)
{
    if (const auto *table = node.as_table()) {
        return from_table(*table);
    }
    if (const auto *array = node.as_array()) {
        return from_array(*array);
    }
    if (const auto *text = node.as_string()) {
        return json_stringn(text->get().data(), text->get().size());
    }
    if (const auto *number = node.as_integer()) {
        return json_integer(number->get());
    }
    if (const auto *number = node.as_floating_point()) {
        return std::isfinite(number->get()) ? json_real(number->get()) : json_null();
    }
    if (const auto *flag = node.as_boolean()) {
        return json_boolean(flag->get());
    }
    return json_null();
}

int fail(snp_toml_fault *fault, unsigned line, unsigned column, std::string_view text)
{
    fault->line = line;
    fault->column = column;
    std::snprintf(fault->text, sizeof(fault->text), "%.*s", static_cast<int>(text.size()),
                  text.data());
    for (char *p = fault->text; *p != '\0'; p++) {
        if (*p == '\n' || *p == '\r') {
            *p = ' ';
        }
    }
    return -1;
}

int fail(snp_toml_fault *fault, const toml::parse_error &error)
{
    const auto &at = error.source().begin;
    return fail(fault, static_cast<unsigned>(at.line), static_cast<unsigned>(at.column),
                error.description());
}

int parse(std::string_view text, json_t **ret, snp_toml_fault *fault)
{
#if TOML_EXCEPTIONS
    const toml::table table = toml::parse(text);
#else
    const toml::parse_result result = toml::parse(text);
    if (!result) {
        return fail(fault, result.error());
    }
    const toml::table &table = result.table();
#endif
    json_t *object = from_table(table);
    if (object == nullptr) {
        return fail(fault, 0, 0, "out of memory");
    }
    *ret = object;
    return 0;
}

} // namespace

int snp_toml_parse(const char *text, size_t n, json_t **ret, struct snp_toml_fault *fault)
{
    try {
        return parse(std::string_view(text, n), ret, fault);
#if TOML_EXCEPTIONS
    } catch (const toml::parse_error &error) {
        return fail(fault, error);
#endif
    } catch (const std::exception &error) {
        return fail(fault, 0, 0, error.what());
    }
}
