// Reads /proc/self/cgroup, and numbers in the files of /proc and /sys.
#include "app/control_groups.h"

#include "app/text_file.h"
#include "app/words.h"

#include <seppo/autograd/core/check.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <string>
#include <vector>

namespace examples {

namespace fs = std::filesystem;

namespace {

// Is it in a list such as "cpu,cpuacct"?
bool is_listed(std::string_view controller, std::string_view list) {
  while (!list.empty()) {
    const std::string_view name = list.substr(0, list.find(','));
    if (name == controller) return true;
    list.remove_prefix(std::min(name.size() + 1, list.size()));
  }
  return false;
}

}  // namespace

double number_in(const fs::path& file, std::string_view key) try {
  const std::string text = read_text(file);
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

void for_each_control_group(const fs::path& root, std::string_view controller,
                            seppo::FunctionRef<void(const ControlGroup&)> f) {
  std::string text;
  try {
    text = read_text(root / "proc/self/cgroup");
  } catch (const seppo::Error&) {
    return;
  }
  // Lines "4:memory:/path" and "0::/path".
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string_view::npos) continue;
    const std::string_view controllers = line.substr(first + 1, second - first - 1);
    const bool is_first_version = !controllers.empty();
    if (is_first_version && !is_listed(controller, controllers)) continue;
    const fs::path mounted = root / "sys/fs/cgroup" / (is_first_version ? fs::path(controller) : fs::path());
    for (fs::path group(line.substr(second + 1));; group = group.parent_path()) {
      f({mounted / group.relative_path(), is_first_version});
      if (!group.has_relative_path()) break;
    }
  }
}

}  // namespace examples
