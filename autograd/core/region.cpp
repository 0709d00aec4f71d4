#include "observer.h"
#include "region.h"

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
std::string where() { return current.empty() ? "" : " (in " + current.text() + ")"; }
}  // namespace detail

Region::Region(RegionName name) : name_(name), previous_(current) {
  if (!name.empty()) current = name;
}
Region::~Region() { current = previous_; }

const Tensor& Region::operator()(const Tensor& output) const {
  if (!name_.empty())
    for (const ObserverLink* link = tape().observers(); link; link = link->next)
      link->observer.region_output(name_.text(), output);
  return output;
}

}  // namespace seppo::inline SEPPO_ABI
