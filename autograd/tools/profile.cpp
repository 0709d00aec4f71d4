// Measures ops, and sums up their times in a table or writes them as a trace.
#include "profile.h"

#include <algorithm>
#include <cstdio>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>

namespace seppo {
inline namespace SEPPO_ABI {
namespace {

// printf into a string.
template <class... Args>
std::string format(const char* pattern, const Args&... args) {
  std::string text(static_cast<std::size_t>(std::snprintf(nullptr, 0, pattern, args...)), '\0');
  std::snprintf(text.data(), text.size() + 1, pattern, args...);
  return text;
}

}  // namespace

void Profile::forward(const Tensor& output, std::span<const Tensor> inputs) {
  double bytes = static_cast<double>(output.numel());
  for (const Tensor& x : inputs) bytes += static_cast<double>(x.numel());
  bytes *= sizeof(real);
  bytes_[&output.node()] = bytes;
  add(output, false, bytes);
}

void Profile::add(const Tensor& output, bool is_backward, double bytes) {
  const Node& node = output.node();
  const auto began = began_us_.extract(&node);  // views are recorded without being created
  const double now = now_us(), start = began.empty() ? now : began.mapped();
  events_.push_back(
      {node.op, node.region ? *node.region : "", node.shape.str(), is_backward, start, now - start, bytes});
}

std::vector<Profile::Entry> Profile::entries() const {
  std::map<std::string, Entry> by_op;
  for (const Event& event : events_) {
    Entry& entry = by_op[event.op];
    entry.op = event.op;
    entry.calls += event.is_backward ? 0 : 1;
    (event.is_backward ? entry.backward_ms : entry.forward_ms) += event.duration_us / 1000;
    entry.bytes += event.bytes;
  }
  std::vector<Entry> entries;
  for (const auto& [op, entry] : by_op) entries.push_back(entry);
  std::ranges::stable_sort(entries, std::greater(), &Entry::ms);
  return entries;
}

std::string Profile::table() const {
  double total = 0;
  const std::vector<Entry> all = entries();
  for (const Entry& entry : all) total += entry.ms();
  std::string text =
      format("%-20s %8s %12s %12s %8s %12s\n", "op", "calls", "forward ms", "backward ms", "share", "MB");
  for (const Entry& entry : all)
    text += format("%-20s %8zu %12.3f %12.3f %7.1f%% %12.2f\n", entry.op.c_str(), entry.calls, entry.forward_ms,
                   entry.backward_ms, total > 0 ? 100 * entry.ms() / total : 0, entry.bytes / 1e6);
  return text;
}

std::string Profile::chrome_trace() const {
  nlohmann::ordered_json events = nlohmann::ordered_json::array();
  for (const Event& e : events_)
    events.push_back({{"name", e.op},
                      {"cat", e.is_backward ? "backward" : "forward"},
                      {"ph", "X"},
                      {"pid", 1},
                      {"tid", e.is_backward ? 2 : 1},
                      {"ts", e.start_us},
                      {"dur", e.duration_us},
                      {"args", {{"module", e.region}, {"shape", e.shape}, {"bytes", e.bytes}}}});
  const nlohmann::ordered_json trace{{"displayTimeUnit", "ms"}, {"traceEvents", std::move(events)}};
  return trace.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace SEPPO_ABI
}  // namespace seppo
