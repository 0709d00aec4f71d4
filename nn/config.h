// Configs are data: a struct of options lists its fields once, and everything else follows from the list: JSON in and
// out, ranges, checks and, in the example programs, command-line options and their help.
//
//   struct LayerConfig {
//     int d_model = 512;
//     double dropout = 0.1;
//     Norm norm = Norm::post;
//     void fields(ConfigVisitor& v) {
//       v("d_model", d_model, {1, 65536}, "width of the model");
//       v("dropout", dropout, {0, 1}, "dropout of each sublayer");
//       v("norm", norm, "where the layer norms are");
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
  double least, most;
};

// One of several names: `value` is an index into them; `set` changes it, for as long as the config lives.
struct Choice {
  int value;
  std::function<void(int)> set;
  std::span<const char* const> names;
};

struct Field {
  const char* name;
  std::variant<int*, double*, std::array<double, 2>*, bool*, std::uint64_t*, std::string*, std::filesystem::path*,
               Choice>
      value;
  const char* help;       // one phrase; null if the data determine the field, which then is no program option
  Range range = {0, 0};   // of int, double and pairs of double
  bool is_added = false;  // files of earlier versions lack it
};

// What fields() is called with: hands each field to a function.
class ConfigVisitor {
 public:
  explicit ConfigVisitor(std::function<void(const Field&)> take) : take_(std::move(take)) {}

  template <class T>
  static constexpr bool kHasRange =
      std::is_same_v<T, int> || std::is_same_v<T, double> || std::is_same_v<T, std::array<double, 2>>;

  template <class T>
  requires kHasRange<T>
  void operator()(const char* name, T& value, Range range, const char* help = nullptr) {
    take_({name, &value, help, range, std::exchange(is_added_, false)});
  }
  template <class T>
  requires(!kHasRange<T>) void operator()(const char* name, T& value, const char* help = nullptr) {
    Field field{name, {}, help, {0, 0}, std::exchange(is_added_, false)};
    if constexpr (std::is_enum_v<T>)
      field.value =
          Choice{static_cast<int>(value), [&value](int chosen) { value = static_cast<T>(chosen); }, enum_names(T{})};
    else
      field.value = &value;
    take_(field);
  }

  // v.added()("name", ...): a field that files of earlier versions lack; reading them leaves it as it is.
  ConfigVisitor& added() {
    is_added_ = true;
    return *this;
  }

 private:
  std::function<void(const Field&)> take_;
  bool is_added_ = false;
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
template <class Config, class Json = nlohmann::json>
Json to_json_object(Config config) {
  return detail::write_fields(fields_of(config));
}

// The reverse. Members that fields() does not list keep the value they have in `config`. Throws FormatError naming the
// key if it is not a field, or if a field has the wrong type, is out of range, or is missing without having been
// added() later.
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
