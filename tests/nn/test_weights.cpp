// Weights under other names: stacks, transposition, types, and files that do not fit or are malicious.
#include <seppo/nn/io/checkpoint.h>
#include <seppo/nn/io/sharded_weights.h>
#include <seppo/nn/modules/linear.h>

#include "support/program.h"
#include "support/stored.h"

#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>

#include <unistd.h>
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <random>
#include <string>
#include <vector>

using namespace seppo;
using namespace test;
namespace fs = std::filesystem;

namespace {

template <class T>
StoredTensor stored(const std::string& name, const std::string& dtype, const std::vector<std::int64_t>& shape,
                    const std::vector<T>& values) {
  const std::span<const std::byte> bytes = std::as_bytes(std::span(values));
  return {name, dtype, shape, {bytes.begin(), bytes.end()}};
}

std::vector<real> copy(std::span<const real> values) { return {values.begin(), values.end()}; }
std::vector<real> values_of(const Parameters& parameters) { return copy(parameters.values()); }

// a: [4,3] and [4], b: [2,4] and [2].
struct Model {
  explicit Model(std::uint64_t seed)
      : parameters(seed), a(parameters.root() / "a", 3, 4), b(parameters.root() / "b", 4, 2) {
    std::fill_n(a.bias.data(), 4, real{0.5});
  }
  Parameters parameters;
  Linear a, b;
};

// The message of E, which must be one line; the model must be unchanged.
template <class E>
std::string refusal(Model& model, const fs::path& path, const WeightOptions& options = {}) {
  const std::vector<real> before = values_of(model.parameters);
  std::string text = "accepted";
  try {
    load_weights(path, model.parameters, options);
  } catch (const E& e) {
    text = e.what();
    BOOST_CHECK_MESSAGE(text.find('\n') == text.npos, text);
    BOOST_CHECK(before == values_of(model.parameters));
  }
  return text;
}

bool has(const std::string& text, const std::string& part) {
  if (text.find(part) != text.npos) return true;
  BOOST_TEST_MESSAGE("'" << part << "' is not in: " << text.substr(0, 2000));
  return false;
}

using Names = std::vector<std::string>;

}  // namespace

BOOST_AUTO_TEST_CASE(all_floating_types_load) {
  const Folder folder("weights");
  const fs::path path = folder.path / "f";
  Parameters parameters(1);
  const Scope s = parameters.root();
  const Tensor d = s.parameter("d", {3}, init_ones()), f = s.parameter("f", {2}, init_ones()),
               h = s.parameter("h", {4}, init_ones()), b = s.parameter("b", {2}, init_ones());
  const auto write_them = [&](double wide, float single, std::uint16_t half, std::uint16_t brain) {
    write_stored(path, {{},
                        {stored<double>("d", "F64", {3}, {1.0 / 3, 1e-320, wide}),
                         stored<float>("f", "F32", {2}, {0.1F, single}),
                         stored<std::uint16_t>("h", "F16", {4}, {0x0001, 0x7bff, 0xbc00, half}),
                         stored<std::uint16_t>("b", "BF16", {2}, {0x3fc0, brain}),
                         stored<std::int64_t>("steps", "I64", {1}, {7}), stored<char>("mask", "BOOL", {2}, {0, 1})}});
  };
  const WeightOptions options{.skip = [](const std::string& name) { return name == "steps" || name == "mask"; }};
  write_them(-2.5, 3, 0x3800, 0xc000);
  BOOST_CHECK(load_weights(path, parameters, options).empty());
  BOOST_CHECK_EQUAL(d.values()[0], static_cast<real>(1.0 / 3));  // rounded to nearest
  BOOST_CHECK_EQUAL(d.values()[1], static_cast<real>(1e-320));
  BOOST_CHECK(copy(f.values()) == (std::vector<real>{static_cast<real>(0.1F), 3}));
  BOOST_CHECK(copy(h.values()) == (std::vector<real>{static_cast<real>(std::ldexp(1.0, -24)), 65504, -1, 0.5}));
  BOOST_CHECK(copy(b.values()) == (std::vector<real>{1.5, -2}));
  const std::vector<real> before = values_of(parameters);
  constexpr float kInf = std::numeric_limits<float>::infinity();
  for (const auto& write_one : {std::function<void()>([&] { write_them(1e300, 3, 0x3800, 0xc000); }),  // overflow
                                std::function<void()>([&] { write_them(1, kInf, 0x3800, 0xc000); }),
                                std::function<void()>([&] { write_them(1, 3, 0xfc00, 0xc000); }),
                                std::function<void()>([&] { write_them(1, 3, 0x7c01, 0xc000); }),
                                std::function<void()>([&] { write_them(1, 3, 0x3800, 0x7f80); }),
                                std::function<void()>([&] { write_them(1, 3, 0x3800, 0xffff); })}) {
    write_one();
    for (const bool strict : {true, false}) {
      BOOST_CHECK_THROW(load_weights(path, parameters, {.skip = options.skip, .strict = strict}), FormatError);
      BOOST_CHECK(before == values_of(parameters));
    }
  }
}

// Doubles are read in pieces of 2^18.
BOOST_AUTO_TEST_CASE(many_doubles_load) {
  const Folder folder("weights");
  for (const int count : {(1 << 18) - 1, 1 << 18, (1 << 18) + 1, (1 << 19) + 3}) {
    std::vector<double> numbers;
    for (int i = 0; i < count; ++i) numbers.push_back(1 / (1.0 + i));
    write_stored(folder.path / "f", {{}, {stored<double>("d", "F64", {count}, numbers)}});
    Parameters parameters(1);
    const Tensor d = parameters.root().parameter("d", {count}, init_ones());
    BOOST_CHECK(load_weights(folder.path / "f", parameters, {}).empty());
    const auto is_nearest = [](real own, double stored) { return own == static_cast<real>(stored); };
    BOOST_CHECK(std::ranges::equal(d.values(), numbers, is_nearest));
  }
}

// What may change after a failure changes nothing about what is loaded.
BOOST_AUTO_TEST_CASE(values_are_read_in_place) {
  const Folder folder("weights");
  const fs::path path = folder.path / "f";
  write_stored(path, {{},
                      {stored<float>("a.weight", "F32", {3, 4}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}),
                       stored<double>("a.bias", "F64", {4}, {1, 2, 3, 4}),
                       stored<std::uint16_t>("first", "BF16", {1, 4}, {0x3f80, 0x4000, 0x4040, 0x4080}),
                       stored<double>("second", "F64", {1, 4}, {5, 6, 7, 8})}});
  WeightOptions options{.rename = [](const std::string& name) -> Names {
                          if (name == "b.weight") return {"first", "second"};
                          return {name};
                        },
                        .transpose = [](const std::string& name) { return name == "a.weight"; },
                        .skip = [](const std::string& name) { return name == "b.bias"; }};
  Model by_copies(1), in_place(1);
  load_weights(path, by_copies.parameters, options);
  options.after_failure = AfterFailure::undefined;
  load_weights(path, in_place.parameters, options);
  BOOST_CHECK(values_of(in_place.parameters) == values_of(by_copies.parameters));
  BOOST_CHECK(copy(in_place.a.weight.values()) == (std::vector<real>{1, 5, 9, 2, 6, 10, 3, 7, 11, 4, 8, 12}));
  BOOST_CHECK(copy(in_place.b.weight.values()) == (std::vector<real>{1, 2, 3, 4, 5, 6, 7, 8}));

  // What does not fit is still found before the first value changes; what is not finite, while values are read.
  const std::vector<real> before = values_of(in_place.parameters);
  options.rename = nullptr;
  BOOST_CHECK_THROW(load_weights(path, in_place.parameters, options), FormatError);
  BOOST_CHECK(values_of(in_place.parameters) == before);
}

BOOST_AUTO_TEST_CASE(strict_reports_everything_and_changes_nothing) {
  const Folder folder("weights");
  const fs::path path = folder.path / "f";
  write_stored(path, {{},
                      {stored<float>("a.weight", "F32", {3, 4}, std::vector<float>(12, 1)),
                       stored<std::int32_t>("b.bias", "I32", {2}, {1, 2}),
                       stored<float>("b.weight", "F32", {2, 4}, std::vector<float>(8, 2)),
                       stored<std::int64_t>("x.count", "I64", {}, {1}), stored<float>("y", "F32", {1}, {1})}});
  Model model(1);
  const std::string text = refusal<FormatError>(model, path);
  BOOST_CHECK(text.starts_with(path.string()));
  for (const char* part : {"does not fit the model; a.weight is [3,4] in the file, [4,3] in the model",
                           "the file has no a.bias", "b.bias is I32", "the model has no x.count", "the model has no y"})
    BOOST_CHECK(has(text, part));

  const std::vector<real> before = values_of(model.parameters);
  const Names left = load_weights(path, model.parameters, {.strict = false});
  BOOST_CHECK_EQUAL(left.size(), 5);
  for (const std::string& line : left) BOOST_CHECK(has(text, "; " + line));
  BOOST_CHECK(copy(model.b.weight.values()) == std::vector<real>(8, 2));
  BOOST_CHECK(std::equal(before.begin(), before.begin() + 20, model.parameters.values().begin()));
  BOOST_CHECK_EQUAL(model.b.bias.values()[1], 0);

  const auto none = [](const std::string& name) { return Names{"z." + name}; };
  const Names nothing = load_weights(path, model.parameters, {.rename = none, .strict = false});
  BOOST_CHECK_EQUAL(nothing.size(), 9);
  BOOST_CHECK_EQUAL(nothing[1], "the file has no z.a.bias for a.bias");
}

// A file written by hand, as a stranger would write it.
BOOST_AUTO_TEST_CASE(stacks_and_transposed_matrices) {
  const Folder folder("weights");
  const fs::path path = folder.path / "f";
  write_stored(path, {{},
                      {stored<float>("u", "F32", {3, 1}, {1, 2, 3}),
                       stored<float>("v", "F32", {3, 3}, {4, 7, 10, 5, 8, 11, 6, 9, 12}),
                       stored<float>("c", "F32", {2}, {1, 2}), stored<float>("d", "F32", {2}, {3, 4}),
                       stored<float>("b.weight", "F32", {4, 2}, {1, 5, 2, 6, 3, 7, 4, 8}),
                       stored<float>("b.bias", "F32", {2}, {9, 10})}});
  const WeightOptions options{
      .rename =
          [](const std::string& name) {
            return name == "a.weight" ? Names{"u", "v"} : name == "a.bias" ? Names{"c", "d"} : Names{name};
          },
      .shares =
          [](const std::string& name) {
            return name == "a.weight" ? std::vector{1, 3} : std::vector{1, 1};
          },
      .transpose = [](const std::string&) { return true; }};
  Model model(1);
  BOOST_CHECK(load_weights(path, model.parameters, options).empty());
  BOOST_CHECK(copy(model.a.weight.values()) == (std::vector<real>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}));
  BOOST_CHECK(copy(model.a.bias.values()) == (std::vector<real>{1, 2, 3, 4}));
  BOOST_CHECK(copy(model.b.weight.values()) == (std::vector<real>{1, 2, 3, 4, 5, 6, 7, 8}));

  save_weights(folder.path / "g", model.parameters, options);
  const Stored theirs = read_stored(path), ours = read_stored(folder.path / "g");
  BOOST_CHECK_EQUAL(ours.metadata.at("format"), "pt");
  BOOST_REQUIRE_EQUAL(theirs.tensors.size(), ours.tensors.size());
  if (sizeof(real) == 4)
    for (const StoredTensor& t : theirs.tensors) {
      const auto at = std::ranges::find(ours.tensors, t.name, &StoredTensor::name);
      BOOST_REQUIRE(at != ours.tensors.end());
      BOOST_CHECK_MESSAGE(at->shape == t.shape && at->dtype == t.dtype && at->bytes == t.bytes, t.name);
    }

  // An incomplete stack is not loaded.
  Stored without = theirs;
  std::erase_if(without.tensors, [](const StoredTensor& t) { return t.name == "d"; });
  write_stored(path, without);
  Model other(2);
  WeightOptions lenient = options;
  lenient.strict = false;
  BOOST_CHECK(load_weights(path, other.parameters, lenient) == Names{"the file has no d for a.bias"});
  BOOST_CHECK(copy(other.a.bias.values()) == std::vector<real>(4, 0.5));
  BOOST_CHECK(copy(other.a.weight.values()) == copy(model.a.weight.values()));
}

// Deals the tensors of a file out to three, and writes the index.
void write_in_three(const Folder& folder, Stored content, std::mt19937& random) {
  std::ranges::shuffle(content.tensors, random);
  nlohmann::json map;
  for (std::size_t file = 0; file < 3; ++file) {
    Stored own;
    for (std::size_t i = file; i < content.tensors.size(); i += 3) own.tensors.push_back(content.tensors[i]);
    for (const StoredTensor& tensor : own.tensors) map[tensor.name] = std::to_string(file);
    write_stored(folder.path / std::to_string(file), own);
  }
  folder.write("model.safetensors.index.json", nlohmann::json{{"weight_map", map}}.dump());
}

BOOST_AUTO_TEST_CASE(what_is_written_loads_with_the_same_options) {
  const Folder folder("weights");
  std::mt19937 random(1);
  const auto draw = [&](int n) { return std::uniform_int_distribution(1, n)(random); };
  for (int round = 0; round < 200; ++round) {
    Parameters one(1), two(2), three(3);
    std::map<std::string, Names> names;
    std::map<std::string, std::vector<int>> shares;
    std::map<std::string, bool> turned;
    for (int i = 0; i < 6; ++i) {
      const std::string name = "p" + std::to_string(i);
      int parts = 0;
      for (int j = draw(4); j > 0; --j) {
        names[name].push_back("t" + std::to_string(10 * i + j));
        shares[name].push_back(draw(3));
        parts += shares[name].back();
      }
      turned[name] = draw(2) == 1;
      Shape shape{parts * (draw(3) - 1)};
      while (draw(3) > 1 && shape.rank() < 4) shape.append(draw(4) - (round % 2));
      for (Parameters* all : {&one, &two, &three}) all->root().parameter(name, shape, init_normal(1));
    }
    const WeightOptions options{.rename = [&](const std::string& name) { return names.at(name); },
                                .shares = [&](const std::string& name) { return shares.at(name); },
                                .transpose = [&](const std::string& name) { return turned.at(name); }};
    save_weights(folder.path / "f", one, options);
    BOOST_CHECK(load_weights(folder.path / "f", two, options).empty());
    BOOST_REQUIRE(values_of(one) == values_of(two));
    write_in_three(folder, read_stored(folder.path / "f"), random);
    load_weights(find_weights(folder.path), three, options);
    BOOST_REQUIRE(values_of(one) == values_of(three));
  }
}

// Values that others take the place of while they are written, in stacks and transposed.
BOOST_AUTO_TEST_CASE(other_values_may_be_written) {
  const Folder folder("weights");
  Parameters own(1), others(2), loaded(3);
  for (Parameters* parameters : {&own, &others, &loaded})
    for (const char* name : {"a", "b", "c"}) parameters->root().parameter(name, {6, 2}, init_normal(1));
  const std::vector<real> before = values_of(own);
  WeightOptions options{.rename =
                            [](const std::string& name) {
                              return Names{name + "1", name + "2", name + "3"};
                            },
                        .transpose = [](const std::string& name) { return name == "b"; }};
  options.values = [&](const std::string& name) -> std::span<const real> {
    if (name == "c") return {};
    return others.find(name)->tensor.values();
  };
  save_weights(folder.path / "f", own, options);
  load_weights(folder.path / "f", loaded, options);
  for (const auto& entry : loaded.entries()) {
    const Parameters& expected = entry.name == "c" ? own : others;
    BOOST_CHECK(copy(entry.tensor.values()) == copy(expected.find(entry.name)->tensor.values()));
  }
  BOOST_CHECK(values_of(own) == before);
  std::vector<real> infinite(12, std::numeric_limits<real>::infinity());
  options.values = [&](const std::string&) { return std::span<const real>(infinite); };
  BOOST_CHECK_THROW(save_weights(folder.path / "f", own, options), NumericError);
}

// Fine-tuning with another head: neither skipped parameters nor their tensors in the file are reported.
BOOST_AUTO_TEST_CASE(what_is_skipped_stays) {
  const Folder folder("weights");
  const fs::path path = folder.path / "f";
  save_weights(path, Model(1).parameters, {.skip = [](const std::string& name) { return name == "b.bias"; }});
  BOOST_CHECK_EQUAL(read_stored(path).tensors.size(), 3);
  Model model(2);
  const std::vector<real> before = copy(model.b.weight.values());
  const auto is_head = [](const std::string& name) { return name.starts_with("b."); };
  BOOST_CHECK(load_weights(path, model.parameters, {.skip = is_head}).empty());
  BOOST_CHECK(before == copy(model.b.weight.values()));
  BOOST_CHECK(copy(model.a.weight.values()) == copy(Model(1).a.weight.values()));
  const auto rename = [](const std::string& name) { return Names{"file." + name}; };
  save_weights(path, model.parameters, {.rename = rename});
  BOOST_CHECK(load_weights(path, model.parameters, {.rename = rename, .skip = is_head}).empty());
}

BOOST_AUTO_TEST_CASE(weights_are_stored_as_asked) {
  const Folder folder("weights");
  const fs::path path = folder.path / "f";
  for (const auto& [type, dtype] : {std::pair{WeightType::float32, "F32"}, std::pair{WeightType::bfloat16, "BF16"},
                                    std::pair{WeightType::float16, "F16"}}) {
    const Model model(1);
    const auto is_matrix = [](const std::string& name) { return name == "a.weight"; };
    save_weights(path, model.parameters, {.transpose = is_matrix, .type = type});
    for (const StoredTensor& tensor : read_stored(path).tensors) BOOST_CHECK_EQUAL(tensor.dtype, dtype);
    Model read(2);
    load_weights(path, read.parameters, {.transpose = is_matrix});
    std::vector<real> expected = values_of(model.parameters);
    for (real& x : expected) {
      const auto single = static_cast<float>(x);
      if (type == WeightType::bfloat16) x = BFloat::nearest(single);
      if (type == WeightType::float16) x = Half::nearest(single);
    }
    BOOST_CHECK(values_of(read.parameters) == expected);
  }
  const std::string before = test::read(path);
  Model large(1);
  large.a.bias.data()[1] = 65520;  // infinity as float16
  BOOST_CHECK_EXCEPTION(save_weights(path, large.parameters, {.type = WeightType::float16}), NumericError,
                        [](const NumericError& e) { return has(e.what(), "a.bias has 65520, too large"); });
  BOOST_CHECK(test::read(path) == before);
}
