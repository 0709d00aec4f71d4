// The interned names of regions, the region of each thread, and the text of errors, which ends with it.
#include "observer.h"

#include "check.h"

#include <charconv>
#include <mutex>
#include <unordered_set>

namespace seppo::inline SEPPO_ABI {
namespace {

thread_local RegionName current;

}  // namespace

// Never freed: nodes and messages may refer to a name at any time.
RegionName::RegionName(std::string_view text) {
  static auto* const mutex = new std::mutex;
  static auto* const names = new std::unordered_set<std::string>;
  if (text.empty()) return;
  const std::lock_guard lock(*mutex);
  text_ = &*names->emplace(text).first;
}

const std::string& RegionName::text() const {
  static const auto* const none = new std::string;
  return text_ ? *text_ : *none;
}

RegionName current_region() { return current; }

namespace detail {

void Part::add_number(std::string& text, double number) {
  char buffer[32];
  text.append(buffer, std::to_chars(buffer, buffer + sizeof buffer, number).ptr);
}

std::string concat(std::initializer_list<Part> parts) {
  std::string text;
  for (const Part& part : parts) part.append_to(text);
  return text;
}

std::string where() { return current.empty() ? "" : " (in " + current.text() + ")"; }

}  // namespace detail

Region::Region(RegionName name) : name_(name), current_(current, name.empty() ? current : name) {}

const Tensor& Region::operator()(const Tensor& output) const {
  if (!name_.empty()) notify(tape(), &Observer::region_output, name_.text(), output);
  return output;
}

}  // namespace seppo::inline SEPPO_ABI
