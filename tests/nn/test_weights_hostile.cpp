// Malicious options and files: nothing is loaded or written, and the reason is one line.
#include <seppo/nn/io/checkpoint.h>
#include <seppo/nn/modules/linear.h>

#include "support/program.h"
#include "support/stored.h"

#include <boost/test/unit_test.hpp>

#include <unistd.h>
#include <climits>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

using namespace seppo;
using namespace test;
namespace fs = std::filesystem;

namespace {

using Names = std::vector<std::string>;

WeightOptions all_named(const Names& names) {
  return {.rename = [=](const std::string&) { return names; }};
}

// A model of one matrix [4,3] and one vector [4], with its file.
struct Case {
  Folder folder{"weights-hostile"};
  fs::path path = folder.path / "f";
  Parameters parameters{1};
  Linear linear{parameters.root(), 3, 4};
  std::string file;
  std::vector<real> values;

  Case() {
    save_weights(path, parameters);
    file = read(path);
    parameters.edit()[0] = 7;
    values = {parameters.values().begin(), parameters.values().end()};
  }
  template <class F>
  std::string message(const F& f) const {
    try {
      f();
    } catch (const std::exception& e) {
      const std::string text = e.what();
      BOOST_CHECK_MESSAGE(text.find('\n') == text.npos && text.size() < 60'000, text.substr(0, 500));
      BOOST_CHECK(std::equal(values.begin(), values.end(), parameters.values().begin()));
      return text;
    }
    return "accepted";
  }
  std::string loading(const WeightOptions& options = {}) {
    return message([&] { load_weights(path, parameters, options); });
  }
  // The old file must survive.
  std::string saving(const WeightOptions& options) {
    const std::string text = message([&] { save_weights(path, parameters, options); });
    BOOST_CHECK(read(path) == file);
    return text;
  }
};

bool has(const std::string& text, const std::string& part) {
  if (text.find(part) != text.npos) return true;
  BOOST_TEST_MESSAGE("'" << part << "' is not in: " << text.substr(0, 2000));
  return false;
}

}  // namespace

BOOST_AUTO_TEST_CASE(functions_that_throw_change_nothing) {
  Case c;
  const auto thrower = [](const std::string& name) -> bool {
    if (name == "bias") throw std::runtime_error("the user's own");
    return false;
  };
  const WeightOptions renames{.rename = [&](const std::string& name) { return thrower(name) ? Names{} : Names{name}; }};
  const WeightOptions transposes{
      .transpose = [&](const std::string& name) { return thrower("weight" == name ? "bias" : name); }};
  for (const WeightOptions& options : {renames, transposes, WeightOptions{.skip = thrower}}) {
    BOOST_CHECK_EQUAL(c.loading(options), "the user's own");
    BOOST_CHECK_EQUAL(c.saving(options), "the user's own");
  }
}

BOOST_AUTO_TEST_CASE(stacks_that_cannot_be) {
  Case c;
  const std::vector<std::pair<WeightOptions, std::string>> cases{
      {all_named({}), "cannot be those of 0 tensors"},
      {all_named({"a", "b", "c"}), "weight [4,3] cannot be those of 3 tensors with 3 shares, 3 together"},
      {{.rename = all_named({"a", "b"}).rename, .shares = [](const std::string&) { return std::vector{1}; }},
       "2 tensors with 1 shares"},
      {{.rename = all_named({"a", "b"}).rename,
        .shares =
            [](const std::string&) {
              return std::vector{4, 0};
            }},
       "cannot be those of 2 tensors"},
      {{.rename = all_named({"a", "b"}).rename,
        .shares =
            [](const std::string&) {
              return std::vector{-1, 2};
            }},
       "cannot be those of 2 tensors"},
      {{.rename = all_named({"a", "b"}).rename,
        .shares =
            [](const std::string&) {
              return std::vector{INT_MAX, INT_MAX};
            }},
       "cannot be those of 2 tensors"},
      {{.rename = all_named({"a", "b"}).rename,
        .shares =
            [](const std::string&) {
              return std::vector{1, INT_MAX};
            }},
       "cannot be those of 2 tensors"}};
  for (const auto& [options, part] : cases) {
    BOOST_CHECK(has(c.loading(options), part));
    BOOST_CHECK(has(c.saving(options), part));
  }
  Parameters scalars(1);
  scalars.root().parameter("s", {}, init_ones());
  BOOST_CHECK_THROW(save_weights(c.path, scalars, all_named({"a", "b"})), ArgumentError);
}

// One tensor may be loaded into several parameters, but two cannot be saved as one.
BOOST_AUTO_TEST_CASE(the_same_tensor_twice) {
  Case c;
  Parameters twins(1);
  const Linear a(twins.root() / "a", 3, 4), b(twins.root() / "b", 3, 4);
  const WeightOptions options{.rename = [](const std::string& name) { return Names{name.substr(2)}; }};
  BOOST_CHECK(load_weights(c.path, twins, options).empty());
  BOOST_CHECK(std::equal(a.weight.values().begin(), a.weight.values().end(), b.weight.values().begin()));
  BOOST_CHECK_THROW(save_weights(c.path, twins, options), ArgumentError);
  BOOST_CHECK(read(c.path) == c.file);

  Parameters tall(1);
  const Linear stack(tall.root(), 3, 8, {.bias = false});
  const WeightOptions doubled{.rename =
                                  [](const std::string&) {
                                    return Names{"weight", "weight"};
                                  },
                              .skip = [](const std::string& name) { return name == "bias"; }};
  BOOST_CHECK(load_weights(c.path, tall, doubled).empty());
  BOOST_CHECK(std::equal(stack.weight.values().begin(), stack.weight.values().begin() + 12,
                         stack.weight.values().begin() + 12));
  BOOST_CHECK_THROW(save_weights(c.path, tall, doubled), ArgumentError);
}

BOOST_AUTO_TEST_CASE(names_that_no_file_may_have) {
  Case c;
  const auto with = [](const std::string& name) {
    return WeightOptions{.rename = [=](const std::string& own) { return Names{own == "weight" ? name : own}; }};
  };
  for (const std::string& name : {std::string(), std::string("__metadata__"), std::string("a\nb"), std::string(1, '\0'),
                                  std::string("\x7f"), std::string("\xc0\x80"), std::string("\xff"),
                                  std::string(513, 'n'), std::string(10'000'000, 'n'), std::string("bias")}) {
    BOOST_CHECK(has(c.saving(with(name)), "is not allowed, or there twice; nothing was written"));
    if (name != "bias") {
      const std::string text = c.loading(with(name));
      BOOST_CHECK(has(text, "the file has no ") && text.size() < 5'000);
    }
  }
  BOOST_CHECK(
      has(c.loading(with("bias")), "bias for weight is [4] in the file, [4,3] in the model; the model has no weight"));
  for (const std::string& name : {std::string(512, 'n'), std::string("\xf0\x9f\x98\x80 \"\\/"), std::string("../../x"),
                                  std::string("seppo.digest")}) {
    Parameters same(2);
    const Linear linear(same.root(), 3, 4);
    save_weights(c.path, c.parameters, with(name));
    BOOST_CHECK(load_weights(c.path, same, with(name)).empty());
    BOOST_CHECK(std::equal(c.values.begin(), c.values.end(), same.values().begin()));
  }
}

BOOST_AUTO_TEST_CASE(many_differences_are_told_in_bounds) {
  Case c;
  std::vector<StoredTensor> tensors;
  for (int i = 0; i < 65'000; ++i) tensors.push_back({"an_unexpected_tensor_" + std::to_string(i), "F32", {0}, {}});
  write_stored(c.path, {{}, tensors});
  BOOST_CHECK(c.loading().ends_with("; and more"));
  BOOST_CHECK_EQUAL(load_weights(c.path, c.parameters, {.strict = false}).size(), 65'002);
  tensors.resize(65'537, {"x", "F32", {0}, {}});
  for (std::size_t i = 0; i < tensors.size(); ++i) tensors[i].name = std::to_string(i);
  BOOST_CHECK_THROW(write_stored(c.path, {{}, tensors}), ArgumentError);
}

BOOST_AUTO_TEST_CASE(damage_is_noticed) {
  Case c;
  c.file[c.file.size() - 3] ^= 1;
  write(c.path, c.file);
  for (const bool strict : {true, false}) BOOST_CHECK(has(c.loading({.strict = strict}), "damaged"));
  write(c.path, c.file.substr(0, c.file.size() - 1));
  for (const bool strict : {true, false}) BOOST_CHECK(has(c.loading({.strict = strict}), "truncated"));
  c.path += "-that-is-missing";
  BOOST_CHECK_THROW(load_weights(c.path, c.parameters), FileError);
}

// A small file may have a model of very many tensors.
BOOST_AUTO_TEST_CASE(many_parameters_take_no_longer_than_others) {
  const auto seconds_of = [](int count) {
    const auto begin = std::clock();
    Parameters parameters(1);
    for (int i = 0; i < count; ++i) parameters.root().parameter(std::to_string(i), {1}, init_zeros());
    return static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  };
  const double usual = seconds_of(10'000);
  BOOST_CHECK_LT(seconds_of(40'000), 0.1 + 8 * usual);
}
