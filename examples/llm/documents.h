// Several documents in one file.
#pragma once

#include "llm/folder.h"

#include <string>
#include <string_view>
#include <vector>

namespace llm {

// The tokens of a text. If there is a separator, each line that consists of it ends a document, as the end of the text
// does, and becomes the token that ends a text; the line feed before it belongs to neither. Throws examples::UsageError
// if the model has no such token.
std::vector<int> encode_documents(const Folder& folder, std::string_view text, const std::string& separator,
                                  seppo::Bos bos, seppo::SpecialText special = seppo::SpecialText::letters);

}  // namespace llm
