// Conversations as a model is trained on them.
#pragma once

#include "llm/folder.h"
#include "llm/windows.h"

#include <seppo/nn/text/chat_template.h>

#include <filesystem>
#include <vector>

namespace llm {

// The model's template. Throws examples::UsageError if it has none; FormatError for one that cannot be rendered here.
seppo::ChatTemplate chat_template(const Folder& folder);

// The tokens of conversations, one after another, as the template writes them. Each line of the file is one, a JSON
// object with the list "messages" of objects with the texts "role" and "content"; its other keys are left aside. The
// targets are those of `loss_on`. Throws FormatError naming the file, the line and the rule; FileError.
Text read_conversations(const std::filesystem::path& file, const Folder& folder, LossOn loss_on);

}  // namespace llm
