// Interned names, and the region of each thread.
#include "region.h"

#include "observer.h"
#include "tape.h"

#include <mutex>
#include <unordered_set>

namespace seppo {
inline namespace SEPPO_ABI {
namespace {

thread_local RegionName current_name;

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

RegionName current_region() { return current_name; }

Region::Region(RegionName name) : name_(name), current_(current_name, name.empty() ? current_name : name) {}

const Tensor& Region::operator()(const Tensor& output) const {
  if (!name_.empty()) notify(tape(), &Observer::region_output, name_.text(), output);
  return output;
}

}  // namespace SEPPO_ABI
}  // namespace seppo
