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
// Rules between fields go into a member `void validate() const`, if there is one; it throws ArgumentError.
#pragma once

#include "../autograd/core/function_ref.h"

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <type_traits>

namespace seppo::inline SEPPO_ABI {

// Both ends are included.
struct Range {
  double least, most;
};

// What fields() is called with. `help` is one phrase for --help; a field without it is no option of a program, because
// the data determine it: the size of a vocabulary.
class ConfigVisitor {
 public:
  virtual ~ConfigVisitor() = default;

  void operator()(const char* name, int& value, Range range, const char* help = nullptr) {
    integer(name, value, range, help);
  }
  void operator()(const char* name, double& value, Range range, const char* help = nullptr) {
    number(name, value, range, help);
  }
  void operator()(const char* name, std::array<double, 2>& value, Range range, const char* help = nullptr) {
    pair(name, value, range, help);
  }
  void operator()(const char* name, bool& value, const char* help = nullptr) { flag(name, value, help); }
  void operator()(const char* name, std::uint64_t& value, const char* help = nullptr) { seed(name, value, help); }
  void operator()(const char* name, std::string& value, const char* help = nullptr) { text(name, value, help); }
  void operator()(const char* name, std::filesystem::path& value, const char* help = nullptr) {
    path(name, value, help);
  }
  template <class E>
  requires std::is_enum_v<E>
  void operator()(const char* name, E& value, const char* help = nullptr) {
    choice(
        name, static_cast<int>(value), [&value](int chosen) { value = static_cast<E>(chosen); }, enum_names(E{}), help);
  }

 protected:
  virtual void integer(const char* name, int& value, Range range, const char* help) = 0;
  virtual void number(const char* name, double& value, Range range, const char* help) = 0;
  virtual void pair(const char* name, std::array<double, 2>& value, Range range, const char* help) = 0;
  virtual void flag(const char* name, bool& value, const char* help) = 0;
  virtual void seed(const char* name, std::uint64_t& value, const char* help) = 0;
  virtual void text(const char* name, std::string& value, const char* help) = 0;
  virtual void path(const char* name, std::filesystem::path& value, const char* help) = 0;
  // `value` is an index into `names`; `set` changes it, for as long as the config lives.
  virtual void choice(const char* name, int value, const std::function<void(int)>& set,
                      std::span<const char* const> names, const char* help) = 0;
};

namespace detail {
using Fields = FunctionRef<void(ConfigVisitor&)>;
void write_fields(nlohmann::json& object, Fields fields);
void read_fields(const nlohmann::json& object, Fields fields);
void check_fields(const char* what, Fields fields);
}  // namespace detail

// {"d_model": 32, "norm": "post", ...}. Throws ArgumentError if two fields have the same name.
template <class Config, class Json = nlohmann::json>
Json to_json_object(Config config) {
  Json object;
  detail::write_fields(object, [&](ConfigVisitor& v) { config.fields(v); });
  return object;
}

// The reverse. What the config does not list as a field keeps the value it has in `config`. Throws FormatError naming
// the key if a field is missing, of another type or out of range, or if a key is not a field.
template <class Config>
Config from_json_object(const nlohmann::json& object, Config config = {}) {
  detail::read_fields(object, [&](ConfigVisitor& v) { config.fields(v); });
  return config;
}

// Throws ArgumentError for a field out of range: "transformer: d_model 0 is not in 1..65536"; calls validate().
template <class Config>
void check_config(const char* what, Config config) {
  detail::check_fields(what, [&](ConfigVisitor& v) { config.fields(v); });
  if constexpr (requires { config.validate(); }) config.validate();
}

}  // namespace seppo::inline SEPPO_ABI
