// Profile: where the time of a computation goes, op by op.
//
//   Profile profile;
//   {
//     const Observe scope(profile);
//     backward(model.loss(batch));
//   }
//   std::cout << profile.table();
//   std::ofstream("trace.json") << profile.chrome_trace();    // open in chrome://tracing or ui.perfetto.dev
//
// An op's forward time runs from the creation of its output to its record. Bytes count each value an op reads or
// writes once: inputs and output in the forward pass, and twice that in the backward pass. Ops of less than a
// microsecond are measured less exactly: reading the clock takes some 50 ns.
#pragma once

#include "../core/observer.h"

#include <chrono>
#include <cstddef>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {

class Profile : public Observer {
 public:
  // The totals of one op, over all modules.
  struct Entry {
    std::string op;
    std::size_t calls = 0;
    double forward_ms = 0;
    double backward_ms = 0;
    double bytes = 0;

    double ms() const { return forward_ms + backward_ms; }
  };

  void created(const Tensor& output) override { began_us_[&output.node()] = now_us(); }
  void forward(const Tensor& output, std::span<const Tensor> inputs) override;
  void backward_begins(const Tensor& output) override { began_us_[&output.node()] = now_us(); }
  void backward(const Tensor& output) override { add(output, true, 2 * bytes_[&output.node()]); }

  std::vector<Entry> entries() const;  // the slowest first
  std::string table() const;
  std::string chrome_trace() const;  // JSON, in the Trace Event Format

 private:
  using Clock = std::chrono::steady_clock;
  struct Event {
    std::string op;
    std::string region;
    std::string shape;
    bool is_backward;
    double start_us;
    double duration_us;
    double bytes;
  };
  double now_us() const { return std::chrono::duration<double, std::micro>(Clock::now() - start_).count(); }
  void add(const Tensor& output, bool is_backward, double bytes);

  Clock::time_point start_ = Clock::now();
  std::unordered_map<const Node*, double> began_us_;
  std::unordered_map<const Node*, double> bytes_;
  std::vector<Event> events_;
};

}  // namespace SEPPO_ABI
}  // namespace seppo
