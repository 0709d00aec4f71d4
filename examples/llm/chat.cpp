// What is said so far is written as the model's template has it, and the model continues it.
#include "llm/chat.h"

#include "llm/source.h"
#include "llm/text_output.h"
#include "llm/writing.h"

#include <seppo/autograd/core/check.h>
#include <seppo/autograd/core/printable.h>
#include <seppo/models/gguf/gguf_model.h>
#include <seppo/nn/io/json.h>
#include <seppo/nn/io/text_file.h>
#include <seppo/nn/text/gguf_tokenizer.h>

#include <fmt/format.h>

#include <unistd.h>
#include <algorithm>
#include <cstddef>
#include <iostream>
#include <optional>
#include <string_view>
#include <utility>

namespace llm {

namespace fs = std::filesystem;
using examples::UsageError;
using nlohmann::json;
using seppo::ChatMessage;
using seppo::FormatError;

namespace {

std::string text_of(const json& message, const char* key, const std::string& where) {
  const bool is_text = message.is_object() && message.contains(key) && message[key].is_string();
  seppo::check<FormatError>(is_text, where, ": a message without the text '", key, "'");
  return message[key].get<std::string>();
}

std::vector<ChatMessage> messages_of(const json& line, const std::string& where) {
  const json& all = line.is_object() && line.contains("messages") ? line["messages"] : line;
  seppo::check<FormatError>(all.is_array() && !all.empty(), where, ": has no list 'messages'");
  std::vector<ChatMessage> messages;
  for (const json& message : all) {
    messages.push_back({text_of(message, "role", where), text_of(message, "content", where)});
    for (const auto& [key, value] : message.items())
      seppo::check<FormatError>(key == "role" || key == "content" || value.is_null(), where, ": '",
                                seppo::printable(key), "' of a message is not supported");
  }
  return messages;
}

// A conversation, and who carries it on.
class Conversation {
 public:
  Conversation(const Folder& folder, seppo::ChatTemplate written, const examples::CommandLine& line, Writing& writing)
      : folder_(folder), written_(std::move(written)), line_(line), writing_(writing) {}

  void add(const std::string& role, const std::string& content) { messages_.push_back({role, content}); }

  // Writes what the model answers, token by token, and remembers it.
  void answer(TextOutput& output) {
    std::vector<int> tokens = seppo::encode_chat(folder_.tokenizer, written_.render(messages_, /*asks=*/true));
    seppo::check<FormatError>(!tokens.empty(), "the template writes nothing");
    const std::size_t given = tokens.size();
    seppo::Ragged start;
    start.add(tokens);
    seppo::GenerateOptions options = writing_.options(line_, folder_, given);
    options.seed += messages_.size();  // answers to equal questions may differ
    if (folder_.tokenizer.eos) options.stop.push_back(*folder_.tokenizer.eos);
    generate(folder_.model, start, options, [&](std::size_t, int token) {
      if (std::ranges::find(options.stop, token) != options.stop.end()) return;
      tokens.push_back(token);
      output.write(folder_.tokenizer.decode(tokens, tokens.size() - 1));
    });
    output.finish();
    add("assistant", folder_.tokenizer.decode(tokens, given));
  }

 private:
  const Folder& folder_;
  seppo::ChatTemplate written_;
  const examples::CommandLine& line_;
  Writing& writing_;
  std::vector<ChatMessage> messages_;
};

}  // namespace

seppo::ChatTemplate chat_template(const Folder& folder) {
  const auto read = [&] {
    if (seppo::is_gguf(folder.path)) return seppo::gguf_chat_template(seppo::GgufFile(folder.path));
    return seppo::read_chat_template(folder.path);
  };
  auto found = read();
  if (!found)
    throw UsageError(fmt::format("--model: '{}' has no template for chats", seppo::printable_path(folder.path)));
  return std::move(*found);
}

std::vector<int> read_conversations(const fs::path& file, const Folder& folder) {
  constexpr std::size_t kLongest = std::size_t{1} << 24;
  const seppo::ChatTemplate written = chat_template(folder);
  const std::string name = seppo::printable_path(file);
  std::vector<int> tokens;
  std::size_t number = 0;
  const auto add = [&](std::string_view line) {
    ++number;
    if (line.find_first_not_of(" \t") == line.npos) return;
    const std::string where = fmt::format("{}:{}", name, number);
    const std::string text = written.render(messages_of(seppo::parse_json(line, where), where), /*asks=*/false);
    const std::vector<int> more = seppo::encode_chat(folder.tokenizer, text);
    tokens.insert(tokens.end(), more.begin(), more.end());
  };
  seppo::TextReader(file).for_each_line(add, kLongest);
  return tokens;
}

int chat(const examples::Arguments& arguments) {
  Source source;
  Writing writing;
  std::string system;
  examples::CommandLine line(
      "llm chat --model DIR [options]",
      "A conversation with a model: each line of standard input is a message to it, and its answer is written "
      "before the next one is read. Messages are written as the model's own template has them.");
  source.fields(line);
  line("system", system, "the first message, which tells the model how to behave");
  writing.add_to(line);
  if (!line.parse(arguments)) return 0;

  const Folder folder = source.open();
  Conversation conversation(folder, chat_template(folder), line, writing);
  tell_what_is_not_done(folder);
  if (!system.empty()) conversation.add("system", system);
  const bool is_asked = ::isatty(STDIN_FILENO) == 1;
  TextOutput output(std::cout, ::isatty(STDOUT_FILENO) == 1);
  const auto prompt = [&] {
    if (is_asked) std::cout << "> " << std::flush;
  };
  prompt();
  constexpr std::size_t kLongest = std::size_t{1} << 20;
  seppo::TextReader().for_each_line(
      [&](std::string_view message) {
        if (!message.empty()) {
          conversation.add("user", std::string(message));
          conversation.answer(output);
          std::cout << "\n" << std::flush;
        }
        prompt();
      },
      kLongest);
  return 0;
}

}  // namespace llm
