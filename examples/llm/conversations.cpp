// Line by line: messages, the text that the template makes of them, its tokens.
#include "llm/conversations.h"

#include <seppo/autograd/core/check.h>
#include <seppo/autograd/core/printable.h>
#include <seppo/nn/io/json.h>
#include <seppo/nn/io/text_file.h>
#include <seppo/nn/text/gguf_tokenizer.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace llm {

namespace fs = std::filesystem;
using examples::UsageError;
using nlohmann::json;
using seppo::ChatMessage;
using seppo::check;
using seppo::FormatError;

namespace {

std::string text_of(const json& message, const char* key, const std::string& where) {
  const bool is_text = message.is_object() && message.contains(key) && message[key].is_string();
  check<FormatError>(is_text, where, ": a message without the text '", key, "'");
  return message[key].get<std::string>();
}

std::vector<ChatMessage> messages_of(const json& line, const std::string& where) {
  const bool has_list = line.is_object() && line.contains("messages") && line["messages"].is_array();
  check<FormatError>(has_list && !line["messages"].empty(), where, ": has no list 'messages'");
  std::vector<ChatMessage> messages;
  for (const json& message : line["messages"]) {
    messages.push_back({text_of(message, "role", where), text_of(message, "content", where)});
    for (const auto& [key, value] : message.items())
      check<FormatError>(key == "role" || key == "content" || value.is_null(), where, ": '", seppo::printable(key),
                         "' of a message is not supported");
  }
  return messages;
}

// What the template says is wrong is said of the line too.
seppo::ChatTokens tokens_of(const std::vector<ChatMessage>& messages, const Folder& folder,
                            const seppo::ChatTemplate& chat, LossOn loss_on, const std::string& where) {
  try {
    if (loss_on == LossOn::answers) return encode_chat(folder.tokenizer, chat.render_answers(messages));
    return encode_chat(folder.tokenizer, seppo::ChatText{chat.render(messages, /*asks=*/false)});
  } catch (const FormatError& e) {
    seppo::fail<FormatError>(where, ": ", e.what());
  }
}

void append(Text& to, const seppo::ChatTokens& more, LossOn loss_on) {
  to.tokens.insert(to.tokens.end(), more.tokens.begin(), more.tokens.end());
  if (loss_on == LossOn::all) return;
  for (std::size_t i = 0; i < more.tokens.size(); ++i)
    to.targets.push_back(more.is_answer[i] ? more.tokens[i] : seppo::kNoTarget);
}

// In a folder or a GGUF file; there is no path if tokens are bytes.
std::optional<seppo::ChatTemplate> find_template(const TextFiles& texts) {
  if (texts.path.empty()) return {};
  if (!texts.gguf) return seppo::read_chat_template(texts.path);
  const std::optional<std::string> source = seppo::gguf_chat_template(*texts.gguf);
  if (!source) return {};
  return seppo::ChatTemplate(*source, texts.gguf->name() + ": 'tokenizer.chat_template'",
                             seppo::gguf_special_tokens(*texts.gguf));
}

}  // namespace

seppo::ChatTemplate chat_template(const Folder& folder) {
  auto found = find_template(folder.texts);
  if (found) return std::move(*found);
  if (folder.texts.path.empty()) throw UsageError("--tokenizer: a folder with a template for chats is needed");
  const char* const option = folder.path.empty() ? "tokenizer" : "model";
  throw UsageError(
      fmt::format("--{}: '{}' has no template for chats", option, seppo::printable_path(folder.texts.path)));
}

Text read_conversations(const fs::path& file, const Folder& folder, LossOn loss_on) {
  constexpr std::size_t kLongest = std::size_t{1} << 24;
  const seppo::ChatTemplate chat = chat_template(folder);
  const std::string name(seppo::printable_path(file));
  Text text;
  std::size_t number = 0;
  const auto add = [&](std::string_view line) {
    ++number;
    if (line.find_first_not_of(" \t") == line.npos) return;
    const std::string where = fmt::format("{}:{}", name, number);
    const std::vector<ChatMessage> messages = messages_of(seppo::parse_json(line, where), where);
    append(text, tokens_of(messages, folder, chat, loss_on, where), loss_on);
  };
  seppo::TextReader(file).for_each_line(add, kLongest);
  return text;
}

}  // namespace llm
