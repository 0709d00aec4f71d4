// Conversations: the command `llm chat`, and those that a model is trained on.
#pragma once

#include "app/command_line.h"
#include "llm/folder.h"

#include <seppo/nn/text/chat_template.h>

#include <filesystem>
#include <vector>

namespace llm {

int chat(const examples::Arguments& arguments);

// The model's template. Throws examples::UsageError if it has none, or one that cannot be rendered here.
seppo::ChatTemplate chat_template(const Folder& folder);

// The tokens of conversations, one after another, as the template writes them. Each line of the file is one,
// {"messages": [{"role": "user", "content": "..."}, ...]}, or this list. Throws FormatError naming the file, the line
// and the rule; FileError.
std::vector<int> read_conversations(const std::filesystem::path& file, const Folder& folder);

}  // namespace llm
