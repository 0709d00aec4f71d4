// Cuts a text at the lines that separate documents.
#include "llm/documents.h"

#include "app/command_line.h"

#include <cstddef>
#include <optional>

namespace llm {

namespace {

// The bytes with which a line ends here: none within a line.
std::size_t line_end(std::string_view text) {
  if (text.starts_with("\r\n")) return 2;
  return text.starts_with('\n') ? 1 : 0;
}

// Where the next line that is the separator begins; npos if there is none.
std::size_t next_separator(std::string_view text, std::string_view separator) {
  std::size_t at = text.find(separator);
  while (at != text.npos) {
    const std::size_t end = at + separator.size();
    const bool begins_line = at == 0 || text[at - 1] == '\n';
    const bool ends_line = end == text.size() || line_end(text.substr(end)) > 0;
    if (begins_line && ends_line) return at;
    at = text.find(separator, at + 1);
  }
  return at;
}

int end_token(const Folder& folder) {
  if (folder.tokenizer.eos) return *folder.tokenizer.eos;
  if (folder.config.stops.empty()) throw examples::UsageError("--separator: the model has no token that ends a text");
  return folder.config.stops[0];
}

}  // namespace

std::vector<int> encode_documents(const Folder& folder, std::string_view text, const std::string& separator,
                                  seppo::Bos bos, seppo::SpecialText special) {
  if (separator.empty()) return folder.encode(text, bos, special);
  const int end = end_token(folder);
  std::vector<int> tokens;
  while (!text.empty()) {
    const std::size_t at = next_separator(text, separator);
    std::string_view document = text.substr(0, at);
    text.remove_prefix(at == text.npos ? text.size() : at + separator.size());
    text.remove_prefix(line_end(text));
    if (document.ends_with('\n')) document.remove_suffix(document.ends_with("\r\n") ? 2 : 1);
    if (document.empty()) continue;
    const std::vector<int> more = folder.encode(document, bos, special);
    tokens.insert(tokens.end(), more.begin(), more.end());
    tokens.push_back(end);
  }
  return tokens;
}

}  // namespace llm
