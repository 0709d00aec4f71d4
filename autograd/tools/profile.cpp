// Collects events as ops run; sums them up in a table, or writes them as a trace.
#include "profile.h"

#include "quote.h"

#include <algorithm>
#include <cstdio>
#include <map>

namespace seppo::inline SEPPO_ABI {

void Profile::created(const Tensor& output) { began_us_[&output.node()] = now_us(); }

void Profile::forward(const Tensor& output, std::span<const Tensor> inputs) {
  double bytes = static_cast<double>(output.numel());
  for (const Tensor& x : inputs) bytes += static_cast<double>(x.numel());
  bytes *= sizeof(real);
  bytes_[&output.node()] = bytes;
  const auto began = began_us_.find(&output.node());  // views are not made, only recorded
  add(output, false, began == began_us_.end() ? now_us() : began->second, bytes);
}

void Profile::backward_begins(const Tensor& output) { began_us_[&output.node()] = now_us(); }

void Profile::backward(const Tensor& output) {
  add(output, true, began_us_[&output.node()], 2 * bytes_[&output.node()]);
}

void Profile::add(const Tensor& output, bool is_backward, double start_us, double bytes) {
  const Node& node = output.node();
  const double duration = now_us() - start_us;
  events_.push_back(
      {node.op, node.region ? *node.region : "", node.shape.str(), is_backward, start_us, duration, bytes});
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
  std::stable_sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return a.forward_ms + a.backward_ms > b.forward_ms + b.backward_ms;
  });
  return entries;
}

namespace {

// printf into a string.
template <class... Args>
std::string format(const char* pattern, const Args&... args) {
  std::string text(static_cast<std::size_t>(std::snprintf(nullptr, 0, pattern, args...)), '\0');
  std::snprintf(text.data(), text.size() + 1, pattern, args...);
  return text;
}

}  // namespace

std::string Profile::table() const {
  double total = 0;
  const std::vector<Entry> all = entries();
  for (const Entry& entry : all) total += entry.forward_ms + entry.backward_ms;
  std::string text =
      format("%-20s %8s %12s %12s %8s %12s\n", "op", "calls", "forward ms", "backward ms", "share", "MB");
  for (const Entry& entry : all)
    text += format("%-20s %8zu %12.3f %12.3f %7.1f%% %12.2f\n", entry.op.c_str(), entry.calls, entry.forward_ms,
                   entry.backward_ms, total > 0 ? 100 * (entry.forward_ms + entry.backward_ms) / total : 0,
                   entry.bytes / 1e6);
  return text;
}

std::string Profile::chrome_trace() const {
  std::string text = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[";
  for (const Event& event : events_)
    text += (&event == events_.data() ? "\n{\"name\":" : ",\n{\"name\":") + quoted(event.op) +
            format(",\"cat\":\"%s\",\"ph\":\"X\",\"pid\":1,\"tid\":%d,\"ts\":%.3f,\"dur\":%.3f,\"args\":{\"module\":",
                   event.is_backward ? "backward" : "forward", event.is_backward ? 2 : 1, event.start_us,
                   event.duration_us) +
            quoted(event.region) + format(",\"shape\":\"%s\",\"bytes\":%.0f}}", event.shape.c_str(), event.bytes);
  return text + "\n]}\n";
}

}  // namespace seppo::inline SEPPO_ABI
