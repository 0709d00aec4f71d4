// Times single ops and kernels through the public API, using Google Benchmark:
//
//   bench_ops --benchmark_filter=gemm
//
// Besides the time it reports the achieved GFLOP/s, to be compared with "peak/flops" of the same run (a small
// product), and the GB/s read and written, to be compared with "peak/copy" (64 MiB).
#include <seppo/autograd/blas/multiply.h>
#include <seppo/autograd/core/memory.h>
#include <seppo/autograd/core/parallel.h>
#include <seppo/autograd/ops.h>
#include <seppo/nn/optim/adam.h>

#include <benchmark/benchmark.h>

#include <array>
#include <functional>
#include <string>
#include <vector>

namespace {

using namespace seppo;

// The first n values of one sequence, drawn once: drawing takes longer than most of the ops.
std::vector<real> random_values(std::size_t n) {
  static RandomStream random(1, Purpose::data);
  static std::vector<real> drawn;
  while (drawn.size() < n) drawn.push_back(static_cast<real>(random.normal()));
  return {drawn.begin(), drawn.begin() + static_cast<std::ptrdiff_t>(n)};
}

// Aligned to cache lines, like tensors.
Memory random_block(std::size_t n) {
  const std::vector<real> values = random_values(n);
  Memory block(n * sizeof(real));
  std::copy(values.begin(), values.end(), block.as<real>());
  return block;
}

void set_rates(benchmark::State& state, double flops, double bytes) {
  const auto rate = [](double amount) {
    return benchmark::Counter(amount * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
  };
  if (flops > 0) state.counters["GFLOP/s"] = rate(flops);
  if (bytes > 0) state.counters["GB/s"] = rate(bytes);
}

// The peak is measured on the largest product that multiply() computes with negligible memory traffic.
void peak_flops(benchmark::State& state) {
  constexpr std::size_t kSize = 96;
  const Memory a = random_block(kSize * kSize), b = random_block(kSize * kSize), c(kSize * kSize * sizeof(real));
  for (auto _ : state)
    multiply({c.as<real>(), kSize, kSize}, {a.as<real>(), kSize, kSize}, {b.as<real>(), kSize, kSize});
  set_rates(state, 2.0 * kSize * kSize * kSize, 0);
}

void peak_copy(benchmark::State& state) {
  const std::vector<real> from = random_values(std::size_t{1} << 24);
  std::vector<real> to(from.size());
  for (auto _ : state) {
    std::copy(from.begin(), from.end(), to.begin());
    benchmark::DoNotOptimize(to.data());
  }
  set_rates(state, 0, 2.0 * static_cast<double>(from.size() * sizeof(real)));
}

enum class Stored { as_is, transposed };

MatrixView operand(const real* data, std::size_t rows, std::size_t cols, Stored stored) {
  if (stored == Stored::as_is) return {data, rows, cols};
  return transposed({data, cols, rows});
}

struct GemmCase {
  const char* name;
  std::size_t m, n, k;
  Stored a, b;
  bool in_shard = true;       // otherwise the product may be split among threads
  std::size_t different = 1;  // number of matrices B, used in turn: with many, B comes from memory
};
constexpr GemmCase kGemms[] = {
    {"J1 QKV", 144, 96, 32, Stored::as_is, Stored::transposed},
    {"J1 QKV dX", 144, 32, 96, Stored::as_is, Stored::as_is},
    {"J1 QKV dW", 96, 32, 144, Stored::transposed, Stored::as_is},
    {"J3 QKV", 512, 96, 32, Stored::as_is, Stored::transposed},
    {"J2 QKV", 288, 768, 256, Stored::as_is, Stored::transposed},
    {"J2 QKV dX", 288, 256, 768, Stored::as_is, Stored::as_is},
    {"J2 QKV dW", 768, 256, 288, Stored::transposed, Stored::as_is},
    {"J4 FFN", 256, 2048, 512, Stored::as_is, Stored::transposed},
    {"J4 FFN dX", 256, 512, 2048, Stored::as_is, Stored::as_is},
    {"J4 FFN dW", 2048, 512, 256, Stored::transposed, Stored::as_is},
    {"J4 logits", 256, 8000, 512, Stored::as_is, Stored::transposed},
    {"J5 FFN", 1024, 1536, 384, Stored::as_is, Stored::transposed},
    {"J5 FFN dW", 1536, 384, 1024, Stored::transposed, Stored::as_is},
    {"J7 batch 32", 32, 2048, 512, Stored::as_is, Stored::transposed, false},
    {"J7 batch 32 from memory", 32, 2048, 512, Stored::as_is, Stored::transposed, false, 26},
    {"J7 batch 32 FFN from memory", 32, 512, 2048, Stored::as_is, Stored::transposed, false, 26},
    {"J7 batch 1 from memory", 1, 2048, 512, Stored::as_is, Stored::transposed, false, 26},
    {"J7 batch 1 logits", 1, 8000, 512, Stored::as_is, Stored::transposed, false}};

void run_gemm(benchmark::State& state, const GemmCase& g) {
  const Memory a = random_block(g.m * g.k), b = random_block(g.different * g.k * g.n), c(g.m * g.n * sizeof(real));
  const auto time_products = [&](std::size_t task) {
    if (task > 0) return;
    std::size_t turn = 0;
    for (auto _ : state) {
      multiply({c.as<real>(), g.m, g.n}, operand(a.as<real>(), g.m, g.k, g.a),
               operand(b.as<real>() + turn * g.k * g.n, g.k, g.n, g.b));
      turn = (turn + 1) % g.different;
    }
  };
  g.in_shard ? run_tasks(2, time_products) : time_products(0);
  set_rates(state, 2.0 * static_cast<double>(g.m * g.n * g.k),
            g.different > 1 ? static_cast<double>(g.k * g.n * sizeof(real)) : 0);
}

// An op on a [rows, cols] tensor, forward or forward and backward; bytes count its inputs and outputs.
using Op = std::function<Tensor(const Tensor& x)>;

void run_op(benchmark::State& state, int rows, int cols, bool backward, const Op& op) {
  const std::vector<real> values = random_values(static_cast<std::size_t>(rows) * static_cast<std::size_t>(cols));
  std::vector<real> gradient(values.size());
  for (auto _ : state) {
    tape().clear();
    tape().mode = Mode::train;
    const Tensor x = variable({rows, cols}, values);
    const Tensor y = op(x);
    if (backward) tape().backward(y, {values.data(), y.numel()});
  }
  const double tensors = backward ? 6 : 3;  // x is copied and read, y written; the same for their gradients
  set_rates(state, 0, tensors * static_cast<double>(values.size() * sizeof(real)));
}

void run_attention(benchmark::State& state, int sequences, int length, int heads, int width, bool backward) {
  const Shape shape{sequences, length, heads * width};
  const std::vector<real> values = random_values(static_cast<std::size_t>(shape.numel()));
  for (auto _ : state) {
    tape().clear();
    tape().mode = backward ? Mode::train : Mode::eval;
    const Tensor q = variable(shape, values), k = variable(shape, values), v = variable(shape, values);
    const Tensor y = attention(q, k, v, heads);
    if (backward) tape().backward(y, values);
  }
  const double product = 2.0 * sequences * heads * length * length * width;
  set_rates(state, product * (backward ? 7 : 2), 0);
}

// The last queries of a causal sequence of 2,048 rows, 8 heads of 64; window 0: none.
void run_window(benchmark::State& state, int queries, int window, bool backward) {
  constexpr int kKeys = 2048, kColumns = 512;
  const std::vector<real> values = random_values(std::size_t{kKeys} * kColumns);
  const std::vector<int> q_rows{0, queries}, k_rows{0, kKeys};
  for (auto _ : state) {
    tape().clear();
    tape().mode = backward ? Mode::train : Mode::eval;
    const Tensor q =
        variable({queries, kColumns}, std::span(values).first(static_cast<std::size_t>(queries) * kColumns));
    const Tensor k = variable({kKeys, kColumns}, values), v = variable({kKeys, kColumns}, values);
    const Tensor y = attention(q, k, v, 8, q_rows, k_rows, {.mask = Mask::causal(), .window = window});
    if (backward) tape().backward(y, std::span(values).first(y.numel()));
  }
}

void run_adam(benchmark::State& state) {
  Parameters parameters(1);
  parameters.root().parameter("p", {1 << 24}, init_normal(1));
  Adam adam(parameters);
  for (auto _ : state) adam.step(1e-6);
  set_rates(state, 0, 8.0 * sizeof(real) * (1 << 24));  // four blocks read and written
}

void register_all() {
  const auto add = [](const std::string& name, const auto& run) { benchmark::RegisterBenchmark(name.c_str(), run); };
  add("peak/flops", peak_flops);
  add("peak/copy", peak_copy);
  for (const GemmCase& g : kGemms)
    add(std::string("gemm/") + g.name, [&g](benchmark::State& state) { run_gemm(state, g); });

  const auto ones = std::make_shared<std::vector<real>>(1024, real{1});
  const auto row = [ones](const Tensor& x) { return tensor({x.size(1)}, {ones->data(), x.cols()}); };
  const std::vector<std::pair<std::string, Op>> ops = {
      {"exp", [](const Tensor& x) { return exp(x); }},
      {"gelu", [](const Tensor& x) { return gelu(x); }},
      {"tanh", [](const Tensor& x) { return tanh(x); }},
      {"relu", [](const Tensor& x) { return relu(x); }},
      {"add", [](const Tensor& x) { return x + x; }},
      {"dropout", [](const Tensor& x) { return dropout(x, 0.1); }},
      {"softmax", [](const Tensor& x) { return softmax(x); }},
      {"softmax_causal",
       [](const Tensor& x) {
         return softmax(reshape(x, {-1, x.size(1), x.size(1)}), Mask::causal());
       }},
      {"tril", [](const Tensor& x) { return tril(x); }},
      {"permute",
       [](const Tensor& x) {
         return permute(reshape(x, {-1, 16, 4, 8}), {0, 2, 1, 3});
       }},
      {"maximum", [](const Tensor& x) { return maximum(x, neg(x)); }},
      {"masked_fill", [](const Tensor& x) { return masked_fill(x, gt(detach(x), 0), 1); }},
      {"mul", [](const Tensor& x) { return x * x; }},
      {"mul_row", [row](const Tensor& x) { return x * row(x); }},
      {"div", [](const Tensor& x) { return x / x; }},
      {"sub_col", [](const Tensor& x) { return x - slice(x, 1, 0, 1); }},
      {"sum_middle",
       [](const Tensor& x) {
         return sum(reshape(x, {-1, 2, 8}), 1);
       }},
      {"add_row", [row](const Tensor& x) { return x + row(x); }},
      {"softplus", [](const Tensor& x) { return softplus(x); }},
      {"erf", [](const Tensor& x) { return erf(x); }},
      {"logsumexp", [](const Tensor& x) { return logsumexp(x, -1); }},
      {"amax", [](const Tensor& x) { return amax(x, -1); }},
      {"amax_middle",
       [](const Tensor& x) {
         return amax(reshape(x, {-1, 2, 8}), 1);
       }},
      {"scatter_add",
       [](const Tensor& x) {
         static std::vector<int> columns;
         columns.resize(x.numel());
         for (std::size_t i = 0; i < x.numel(); ++i) columns[i] = static_cast<int>(i * 7 % x.cols());
         return scatter_add(x, 1, {x.shape(), columns}, x);
       }},
      {"batch_norm",
       [row](const Tensor& x) { return batch_norm(x, row(x), row(x), zeros({x.size(1)}), row(x), {.momentum = 0}); }},
      {"rms_norm", [row](const Tensor& x) { return rms_norm(x, row(x)); }},
      {"layer_norm", [row](const Tensor& x) { return layer_norm(x, row(x), row(x)); }},
      {"add_norm", [row](const Tensor& x) { return add_norm(x, x, row(x), row(x), {.dropout_before = 0.1}); }}};
  for (const auto& [name, op] : ops)
    for (const auto& [rows, cols] : {std::pair{256, 32}, std::pair{4096, 64}, std::pair{4096, 512}})
      for (const bool backward : {false, true})
        add(name + "/" + std::to_string(rows) + "x" + std::to_string(cols) + (backward ? "/fwd+bwd" : "/fwd"),
            [op = op, rows = rows, cols = cols, backward](benchmark::State& state) {
              run_op(state, rows, cols, backward, op);
            });
  for (const auto& [sequences, length, heads, width] :
       {std::array{64, 9, 4, 8}, std::array{128, 16, 1, 32}, std::array{16, 32, 8, 64}, std::array{4, 512, 8, 64}})
    for (const bool backward : {false, true})
      add("attention/" + std::to_string(sequences) + "x" + std::to_string(length) + "x" + std::to_string(heads) + "x" +
              std::to_string(width) + (backward ? "/fwd+bwd" : "/fwd"),
          [=, sequences = sequences, length = length, heads = heads, width = width](benchmark::State& state) {
            run_attention(state, sequences, length, heads, width, backward);
          });
  for (const int queries : {2048, 1})
    for (const int window : {0, 256})
      for (const bool backward : {false, true})
        add("attention of the last " + std::to_string(queries) + " of 2048/window " + std::to_string(window) +
                (backward ? "/fwd+bwd" : "/fwd"),
            [=](benchmark::State& state) { run_window(state, queries, window, backward); });
  add("adam/16M", run_adam);
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  register_all();
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
