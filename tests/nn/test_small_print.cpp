// Promises that headers and messages make in passing.
#define BOOST_TEST_MODULE small_print
#include <seppo/autograd/core/arena.h>
#include <seppo/autograd/core/parallel.h>
#include <seppo/autograd/core/printable.h>
#include <seppo/autograd/core/utf8.h>
#include <seppo/autograd/ops.h>
#include <seppo/autograd/tools/anomaly.h>
#include <seppo/nn/config.h>
#include <seppo/nn/io/json.h>
#include <seppo/nn/io/safetensors.h>
#include <seppo/nn/modules/kv_cache.h>
#include <seppo/nn/modules/positional_encoding.h>
#include <seppo/nn/optim/clip.h>

#include <boost/test/unit_test.hpp>

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <climits>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>

using namespace seppo;

namespace {

std::string message(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

struct Config {
  int n = 1;
  void fields(ConfigVisitor& v) { v("n", n, {1, 5}, "a number"); }
};

// The text that to_string() returns for x, built row by row.
std::string shown(const Tensor& x, int width, int first_row = 0, int axis = 0) {
  if (axis == x.rank()) {
    char number[64];
    std::snprintf(number, sizeof number, "%*.4g", width,
                  static_cast<double>(x.values()[static_cast<std::size_t>(first_row)]));
    return number;
  }
  std::string text = "[";
  const int n = x.size(axis), below = x.rank() - 1 - axis;
  const std::string gap = below == 0 ? " "
                                     : std::string(static_cast<std::size_t>(below), '\n') +
                                           std::string(static_cast<std::size_t>(axis + 1), ' ');
  for (int i = 0; i < n; ++i) {
    const bool is_left_out = x.numel() > 1000 && n > 6 && i >= 3 && i < n - 3;
    if (is_left_out && i > 3) continue;
    text += (i > 0 ? gap : "") + (is_left_out ? "..." : shown(x, width, first_row * n + i, axis + 1));
  }
  return text + "]";
}

}  // namespace

// Press et al. 2022: head h of 2^k has slope 2^(-8 (h + 1) / 2^k); for other numbers of heads, those beyond the
// largest power of two take every other slope of twice that power.
BOOST_AUTO_TEST_CASE(each_head_has_its_slope) {
  for (const int heads : {1, 2, 3, 4, 5, 6, 8, 12}) {
    const int power = heads >= 8 ? 8 : heads >= 4 ? 4 : heads >= 2 ? 2 : 1;
    Parameters parameters(1);
    const PositionalEncoding encoding(parameters.root(), Positions::alibi, 4, 8 * heads, {.n_heads = heads});
    BOOST_REQUIRE_EQUAL(encoding.relative.slopes.size(), static_cast<std::size_t>(heads));
    for (int h = 0; h < heads; ++h)
      BOOST_CHECK_CLOSE(static_cast<double>(encoding.relative.slopes[static_cast<std::size_t>(h)]),
                        std::pow(2, h < power ? -8.0 * (h + 1) / power : -4.0 * (2 * (h - power) + 1) / power), 1e-4);
  }
}

// Values are shown in at most sixty characters of printable ASCII.
BOOST_AUTO_TEST_CASE(values_in_messages_are_safe_and_short) {
  const auto refusal = [](const std::string& value) {
    return message([&] { from_json_object<Config>(parse_json("{\"n\": " + value + "}", "file")); });
  };
  BOOST_CHECK_MESSAGE(has(refusal("\"é\""), "\"\\u00e9\""), refusal("\"é\""));
  BOOST_CHECK(has(refusal("\"" + std::string(58, 'x') + "\""), "\"" + std::string(58, 'x') + "\""));
  BOOST_CHECK(!has(refusal("\"" + std::string(58, 'x') + "\""), "..."));
  BOOST_CHECK(has(refusal("\"" + std::string(59, 'x') + "\""), "\"" + std::string(59, 'x') + "..."));
}

// Beyond 1000 elements, axes with more than six entries show only the first three and the last three.
BOOST_AUTO_TEST_CASE(long_axes_are_shortened) {
  RandomStream random(1, Purpose::test);
  for (const Shape& shape : {Shape{400, 4}, Shape{4, 400}, Shape{250, 4}, Shape{2, 7, 6, 13}, Shape{1001},
                             Shape{6, 200}, Shape{3, 2}, Shape{}}) {
    const Tensor x = randn(shape, random);
    const std::string text = to_string(x);
    std::size_t width = 0;
    while (width < 12 && text != shown(x, static_cast<int>(width))) ++width;
    BOOST_CHECK_MESSAGE(width < 12, shape.str() << ":\n" << text << "\nis not\n" << shown(x, 9));
  }
}

// The gradient of a power of a negative base is not finite in the exponent, but finite in the base.
BOOST_AUTO_TEST_CASE(the_anomalous_input_is_named) {
  FindAnomaly anomaly;
  const Observe scope(anomaly);
  const Tensor base = variable({2}, {-1, 2}), exponent = variable({2}, {2, 2});
  const std::string text = message([&] { tape().backward(sum(pow(base, exponent))); });
  BOOST_CHECK_MESSAGE(has(text, "pow: backward made NaN in the gradient of input 1 ") && has(text, " at [0]"), text);
}

// Messages name the arguments in the order in which they were given.
BOOST_AUTO_TEST_CASE(messages_name_what_was_given) {
  const Tensor a = zeros({2, 3}), b = zeros({3, 3}), flat = zeros({6});
  BOOST_CHECK(has(message([&] { concat({a, a, b}, 1); }), "axis 1: [2,3] dim 0 = 2, [3,3] dim 0 = 3"));
  BOOST_CHECK(has(message([&] { concat({a, flat}); }), "ranks differ: [2,3] and [6]"));
  BOOST_CHECK(has(message([&] { stack({a, a, b}); }), "shapes differ: [2,3] and [3,3]"));

  const Inference guard;
  KeyValueCache cache(1, 2, 4, 8);
  const std::vector<int> parents{0, 1, 1}, first{0, 0, 0}, offsets{0, 1, 2}, late{1, 2, 3}, right{0, 1, 3},
      other{1, 0, 1}, decreasing{0, 4, 3};
  const auto selects = [&](const std::vector<int>& rows, const std::vector<int>& at) {
    return message([&] { cache.select(rows, at); });
  };
  const std::string said = "3 rows selected for 2 sources, but their offsets are 3 and end with ";
  BOOST_CHECK(has(selects(parents, offsets), said + "2"));
  BOOST_CHECK(has(selects(parents, late), said + "3"));
  BOOST_CHECK(has(selects(parents, {0, 3}), "3 rows selected for 2 sources, but their offsets are 2 and end with 3"));
  BOOST_CHECK(has(selects(parents, {}), "their offsets are 0 and end with 0"));
  BOOST_CHECK(has(selects(first, decreasing), "offsets decrease at source 0"));
  BOOST_CHECK(has(selects(other, right), "row 0 of source 0 cannot continue row 1, whose source is another"));
  BOOST_CHECK_EQUAL(selects(parents, right), "no error");
  BOOST_CHECK(has(message([&] { cache.source_offsets(offsets); }), "decode: 2 sequences, but the sources have 3"));
}

BOOST_AUTO_TEST_CASE(ranges_have_as_many_elements_as_an_axis_can) {
  BOOST_CHECK(has(message([] { arange(0, 3e9, 1); }), "arange: 3e+09 elements are more than an axis can have"));
}

// Two tasks that wait for each other both end, so they run concurrently.
BOOST_AUTO_TEST_CASE(tasks_run_at_the_same_time) {
  const int before = num_threads();
  set_num_threads(2);
  std::atomic<int> begun = 0;
  std::atomic<bool> met = true;
  run_tasks(2, [&](std::size_t) {
    ++begun;
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (begun < 2 && std::chrono::steady_clock::now() < end) std::this_thread::yield();
    if (begun < 2) met = false;
  });
  BOOST_CHECK(met);
  set_num_threads(before);
}

// erf rounds to 1 from 3.92 on, as the kernel for single precision promises, and never exceeds 1.
BOOST_AUTO_TEST_CASE(erf_is_at_most_one) {
  std::vector<real> values;
  for (int i = 0; i < 3000; ++i) values.push_back(static_cast<real>(3 + i * 0.001));
  const Tensor x = tensor({3000}, values), y = erf(x), mirrored = erf(-x);
  for (std::size_t i = 0; i < values.size(); ++i) {
    BOOST_CHECK_LE(y.values()[i], real{1});
    BOOST_CHECK_EQUAL(mirrored.values()[i], -y.values()[i]);
    if (values[i] >= real(3.92)) BOOST_CHECK_EQUAL(y.values()[i], real{1});
  }
}

BOOST_AUTO_TEST_CASE(reductions_drop_their_axes) {
  const Tensor x = ones({2, 3, 4});
  for (const Tensor& y : {sum(x, 1), mean(x, 1), var(x, 1), amax(x, 1), sum(x, {-2}), mean(x, {1}), var(x, {1})})
    BOOST_CHECK_EQUAL(y.shape().str(), "[2,4]");
  for (const Tensor& y : {sum(x), mean(x), var(x)}) BOOST_CHECK_EQUAL(y.shape().str(), "[]");
}

BOOST_AUTO_TEST_CASE(columns_are_within_their_matrix) {
  const Tensor x = ones({3, 8});
  const std::vector<int> rows{0, 3};
  const auto attends = [&](const Columns& q) {
    return message([&] { attention(q, Columns(x, 0, 4), Columns(x, 4, 4), 2, rows, rows); });
  };
  BOOST_CHECK_EQUAL(attends(Columns(x, 4, 4)), "no error");
  for (const auto& [first, count, said] : {std::tuple{-1, 4, "-1..3"},
                                           {5, 4, "5..9"},
                                           {0, 0, "0..0"},
                                           {8, 4, "8..12"},
                                           {INT_MAX, 4, "2147483647..2147483651"}})
    BOOST_CHECK(has(attends(Columns(x, first, count)),
                    std::string("attention: columns ") + said + " are not within a matrix [3,8]"));
  BOOST_CHECK(has(attends(Columns(ones({3, 8, 1}), 0, 4)), "are not within a matrix [3,8,1]"));
}

BOOST_AUTO_TEST_CASE(a_fresh_arena_holds_nothing) {
  Arena arena;
  BOOST_CHECK_EQUAL(arena.capacity(), 0u);
  BOOST_CHECK_EQUAL(arena.used(), 0u);
}

// A file may have 65536 tensors and as many entries of metadata, not one more, whether it is read or written; errors
// in its header are reported in ASCII.
BOOST_AUTO_TEST_CASE(safetensors_have_a_limit_of_tensors_and_metadata) {
  const std::filesystem::path file =
      std::filesystem::temp_directory_path() / ("seppo-print-" + std::to_string(::getpid()));
  const std::vector<std::byte> byte(1);
  std::vector<std::string> names;
  for (int i = 0; i <= 65536; ++i) names.push_back(std::to_string(i));
  const std::vector<std::int64_t> shape{1};
  std::vector<TensorView> views;
  for (const std::string& name : names) views.push_back({name, "U8", shape, byte});
  BOOST_CHECK(
      has(message([&] { write_safetensors(file, {}, views); }), "more than 65536 tensors; nothing was written"));
  views.pop_back();
  BOOST_CHECK_EQUAL(message([&] { write_safetensors(file, {}, views); }), "no error");
  BOOST_CHECK_EQUAL(SafeTensorsFile(file).tensors().size(), 65536u);
  std::map<std::string, std::string> metadata;  // the file adds two entries of its own
  for (int i = 0; i < 65534; ++i) metadata[std::to_string(i)] = "x";
  BOOST_CHECK_EQUAL(message([&] { write_safetensors(file, metadata, {}); }), "no error");
  BOOST_CHECK_EQUAL(SafeTensorsFile(file).metadata().size(), 65536u);
  metadata["more"] = "x";
  BOOST_CHECK(
      has(message([&] { write_safetensors(file, metadata, {}); }), "more than 65536 metadata; nothing was written"));
  BOOST_CHECK_EQUAL(SafeTensorsFile(file).metadata().size(), 65536u);
  const std::string header = R"({"w":{"dtype":"U8","shape":"é","data_offsets":[0,1]}})";
  const std::uint64_t size = header.size();
  std::ofstream(file, std::ios::binary).write(reinterpret_cast<const char*>(&size), 8) << header << "x";
  const std::string text = message([&] { SafeTensorsFile{file}; });
  BOOST_CHECK_MESSAGE(has(text, "00e9") && std::ranges::none_of(text, [](char c) { return c < 0; }), text);
  std::filesystem::remove(file);
}

// Whatever the reader would refuse leaves a good file alone.
BOOST_AUTO_TEST_CASE(what_cannot_be_read_is_not_written) {
  const std::filesystem::path file =
      std::filesystem::temp_directory_path() / ("seppo-print-" + std::to_string(::getpid()));
  const std::vector<std::byte> bytes(12);
  const auto refusal = [&](std::map<std::string, std::string> metadata, const TensorView& tensor) {
    try {
      write_safetensors(file, std::move(metadata), {&tensor, 1});
    } catch (const ArgumentError& e) {
      return std::string(e.what());
    }
    return std::string("written");
  };
  const TensorView good{"a", "F32", {3}, bytes};
  BOOST_CHECK_EQUAL(refusal({{"a", "é"}}, good), "written");
  for (const TensorView& bad :
       {TensorView{"a", "F32", {4}, bytes}, TensorView{"a", "F32", {-1, -3}, bytes}, TensorView{"a", "F33", {3}, bytes},
        TensorView{"a", "f32", {3}, bytes}, TensorView{"a", "U8", {12, 1, 1, 1, 1, 1, 1, 1, 1}, bytes},
        TensorView{"a", "U8", {std::int64_t{1} << 62, 4}, bytes}})
    BOOST_CHECK_MESSAGE(has(refusal({}, bad), "nothing was written"), refusal({}, bad));
  const std::string is_no_text = "\xc3";
  BOOST_CHECK(has(refusal({{"a", is_no_text}}, good), "nothing was written"));
  BOOST_CHECK(has(refusal({{is_no_text, "a"}}, good), "nothing was written"));
  BOOST_CHECK(has(refusal({{"a", std::string(std::size_t{16} << 20, 'x')}}, good), "nothing was written"));
  const SafeTensorsFile kept(file);
  kept.verify();
  BOOST_CHECK_EQUAL(kept.metadata().at("a"), "é");
  std::filesystem::remove(file);
}

// UTF-8 as RFC 3629 defines it: the shortest form of a code point up to U+10FFFF that is not a surrogate.
BOOST_AUTO_TEST_CASE(characters_are_utf8) {
  const auto length_of = [](const unsigned(&b)[4]) -> std::size_t {
    const std::size_t length = b[0] < 0x80 ? 1 : b[0] >> 5 == 6 ? 2 : b[0] >> 4 == 14 ? 3 : b[0] >> 3 == 30 ? 4 : 0;
    unsigned code = length == 1 ? b[0] : b[0] & (0x7Fu >> length);
    for (std::size_t i = 1; i < length; ++i) {
      if (b[i] >> 6 != 2) return 0;
      code = code << 6 | (b[i] & 0x3F);
    }
    const unsigned least[] = {0, 0, 0x80, 0x800, 0x10000};
    return code < least[length] || code > 0x10FFFF || code >> 11 == 27 ? 0 : length;
  };
  for (unsigned first = 0; first < 256; ++first)
    for (unsigned second = 0; second < 256; ++second)
      for (const unsigned third : {0x00u, 0x7Fu, 0x80u, 0xBFu, 0xC0u})
        for (const unsigned fourth : {0x41u, 0x80u, 0xBFu, 0xFFu}) {
          const unsigned bytes[] = {first, second, third, fourth};
          std::string text;
          for (const unsigned byte : bytes) text += static_cast<char>(byte);
          const std::size_t length = length_of(bytes);
          BOOST_REQUIRE_MESSAGE(character_length(text) == length,
                                first << " " << second << " " << third << " " << fourth);
          if (length > 1) BOOST_REQUIRE_EQUAL(character_length(text.substr(0, length - 1)), 0u);
          if (length == 0) continue;
          // Control characters are escaped byte by byte; all others but the backslash are shown as they are.
          const bool is_control = first < 0x20 || first == 0x7F || (first == 0xC2 && second < 0xA0);
          const std::string own = text.substr(0, length), shown = std::string(printable(own));
          BOOST_REQUIRE_MESSAGE(is_control ? shown.starts_with("\\") : shown == own || own == "\\", shown);
        }
}

// An op that runs others before it is recorded: a change of any parameter that either used is an error.
BOOST_AUTO_TEST_CASE(changes_are_seen_whatever_the_order_of_records) {
  for (const int changed : {0, 1, 2}) {
    tape().clear();
    Parameters outer(1), inner(2);
    const Tensor a = outer.root().parameter("a", {3}, init_ones()), b = inner.root().parameter("b", {3}, init_ones());
    const Tensor y = tape().create({3}), z = square(b);
    for (std::size_t i = 0; i < 3; ++i) y.data()[i] = 2 * a.values()[i];
    record("twice", y, {a}, [=] {
      for (std::size_t i = 0; i < 3; ++i) grad_of(a)[i] += 2 * grad_of(y)[i];
    });
    const Tensor loss = sum(y) + sum(z);
    if (changed == 1) outer.changed();
    if (changed == 2) inner.changed();
    const std::string text = message([&] { tape().backward(loss); });
    BOOST_CHECK_MESSAGE(changed == 0 ? text == "no error"
                                     : has(text, changed == 1 ? "backward: a has changed" : "backward: b has changed"),
                        text);
  }
}

// Beyond 64 blocks of 2^20 gradients, the blocks are larger, and each gradient still counts once.
BOOST_AUTO_TEST_CASE(the_norm_of_many_gradients) {
  if (sizeof(real) == 8) return;
  constexpr int kBlocks = 65, kBlock = 1 << 20;
  Parameters parameters(1);
  parameters.root().parameter("w", {kBlocks, kBlock}, [](std::span<real>, const Shape&, RandomStream&) {});
  const std::span<real> gradients = parameters.gradients();
  double sum = 0;
  for (std::size_t i = 5; i < gradients.size(); i += 100'003) {
    gradients[i] = static_cast<real>(i % 17);
    sum += double{gradients[i]} * double{gradients[i]};
  }
  BOOST_CHECK_CLOSE(gradient_norm(parameters), std::sqrt(sum), 1e-9);
}

// The product of a shape's sizes is at most 2^53, beyond which JSON's numbers are not exact.
BOOST_AUTO_TEST_CASE(shapes_have_a_limit) {
  const std::filesystem::path file =
      std::filesystem::temp_directory_path() / ("seppo-print-" + std::to_string(::getpid()));
  const auto refusal = [&](const std::string& shape) {
    const std::string header = R"({"w":{"dtype":"U8","shape":)" + shape + R"(,"data_offsets":[0,0]}})";
    const std::uint64_t size = header.size();
    std::ofstream(file, std::ios::binary).write(reinterpret_cast<const char*>(&size), 8) << header;
    return message([&] { SafeTensorsFile{file}; });
  };
  BOOST_CHECK(has(refusal("[134217728,67108864]"), "do not hold the 9007199254740992 bytes of its shape"));
  BOOST_CHECK(has(refusal("[134217728,67108865]"), "the shape has too many elements"));
  BOOST_CHECK(has(refusal("[9007199254740993]"), "9007199254740993"));
  std::filesystem::remove(file);
}
