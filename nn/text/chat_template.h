// chat_template.jinja: how a model wants a conversation to be written.
//
//   const ChatTemplate chat = *read_chat_template("SmolLM2-135M-Instruct");
//   chat.render({{"user", "What is a fox?"}}, /*asks=*/true);  // "<|im_start|>user\nWhat is a fox?<|im_end|>\n..."
//
// Templates are written in Jinja. What those of chats use of it is done here (docs/chat.md says what), as the package
// jinja2 does it with the settings of Hugging Face's transformers; anything else is refused when the template is read,
// or, what only a value tells and some filters of branches for tools, when it is reached. Tools and documents are not
// passed to the template.
#pragma once

#include "tokenizer.h"

#include "../../autograd/core/list.h"
#include "../../autograd/core/real.h"

#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {

struct ChatMessage {
  std::string role, content;  // "system", "user" or "assistant"; others if the template has them
};

// A conversation as the template writes it, and what of it the assistant says: from byte to byte, in order.
struct ChatText {
  std::string text;
  std::vector<std::pair<std::size_t, std::size_t>> answers = {};
};

class ChatTemplate {
 public:
  // `tokens` are special tokens by name, {"bos_token", "<s>"}. Throws FormatError, "NAME:LINE: TAG: ...", for a
  // template that is not valid, is larger than 1 MiB, or has something that is not done here.
  ChatTemplate(const std::string& source, const std::string& name, std::map<std::string, std::string> tokens = {});

  // With `asks`, what an answer of the model begins with is appended. Throws FormatError if the template refuses the
  // messages, takes more than 3,000,000 steps, or writes more than 16 MiB.
  std::string render(List<ChatMessage> messages, bool asks) const;

  // An answer is what the template marks with {% generation %}; without such marks it is what follows the text that
  // asks for it, up to the end of the conversation that ends with it: its content and what ends it. Throws as render()
  // does, and FormatError if an answer is not found, since the template writes it otherwise when others follow.
  ChatText render_answers(List<ChatMessage> messages) const;

 private:
  struct Tree;
  std::shared_ptr<const Tree> tree_;
  std::string name_;
  std::map<std::string, std::string> tokens_;
};

// The tokens of a text in which the name of a special token, such as "<|im_end|>", is that token; no BOS is put before.
std::vector<int> encode_chat(const Tokenizer& tokenizer, std::string_view text);

struct ChatTokens {
  std::vector<int> tokens;
  std::vector<bool> is_answer;  // of each token; one that an answer ends within is none
};
ChatTokens encode_chat(const Tokenizer& tokenizer, const ChatText& text);

struct ChatSource {
  std::string text, place;  // what a template is made of, and where it is from
};
// That of a model's folder: chat_template.jinja, or "chat_template" of tokenizer_config.json, of several the one named
// "default"; none if there is neither. Throws FileError; FormatError for a tokenizer_config.json that is no JSON
// object.
std::optional<ChatSource> read_chat_source(const std::filesystem::path& folder);
// The template made of it. Throws as ChatTemplate() does too.
std::optional<ChatTemplate> read_chat_template(const std::filesystem::path& folder);

}  // namespace SEPPO_ABI
}  // namespace seppo
