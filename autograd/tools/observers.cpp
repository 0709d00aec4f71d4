// The anomalies, and the time, of each op as it runs; a profile sums them up in a table, or writes them as a trace.
#include "observers.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <string_view>

namespace seppo::inline SEPPO_ABI {
namespace {

// The first element that is not finite; the number of elements if all are.
std::size_t first_anomaly(std::span<const real> values) {
  return static_cast<std::size_t>(std::find_if(values.begin(), values.end(), [](real v) { return !std::isfinite(v); }) -
                                  values.begin());
}

std::string position(std::size_t element, const Shape& shape) {
  std::string text;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    const auto size = static_cast<std::size_t>(shape[axis]);
    text = std::to_string(element % size) + (text.empty() ? "" : ",") + text;
    element /= size;
  }
  return "[" + text + "]";
}

const char* describe(real value) { return std::isnan(value) ? "NaN" : value > 0 ? "inf" : "-inf"; }

std::string place(const Tensor& output) {
  const std::string* region = output.node().region;
  return region ? " (in " + *region + ")" : "";
}

// Text as JSON reads it: quotes and backslashes are escaped, control characters become blanks.
std::string quoted(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += static_cast<unsigned char>(c) < 32 ? ' ' : c;
  }
  return result + '"';
}

// printf into a string.
template <class... Args>
std::string format(const char* pattern, const Args&... args) {
  std::string text(static_cast<std::size_t>(std::snprintf(nullptr, 0, pattern, args...)), '\0');
  std::snprintf(text.data(), text.size() + 1, pattern, args...);
  return text;
}

}  // namespace

void FindAnomaly::forward(const Tensor& output, std::span<const Tensor> inputs) {
  inputs_[&output.node()].assign(inputs.begin(), inputs.end());
  const std::size_t at = first_anomaly(output.values());
  if (at == output.numel()) return;
  const bool was_finite =
      std::all_of(inputs.begin(), inputs.end(), [](const Tensor& x) { return first_anomaly(x.values()) == x.numel(); });
  throw NumericError(concat_text(output.node().op, ": forward made ", describe(output.values()[at]), " at ",
                                 position(at, output.shape()), " of ", output, was_finite ? ", from finite inputs" : "",
                                 place(output)));
}

void FindAnomaly::backward(const Tensor& output) {
  const auto found = inputs_.find(&output.node());
  if (found == inputs_.end()) return;
  for (std::size_t i = 0; i < found->second.size(); ++i) {
    const Tensor& x = found->second[i];
    if (!x.requires_grad()) continue;
    const std::span<const real> gradient{grad_of(x), x.numel()};
    if (const std::size_t at = first_anomaly(gradient); at < x.numel())
      throw NumericError(concat_text(output.node().op, ": backward made ", describe(gradient[at]),
                                     " in the gradient of input ", i, " ", x, " at ", position(at, x.shape()),
                                     place(output)));
  }
}

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
