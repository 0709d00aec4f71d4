// Each kind of key: how its value is read and checked, and what is written for it.
#include "keys.h"

#include "../../../autograd/core/check.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

namespace seppo {
inline namespace SEPPO_ABI {

using nlohmann::json;
using Model = LanguageModelConfig;

namespace {

constexpr int kMostWidth = 1 << 28;

struct NamedActivation {
  const char* name;
  Activation plain, gated;  // none: there is no such
};

constexpr NamedActivation kActivations[] = {
    {"silu", Activation::silu, Activation::swiglu},
    {"swish", Activation::silu, Activation::swiglu},
    {"gelu", Activation::gelu, Activation::geglu},
    {"gelu_python", Activation::gelu, Activation::geglu},
    {"gelu_new", Activation::gelu_tanh, Activation::geglu_tanh},
    {"gelu_pytorch_tanh", Activation::gelu_tanh, Activation::geglu_tanh},
    {"gelu_fast", Activation::gelu_tanh, Activation::geglu_tanh},
    {"relu", Activation::relu, Activation::none},
};

Activation of(const NamedActivation& a, Gate gate) { return gate == Gate::yes ? a.gated : a.plain; }

Activation activation_named(const std::string& name, Gate gate) {
  return of(*std::ranges::find(kActivations, name, &NamedActivation::name), gate);
}

// The names with a meaning, beginning with the default.
json known_activations(Gate gate, const std::string& fallback) {
  json known{fallback};
  for (const NamedActivation& a : kActivations)
    if (a.name != fallback && of(a, gate) != Activation::none) known.push_back(a.name);
  return known;
}

std::vector<std::string> split(const std::string& names) {
  std::vector<std::string> all;
  for (std::size_t begin = 0; begin <= names.size();) {
    const std::size_t end = std::min(names.find('|', begin), names.size());
    all.push_back(names.substr(begin, end - begin));
    begin = end + 1;
  }
  return all;
}

int usual_head_width(const Model& m) { return m.layer.d_model / std::max(1, m.layer.n_heads); }

double above_zero(const ConfigKeys& keys, const std::string& name, double fallback) {
  const double value = keys.number(name, fallback);
  check<FormatError>(value > 0, keys.name(), ": '", name, "' is not positive");
  return value;
}

json whole_if_it_is(double value) {
  if (std::abs(value) < 1e9 && value == std::floor(value)) return static_cast<std::int64_t>(value);
  return value;
}

}  // namespace

Names::Names(const std::string& names) : all_(split(names)) {}

const std::string& Names::in(const ConfigKeys& keys) const {
  const std::string* found = nullptr;
  for (const std::string& name : all_) {
    const bool is_there = keys.has(name);  // asked of all, so that none is unknown
    if (is_there && !found) found = &name;
  }
  return found ? *found : first();
}

Keys operator+(Keys a, const Keys& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

Key integer(const std::string& names, Member<int> member, std::optional<int> fallback) {
  const Names n(names);
  return {[=](const ConfigKeys& keys, Model& m) { member(m) = keys.integer(n.in(keys), fallback); },
          [=](json& all, Model m) { all[n.first()] = member(m); }};
}

Key number(const std::string& names, Member<double> member, double fallback) {
  const Names n(names);
  return {[=](const ConfigKeys& keys, Model& m) { member(m) = keys.number(n.in(keys), fallback); },
          [=](json& all, Model m) { all[n.first()] = member(m); }};
}

Key positive(const std::string& name, Member<double> member, double fallback) {
  return {[=](const ConfigKeys& keys, Model& m) { member(m) = above_zero(keys, name, fallback); },
          [=](json& all, Model m) { all[name] = member(m); }};
}

Key flag(const std::string& name, Member<bool> member, bool fallback) {
  return {[=](const ConfigKeys& keys, Model& m) { member(m) = keys.flag(name, fallback); },
          [=](json& all, Model m) { all[name] = member(m); }};
}

Key biases(const std::string& name, const std::vector<Member<std::optional<bool>>>& members, bool fallback) {
  return {[=](const ConfigKeys& keys, Model& m) {
            const bool has = keys.flag(name, fallback);
            for (const auto member : members) member(m) = has;
          },
          // NOLINTNEXTLINE(performance-unnecessary-value-param): the member is one of a model that may be changed
          [=](json& all, Model m) { all[name] = members[0](m).value_or(fallback); }};
}

Key only(const std::string& name, const json& values) {
  return {[=](const ConfigKeys& keys, Model&) { keys.one_of(name, values); },
          [=](json& all, const Model&) { all[name] = values[0]; }};
}

Key ignored(const std::string& name) {
  return {[=](const ConfigKeys& keys, Model&) { keys.find(name); }, [](json&, const Model&) {}};
}

Key cap(const std::string& name, Member<double> member, double missing) {
  return {[=](const ConfigKeys& keys, Model& m) {
            const double fallback = keys.find(name) ? 0 : missing;
            member(m) = keys.has(name) ? above_zero(keys, name, 0) : fallback;
          },
          [=](json& all, Model m) { all[name] = member(m) == 0 ? json() : json(member(m)); }};
}

Key inverse(const std::string& name, Member<double> member, double fallback) {
  return {[=](const ConfigKeys& keys, Model& m) { member(m) = 1 / above_zero(keys, name, fallback); },
          [=](json& all, Model m) { all[name] = 1 / member(m); }};
}

Key query_scalar(const std::string& name, double fallback) {
  const auto read = [=](const ConfigKeys& keys, Model& m) {
    m.decoder.attention_scale = 1 / std::sqrt(above_zero(keys, name, fallback));
  };
  const auto write = [=](json& all, const Model& m) {
    const double scale = m.decoder.attention_scale;
    const double scalar =
        scale == 0 ? m.layer.head_columns() : std::round(1e6 / (scale * scale)) / 1e6;  // as it was read
    all[name] = whole_if_it_is(scalar);
  };
  return {read, write};
}

Key activation(const std::string& names, Gate gate, const std::string& fallback) {
  const Names n(names);
  const json known = known_activations(gate, fallback);
  const auto read = [=](const ConfigKeys& keys, Model& m) {
    m.layer.activation = activation_named(keys.one_of(n.in(keys), known), gate);
  };
  const auto write = [=](json& all, const Model& m) {
    const auto is_meant = [&](const json& name) { return activation_named(name, gate) == m.layer.activation; };
    const auto found = std::ranges::find_if(known, is_meant);
    for (const std::string& name : n.all()) all[name] = found == known.end() ? known[0] : *found;
  };
  return {read, write};
}

Key kv_heads(int usual) {
  constexpr const char* kName = "num_key_value_heads";
  const auto read = [=](const ConfigKeys& keys, Model& m) {
    const bool is_usual = usual > 0 && !keys.find(kName);
    m.layer.n_kv_heads = is_usual ? usual : keys.integer(kName, m.layer.n_heads);
  };
  return {read, [=](json& all, const Model& m) { all[kName] = m.layer.kv_heads(); }};
}

Key head_width(int fallback) {
  const auto read = [=](const ConfigKeys& keys, Model& m) {
    const int usual = usual_head_width(m);
    const int width = keys.integer("head_dim", fallback > 0 ? fallback : usual);
    const bool is_usual = std::int64_t{width} * m.layer.n_heads == m.layer.d_model;
    check<FormatError>(is_usual || (width > 0 && (keys.has("head_dim") || fallback > 0)), keys.name(),
                       ": 'head_dim': ", m.layer.n_heads, " heads of ", width, " are not as wide as the model, ",
                       m.layer.d_model);
    m.layer.head_width = is_usual ? 0 : width;
  };
  const auto write = [](json& all, const Model& m) { all["head_dim"] = m.layer.head_columns(); };
  return {read, write};
}

Key as_wide_as_the_model(const std::string& name) {
  const auto read = [=](const ConfigKeys& keys, Model& m) {
    check<FormatError>(keys.integer(name, m.layer.d_model) == m.layer.d_model, keys.name(), ": '", name,
                       "' is not the width of the model, which is not supported");
  };
  return {read, [=](json& all, const Model& m) { all[name] = m.layer.d_model; }};
}

Key qk_norms(const std::string& name) {
  return {[=](const ConfigKeys& keys, Model& m) {
            m.decoder.qk_norm = keys.flag(name, false) ? QkNorm::head : QkNorm::none;
          },
          [=](json& all, const Model& m) { all[name] = m.decoder.qk_norm == QkNorm::head; }};
}

namespace {

// Layers are as wide as an int can say.
void check_quarter(const ConfigKeys& keys, const Model& m, const std::string& width) {
  check<FormatError>(m.layer.d_model <= kMostWidth, keys.name(), ": '", width, "' is more than ", kMostWidth,
                     ", a quarter of the widest layer");
}

}  // namespace

Key inner_width(const std::string& names, const std::string& width) {
  const Names n(names);
  const auto read = [=](const ConfigKeys& keys, Model& m) {
    const std::string& name = n.in(keys);
    if (!keys.has(name)) check_quarter(keys, m, width);
    m.layer.d_ff = keys.has(name) ? keys.integer(name) : 4 * m.layer.d_model;
  };
  return {read, [=](json& all, const Model& m) { all[n.first()] = m.layer.d_ff; }};
}

Key four_times_as_wide(const std::string& name, const std::string& width) {
  const auto read = [=](const ConfigKeys& keys, Model& m) {
    check_quarter(keys, m, width);
    m.layer.d_ff = 4 * m.layer.d_model;
    keys.one_of(name, json::array({m.layer.d_ff}));
  };
  const auto write = [=](json& all, const Model& m) {
    check<ArgumentError>(m.layer.d_ff == 4 * m.layer.d_model, "d_ff of this family is 4 d_model, not ", m.layer.d_ff);
    all[name] = m.layer.d_ff;
  };
  return {read, write};
}

}  // namespace SEPPO_ABI
}  // namespace seppo
