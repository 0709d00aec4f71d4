// attention_lab: computes attention in several ways, shows that they agree, and how their costs grow with the length.
#include "app/command_line.h"
#include "app/paths.h"
#include "app/random_tensor.h"
#include "app/run.h"
#include "attention_lab/ways.h"

#include <seppo/autograd/core/guards.h>
#include <seppo/autograd/core/random.h>
#include <seppo/nn/io/text_file.h>

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <ctime>
#include <functional>
#include <iostream>

namespace attention_lab {
namespace {

using examples::CommandLine;
using examples::random_tensor;
using nlohmann::json;
using seppo::real;
using seppo::Shape;

double difference(const Tensor& a, const Tensor& b) { return amax(seppo::abs(a - b)).item(); }

// Prints each comparison; returns the largest difference.
double compare_ways() {
  seppo::tape().clear();
  const Shape shape{3, 12, 16};
  const Tensor q = random_tensor(shape, 1), k = random_tensor(shape, 2), v = random_tensor(shape, 3);
  const Tensor reference = no_loop(q, k, v);
  double worst = 0;
  const auto report = [&](const char* what, double d) {
    std::cout << fmt::format("  {:<62} {:.1e}\n", what, d);
    worst = std::max(worst, d);
  };
  std::cout << "largest differences, of values of order 1:\n";
  const auto first = [](const Tensor& x) { return reshape(slice(x, 0, 0, 1), {12, 16}); };
  report("two loops for one sequence, and two batched products",
         difference(two_loops(first(q), first(k), first(v)), first(reference)));
  report("two loops for a batch, and two batched products", difference(two_loops_for_a_batch(q, k, v), reference));
  report("the fused op, and two batched products", difference(fused(q, k, v), reference));
  seppo::Parameters parameters(1);
  const seppo::MultiHeadAttention attention(parameters.root() / "attention", 16, 4);
  report("four heads one by one, and from one stacked product",
         difference(separate_heads(attention, q), stacked_heads(attention, q)));
  return worst;
}

struct Cost {
  double ms = 0, median_ms = 0, most_ms = 0, mb = 0;
};

// The processor time that this process has taken on all its threads: what others do beside it does not count.
double processor_ms() {
  timespec now{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return 1e3 * static_cast<double>(now.tv_sec) + 1e-6 * static_cast<double>(now.tv_nsec);
}

// The processor time of several forward and backward passes, of which the fastest counts, since nothing makes a pass
// faster than it is; and the memory that the tape of one takes.
Cost measure(const std::function<Tensor(const Tensor&, const Tensor&, const Tensor&)>& way, int length, int width,
             int repeats) {
  seppo::Tape own;
  const seppo::UseTape use(own);
  std::vector<double> times;
  Cost cost;
  for (int i = 0; i < repeats; ++i) {
    own.clear();
    const Shape shape{1, length, width};
    const Tensor q = random_tensor(shape, 1), k = random_tensor(shape, 2), v = random_tensor(shape, 3);
    const double start = processor_ms();
    own.backward(sum(way(q, k, v)));
    times.push_back(processor_ms() - start);
  }
  std::ranges::sort(times);
  cost.ms = times.front();
  cost.median_ms = times[static_cast<std::size_t>(repeats / 2)];
  cost.most_ms = times.back();
  cost.mb = static_cast<double>(own.used()) / 1e6;
  return cost;
}

// "10.64 (10.81, 12.02)"
std::string text_of(const Cost& cost) {
  return fmt::format("{:.2f} ({:.2f}, {:.2f})", cost.ms, cost.median_ms, cost.most_ms);
}

// The slope of log y against log x: the exponent with which the cost grows.
double exponent(const std::vector<int>& lengths, const std::vector<double>& costs) {
  double mx = 0, my = 0, xx = 0, xy = 0;
  const double n = static_cast<double>(lengths.size());
  for (std::size_t i = 0; i < lengths.size(); ++i) mx += std::log(lengths[i]) / n, my += std::log(costs[i]) / n;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    const double x = std::log(lengths[i]) - mx;
    xx += x * x;
    xy += x * (std::log(costs[i]) - my);
  }
  return xx > 0 ? xy / xx : 0;
}

struct Curve {
  std::string name;
  std::vector<double> values;
};

// Axis ticks between low and high: 1, 2 and 5 times powers of ten, or only the powers if the range is wide.
std::vector<double> ticks(double low, double high) {
  std::vector<double> values;
  const bool are_many = high / low > 1000;
  for (double ten = std::pow(10, std::floor(std::log10(low))); ten <= high; ten *= 10)
    for (const double value : {ten, 2 * ten, 5 * ten})
      if (value >= low && value <= high && (value == ten || !are_many)) values.push_back(value);
  return values.size() > 1 ? values : std::vector<double>{low, high};
}

// Plots curves over the lengths; both axes are logarithmic.
std::string plot(const std::string& title, const std::vector<int>& lengths, const std::vector<Curve>& curves,
                 int left) {
  constexpr int kWidth = 300, kHeight = 220, kTop = 40;
  double low = INFINITY, high = 0;
  for (const Curve& curve : curves)
    for (const double v : curve.values) low = std::min(low, v), high = std::max(high, v);
  const double span = std::max(std::log(high / low), 1e-9),
               wide = std::max(std::log(1.0 * lengths.back() / lengths.front()), 1e-9);
  const auto x = [&](int length) { return left + std::log(1.0 * length / lengths.front()) / wide * kWidth; };
  const auto y = [&](double value) { return kTop + kHeight - std::log(value / low) / span * kHeight; };
  std::string svg = fmt::format("<text x=\"{}\" y=\"20\" font-size=\"14\">{}</text>\n", left, title);
  for (const double value : ticks(low, high))
    svg += fmt::format(
        "<line x1=\"{0}\" x2=\"{1}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\"/><text x=\"{3}\" y=\"{4:.1f}\" "
        "text-anchor=\"end\">{5:g}</text>\n",
        left, left + kWidth, y(value), left - 6, y(value) + 4, value);
  for (const int length : lengths)
    svg += fmt::format("<text x=\"{:.0f}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n", x(length), kTop + kHeight + 18,
                       length);
  for (std::size_t c = 0; c < curves.size(); ++c) {
    std::string points;
    for (std::size_t i = 0; i < lengths.size(); ++i)
      points += fmt::format("{:.1f},{:.1f} ", x(lengths[i]), y(curves[c].values[i]));
    svg += fmt::format("<polyline points=\"{}\" class=\"l{}\"/>\n", points, c);
    for (std::size_t i = 0; i < lengths.size(); ++i)
      svg += fmt::format(
          "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" class=\"d{}\"><title>{} at {}: {:.3g}</title></circle>\n",
          x(lengths[i]), y(curves[c].values[i]), c, curves[c].name, lengths[i], curves[c].values[i]);
    svg += fmt::format("<text x=\"{}\" y=\"{}\" class=\"d{}\">{}, power {:.2f}</text>\n", left,
                       kTop + 14 + 16 * static_cast<int>(c), c, curves[c].name, exponent(lengths, curves[c].values));
  }
  return svg;
}

std::string page(const std::vector<int>& lengths, const std::vector<Curve>& ms, const std::vector<Curve>& mb) {
  return "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 750 290\" width=\"750\" height=\"290\" "
         "font-family=\"sans-serif\" font-size=\"11\"><style>svg{background:#fff;color:#222}text{fill:currentColor}"
         "line{stroke:#8884}polyline{fill:none;stroke-width:2}.l0{stroke:#c2410c}.d0{fill:#c2410c}.l1{stroke:#0b61a4}."
         "d1{fill:#0b61a4}"
         "@media(prefers-color-scheme:dark){svg{background:#16181c;color:#ddd}.l0{stroke:#fb923c}.d0{fill:#fb923c}"
         ".l1{stroke:#6db3f2}.d1{fill:#6db3f2}}</style>\n" +
         plot("forward and backward, ms, by length", lengths, ms, 50) +
         plot("memory, MB, by length", lengths, mb, 430) + "</svg>\n";
}

std::vector<int> parse_lengths(const std::string& text) {
  std::vector<int> lengths;
  std::size_t begin = 0;
  while (begin <= text.size()) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    int value = 0;
    const auto [stop, error] = std::from_chars(text.data() + begin, text.data() + end, value);
    if (error != std::errc() || stop != text.data() + end || value < 1 || value > 16384 ||
        (!lengths.empty() && value <= lengths.back()))
      throw examples::UsageError(
          "--lengths: needs rising numbers from 1 to 16384 with commas between, such as 256,512");
    lengths.push_back(value);
    begin = end + 1;
  }
  return lengths;
}

int run(const std::vector<std::string>& arguments) {
  std::string lengths_text = "256,512,1024,2048";
  int width = 64, repeats = 7, threads = 1;
  std::filesystem::path plot_file;
  bool as_json = false;
  CommandLine line(
      "attention_lab [options]",
      "Computes the same attention by two loops, by two batched products and by the fused op; shows that they are "
      "equal, and how time and memory grow with the length of the sequence.");
  line("lengths", lengths_text, "lengths to measure, rising, with commas between");
  line("width", width, {1, 4096}, "width of queries, keys and values");
  line("repeats", repeats, {1, 1000}, "passes, of which the fastest counts");
  line("threads", threads, {0, 256}, examples::kThreadsHelp);
  line("plot", plot_file, "file for a picture of the growth, SVG");
  line("json", as_json, examples::kJsonHelp);
  if (!line.parse(arguments)) return 0;
  const std::vector<int> lengths = parse_lengths(lengths_text);
  if (!plot_file.empty()) examples::check_output("plot", plot_file);
  examples::use_threads(threads);

  const double worst = compare_ways();
  std::vector<Curve> ms{{"two products", {}}, {"fused", {}}}, mb = ms;
  json spreads = json::array();  // for each length and way, the median and the slowest pass
  std::cout << fmt::format(
      "\nforward and backward, width {}: processor time of the fastest of {} passes (median, slowest)\n"
      "{:>8} {:>28} {:>28} {:>8} {:>8}\n",
      width, repeats, "length", "two products, ms", "fused op, ms", "MB", "MB");
  for (const int length : lengths) {
    const Cost plain = measure(no_loop, length, width, repeats);
    const Cost own = measure([](const Tensor& q, const Tensor& k, const Tensor& v) { return fused(q, k, v); }, length,
                             width, repeats);
    std::cout << fmt::format("{:>8} {:>28} {:>28} {:>8.2f} {:>8.2f}\n", length, text_of(plain), text_of(own), plain.mb,
                             own.mb);
    spreads.push_back({{plain.median_ms, plain.most_ms}, {own.median_ms, own.most_ms}});
    ms[0].values.push_back(plain.ms), ms[1].values.push_back(own.ms);
    mb[0].values.push_back(plain.mb), mb[1].values.push_back(own.mb);
  }
  if (lengths.size() > 1)
    std::cout << fmt::format("{:>8} {:>28.2f} {:>28.2f} {:>8.2f} {:>8.2f}\n", "power", exponent(lengths, ms[0].values),
                             exponent(lengths, ms[1].values), exponent(lengths, mb[0].values),
                             exponent(lengths, mb[1].values));
  if (!plot_file.empty()) seppo::write_text(plot_file, page(lengths, ms, mb));
  if (as_json)
    std::cout << json{{"largest_difference", worst},
                      {"lengths", lengths},
                      {"products_ms", ms[0].values},
                      {"fused_ms", ms[1].values},
                      {"median_and_slowest_ms", spreads},
                      {"products_mb", mb[0].values},
                      {"fused_mb", mb[1].values},
                      {"memory_powers", {exponent(lengths, mb[0].values), exponent(lengths, mb[1].values)}}}
                     .dump()
              << "\n";
  seppo::check<seppo::NumericError>(worst < 1e-5, "the ways differ by ", worst);
  return 0;
}

}  // namespace
}  // namespace attention_lab

int main(int argc, char** argv) { return examples::run_command(argc, argv, attention_lab::run); }
