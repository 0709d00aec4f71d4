// Configs are data: a struct of options lists its fields once, and everything else follows from the list: JSON in and
// out, ranges, checks and, in the example programs, command-line options and their help.
//
//   struct LayerConfig {
//     int d_model = 512;
//     double dropout = 0.1;
//     Norm norm = Norm::post;
//     int vocabulary = 0;
//     double rope_theta = 10'000;
//     void fields(ConfigVisitor& v) {
//       v("d_model", d_model, {1, 65536}, "width of the model");
//       v("dropout", dropout, {0, 1}, "dropout of each sublayer");
//       v("norm", norm, "where the layer norms are");
//       v("vocabulary", vocabulary, {1, 1 << 30}, "tokens of the model", {.source = Source::data});
//       v("rope_theta", rope_theta, {1, 1e12}, "base of the wavelengths", {.may_be_missing = true});
//     }
//   };
//
// A config that contains another calls its fields() within its own; in JSON their fields then stand side by side. An
// enum needs its names, found by argument-dependent lookup, in the order of its values 0, 1, ...:
//
//   inline std::span<const char* const> enum_names(Norm) {
//     static constexpr const char* kNames[] = {"post", "pre"};
//     return kNames;
//   }
//
// An optional member `void validate() const` checks rules between fields; it throws ArgumentError.
#pragma once

#include "../autograd/core/real.h"

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {

// Both ends are included.
struct Range {
  double least = 0;
  double most = 0;
};

// One of several names. Both functions work for as long as the config lives.
struct Choice {
  std::function<int()> value;  // an index into the names
  std::function<void(int)> set;
  std::span<const char* const> names;
};

// What determines a field.
enum class Source {
  user,  // an option of the programs
  data   // the training data, such as a vocabulary's size: programs have no option for it
};

struct FieldOptions {
  Source source = Source::user;
  bool may_be_missing = false;  // from files of earlier versions; reading them leaves the field as it is
};

struct Field {
  using Value = std::variant<int*, double*, std::array<double, 2>*, bool*, std::uint64_t*, std::string*,
                             std::filesystem::path*, Choice>;

  std::string name;
  Value value;
  Range range;       // of int, double and pairs of double
  std::string help;  // one phrase
  FieldOptions options;
};

// What fields() is called with: hands each field to a function.
class ConfigVisitor {
 public:
  explicit ConfigVisitor(std::function<void(const Field&)> take) : take_(std::move(take)) {}

  template <class T>
  static constexpr bool kHasRange =
      std::is_same_v<T, int> || std::is_same_v<T, double> || std::is_same_v<T, std::array<double, 2>>;

  // A number, or a pair of numbers.
  template <class T>
  requires kHasRange<T>
  void operator()(const char* name, T& value, Range range, const std::string& help = "", FieldOptions options = {}) {
    take_({name, &value, range, help, options});
  }

  // A flag, a seed, a text, a path, or an enum.
  template <class T>
  requires(!kHasRange<T>) void operator()(const char* name, T& value, const std::string& help = "",
                                          FieldOptions options = {}) {
    take_({name, reference_to(value), {}, help, options});
  }

 private:
  template <class T>
  static Field::Value reference_to(T& value) {
    if constexpr (std::is_enum_v<T>) {
      const auto get = [&value] { return static_cast<int>(value); };
      const auto set = [&value](int chosen) { value = static_cast<T>(chosen); };
      return Choice{get, set, enum_names(T{})};
    } else {
      return &value;
    }
  }

  std::function<void(const Field&)> take_;
};

// References to the fields of a config.
template <class Config>
std::vector<Field> fields_of(Config& config) {
  std::vector<Field> fields;
  ConfigVisitor visitor([&](const Field& field) { fields.push_back(field); });
  config.fields(visitor);
  return fields;
}

namespace detail {
nlohmann::json write_fields(const std::vector<Field>& fields);
void read_fields(const nlohmann::json& object, const std::vector<Field>& fields);
void check_fields(const char* what, const std::vector<Field>& fields);
}  // namespace detail

// {"d_model": 32, "norm": "post", ...}. Throws ArgumentError if two fields have the same name.
template <class Config, class Json = nlohmann::json>  // a parameter, since the type is only declared here
Json to_json_object(Config config) {
  return detail::write_fields(fields_of(config));
}

// The reverse. Members that fields() does not list keep the value they have in `config`. Throws FormatError naming the
// key if it is not a field, or if a field has the wrong type, is out of range, or is missing and must not be.
template <class Config>
Config from_json_object(const nlohmann::json& object, Config config = {}) {
  detail::read_fields(object, fields_of(config));
  return config;
}

// Throws ArgumentError for a field out of range: "transformer: d_model 0 is not in 1..65536"; calls validate(). Returns
// the config, so that a constructor can check it before anything is made from it.
template <class Config>
const Config& check_config(const char* what, const Config& config) {
  Config copy = config;
  detail::check_fields(what, fields_of(copy));
  if constexpr (requires { config.validate(); }) config.validate();
  return config;
}

}  // namespace SEPPO_ABI
}  // namespace seppo
