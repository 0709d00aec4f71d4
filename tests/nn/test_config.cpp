// Configs: fields of every kind survive a JSON round trip, and values out of range are refused.
#include <seppo/autograd/core/check.h>
#include <seppo/nn/config.h>
#include <seppo/nn/data/sampler.h>
#include <seppo/nn/io/json.h>
#include <seppo/nn/train/trainer.h>

#include <nlohmann/json.hpp>

#include "support/errors.h"

#include <boost/test/unit_test.hpp>

#include <limits>
#include <string>
#include <vector>

using namespace seppo;
using nlohmann::json;
using test::contains;
using test::message;

namespace {

enum class Colour : unsigned char { red, green, blue };
std::span<const char* const> enum_names(Colour) {
  static constexpr const char* kNames[] = {"red", "green", "blue"};
  return kNames;
}

struct Inner {
  int width = 3;
  double rate = 0.1;
  bool operator==(const Inner&) const = default;
  void fields(ConfigVisitor& v) {
    v("width", width, {1, 4096}, "width of something");
    v("rate", rate, {-1, 0.75}, "rate of something");
  }
};

struct Outer {
  Inner inner = {};
  std::array<double, 2> betas = {0.9, 0.999};
  bool wide = true;
  std::uint64_t seed = 0;
  std::string name = "x";
  std::filesystem::path file = {};
  Colour colour = Colour::green;
  int untold = 5;  // not a field
  bool operator==(const Outer&) const = default;
  void fields(ConfigVisitor& v) {
    inner.fields(v);
    v("betas", betas, {0, 0.999999999});
    v("wide", wide);
    v("seed", seed);
    v("name", name);
    v("file", file);
    v("colour", colour);
  }
};

const Outer kOther{.inner = {.width = 4096, .rate = 1.0 / 3},
                   .betas = {0.1, 0.2},
                   .wide = false,
                   .seed = std::numeric_limits<std::uint64_t>::max(),
                   .name = "\"\xc3\xa4\"\n",
                   .file = "a b/c",
                   .colour = Colour::blue};

// The one-line message of the FormatError that reading throws.
std::string message(const json& object) {
  try {
    from_json_object<Outer>(object);
  } catch (const FormatError& e) {
    const std::string text = e.what();
    BOOST_CHECK_MESSAGE(text.size() < 200 && text.find_first_of("\n\x1b") == std::string::npos, text);
    return text;
  }
  return "accepted";
}

std::string message(const std::string& key, const json& value) {
  json object = to_json_object(Outer{});
  object[key] = value;
  return message(object);
}

}  // namespace

BOOST_AUTO_TEST_CASE(every_kind_of_field_survives_a_round_trip) {
  for (const Outer& config : {Outer{}, kOther}) {
    const json object = json::parse(to_json_object(config).dump());
    BOOST_CHECK_EQUAL(object.size(), 8);
    BOOST_CHECK(from_json_object<Outer>(object) == config);
  }
  BOOST_CHECK_EQUAL(to_json_object(kOther).dump(),
                    R"({"betas":[0.1,0.2],"colour":"blue","file":"a b/c","name":"\"ä\"\n","rate":0.3333333333333333,)"
                    R"("seed":18446744073709551615,"wide":false,"width":4096})");
}

BOOST_AUTO_TEST_CASE(what_is_not_a_field_stays_as_it_is) {
  Outer start;
  start.untold = 8;
  BOOST_CHECK_EQUAL(from_json_object(to_json_object(kOther), start).untold, 8);
}

BOOST_AUTO_TEST_CASE(ends_of_ranges_are_included) {
  for (const int width : {1, 4096}) BOOST_CHECK_EQUAL(message("width", width), "accepted");
  for (const double rate : {-1.0, 0.75, 0.0}) BOOST_CHECK_EQUAL(message("rate", rate), "accepted");
  BOOST_CHECK_EQUAL(message("rate", 0), "accepted");  // an integer is a number
  BOOST_CHECK_EQUAL(message("width", 0), "config: 'width' is 0, not an integer in 1..4096");
  BOOST_CHECK_EQUAL(message("rate", 0.7500001), "config: 'rate' is 0.7500001, not a number in -1..0.75");
  BOOST_CHECK_EQUAL(message("betas", {0.5, 1}), "config: 'betas' is [0.5,1], not two numbers in 0..0.999999999");
  BOOST_CHECK_EQUAL(message("colour", "pink"), "config: 'colour' is \"pink\", not one of red, green, blue");
}

BOOST_AUTO_TEST_CASE(fields_of_another_kind_are_refused) {
  const json values[] = {nullptr,
                         true,
                         -5,
                         7,
                         4294967297,
                         1e300,
                         0.5,
                         "red",
                         "text",
                         json::array({0.5}),
                         json::array({0.5, "a"}),
                         json::object(),
                         json::array({0.5, 0.5, 0.5}),
                         2.5};
  const std::map<std::string, std::vector<int>> accepted{{"width", {3}},   {"rate", {6}},    {"betas", {}},
                                                         {"wide", {1}},    {"seed", {3, 4}}, {"name", {7, 8}},
                                                         {"file", {7, 8}}, {"colour", {7}}};
  for (const auto& [key, indices] : accepted)
    for (int i = 0; const json& value : values) {
      const bool is_good = std::find(indices.begin(), indices.end(), i++) != indices.end();
      const std::string text = message(key, value);
      BOOST_CHECK_MESSAGE((text == "accepted") == is_good, key << " = " << value << ": " << text);
      if (!is_good) BOOST_CHECK_MESSAGE(text.find("'" + key + "'") != std::string::npos, text);
    }
  json deep = 1;  // printing it would overflow the stack
  for (int i = 0; i < 100'000; ++i) {
    json outer = json::array();
    outer.push_back(std::move(deep));
    deep = std::move(outer);
  }
  json object = to_json_object(Outer{});
  object["rate"] = std::move(deep);
  BOOST_CHECK_EXCEPTION(from_json_object<Outer>(object), FormatError, [](const FormatError& e) {
    return std::string(e.what()).find("'rate' is a nested array, not ") != std::string::npos;
  });
}

BOOST_AUTO_TEST_CASE(missing_and_unknown_keys_are_named) {
  const json whole = to_json_object(Outer{});
  for (const auto& [key, value] : whole.items()) {
    json object = whole;
    object.erase(key);
    BOOST_CHECK_EQUAL(message(object), "config: '" + key + "' is missing");
  }
  BOOST_CHECK_EQUAL(message("d_model", 1), "config: \"d_model\" is not a known key");
  BOOST_CHECK_EQUAL(message("\x1b[31m" + std::string(500, 'x'), 1).substr(0, 17), "config: \"\\u001b[3");
  BOOST_CHECK_EQUAL(message("name", 1), "config: 'name' is 1, not text");
  BOOST_CHECK(message("width", std::string(500, '\x1b')).find("...") != std::string::npos);
  for (const json& other : {json(), json::array(), json(3), json("x")})
    BOOST_CHECK(message(other).find("is not an object") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(values_are_checked) {
  const auto refused = [](const Outer& config) -> std::string {
    try {
      check_config("thing", config);
    } catch (const ArgumentError& e) {
      return e.what();
    }
    return "accepted";
  };
  BOOST_CHECK_EQUAL(refused({}), "accepted");
  BOOST_CHECK_EQUAL(refused(kOther), "accepted");
  BOOST_CHECK_EQUAL(refused({.inner = {.width = 5000}}), "thing: width 5000 is not in 1..4096");
  BOOST_CHECK_EQUAL(refused({.inner = {.width = 0}}), "thing: width 0 is not in 1..4096");
  BOOST_CHECK_EQUAL(refused({.inner = {.rate = std::numeric_limits<double>::quiet_NaN()}}),
                    "thing: rate nan is not in -1..0.75");
  BOOST_CHECK_EQUAL(refused({.betas = {0.5, 1}}), "thing: betas 1 is not in 0..0.999999999");
  BOOST_CHECK_EQUAL(refused({.betas = {-0.5, 0.5}}), "thing: betas -0.5 is not in 0..0.999999999");
  BOOST_CHECK_EQUAL(refused({.colour = static_cast<Colour>(3)}), "thing: colour 3 is not one of red, green, blue");
}

namespace {

struct Twice {
  int a = 1, b = 1;
  void fields(ConfigVisitor& v) {
    v("a", a, {0, 1});
    v("a", b, {0, 1});
  }
};

struct Ruled {
  int least = 1, most = 2;
  void fields(ConfigVisitor& v) {
    v("least", least, {0, 9});
    v("most", most, {0, 9});
  }
  void validate() const { check<ArgumentError>(least <= most, "ruled: least ", least, " is above most ", most); }
};

// Version 2 of a config that had only `a`.
struct Grown {
  int a = 1;
  double b = 0.5;
  Colour colour = Colour::blue;
  void fields(ConfigVisitor& v) {
    v("a", a, {0, 9}, "first", {.source = Source::data});
    v("b", b, {0, 1}, "second", {.may_be_missing = true});
    v("colour", colour, "third", {.source = Source::data, .may_be_missing = true});
  }
};

// The options of a program, composed of several configs.
struct Training {
  TrainerConfig trainer;
  SamplerConfig sampler;
  void fields(ConfigVisitor& v) {
    trainer.fields(v);
    sampler.fields(v);
  }
};

}  // namespace

BOOST_AUTO_TEST_CASE(what_earlier_versions_lack_stays_as_it_is) {
  const Grown old = from_json_object<Grown>({{"a", 7}}, {.a = 3, .b = 0.25, .colour = Colour::red});
  BOOST_CHECK_EQUAL(old.a, 7);
  BOOST_CHECK_EQUAL(old.b, 0.25);
  BOOST_CHECK(old.colour == Colour::red);
  BOOST_CHECK_EQUAL(from_json_object<Grown>({{"a", 7}, {"b", 1}}).b, 1);
  BOOST_CHECK_THROW(from_json_object<Grown>({{"a", 7}, {"b", 2}}), FormatError);
  BOOST_CHECK_THROW(from_json_object<Grown>({{"b", 1}, {"colour", "red"}}), FormatError);
}

BOOST_AUTO_TEST_CASE(a_field_says_where_its_value_comes_from) {
  Grown config;
  std::vector<Field> fields = fields_of(config);
  BOOST_CHECK_EQUAL(fields.size(), 3);
  BOOST_CHECK_EQUAL(fields[1].help, "second");
  BOOST_CHECK(fields[0].options.source == Source::data && !fields[0].options.may_be_missing);
  BOOST_CHECK(fields[1].options.source == Source::user && fields[1].options.may_be_missing);
  BOOST_CHECK(fields[2].options.source == Source::data && fields[2].options.may_be_missing);
  const Choice& colour = std::get<Choice>(fields[2].value);
  BOOST_CHECK_EQUAL(colour.value(), 2);
  colour.set(1);
  BOOST_CHECK(config.colour == Colour::green);
  BOOST_CHECK_EQUAL(colour.value(), 1);  // as the config is now
}

BOOST_AUTO_TEST_CASE(names_are_unique_and_rules_between_fields_are_checked) {
  BOOST_CHECK_THROW(to_json_object(Twice{}), ArgumentError);
  check_config("ruled", Ruled{});
  BOOST_CHECK_THROW(check_config("ruled", Ruled{.least = 3}), ArgumentError);
}

BOOST_AUTO_TEST_CASE(the_options_of_training_stand_in_one_object) {
  Training training;
  training.trainer.schedule = ScheduleKind::noam;
  training.trainer.adam.eps = 1e-9;
  training.sampler.batch_size = 8;
  const json object = to_json_object(training);
  for (const char* key : {"lr", "min_lr", "warmup_steps", "adam_betas", "adam_eps", "weight_decay", "decoupled_decay",
                          "clip_norm", "seed", "epoch_steps", "in_order"})
    BOOST_CHECK_MESSAGE(object.contains(key), key);
  BOOST_CHECK_EQUAL(object["schedule"], "noam");
  const auto back = from_json_object<Training>(object);
  BOOST_CHECK_EQUAL(back.trainer.adam.eps, 1e-9);
  BOOST_CHECK(back.trainer.schedule == ScheduleKind::noam);
  BOOST_CHECK_EQUAL(back.sampler.batch_size, 8);
}

namespace {

struct OneNumber {
  int n = 1;
  void fields(ConfigVisitor& v) { v("n", n, {1, 5}, "a number"); }
};

}  // namespace

// Values are shown in at most sixty characters of printable ASCII.
BOOST_AUTO_TEST_CASE(values_in_messages_are_safe_and_short) {
  const auto refusal = [](const std::string& value) {
    return message([&] { from_json_object<OneNumber>(parse_json("{\"n\": " + value + "}", "file")); });
  };
  BOOST_CHECK_MESSAGE(contains(refusal("\"é\""), "\"\\u00e9\""), refusal("\"é\""));
  BOOST_CHECK(contains(refusal("\"" + std::string(58, 'x') + "\""), "\"" + std::string(58, 'x') + "\""));
  BOOST_CHECK(!contains(refusal("\"" + std::string(58, 'x') + "\""), "..."));
  BOOST_CHECK(contains(refusal("\"" + std::string(59, 'x') + "\""), "\"" + std::string(59, 'x') + "..."));
}
