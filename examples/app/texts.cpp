// The texts that a command processes: its positional arguments, or the lines of standard input.
#include "app/command_line.h"

#include "app/words.h"

#include <seppo/autograd/core/check.h>
#include <seppo/nn/io/text_file.h>

#include <fmt/format.h>

#include <iostream>

namespace examples {

void for_each_text(const Arguments& texts, const std::function<void(const std::string&)>& f) {
  for (const std::string& text : texts) f(text);
  if (!texts.empty()) return;
  constexpr std::size_t kLongest = std::size_t{1} << 20;
  int number = 0;
  const auto process = [&](std::string_view line) {
    ++number;
    if (split_blanks(line).empty()) {
      std::cout << std::endl;
      return;
    }
    try {
      f(std::string(line));
    } catch (const seppo::FileError&) {  // not of this line
      throw;
    } catch (const seppo::Error& e) {
      throw seppo::FormatError(fmt::format("standard input:{}: {}", number, e.what()));
    }
  };
  seppo::TextReader().for_each_line(process, kLongest);
}

}  // namespace examples
