// Passes messages and special tokens to the template, and finds the answers in what it writes.
#include "chat_template.h"

#include "jinja/parser.h"
#include "jinja/renderer.h"
#include "jinja/texts.h"
#include "token_files.h"

#include "../../autograd/core/check.h"
#include "../../autograd/core/printable.h"
#include "../io/json.h"
#include "../io/text_file.h"

#include <nlohmann/json.hpp>

#include <algorithm>
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

namespace {

jinja::Dict variables_of(List<ChatMessage> messages, bool asks, const std::map<std::string, std::string>& tokens) {
  using jinja::Value;
  jinja::List all;
  for (const ChatMessage& message : messages)
    all.push_back(Value::dict({{"role", Value::text(message.role)}, {"content", Value::text(message.content)}}));
  jinja::Dict variables{{"messages", Value::list(std::move(all))},
                        {"add_generation_prompt", {asks}},
                        {"tools", {jinja::None()}},
                        {"documents", {jinja::None()}}};
  for (const auto& [name, token] : tokens) variables.emplace_back(name, Value::text(token));
  return variables;
}

// How much two texts, or lists of tokens, have in common from the beginning.
template <class Range>
std::size_t common(const Range& a, const Range& b) {
  return static_cast<std::size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

// The place of an answer in a conversation, by the texts that ask for it and that end with it. Some templates write one
// of these otherwise if others follow; then the answer begins with its content, and ends as far as the endings agree.
// The content may be a part of its ending too, or of what is before it: what agrees most with the text is the ending.
std::optional<std::pair<std::size_t, std::size_t>> place_of(std::string_view content, std::string_view text,
                                                            std::string_view asked, std::string_view answered) {
  const std::size_t begin = common(text, asked);
  const std::size_t end = common(text, answered);
  if (begin == asked.size() && end == answered.size() && begin <= end) return {{begin, end}};
  const std::size_t first = begin + jinja::leading_space(text.substr(begin));
  if (!text.substr(first).starts_with(content)) return {};
  const std::string_view rest = text.substr(first + content.size());
  std::optional<std::size_t> ending;
  for (std::size_t at = std::min(begin, end); (at = answered.find(content, at)) != answered.npos; ++at)
    ending = std::max(ending.value_or(0), common(rest, answered.substr(at + content.size())));
  if (!ending) return {};
  return {{begin, first + content.size() + *ending}};
}

}  // namespace

std::string ChatTemplate::render(List<ChatMessage> messages, bool asks) const {
  return jinja::render(tree_->statements, variables_of(messages, asks, tokens_), name_).text;
}

ChatText ChatTemplate::render_answers(List<ChatMessage> messages) const {
  jinja::Rendered rendered = jinja::render(tree_->statements, variables_of(messages, false, tokens_), name_);
  ChatText all{.text = std::move(rendered.text), .answers = std::move(rendered.marked)};
  if (!all.answers.empty()) return all;
  const std::vector<ChatMessage> said(messages.begin(), messages.end());
  for (std::size_t i = 0; i < said.size(); ++i) {
    if (said[i].role != "assistant") continue;
    const std::string asked = render({said.begin(), said.begin() + std::ptrdiff_t(i)}, true);
    const std::string answered = render({said.begin(), said.begin() + std::ptrdiff_t(i) + 1}, false);
    const std::string_view content = jinja::without_space(said[i].content, jinja::Ends::both);
    const auto place = place_of(content, all.text, asked, answered);
    check<FormatError>(place.has_value(), name_, ": writes the answer, message ", i + 1,
                       ", otherwise when others follow");
    all.answers.push_back(*place);
  }
  return all;
}

std::vector<int> encode_chat(const Tokenizer& tokenizer, std::string_view text) {
  if (text.empty()) return {};
  std::vector<int> tokens = tokenizer.encode(text, SpecialText::tokens);
  const auto begin = tokens.begin() + std::ssize(tokenizer.before);
  return {begin, tokens.end() - std::ssize(tokenizer.behind)};
}

// The tokens before a place are those that the text up to it has too: pieces of their own would begin otherwise.
ChatTokens encode_chat(const Tokenizer& tokenizer, const ChatText& text) {
  ChatTokens made{.tokens = encode_chat(tokenizer, std::string_view(text.text)), .is_answer = {}};
  made.is_answer.resize(made.tokens.size());
  const std::string_view all = text.text;
  const auto tokens_before = [&](std::size_t place) {
    return std::ptrdiff_t(common(made.tokens, encode_chat(tokenizer, all.substr(0, place))));
  };
  for (const auto& [begin, end] : text.answers) {
    const std::ptrdiff_t first = tokens_before(begin);
    const std::ptrdiff_t last = std::max(first, tokens_before(end));
    std::fill(made.is_answer.begin() + first, made.is_answer.begin() + last, true);
  }
  return made;
}

namespace {

// The texts of "bos_token" and so on.
std::map<std::string, std::string> tokens_of(const json& config) {
  std::map<std::string, std::string> tokens;
  for (const auto& [key, value] : config.items()) {
    if (!key.ends_with("_token")) continue;
    if (const auto text = token_text(value)) tokens[key] = *text;
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

std::optional<ChatSource> read_chat_source(const fs::path& folder) {
  const fs::path file = folder / "chat_template.jinja", config = folder / "tokenizer_config.json";
  if (fs::exists(file)) return ChatSource{.text = read_text(file), .place = printable_path(file)};
  const json source = default_of(object_in(config).value("chat_template", json()));
  if (!source.is_string()) return {};
  return ChatSource{.text = source.get<std::string>(),
                    .place = std::string(printable_path(config)) + ": 'chat_template'"};
}

std::optional<ChatTemplate> read_chat_template(const fs::path& folder) {
  const std::optional<ChatSource> source = read_chat_source(folder);
  if (!source) return {};
  json tokens = object_in(folder / "special_tokens_map.json");
  tokens.update(object_in(folder / "tokenizer_config.json"));
  return ChatTemplate(source->text, source->place, tokens_of(tokens));
}

}  // namespace SEPPO_ABI
}  // namespace seppo
