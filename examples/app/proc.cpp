// Reads a file of /proc or /sys as text.
#include "app/proc.h"

#include "app/words.h"

#include <seppo/autograd/core/check.h>
#include <seppo/nn/io/text_file.h>

#include <charconv>
#include <limits>
#include <string>
#include <vector>

namespace examples {

double number_in(const std::filesystem::path& file, std::string_view key) try {
  const std::string text = seppo::read_text(file);
  std::string_view rest = text;
  if (!key.empty()) {
    const std::size_t at = text.find(key);
    if (at == std::string::npos) return std::numeric_limits<double>::quiet_NaN();
    rest.remove_prefix(at + key.size());
  }
  const std::vector<std::string_view> words = split_blanks(rest.substr(0, 100));
  double number = std::numeric_limits<double>::quiet_NaN();
  if (!words.empty()) std::from_chars(words[0].data(), words[0].data() + words[0].size(), number);
  return number;
} catch (const seppo::Error&) {
  return std::numeric_limits<double>::quiet_NaN();
}

}  // namespace examples
