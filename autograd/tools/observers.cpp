// Anomalies and run times of ops; a profile sums up times in a table, or writes them as a trace.
#include "observers.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>

namespace seppo {
inline namespace SEPPO_ABI {
namespace {

// The first element that is not finite; the number of elements if all are.
std::size_t first_anomaly(std::span<const real> values) {
  const auto found = std::ranges::find_if(values, [](real v) { return !std::isfinite(v); });
  return static_cast<std::size_t>(found - values.begin());
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
  const auto is_finite = [](const Tensor& x) { return first_anomaly(x.values()) == x.numel(); };
  throw NumericError(concat_text(output.node().op, ": forward made ", describe(output.values()[at]), " at ",
                                 position(at, output.shape()), " of ", output,
                                 std::ranges::all_of(inputs, is_finite) ? ", from finite inputs" : "", place(output)));
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
