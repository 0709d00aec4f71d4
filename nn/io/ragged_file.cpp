// Lines of ids.
#include "ragged_file.h"

#include "text_file.h"

#include "../../autograd/core/check.h"
#include "../../autograd/core/printable.h"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {
namespace {

constexpr std::string_view kBlanks = " \t";

// The number that begins at a place of the line; -1 if there is none.
int id_at(std::string_view line, std::size_t begin, std::size_t end) {
  int id = -1;
  const auto [stop, error] = std::from_chars(line.data() + begin, line.data() + end, id);
  return error == std::errc() && stop == line.data() + end ? id : -1;
}

}  // namespace

Ragged read_ragged(const std::filesystem::path& path, int vocabulary) {
  Ragged all;
  TextReader(path).for_each_line([&](std::string_view line) {
    std::vector<int> sequence;
    for (std::size_t begin = 0; (begin = line.find_first_not_of(kBlanks, begin)) != std::string_view::npos;) {
      const std::size_t end = std::min(line.find_first_of(kBlanks, begin), line.size());
      const int id = id_at(line, begin, end);
      check<FormatError>(id >= 0 && id < vocabulary, printable_path(path), ":", all.size() + 1, ":", begin + 1, ": ",
                         printable(line.substr(begin, end - begin)), " is not an id in 0..", vocabulary - 1);
      sequence.push_back(id);
      begin = end;
    }
    all.add(sequence);
  });
  return all;
}

}  // namespace SEPPO_ABI
}  // namespace seppo
