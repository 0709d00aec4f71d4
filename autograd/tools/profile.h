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
// An op's forward time counts from the making of its output to its record. Bytes are those of the values an op
// reads and writes once: inputs and output forward, and twice that backward. Ops of less than a microsecond
// are measured less exactly: looking at the clock takes some 50 ns.
#pragma once

#include "../core/observer.h"

#include <chrono>
#include <string>
#include <unordered_map>
#include <vector>

namespace seppo::inline SEPPO_ABI {

class Profile : public Observer {
 public:
  // The totals of one op, over all modules.
  struct Entry {
    std::string op;
    std::size_t calls = 0;
    double forward_ms = 0, backward_ms = 0;
    double bytes = 0;
  };

  void created(const Tensor& output) override;
  void forward(const Tensor& output, std::span<const Tensor> inputs) override;
  void backward_begins(const Tensor& output) override;
  void backward(const Tensor& output) override;

  std::vector<Entry> entries() const;  // the slowest first
  std::string table() const;
  std::string chrome_trace() const;  // JSON, in the Trace Event Format

 private:
  using Clock = std::chrono::steady_clock;
  struct Event {
    std::string op, region, shape;
    bool is_backward;
    double start_us, duration_us;
    double bytes;
  };
  double now_us() const { return std::chrono::duration<double, std::micro>(Clock::now() - start_).count(); }
  void add(const Tensor& output, bool is_backward, double start_us, double bytes);

  Clock::time_point start_ = Clock::now();
  std::unordered_map<const Node*, double> began_us_, bytes_;
  std::vector<Event> events_;
};

}  // namespace seppo::inline SEPPO_ABI
