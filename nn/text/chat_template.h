// chat_template.jinja: how a model wants a conversation to be written.
//
//   const ChatTemplate chat = *read_chat_template("SmolLM2-135M-Instruct");
//   chat.render({{"user", "What is a fox?"}}, /*asks=*/true);  // "<|im_start|>user\nWhat is a fox?<|im_end|>\n..."
//
// Templates are written in Jinja. What those of chats use of it is done here, as the package jinja2 does it with
// Hugging Face's settings (trim_blocks, lstrip_blocks, loop controls): output, if, for, set, macro, namespace(),
// range(), raise_exception(), strftime_now(), arithmetic, comparisons, slices, the usual filters, tests and methods of
// texts and dicts. Anything else is refused when the template is read, with the tag that has it. Debian has no library
// for C++ that renders these templates. Tools and documents are not passed to the template.
#pragma once

#include "tokenizer.h"

#include "../../autograd/core/list.h"
#include "../../autograd/core/real.h"

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {

struct ChatMessage {
  std::string role, content;  // "system", "user" or "assistant"; others if the template has them
};

class ChatTemplate {
 public:
  // `tokens` are special tokens by name, {"bos_token", "<s>"}. Throws FormatError, "NAME:LINE: TAG: ...", for a
  // template that is not valid, is larger than 1 MiB, or has something that is not done here.
  ChatTemplate(const std::string& source, const std::string& name, std::map<std::string, std::string> tokens = {});

  // With `asks`, what an answer of the model begins with is appended. Throws FormatError if the template refuses the
  // messages, or takes too long (jinja_renderer.h).
  std::string render(List<ChatMessage> messages, bool asks) const;

 private:
  struct Tree;
  std::shared_ptr<const Tree> tree_;
  std::string name_;
  std::map<std::string, std::string> tokens_;
};

// The tokens of a text in which the name of a special token, such as "<|im_end|>", is that token; no BOS is put before.
std::vector<int> encode_chat(const Tokenizer& tokenizer, std::string_view text);

// That of a model's folder: chat_template.jinja, or "chat_template" of tokenizer_config.json, of several the one named
// "default"; none if there is neither. Throws as ChatTemplate() does; FileError.
std::optional<ChatTemplate> read_chat_template(const std::filesystem::path& folder);

}  // namespace SEPPO_ABI
}  // namespace seppo
