// Observers of a tape: FindAnomaly, Probe, AttentionRecorder and Profile. Observe puts one in scope.
#pragma once

#include "../core/tape.h"

#include <chrono>
#include <functional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {

// FindAnomaly: names the first op that makes a value or a gradient that is not finite.
//
//   FindAnomaly finder;
//   const Observe scope(finder);
//   backward(model.loss(batch));
//   // NumericError: log: forward made -inf at [1,3] of [8,16], from finite inputs (in encoder.0.ffn)
//
// Every value is read once more, so use it to repeat a step that failed: random numbers are a function of
// the step (random.h), so the step repeats exactly. Intended infinities, such as log(0), are reported as well.
class FindAnomaly : public Observer {
 public:
  // Both throw NumericError.
  void forward(const Tensor& output, std::span<const Tensor> inputs) override;
  void backward(const Tensor& output) override;

 private:
  std::unordered_map<const Node*, std::vector<Tensor>> inputs_;  // of each op, to look at their gradients
};

// Probe: calls a function with the output of every module.
//
//   Probe probe([&](const std::string& module, const Tensor& y) {
//     if (module == "encoder.0.ffn") seen = y.retain_grad();     // readable until tape().clear()
//   });
//   const Observe scope(probe);
//   backward(model.loss(batch));
//   seen.values(), seen.grad()
class Probe : public Observer {
 public:
  using Function = std::function<void(const std::string& module, const Tensor& output)>;
  explicit Probe(Function function) : function_(std::move(function)) {}
  void region_output(const std::string& region, const Tensor& output) override { function_(region, output); }

 private:
  Function function_;
};

struct AttentionMap {
  std::string name;           // of the module that attends
  Shape shape;                // [sequences, heads, max queries, max keys]
  std::vector<real> weights;  // row-major, before dropout; zero beyond a sequence's own queries and keys
};

// AttentionRecorder: keeps the weights of every attention, for people to look at.
//
//   AttentionRecorder recorder;
//   {
//     const Observe scope(recorder);
//     model.logits(src, tgt);
//   }
//   for (const AttentionMap& map : recorder.maps) ...     // "encoder.0.self_attn", "decoder.0.cross_attn", ...
//
// The weights are computed once more for it, and never without a recorder.
class AttentionRecorder : public Observer {
 public:
  bool wants_attention_weights() const override { return true; }
  void attention_weights(const Shape& shape, std::span<const real> weights) override {
    AttentionMap& map = maps.emplace_back();
    map.name = current_region().text();
    map.shape = shape;
    map.weights.assign(weights.begin(), weights.end());
  }

  std::vector<AttentionMap> maps;  // in the order of the calls
};

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
class Profile : public Observer {
 public:
  // The totals of one op, over all modules.
  struct Entry {
    std::string op;
    std::size_t calls = 0;
    double forward_ms = 0, backward_ms = 0;
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
    std::string op, region, shape;
    bool is_backward;
    double start_us, duration_us;
    double bytes;
  };
  double now_us() const { return std::chrono::duration<double, std::micro>(Clock::now() - start_).count(); }
  void add(const Tensor& output, bool is_backward, double bytes);

  Clock::time_point start_ = Clock::now();
  std::unordered_map<const Node*, double> began_us_, bytes_;
  std::vector<Event> events_;
};

}  // namespace SEPPO_ABI
}  // namespace seppo
