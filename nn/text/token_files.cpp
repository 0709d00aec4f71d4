// Reads objects, and the two ways in which they name tokens.
#include "token_files.h"

#include "../../autograd/core/check.h"
#include "../../autograd/core/printable.h"
#include "../io/json.h"
#include "../io/text_file.h"

namespace seppo {
inline namespace SEPPO_ABI {

using nlohmann::json;

json object_in(const std::filesystem::path& file) {
  if (!std::filesystem::exists(file)) return json::object();
  const std::string name = printable_path(file);
  json object = parse_json(read_text(file), name);
  check<FormatError>(object.is_object(), name, ": is no object");
  return object;
}

std::optional<std::string> token_text(const json& token) {
  const json text = token.is_object() ? token.value("content", json()) : token;
  if (!text.is_string()) return {};
  return text.get<std::string>();
}

}  // namespace SEPPO_ABI
}  // namespace seppo
