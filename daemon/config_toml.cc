// SPDX-License-Identifier: BSD-3-Clause
/* config_toml.cc - toml++ as C sees it: a document as a list of items
 *
 * The only C++ of the project. toml++ keeps tables sorted by name; the items
 * are put back into the file's order, so that the first mistake reported is
 * the first one in the file. No exception leaves this file.
 */
#include "config_toml.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include <toml++/toml.h>

namespace
{

ts_toml_value value_of(const toml::node &node)
{
	ts_toml_value value{};

	switch (node.type()) {
	case toml::node_type::boolean:
		value.type = TS_TOML_BOOL;
		value.boolean = node.as_boolean()->get();
		break;
	case toml::node_type::integer:
		value.type = TS_TOML_INT;
		value.integer = node.as_integer()->get();
		value.octal = (node.as_integer()->flags() &
			       toml::value_flags::format_as_octal) !=
			      toml::value_flags::none;
		break;
	case toml::node_type::string:
		value.type = TS_TOML_TEXT;
		value.text = node.as_string()->get().c_str();
		value.text_bytes = node.as_string()->get().size();
		break;
	case toml::node_type::floating_point:
		value.type = TS_TOML_FLOAT;
		value.number = node.as_floating_point()->get();
		break;
	case toml::node_type::array:
		value.type = TS_TOML_ARRAY;
		break;
	case toml::node_type::table:
		value.type = TS_TOML_TABLE;
		break;
	default:
		value.type = TS_TOML_DATE;
	}
	return value;
}

/* The view of a key ends where the key does: it is a whole std::string. */
ts_toml_item item_of(const char *section, const toml::key &key,
		     const toml::node &node)
{
	return ts_toml_item{section, key.str().data(), key.source().begin.line,
			    key.source().begin.column, value_of(node)};
}

std::vector<ts_toml_item> items_of(const toml::table &root)
{
	std::vector<ts_toml_item> items;

	for (auto &&[name, node] : root) {
		const toml::table *section = node.as_table();

		items.push_back(item_of(nullptr, name, node));
		if (!section)
			continue;
		items.back().section = items.back().key;
		items.back().key = nullptr;
		for (auto &&[key, value] : *section)
			items.push_back(item_of(name.str().data(), key, value));
	}
	std::stable_sort(items.begin(), items.end(),
			 [](const ts_toml_item &a, const ts_toml_item &b) {
				 return a.line != b.line ? a.line < b.line
							 : a.column < b.column;
			 });
	return items;
}

} // namespace

extern "C" int ts_toml_walk(const char *text, size_t text_bytes,
			    ts_toml_item_fn *fn, void *opaque,
			    struct ts_toml_error *err)
try {
	const toml::table root =
		toml::parse(std::string_view(text, text_bytes));

	for (const ts_toml_item &item : items_of(root)) {
		int r = fn(opaque, &item);

		if (r != 0)
			return r;
	}
	return 0;
} catch (const toml::parse_error &error) {
	err->line = error.source().begin.line;
	err->column = error.source().begin.column;
	std::snprintf(err->message, sizeof(err->message), "%s", error.what());
	return -EBADMSG;
} catch (const std::exception &) {
	return -ENOMEM;
}
