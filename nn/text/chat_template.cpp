// Finds the template, and passes it messages and special tokens.
#include "chat_template.h"

#include "jinja_parser.h"
#include "jinja_renderer.h"

#include "../../autograd/core/check.h"
#include "../../autograd/core/printable.h"
#include "../io/json.h"
#include "../io/text_file.h"

#include <nlohmann/json.hpp>

#include <cstddef>
#include <iterator>
#include <utility>

namespace seppo {
inline namespace SEPPO_ABI {

using nlohmann::json;
namespace fs = std::filesystem;

struct ChatTemplate::Tree {
  jinja::Block statements;
};

ChatTemplate::ChatTemplate(const std::string& source, const std::string& name,
                           std::map<std::string, std::string> tokens)
    : name_(name), tokens_(std::move(tokens)) {
  constexpr std::size_t kMostSource = std::size_t{1} << 20;
  check<FormatError>(source.size() <= kMostSource, name, ": ", source.size(), " bytes, more than ", kMostSource);
  tree_ = std::make_shared<const Tree>(Tree{jinja::parse_template(source, name)});
}

std::string ChatTemplate::render(List<ChatMessage> messages, bool asks) const {
  using jinja::Value;
  jinja::List all;
  for (const ChatMessage& message : messages)
    all.push_back(Value::dict({{"role", Value::text(message.role)}, {"content", Value::text(message.content)}}));
  jinja::Dict variables{{"messages", Value::list(std::move(all))},
                        {"add_generation_prompt", {asks}},
                        {"tools", {jinja::None()}},
                        {"documents", {jinja::None()}}};
  for (const auto& [name, token] : tokens_) variables.emplace_back(name, Value::text(token));
  return jinja::render(tree_->statements, variables, name_);
}

std::vector<int> encode_chat(const Tokenizer& tokenizer, std::string_view text) {
  if (text.empty()) return {};
  std::vector<int> tokens = tokenizer.encode(text, SpecialText::tokens);
  const auto begin = tokens.begin() + std::ssize(tokenizer.before);
  return {begin, tokens.end() - std::ssize(tokenizer.behind)};
}

namespace {

json object_in(const fs::path& file) {
  if (!fs::exists(file)) return json::object();
  const std::string name = printable_path(file);
  json object = parse_json(read_text(file), name);
  check<FormatError>(object.is_object(), name, ": is no object");
  return object;
}

// "bos_token": "<s>", or {"content": "<s>", ...}
std::map<std::string, std::string> tokens_of(const json& config) {
  std::map<std::string, std::string> tokens;
  for (const auto& [key, value] : config.items()) {
    if (!key.ends_with("_token")) continue;
    const json content = value.is_object() ? value.value("content", json()) : value;
    if (content.is_string()) tokens[key] = content.get<std::string>();
  }
  return tokens;
}

// Of several templates, [{"name": "default", "template": "..."}, ...].
json default_of(const json& templates) {
  if (!templates.is_array()) return templates;
  for (const json& one : templates)
    if (one.is_object() && one.value("name", json()) == "default") return one.value("template", json());
  return nullptr;
}

}  // namespace

std::optional<ChatTemplate> read_chat_template(const fs::path& folder) {
  const json config = object_in(folder / "tokenizer_config.json");
  json tokens = object_in(folder / "special_tokens_map.json");
  tokens.update(config);
  const fs::path file = folder / "chat_template.jinja";
  if (fs::exists(file)) return ChatTemplate(read_text(file), printable_path(file), tokens_of(tokens));
  const json source = default_of(config.value("chat_template", json()));
  if (!source.is_string()) return {};
  const std::string name = printable_path(folder / "tokenizer_config.json");
  return ChatTemplate(source.get<std::string>(), name + ": 'chat_template'", tokens_of(tokens));
}

}  // namespace SEPPO_ABI
}  // namespace seppo
